// Builds the Worker: the release into build/ (index.js, index_bg.wasm), or with `--provoked` the one whose faults tests
// provoke into target/provoked/.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

import { pageModule } from './page.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const target = process.env.CARGO_TARGET_DIR ?? join(root, 'target');
const provoked = process.argv.includes('--provoked');
const out = provoked ? join(root, 'target', 'provoked') : join(root, 'build');
const [profile, options] = provoked ? ['debug', ['--features', 'provoke-panic']] : ['release', ['--release']];
const bindings = join(target, provoked ? 'bindings-provoked' : 'bindings');

/** What rustc and wasm-bindgen emit. Not all that binaryen knows: its newest encodings are ahead of what workerd reads. */
const FEATURES = [
  ...['mutable-globals', 'sign-ext', 'nontrapping-float-to-int', 'bulk-memory', 'bulk-memory-opt'],
  ...['multivalue', 'reference-types'],
];

/**
 * @param {string} command
 * @param {string[]} args
 */
function run(command, args) {
  execFileSync(command, args, { cwd: root, stdio: 'inherit' });
}

/** A digest of files. @param {string[]} paths */
function digest(paths) {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(readFileSync(path));
  return hash.digest('hex');
}

/** The half of a build's time, so only when something is new. */
function optimise() {
  run(join(root, 'node_modules', '.bin', 'wasm-opt'), [
    bound,
    ...FEATURES.map((feature) => `--enable-${feature}`),
    ...['-O3', '--converge', '--strip-debug', '--strip-producers'],
    ...['-o', shipped],
  ]);
}

const wasm = ['--lib', '--target', 'wasm32-unknown-unknown'];
run('cargo', ['build', '--quiet', ...options, ...wasm, '--locked']);
const compiled = join(target, 'wasm32-unknown-unknown', profile, 'sluicegate.wasm');
const bindgen = join(root, '.tools', 'bin', 'wasm-bindgen');
const [bound, shipped] = [join(bindings, 'core_bg.wasm'), join(out, 'index_bg.wasm')];
// By content: cargo may bring back an older file when a flag is set and taken away again.
const versions = [fileURLToPath(import.meta.url), join(root, 'dev', 'setup.sh'), join(root, 'package-lock.json')];
const [made, stamp] = [digest([compiled, ...versions]), join(out, 'made-of')];
if (![bound, shipped, stamp].every((path) => existsSync(path)) || readFileSync(stamp, 'utf8') !== made) {
  rmSync(bindings, { recursive: true, force: true });
  run(bindgen, [
    compiled,
    ...['--target', 'web', '--no-typescript', '--omit-default-module-path', '--experimental-reset-state-function'],
    ...['--out-dir', bindings, '--out-name', 'core'],
  ]);
  mkdirSync(out, { recursive: true });
  if (provoked) copyFileSync(bound, shipped);
  else optimise();
  writeFileSync(stamp, made);
}
writeFileSync(join(bindings, 'page.js'), await pageModule());
await build({
  absWorkingDir: root,
  entryPoints: ['src/edge/worker.js'],
  outfile: join(out, 'index.js'),
  alias: { '#core': join(bindings, 'core.js'), '#page': join(bindings, 'page.js') },
  bundle: true,
  format: 'esm',
  target: 'es2024',
  minifySyntax: true,
  external: ['./index_bg.wasm', 'cloudflare:*'],
  logLevel: 'warning',
});
