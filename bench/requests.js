// Policies to measure with, and the requests that ask about them.

import { ADMIN_TOKEN } from './world.js';

/** Wide enough never to refuse under any load here. */
export const WIDE = 100_000;

/** A busy machine's hiccup must not turn a measurement of decisions into one of failure policies. */
const PATIENT = { timeout: '5s', remember: '10m' };

/**
 * @param {Record<string, unknown>[]} limits
 * @param {object} [more]
 * @param {Record<string, unknown>[]} [more.routes]
 * @param {string} [more.origin]
 * @param {Record<string, unknown>} [more.store]
 */
export function policy(limits, { routes = [], origin = 'http://127.0.0.1:9', store = {} } = {}) {
  return { version: 1, gateway: { origin }, store: { ...PATIENT, ...store }, limits, routes };
}

/**
 * A sliding window by tenant, the algorithm and the key that the peers use too. `degraded`, since it is what costs
 * most: the isolate keeps its own books beside the store's.
 *
 * @param {string} name
 * @param {Record<string, unknown>} [more]
 */
export function limit(name, more = {}) {
  const key = ['header:x-tenant'];
  return { name, algorithm: 'sliding-window', limit: WIDE, window: '1m', key, on_store_error: 'degraded', ...more };
}

/** The three limits of SPEC section 10's rows, named and sized as the peer's. */
export const THREE = [
  limit('tenant-minute'),
  limit('tenant-hour', { window: '1h' }),
  limit('tenant-day', { window: '1d' }),
];

/** @param {{ name: unknown }[]} limits */
export const names = (limits) => limits.map(({ name }) => String(name));

/**
 * A request to the decision API; subject `{n}`.
 *
 * @param {string[]} limits
 * @param {Record<string, string>} [subject]
 */
export function check(limits, subject = { 'header:x-tenant': 'tenant-{n}' }) {
  return asked({ limits, subject });
}

/** @param {unknown} question */
export function asked(question) {
  return {
    path: '/.sluicegate/v1/check',
    headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
    body: JSON.stringify(question),
  };
}
