// Everything that must hold, in the order in which it is cheapest to hear of a fault. Ends non-zero at the first.

import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

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
step('JavaScript: types of the status page', 'tsc', '-p', 'src/page');
step('clippy', 'cargo', 'clippy', '--quiet', '--locked', '--all-targets', '--', '-D', 'warnings');
const wasm = ['--lib', '--target', 'wasm32-unknown-unknown'];
step('clippy of the entry', 'cargo', 'clippy', '--quiet', '--locked', ...wasm, '--', '-D', 'warnings');
step('build', 'node', 'dev/build.js');

step('host tests, and the scripts on a real Redis', 'cargo', 'test', '--quiet', '--locked');
const tests = globSync('tests/**/*.test.js', { cwd: root }).sort();
step('store and gateway', 'node', '--test', '--test-concurrency=3', ...tests);
step('deploy, dry run', 'wrangler', 'deploy', '--dry-run', '--outdir', join('target', 'deploy'));
// Enforces what can be counted: commands a decision, bytes a subject, exact admissions, the size of the Wasm.
step('benchmarks, short', 'node', 'bench/run.js', '--short');
