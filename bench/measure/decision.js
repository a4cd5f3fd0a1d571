// CPU of one decision over three limits, beside the peers under the same load.

import { contest } from '../contest.js';
import { check, limit, names, policy, THREE } from '../requests.js';
import { median, ratios } from '../statistics.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

const SUBJECTS = 1000;
const SPENT_SUBJECTS = 50;

/** @param {World} world @param {import('../contest.js').Effort} effort @returns {Promise<Row[]>} */
export async function decision(world, effort) {
  const spent = limit('spent', { limit: 1, window: '1d' });
  const gateway = await world.gateway(policy([...THREE, spent]));
  const upstash = await world.peer('upstash');
  const upstashSpent = await world.peer('upstash', { SPENT: 'yes' });
  const floor = await world.peer('floor');
  const reading = await world.peer('floor', { READ_BODY: 'yes' });

  // Every contender is sent the same bytes, but for the names of the limits.
  const passing = { ...check(names(THREE)), subjects: SUBJECTS };
  const refused = { ...check(names([...THREE.slice(0, 2), spent])), subjects: SPENT_SUBJECTS, first: SUBJECTS };
  const of = await contest(
    world,
    {
      ours: { worker: gateway, job: passing, answers: '200 true store' },
      upstash: { worker: upstash, job: passing, answers: '200 true' },
      floor: { worker: floor, job: passing, answers: '200' },
      reading: { worker: reading, job: passing, answers: '200' },
      again: { worker: gateway, job: refused, answers: '200 false cache' },
      upstashAgain: { worker: upstashSpent, job: refused, answers: '200 false' },
    },
    effort,
  );

  /** @param {string} figure @param {keyof typeof of} ours @param {keyof typeof of} theirs @param {object} [budget] */
  const cpu = (figure, ours, theirs, budget = {}) => ({
    figure: `CPU, ${figure}`,
    unit: '×',
    values: ratios(of[ours].cpu, of[theirs].cpu),
    kind: /** @type {const} */ ('timing'),
    note: `${median(of[ours].cpu).toFixed(0)} µs ÷ ${median(of[theirs].cpu).toFixed(0)} µs`,
    ...budget,
  });
  return [
    cpu('3 limits ÷ @upstash/ratelimit, 3 in parallel', 'ours', 'upstash', { must: 1, aim: 0.75 }),
    cpu('3 limits ÷ floor', 'ours', 'floor', { must: 1.5, aim: 1.15 }),
    cpu('3 limits ÷ floor that reads its request', 'ours', 'reading'),
    cpu('@upstash/ratelimit, 3 in parallel ÷ floor', 'upstash', 'floor'),
    cpu('refused again, from memory ÷ floor', 'again', 'floor'),
    cpu('refused again ÷ @upstash/ratelimit refused again', 'again', 'upstashAgain'),
  ];
}
