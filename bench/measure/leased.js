// Leased quota: what a decision by permits costs beside one by the store, and what three gateways let through with it.

import { commands, contest, resetCommands } from '../contest.js';
import { check, limit, names, policy, THREE, WIDE } from '../requests.js';
import { median, ratios } from '../statistics.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

const GATEWAYS = 3;
const CONNECTIONS = 48;
const BATCH = 20;

/** @param {World} world @param {import('../contest.js').Effort & { short: boolean }} effort @returns {Promise<Row[]>} */
export async function leased(world, effort) {
  return [await cpu(world, effort), await calls(world), await exact(world, effort)];
}

/** Batches so large that nearly every decision is by permits. @param {World} world @param {import('../contest.js').Effort} effort */
async function cpu(world, effort) {
  const batches = THREE.map((one) => ({ ...one, name: `${one.name}-leased`, lease_batch: WIDE / 10, lease_ttl: '1m' }));
  const gateway = await world.gateway(policy([...THREE, ...batches]));
  const job = (/** @type {typeof THREE} */ limits) => ({ ...check(names(limits)), subjects: 5 });
  const of = await contest(
    world,
    {
      permits: { worker: gateway, job: job(batches), answers: /^200 true (cache|store)$/ },
      store: { worker: gateway, job: job(THREE), answers: '200 true store' },
    },
    effort,
  );
  return {
    figure: 'CPU, 3 limits by permits ÷ 3 limits by the store',
    unit: '×',
    values: ratios(of.permits.cpu, of.store.cpu),
    kind: /** @type {const} */ ('timing'),
    note: `${median(of.permits.cpu).toFixed(0)} µs ÷ ${median(of.store.cpu).toFixed(0)} µs`,
  };
}

/** One request after the other: EVALSHA, MGET, SET and TIME for each batch. @param {World} world */
async function calls(world) {
  const one = limit('leased', { lease_batch: BATCH, lease_ttl: '1m' });
  const gateway = await world.gateway(policy([one]));
  const job = { ...check(['leased']), port: gateway.port, connections: 1, subjects: 1 };
  await world.run({ ...job, requests: BATCH });
  await resetCommands(world);
  const requests = 20 * BATCH;
  await world.run({ ...job, requests });
  const { calls: made, byName } = await commands(world);
  return {
    figure: `Redis commands per decision, 1 limit, lease_batch ${BATCH}`,
    unit: '',
    values: [made / requests],
    kind: /** @type {const} */ ('count'),
    must: 4 / BATCH,
    exactly: true,
    note: `${byName.evalsha} calls for ${requests} decisions`,
  };
}

/** @param {World} world @param {{ short: boolean }} effort */
async function exact(world, { short }) {
  const all = short ? 1500 : 50_000;
  const most = short ? 600 : 20_000;
  const one = limit('leased', {
    algorithm: 'token-bucket',
    limit: 1,
    window: '1d',
    burst: most,
    lease_batch: most / 40,
    lease_ttl: '1m',
    on_store_error: 'closed',
  });
  const text = policy([one], { store: { timeout: '10s' } });
  const gateways = await Promise.all(Array.from({ length: GATEWAYS }, () => world.gateway(text)));
  const job = { ...check(['leased']), connections: CONNECTIONS / GATEWAYS };
  await resetCommands(world);
  const share = (/** @type {number} */ index) => Math.floor((all + index) / GATEWAYS);
  const results = await Promise.all(
    gateways.map(({ port }, index) => world.run({ ...job, port, requests: share(index) })),
  );
  const count = (/** @type {string} */ which) => results.reduce((sum, { answers }) => sum + (answers[which] ?? 0), 0);
  const passed = count('200 true store') + count('200 true cache');
  const asked = (await commands(world)).byName.evalsha;
  return {
    figure: `admitted of ${all.toLocaleString('en-US')} at once, ${GATEWAYS} gateways: leased, ${most / 40} at a time`,
    unit: '',
    values: [passed],
    kind: /** @type {const} */ ('count'),
    must: most,
    note: `${asked} calls, ${count('200 true cache')} admitted without one, ${most - passed} in hand at the end`,
  };
}
