// Everything that must hold, in the order in which it is cheapest to hear of a fault. Ends non-zero at the first.

import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

/** SPEC section 10, in bytes. */
const WASM_BUDGET = 250_000;

/**
 * @param {string} what
 * @param {string} command
 * @param {string[]} args
 */
function step(what, command, ...args) {
  console.log(`\n== ${what}`);
  const began = performance.now();
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit' });
  if (error || status !== 0) {
    console.error(`== ${what}: failed (${error?.message ?? `exit ${status}`})`);
    process.exit(1);
  }
  console.log(`== ${what}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
}

step('rustfmt', 'cargo', 'fmt', '--check');
step('JavaScript: lint and format', 'biome', 'check', '--error-on-warnings');
step('JavaScript: types', 'tsc', '-p', '.');
step('JavaScript: types of the Worker', 'tsc', '-p', 'src/edge');
step('clippy', 'cargo', 'clippy', '--quiet', '--locked', '--all-targets', '--', '-D', 'warnings');
const wasm = ['--lib', '--target', 'wasm32-unknown-unknown'];
step('clippy of the entry', 'cargo', 'clippy', '--quiet', '--locked', ...wasm, '--', '-D', 'warnings');
step('build', 'node', 'dev/build.js');

const size = gzipSync(readFileSync(join(root, 'build', 'index_bg.wasm')), { level: 9 }).length;
console.log(`\n== Wasm: ${size} bytes gzipped, budget ${WASM_BUDGET}`);
if (size > WASM_BUDGET) process.exit(1);

step('host tests, and the scripts on a real Redis', 'cargo', 'test', '--quiet', '--locked');
const tests = globSync('tests/**/*.test.js', { cwd: root }).sort();
step('store and gateway', 'node', '--test', '--test-concurrency=2', ...tests);
step('deploy, dry run', 'wrangler', 'deploy', '--dry-run', '--outdir', join('target', 'deploy'));
