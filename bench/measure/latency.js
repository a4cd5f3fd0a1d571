// How long a decision takes where the store is far: each delay is a store endpoint of its own, one request at a time.
//
// A timer of 20 ms and what stands behind it take longer than 20 ms. So the same endpoint is asked directly as well,
// in turn with the gateway, and the figure is what a decision would take if that were 20 ms sharp.

import { check, names, policy, THREE } from '../requests.js';
import { median } from '../statistics.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

const DELAYS_MS = [0, 5, 20, 50];
const DIRECT = { path: '/', headers: { authorization: 'Bearer local' }, body: '["MGET","a","b","c","d","e","f"]' };

/** @param {World} world @param {import('../contest.js').Effort & { short: boolean }} effort @returns {Promise<Row[]>} */
export async function latency(world, { rounds, short }) {
  const requests = short ? 3 : 30;
  /** @type {Row[]} */
  const rows = [];
  for (const delay of DELAYS_MS) {
    const storeUrl = await world.store(delay);
    const gateway = await world.gateway(policy(THREE), { storeUrl });
    const floor = await world.peer('floor', { UPSTASH_REDIS_REST_URL: storeUrl });
    const job = { connections: 1, requests };
    const question = { ...check(names(THREE)), subjects: 100 };
    /** @param {import('../load.js').Job} asked */
    const p50 = async (asked) => {
      const { answers, latencies } = await world.run(asked);
      if (answers['200 true store'] !== requests && answers[200] !== requests) throw new Error(JSON.stringify(answers));
      return median(latencies);
    };
    /** @type {Record<'direct' | 'floor' | 'ours', number[]>} */
    const seen = { direct: [], floor: [], ours: [] };
    for (let round = 0; round <= rounds; round += 1) {
      const direct = await p50({ ...DIRECT, ...job, port: Number(new URL(storeUrl).port) });
      const through = await p50({ ...question, ...job, port: floor.port });
      const ours = await p50({ ...question, ...job, port: gateway.port });
      if (round === 0) continue;
      seen.direct.push(direct);
      seen.floor.push(through);
      seen.ours.push(ours);
    }
    await world.stop(gateway);
    await world.stop(floor);
    const said = (/** @type {number[]} */ values) => `${median(values).toFixed(2)} ms`;
    rows.push({
      figure: `latency of a decision, p50, store at ${delay} ms`,
      unit: 'ms',
      values: seen.ours.map((value, round) => value - seen.direct[round] + delay),
      kind: 'timing',
      ...(delay === 20 && { must: 22, aim: 20.5 }),
      note: `as measured ${said(seen.ours)}, the store asked directly ${said(seen.direct)}, floor ${said(seen.floor)}`,
    });
  }
  return rows;
}
