// What a large policy costs: 1, 10, 100 and 1,000 routes, each with a limit of its own.
//
// Asked by method and URL, so that the route is looked up as it is for a proxied request; requests take turns
// through all routes, and the subjects make the number of counters the same for all sizes.

import { contest } from '../contest.js';
import { asked, limit, policy } from '../requests.js';
import { median, ratios } from '../statistics.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

const SIZES = [1, 10, 100, 1000];

/** @param {World} world @param {import('../contest.js').Effort} effort @returns {Promise<Row[]>} */
export async function scale(world, effort) {
  /** @type {Record<string, import('../contest.js').Contender>} */
  const contenders = {};
  for (const size of SIZES) {
    const numbers = Array.from({ length: size }, (_, index) => String(index).padStart(4, '0'));
    const limits = numbers.map((number) => limit(`limit-${number}`));
    const routes = numbers.map((number) => ({
      name: `route-${number}`,
      path: `/v1/area-${number}/{id}/items`,
      limits: [`limit-${number}`],
    }));
    const question = {
      method: 'GET',
      url: 'https://api.example.com/v1/area-{m}/7/items',
      headers: { 'x-tenant': 'tenant-{n}' },
    };
    contenders[size] = {
      worker: await world.gateway(policy(limits, { routes })),
      job: { ...asked(question), subjects: 1000, spread: size },
      answers: '200 true store',
    };
  }
  const of = await contest(world, contenders, effort);
  return SIZES.slice(1).map((size) => ({
    figure: `CPU, ${size.toLocaleString('en-US')} routes and limits ÷ 1`,
    unit: '×',
    values: ratios(of[size].cpu, of[1].cpu),
    kind: 'timing',
    note: `${median(of[size].cpu).toFixed(0)} µs ÷ ${median(of[1].cpu).toFixed(0)} µs`,
    must: 1.1,
    aim: 1,
  }));
}
