// Redis memory per subject, as MEMORY USAGE tells it: every key that one request of a new subject leaves behind.

import { check, limit, policy } from '../requests.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

// As long as `tenant-minute`, the name in the documentation's example: the name is part of the key.
const LIMITS = {
  'tenant-fixed.': 'fixed-window',
  'tenant-slides': 'sliding-window',
  'tenant-bucket': 'token-bucket',
  'tenant-logged': 'sliding-log',
};
const SUBJECTS = { tenant: { 'header:x-tenant': 'tenant-{n}' }, address: { ip: '203.0.113.7' } };
const LOG_ENTRIES = 60;

/** @param {World} world @returns {Promise<Row[]>} */
export async function memory(world) {
  const limits = Object.entries(LIMITS).flatMap(([name, algorithm]) => [
    limit(name, { algorithm, limit: 1000, window: '1m' }),
    // As long as well.
    limit(name.replace('tenant', 'client'), { algorithm, limit: 1000, window: '1m', key: ['ip'] }),
  ]);
  const gateway = await world.gateway(policy(limits));

  /** @param {string} name @param {Record<string, string>} subject @param {number} requests */
  async function usage(name, subject, requests) {
    await world.db.flushDb();
    const answered = await world.run({ ...check([name], subject), port: gateway.port, requests, connections: 1 });
    if (answered.answers['200 true store'] !== requests)
      throw new Error(`${name}: ${JSON.stringify(answered.answers)}`);
    return memoryOfAllKeys(world);
  }

  /** @type {Row[]} */
  const rows = [];
  for (const [name, algorithm] of Object.entries(LIMITS)) {
    const byTenant = await usage(name, SUBJECTS.tenant, 1);
    const byAddress = await usage(name.replace('tenant', 'client'), SUBJECTS.address, 1);
    const isLog = algorithm === 'sliding-log';
    const budget = isLog ? {} : { must: 120, aim: 90 };
    const figure = (/** @type {string} */ by) => `Redis memory per subject: ${algorithm}, by ${by}`;
    rows.push(
      { figure: figure('header'), unit: 'B', values: [byTenant.bytes], kind: 'count', ...budget, note: byTenant.note },
      { figure: figure('ip'), unit: 'B', values: [byAddress.bytes], kind: 'count', ...budget, note: byAddress.note },
    );
    if (!isLog) continue;
    const full = await usage(name, SUBJECTS.tenant, LOG_ENTRIES);
    rows.push({
      figure: `${figure('header')}, ${LOG_ENTRIES} entries`,
      unit: 'B',
      values: [full.bytes],
      kind: 'count',
    });
  }
  rows.push(await peer(world));
  return rows;
}

/** @param {World} world @returns {Promise<Row>} */
async function peer(world) {
  const worker = await world.peer('upstash-one');
  await world.db.flushDb();
  await world.run({ ...check(['tenant-minute'], SUBJECTS.tenant), port: worker.port, requests: 1 });
  const { bytes, note } = await memoryOfAllKeys(world);
  const figure = 'Redis memory per subject: @upstash/ratelimit, sliding window';
  return { figure, unit: 'B', values: [bytes], kind: 'count', note: `${note}; a second one in the next window` };
}

/** @param {World} world */
async function memoryOfAllKeys({ db }) {
  const keys = await db.keys('*');
  const sizes = await Promise.all(keys.map((key) => db.memoryUsage(key)));
  const bytes = sizes.reduce((sum, size) => (sum ?? 0) + (size ?? 0), 0) ?? 0;
  return { bytes, note: `${keys.length} key: ${keys.join(' ')}` };
}
