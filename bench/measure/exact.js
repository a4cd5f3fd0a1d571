// Three gateway processes, one limit, many requests at once: what is let through is the limit, to the unit.

import { check, limit, policy } from '../requests.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

const GATEWAYS = 3;
const CONNECTIONS = 48;

// Windows so long that nothing comes back while it runs.
const LIMITS = { 'fixed-window': '400d', 'sliding-window': '30d', 'token-bucket': '400d' };

/** @param {World} world @param {{ short: boolean }} options @returns {Promise<Row[]>} */
export async function exact(world, { short }) {
  const all = short ? 1500 : 50_000;
  const most = short ? 300 : 10_000;
  const limits = Object.entries(LIMITS).map(([algorithm, window]) =>
    // Closed: a decision that the store did not make is a refusal, and shows below.
    limit(algorithm, { algorithm, limit: most, window, on_store_error: 'closed' }),
  );
  const gateways = await Promise.all(
    Array.from({ length: GATEWAYS }, () => world.gateway(policy(limits, { store: { timeout: '10s' } }))),
  );
  /** @type {Row[]} */
  const rows = [];
  for (const algorithm of Object.keys(LIMITS)) {
    const job = { ...check([algorithm]), connections: CONNECTIONS / GATEWAYS };
    const share = (/** @type {number} */ index) => Math.floor((all + index) / GATEWAYS);
    const results = await Promise.all(
      gateways.map(({ port }, index) => world.run({ ...job, port, requests: share(index) })),
    );
    const count = (/** @type {RegExp} */ which) =>
      results
        .flatMap(({ answers }) => Object.entries(answers))
        .reduce((sum, [said, times]) => (which.test(said) ? sum + times : sum), 0);
    const odd = count(/^(?!200 (true store|false store|false cache)$)/);
    rows.push({
      figure: `admitted of ${all.toLocaleString('en-US')} at once, ${GATEWAYS} gateways: ${algorithm}`,
      unit: '',
      values: [count(/^200 true/)],
      kind: 'count',
      must: most,
      exactly: true,
      note: `${count(/false store/)} refused by the store, ${count(/false cache/)} from memory, ${odd} otherwise`,
    });
  }
  return rows;
}
