// Builds the release Worker: build/index.js and build/index_bg.wasm.

import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

import { pageModule } from './page.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const out = join(root, 'build');
const bindings = join(process.env.CARGO_TARGET_DIR ?? join(root, 'target'), 'bindings');

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

run('cargo', ['build', '--quiet', '--release', '--lib', '--target', 'wasm32-unknown-unknown', '--locked']);
rmSync(bindings, { recursive: true, force: true });
run(join(root, '.tools', 'bin', 'wasm-bindgen'), [
  join(process.env.CARGO_TARGET_DIR ?? join(root, 'target'), 'wasm32-unknown-unknown', 'release', 'sluicegate.wasm'),
  ...['--target', 'web', '--no-typescript', '--omit-default-module-path', '--experimental-reset-state-function'],
  ...['--out-dir', bindings, '--out-name', 'core'],
]);
mkdirSync(out, { recursive: true });
run(join(root, 'node_modules', '.bin', 'wasm-opt'), [
  join(bindings, 'core_bg.wasm'),
  ...FEATURES.map((feature) => `--enable-${feature}`),
  ...['-O3', '--strip-debug', '--strip-producers'],
  ...['-o', join(out, 'index_bg.wasm')],
]);
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
