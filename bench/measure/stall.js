// How long a decision takes when the store takes the request and never answers: the deadline, and not much more.

import { FAULTS } from '../../dev/store/faults.js';
import { startStore } from '../../dev/store/server.js';
import { check, limit, policy } from '../requests.js';
import { median } from '../statistics.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

const TIMEOUT_MS = 150;
const POLICIES = { degraded: '200 true degraded', open: '200 true open', closed: '200 false closed' };

/** Fewer than open a breaker: once it is open, a decision waits for nothing. */
const BEFORE_THE_BREAKER = 3;

/** @param {World} world @param {import('../contest.js').Effort} effort @returns {Promise<Row[]>} */
export async function stall(world, { rounds }) {
  const store = await startStore({ redis: world.redis.url });
  try {
    /** @type {Row[]} */
    const rows = [];
    for (const [name, answers] of Object.entries(POLICIES)) {
      const limits = [limit(name, { on_store_error: name })];
      /** @type {number[]} */
      const values = [];
      for (let round = 0; round < rounds; round += 1) {
        // A fresh process: the breaker of one that has waited is on its way to open.
        const gateway = await world.gateway(policy(limits, { store: { timeout: `${TIMEOUT_MS}ms` } }), {
          storeUrl: store.url,
        });
        const job = { ...check([name]), port: gateway.port, connections: 1, subjects: 10 };
        store.faults.clear();
        await world.run({ ...job, requests: 1 });
        store.faults.always(FAULTS.stall);
        const result = await world.run({ ...job, requests: BEFORE_THE_BREAKER });
        await world.stop(gateway);
        if (result.answers[answers] !== BEFORE_THE_BREAKER)
          throw new Error(`${name}: ${JSON.stringify(result.answers)}`);
        values.push(median(result.latencies));
      }
      const figure = `decision after a store stall, timeout ${TIMEOUT_MS} ms, ${name}, p50`;
      const note = 'one process a round, before its breaker opens';
      rows.push({ figure, unit: 'ms', values, kind: 'timing', must: TIMEOUT_MS + 10, note });
    }
    return rows;
  } finally {
    await store.close();
  }
}
