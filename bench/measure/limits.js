// What more limits on a request cost: 1, 3 and 10 of them, and one beside the peer's one.

import { contest } from '../contest.js';
import { check, limit, names, policy } from '../requests.js';
import { median, ratios } from '../statistics.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

/** @param {World} world @param {import('../contest.js').Effort} effort @returns {Promise<Row[]>} */
export async function limitsOnARequest(world, effort) {
  const all = Array.from({ length: 10 }, (_, index) => limit(`tenant-${index}`, { window: `${index + 1}m` }));
  const gateway = await world.gateway(policy(all));
  const upstash = await world.peer('upstash-one');
  const floor = await world.peer('floor');
  const job = (/** @type {number} */ count) => ({ ...check(names(all.slice(0, count))), subjects: 1000 });
  const ours = (/** @type {number} */ count) => ({ worker: gateway, job: job(count), answers: '200 true store' });
  const of = await contest(
    world,
    {
      one: ours(1),
      three: ours(3),
      ten: ours(10),
      upstash: { worker: upstash, job: job(1), answers: '200 true' },
      floor: { worker: floor, job: job(1), answers: '200' },
    },
    effort,
  );

  /** @param {string} figure @param {keyof typeof of} a @param {keyof typeof of} b @returns {Row} */
  const ratio = (figure, a, b) => ({
    figure: `CPU, ${figure}`,
    unit: '×',
    values: ratios(of[a].cpu, of[b].cpu),
    kind: 'timing',
    note: `${median(of[a].cpu).toFixed(0)} µs ÷ ${median(of[b].cpu).toFixed(0)} µs`,
  });
  return [
    ratio('1 limit ÷ @upstash/ratelimit, 1 limit', 'one', 'upstash'),
    ratio('1 limit ÷ floor', 'one', 'floor'),
    ratio('3 limits ÷ 1 limit', 'three', 'one'),
    ratio('10 limits ÷ 1 limit', 'ten', 'one'),
  ];
}
