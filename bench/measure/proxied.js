// A proxied request with three limits, beside a Worker that does nothing but `fetch(request)`.

import { contest } from '../contest.js';
import { names, policy, THREE } from '../requests.js';
import { median, ratios } from '../statistics.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

/** @param {World} world @param {import('../contest.js').Effort} effort @returns {Promise<Row[]>} */
export async function proxied(world, effort) {
  const origin = await world.origin();
  const routes = [{ name: 'api', path: '/v1/{*rest}', limits: names(THREE) }];
  const gateway = await world.gateway(policy(THREE, { routes, origin }));
  const proxy = await world.peer('proxy', { ORIGIN: origin });
  const upstash = await world.peer('upstash', { ORIGIN: origin });
  const floor = await world.peer('floor');
  const job = {
    method: 'GET',
    path: '/v1/items/{n}?page=2',
    headers: { 'x-tenant': 'tenant-{n}', 'user-agent': 'bench/1', accept: 'application/json' },
    subjects: 1000,
  };
  const of = await contest(
    world,
    {
      ours: { worker: gateway, job, answers: '200' },
      proxy: { worker: proxy, job, answers: '200' },
      upstash: { worker: upstash, job, answers: '200' },
      floor: { worker: floor, job, answers: '200' },
    },
    effort,
  );
  const both = of.proxy.cpu.map((value, round) => value + of.floor.cpu[round]);
  /** @param {string} figure @param {number[]} theirs @returns {Row} */
  const row = (figure, theirs) => ({
    figure: `CPU, proxied request with 3 limits ÷ ${figure}`,
    unit: '×',
    values: ratios(of.ours.cpu, theirs),
    kind: 'timing',
    note: `${median(of.ours.cpu).toFixed(0)} µs ÷ ${median(theirs).toFixed(0)} µs`,
  });
  return [
    row('fetch(request) alone', of.proxy.cpu),
    row('fetch(request) + floor', both),
    row('@upstash/ratelimit, 3 in parallel, then fetch(request)', of.upstash.cpu),
  ];
}
