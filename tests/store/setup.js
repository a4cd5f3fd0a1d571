// One Redis a test file, and a store endpoint in front of it.
import { after, before, beforeEach } from 'node:test';
import { startRedis } from '../../dev/redis.js';
import { startStore } from '../../dev/store/server.js';

/** @typedef {import('../../dev/store/server.js').Store} Store */

/**
 * @param {Omit<NonNullable<Parameters<typeof startStore>[0]>, 'redis'>} [options]
 */
export function useStore(options = {}) {
  const context = {
    redis: /** @type {import('../../dev/redis.js').Redis} */ ({}),
    store: /** @type {Store} */ ({}),
  };
  before(async () => {
    context.redis = await startRedis();
    context.store = await startStore({ ...options, redis: context.redis.url });
  });
  after(async () => {
    await context.store.close();
    await context.redis.stop();
  });
  beforeEach(async () => {
    context.store.faults.clear();
    await call(context.store, ['FLUSHALL']);
    await call(context.store, ['SCRIPT', 'FLUSH']);
    context.store.stats.reset();
  });
  return context;
}

/**
 * @param {Store} store
 * @param {unknown} body sent as JSON
 * @param {{ path?: string, headers?: Record<string, string>, redirect?: RequestRedirect }} [options]
 */
export async function call(store, body, { path = '/', headers = {}, redirect } = {}) {
  const response = await fetch(store.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${store.token}`, ...headers },
    body: JSON.stringify(body),
    redirect,
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text };
}

/** @param {Parameters<typeof call>} args @returns {Promise<any>} the body, parsed */
export const ask = async (...args) => JSON.parse((await call(...args)).text);
