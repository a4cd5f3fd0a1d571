// Commands of the pages, run by a shell as they stand. `curl` is the real one, told where the gateway really listens;
// `npm run check` is, too. What would take minutes, or an account, is a stand-in that notes what it was asked.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The gateway of `npm start`, which the pages name. */
export const LOCAL = '127.0.0.1:8787';

/** The admin token of `npm start`. */
export const LOCAL_TOKEN = 'local-admin';

const STAND_INS = ['npm', 'npx', 'cargo', 'node', 'bash', 'redis-cli'];

/**
 * @typedef {object} Ran
 * @property {number | null} code
 * @property {string} printed
 * @property {string} failed what it said on stderr
 * @property {string[][]} noted words of each command that a stand-in took
 * @property {{ status: number, headers: Record<string, string> } | undefined} answer the last that curl got
 */

/** @param {string} dir an empty one, below the root so that npm finds the package */
export function openShell(dir) {
  const [bin, notes, heads] = ['bin', 'notes', 'heads'].map((name) => join(dir, name));
  mkdirSync(bin);
  for (const name of STAND_INS) {
    const real = name === 'npm' ? `[ "$1 $2" = 'run check' ] && [ -n "$REALLY" ] && PATH=$REALLY exec npm "$@"\n` : '';
    const note = `printf '%s\\0' ${name} "$@" >>'${notes}'; echo >>'${notes}'\n`;
    writeFileSync(join(bin, name), `#!/bin/sh\n${real}${note}`, { mode: 0o755 });
  }

  /**
   * @param {string} script
   * @param {{ port?: number, really?: boolean }} [options] where the gateway listens; whether tools of the page's may be
   *   found beside the stand-ins
   * @returns {Promise<Ran>}
   */
  return async function run(script, { port = 0, really = true } = {}) {
    rmSync(notes, { force: true });
    rmSync(heads, { force: true });
    const rules = [`connect-to = "${LOCAL}:127.0.0.1:${port}"`, 'header = "cf-connecting-ip: 127.0.0.1"'];
    writeFileSync(join(dir, '.curlrc'), [...rules, `dump-header = "${heads}"`, ''].join('\n'));
    const path = String(process.env.PATH);
    const child = spawn('/bin/sh', ['-euc', script], {
      cwd: dir,
      env: { ...process.env, CURL_HOME: dir, PATH: really ? `${bin}:${path}` : bin, REALLY: really ? path : '' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [printed, failed] = await Promise.all([text(child.stdout), text(child.stderr)]);
    const code = child.exitCode ?? (await new Promise((resolve) => child.once('exit', resolve)));
    const noted = existsSync(notes) ? readFileSync(notes, 'utf8').trimEnd().split('\n') : [];
    const words = noted.map((one) => one.split('\0').slice(0, -1));
    return {
      code,
      printed,
      failed,
      noted: words,
      answer: existsSync(heads) ? answer(readFileSync(heads, 'utf8')) : undefined,
    };
  };
}

/** @param {import('node:stream').Readable} stream */
async function text(stream) {
  let all = '';
  for await (const piece of stream.setEncoding('utf8')) all += piece;
  return all;
}

/** @param {string} head of an answer, as curl writes it */
function answer(head) {
  const [status, ...fields] = head.trim().split('\r\n');
  const headers = fields.map((field) => {
    const [name, value] = field.split(/: (.*)/s);
    return [name.toLowerCase(), value];
  });
  return { status: Number(status.split(' ')[1]), headers: Object.fromEntries(headers) };
}

/**
 * Commands of a `console` block, each with what is shown below it.
 *
 * @param {string} block
 * @returns {{ command: string, shown: string }[]}
 */
export function commands(block) {
  const pieces = block.split(/^\$ /m);
  if (pieces[0] !== '') throw new Error('a console block that does not begin with `$ `');
  return pieces.slice(1).map((piece) => {
    // A command goes on where its line ends with a backslash.
    const [, command, shown] = /** @type {RegExpExecArray} */ (/^((?:[^\n]*\\\n)*[^\n]*)\n(.*)$/s.exec(piece)) ?? [];
    return { command, shown };
  });
}
