// The policies of examples/, as the checker reads them.
import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..');

/** @param {string[]} args @returns {any} what the checker prints */
export function check(...args) {
  const command = ['run', '--quiet', '--locked', '--bin', 'sluicegate-check', '--', ...args, '--json'];
  return JSON.parse(execFileSync('cargo', command, { cwd: root, encoding: 'utf8' }));
}

/** The policy as the POLICY var takes it. @param {string} name */
export const example = (name) => check(join('examples', `${name}.toml`)).policy;
