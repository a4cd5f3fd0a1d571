// Time that Redis spends on a decision, by its own account: 1, 3 and 10 limits, and the peer's 1 and 3.
//
// Redis counts by the clock on the wall, so what matters is that nothing else wants its core: one connection, where at
// any moment one process of the chain has something to do.
//
// Beside them two scripts that decide nothing: one that only does the reads and writes of three limits, and one that
// returns at once. No script that keeps a key for each limit can take less than the first.

import { createHash } from 'node:crypto';

import { contest } from '../contest.js';
import { check, limit, names, policy } from '../requests.js';
import { median, ratios } from '../statistics.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

const THREE_NUMBERS = 'return {1,100000,99999,0,0,100000,99999,0,0,100000,99999,0,0}';
const COMMANDS = `redis.call('MGET', unpack(KEYS))
for i = 1, 5, 2 do redis.call('SET', KEYS[i], 'twelve bytes', 'PX', '7202000') end
${THREE_NUMBERS}`;

/** A Worker that calls this script with three limits' keys and arguments. @param {World} world @param {string} script */
async function bare(world, script) {
  await world.db.sendCommand(['SCRIPT', 'LOAD', script]);
  const sha = createHash('sha1').update(script).digest('hex');
  return world.peer('bare', { LIMITS: 3, SCRIPT_SHA: sha });
}

/** @param {World} world @param {import('../contest.js').Effort} effort @returns {Promise<Row[]>} */
export async function redisTime(world, { rounds, requests }) {
  // Windows of an hour and more: none may end in the middle of it.
  const all = Array.from({ length: 10 }, (_, index) => limit(`tenant-${index}`, { window: `${index + 1}h` }));
  const gateway = await world.gateway(policy(all));
  const one = await world.peer('upstash-one');
  const three = await world.peer('upstash');
  const job = (/** @type {number} */ count) => ({
    ...check(names(all.slice(0, count))),
    subjects: 200,
    connections: 1,
  });
  const ours = (/** @type {number} */ count) => ({ worker: gateway, job: job(count), answers: '200 true store' });
  const of = await contest(
    world,
    {
      one: ours(1),
      three: ours(3),
      ten: ours(10),
      upstash: { worker: one, job: job(1), answers: '200 true' },
      upstashThree: { worker: three, job: job(1), answers: '200 true' },
      commands: { worker: await bare(world, COMMANDS), job: job(1), answers: '200' },
      nothing: { worker: await bare(world, THREE_NUMBERS), job: job(1), answers: '200' },
    },
    { rounds, requests: Math.ceil(requests / 2) },
  );

  /** @param {string} figure @param {keyof typeof of} a @param {keyof typeof of} b @param {object} [budget] */
  const ratio = (figure, a, b, budget = {}) => ({
    figure: `Redis time, ${figure}`,
    unit: '×',
    values: ratios(of[a].redis, of[b].redis),
    kind: /** @type {const} */ ('timing'),
    note: `${median(of[a].redis).toFixed(1)} µs ÷ ${median(of[b].redis).toFixed(1)} µs`,
    ...budget,
  });
  return [
    ratio('3 limits ÷ @upstash/ratelimit, 3 in parallel', 'three', 'upstashThree', { must: 0.6, aim: 0.4 }),
    ratio(
      'MGET of 6 keys and 3 SETs, deciding nothing ÷ @upstash/ratelimit, 3 in parallel',
      'commands',
      'upstashThree',
    ),
    ratio('a script that returns at once ÷ @upstash/ratelimit, 3 in parallel', 'nothing', 'upstashThree'),
    ratio('1 limit ÷ @upstash/ratelimit, 1 limit', 'one', 'upstash'),
    ratio('3 limits ÷ 1 limit', 'three', 'one'),
    ratio('10 limits ÷ 1 limit', 'ten', 'one'),
    {
      figure: 'Redis commands, 3 limits ÷ @upstash/ratelimit, 3 in parallel',
      unit: '×',
      values: ratios(of.three.commands, of.upstashThree.commands),
      kind: 'count',
      note: `${median(of.three.commands).toFixed(1)} ÷ ${median(of.upstashThree.commands).toFixed(1)}`,
    },
  ];
}
