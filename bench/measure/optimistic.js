// What an optimistic route adds to asking the origin alone, where the store is far and the origin takes its time: the same
// origin is asked directly, through the gateway on an optimistic route, and on one that is not, in turn.

import { names, policy, THREE } from '../requests.js';
import { median } from '../statistics.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

const STORE_MS = 50;
const ORIGIN_MS = 80;

/** @param {World} world @param {import('../contest.js').Effort & { short: boolean }} effort @returns {Promise<Row[]>} */
export async function optimistic(world, { rounds, short }) {
  const [storeUrl, origin] = [await world.store(STORE_MS), await world.origin(ORIGIN_MS)];
  const route = { name: 'ahead', path: '/ahead/{*rest}', limits: names(THREE), optimistic: true };
  const routes = [route, { ...route, name: 'first', path: '/first/{*rest}', optimistic: false }];
  const gateway = await world.gateway(policy(THREE, { routes, origin }), { storeUrl });
  const proxy = await world.peer('proxy', { ORIGIN: origin });
  // A few at a time: what is measured is waiting, and each round waits for 0.4 s.
  const requests = short ? 8 : 40;
  /** @param {number} port @param {string} path */
  const p50 = async (port, path) => {
    const headers = { 'x-tenant': 'tenant-{n}' };
    const job = { port, path, method: 'GET', headers, subjects: 100, connections: 4, requests };
    const { answers, latencies } = await world.run(job);
    if (answers[200] !== requests) throw new Error(`${path}: ${JSON.stringify(answers)}`);
    return median(latencies);
  };
  /** @type {Record<'direct' | 'proxy' | 'ahead' | 'first', number[]>} */
  const seen = { direct: [], proxy: [], ahead: [], first: [] };
  for (let round = 0; round <= rounds; round += 1) {
    const direct = await p50(Number(new URL(origin).port), '/ahead/{n}');
    const through = await p50(proxy.port, '/ahead/{n}');
    const ahead = await p50(gateway.port, '/ahead/{n}');
    const first = await p50(gateway.port, '/first/{n}');
    if (round === 0) continue;
    seen.direct.push(direct);
    seen.proxy.push(through);
    seen.ahead.push(ahead);
    seen.first.push(first);
  }
  await world.stop(gateway);
  await world.stop(proxy);
  const said = (/** @type {number[]} */ values) => `${median(values).toFixed(1)} ms`;
  const where = `store at ${STORE_MS} ms, origin at ${ORIGIN_MS} ms, p50`;
  /** @param {string} figure @param {number[]} ours @param {number[]} theirs @param {number} [must] @returns {Row} */
  const row = (figure, ours, theirs, must) => ({
    figure: `latency that ${figure}, ${where}`,
    unit: 'ms',
    values: ours.map((value, round) => value - theirs[round]),
    kind: 'timing',
    ...(must !== undefined && { must }),
    note: `${said(ours)} − ${said(theirs)}`,
  });
  return [
    row('an optimistic GET adds to the origin alone', seen.ahead, seen.direct, 3),
    row('it adds to a Worker that only fetches', seen.ahead, seen.proxy, 3),
    row('a GET that is not optimistic adds to the origin alone', seen.first, seen.direct),
  ];
}
