// How long a decision takes when the store takes the request and never answers: the deadline, and not much more.
//
// A busy machine fires a timer of 150 ms late, in any Worker. So a Worker that only waits that long is measured in turn,
// and the figure is what a decision would take if the timer were sharp; what was measured stands beside it.

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
  const timer = await world.peer('timer');
  /** @type {import('../load.js').Job} */
  const waiting = { ...check([]), port: timer.port, connections: 1, subjects: 1, requests: BEFORE_THE_BREAKER };
  await world.run(waiting);
  try {
    /** @type {Row[]} */
    const rows = [];
    for (const [name, answers] of Object.entries(POLICIES)) {
      const limits = [limit(name, { on_store_error: name })];
      /** @type {number[]} */
      const values = [];
      /** @type {number[]} */
      const measured = [];
      /** @type {number[]} */
      const timers = [];
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
        const [ours, bare] = [median(result.latencies), median((await world.run(waiting)).latencies)];
        measured.push(ours);
        timers.push(bare);
        values.push(ours - bare + TIMEOUT_MS);
      }
      const figure = `decision after a store stall, timeout ${TIMEOUT_MS} ms, ${name}, p50`;
      const said = `as measured ${median(measured).toFixed(0)} ms, a bare timer ${median(timers).toFixed(0)} ms`;
      const note = `${said}; one process a round, before its breaker opens`;
      rows.push({ figure, unit: 'ms', values, kind: 'timing', must: TIMEOUT_MS + 10, note });
    }
    return rows;
  } finally {
    await world.stop(timer);
    await store.close();
  }
}
