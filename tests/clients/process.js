// Worker processes of tests: what they are told, and what they said.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { until } from '../edge/support/world.js';

const here = dirname(fileURLToPath(import.meta.url));

/** Each client's language with the command that runs its worker; a language that is not installed says so. */
export const LANGUAGES = [
  { language: 'JavaScript', command: process.execPath, script: join(here, 'worker.js'), missing: false },
  {
    language: 'Python',
    command: 'python3',
    script: join(here, 'worker.py'),
    missing: spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))']).status !== 0,
  },
];

/**
 * @typedef {object} Said
 * @property {string} event
 * @property {number} at
 * @property {number} fence
 * @property {number[]} fences
 * @property {boolean[]} admitted
 * @property {string} id
 * @property {string} message
 */

/**
 * @param {(typeof LANGUAGES)[number]} language
 * @param {{ url: string, token: string, limit: string, subject: string[], waitMs?: number }} asked
 * @param {string} [site] a server that is told when work begins and ends
 * @param {[string, number][]} [writes] resources and fences that its guard is asked about
 */
export async function startWorker({ command, script }, { waitMs = 0, ...asked }, site = '', writes = []) {
  const child = spawn(command, [script, JSON.stringify({ waitMs, ...asked }), site, JSON.stringify(writes)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  /** @type {Said[]} */
  const said = [];
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    said.push(...lines.map((line) => JSON.parse(line)));
  });
  const kill = () => child.kill('SIGKILL');
  process.on('exit', kill);

  const worker = {
    said,
    child,
    /** @param {string} word */
    tell: (word) => child.stdin.write(`${word}\n`),
    /** Waits for the next answer. @param {string} word */
    async ask(word) {
      const before = said.length;
      worker.tell(word);
      await until(() => said.slice(before).some(({ event }) => event !== 'aborted'), `the answer to ${word}`);
      return /** @type {Said} */ (said.slice(before).find(({ event }) => event !== 'aborted'));
    },
    /** @param {string} event */
    async heard(event) {
      await until(() => said.some((one) => one.event === event), `a worker's ${event}`);
      return /** @type {Said} */ (said.find((one) => one.event === event));
    },
    async end() {
      process.off('exit', kill);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    },
  };
  await worker.heard('ready');
  return worker;
}
