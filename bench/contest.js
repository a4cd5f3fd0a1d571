// Contenders in turn under the same load: CPU of each one's process and Redis's own statistics, round by round.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** @typedef {import('./world.js').World} World */
/** @typedef {import('./load.js').Job} Job */

/**
 * @typedef {object} Contender
 * @property {import('./world.js').Worker} worker
 * @property {Omit<Job, 'port' | 'requests'>} job
 * @property {string | RegExp} answers what each request has to be answered, as load.js sums an answer up
 */

/**
 * What one contender's rounds took, per request.
 * @typedef {object} Measured
 * @property {number[]} cpu user and system time of its process in µs
 * @property {number[]} redis time in scripts in µs
 * @property {number[]} commands
 * @property {number[]} latency p50 in ms
 */

/** @typedef {{ rounds: number, requests: number }} Effort */

/**
 * One warm-up round that does not count, then the rounds; who begins changes with each.
 *
 * @template {string} Name
 * @param {World} world
 * @param {Record<Name, Contender>} contenders
 * @param {Effort} effort
 * @returns {Promise<Record<Name, Measured>>}
 */
export async function contest(world, contenders, { rounds, requests }) {
  const names = /** @type {Name[]} */ (Object.keys(contenders));
  const entries = names.map((name) => [name, { cpu: [], redis: [], commands: [], latency: [] }]);
  const measured = /** @type {Record<Name, Measured>} */ (Object.fromEntries(entries));
  for (let round = 0; round <= rounds; round += 1) {
    for (let turn = 0; turn < names.length; turn += 1) {
      const name = names[(turn + round) % names.length];
      const one = await measure(world, name, contenders[name], requests, round === 0);
      if (round === 0) continue;
      for (const [what, value] of Object.entries(one)) measured[name][/** @type {keyof Measured} */ (what)].push(value);
    }
  }
  return measured;
}

/**
 * @param {World} world
 * @param {string} name
 * @param {Contender} contender
 * @param {number} requests
 * @param {boolean} warming answers may still differ: a limit is being used up, a script is loaded
 */
async function measure(world, name, { worker, job, answers }, requests, warming) {
  await resetCommands(world);
  const before = cpuMs(worker.pid);
  const result = await world.run({ ...job, port: worker.port, requests });
  const cpu = cpuMs(worker.pid) - before;
  const { calls, scriptUsec } = await commands(world);
  const right = Object.entries(result.answers).reduce(
    (sum, [said, times]) => ((typeof answers === 'string' ? said === answers : answers.test(said)) ? sum + times : sum),
    0,
  );
  if (!warming && right !== requests) {
    throw new Error(`${name}: ${requests} times "${answers}" expected, got ${JSON.stringify(result.answers)}`);
  }
  const latency = result.latencies.toSorted((a, b) => a - b)[Math.floor(result.latencies.length / 2)];
  return { cpu: (cpu * 1000) / requests, redis: scriptUsec / requests, commands: calls / requests, latency };
}

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** User and system time of a process so far, in ms (proc_pid_stat(5)). @param {number} pid */
export function cpuMs(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The second field is the name in parentheses; utime and stime are the 14th and 15th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND;
}

/** What asks for the statistics, and what connects. */
const OWN = new Set(['info', 'config|resetstat', 'hello', 'ping', 'client|setinfo']);
const SCRIPTS = new Set(['eval', 'evalsha', 'script|load']);

/** @param {World} world */
export const resetCommands = ({ db }) => db.configResetStat();

/**
 * Commands since the last reset, those that scripts ran included, by Redis's own account.
 *
 * @param {World} world
 * @returns {Promise<{ calls: number, scriptUsec: number, byName: Record<string, number> }>} the time of a script holds
 *   that of its commands
 */
export async function commands({ db }) {
  const info = await db.info('commandstats');
  let calls = 0;
  let scriptUsec = 0;
  /** @type {Record<string, number>} */
  const byName = {};
  for (const [, name, count, usec] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+),usec=(\d+)/gm)) {
    if (OWN.has(name)) continue;
    byName[name] = Number(count);
    calls += Number(count);
    if (SCRIPTS.has(name)) scriptUsec += Number(usec);
  }
  return { calls, scriptUsec, byName };
}
