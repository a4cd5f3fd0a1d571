// Policies in the form of the POLICY var, with what most tests want said once.

/** @typedef {Record<string, unknown>} Fields */

/**
 * A window whose end is not near, so that no test falls on two windows. They are aligned to the epoch.
 *
 * @param {[string, number][]} candidates as policies write it, and in ms
 */
function calm(candidates) {
  const left = (/** @type {[string, number]} */ [, ms]) => ms - (Date.now() % ms);
  const [text, ms] = candidates.toSorted((a, b) => left(b) / b[1] - left(a) / a[1])[0];
  return { text, ms };
}

/** About a day, with hours left. */
export const DAY = calm([
  ['24h', 86_400_000],
  ['17h', 61_200_000],
]);

/** About a minute, with at least a quarter of it left when it is chosen. */
export const aboutAMinute = () =>
  calm([
    ['60s', 60_000],
    ['61s', 61_000],
    ['67s', 67_000],
    ['73s', 73_000],
  ]);

/**
 * A fixed window of 3 a day per address that fails closed, unless said.
 *
 * @param {string} name
 * @param {Fields} [fields]
 * @returns {Fields}
 */
export function limit(name, fields = {}) {
  const usual = { algorithm: 'fixed-window', limit: 3, window: DAY.text, key: ['ip'], on_store_error: 'closed' };
  return { name, ...usual, ...fields };
}

/**
 * A route named by its path.
 *
 * @param {string} path
 * @param {string[]} limits
 * @param {Fields} [fields]
 * @returns {Fields}
 */
export function route(path, limits, fields = {}) {
  return { name: path.replaceAll(/[^a-z0-9-]/g, '_'), path, limits, ...fields };
}

/** A breaker that stays out of the way of tests that are not about it: what it would need to open never comes. */
export const CALM_BREAKER = { window: '10ms', min_calls: 1000, open: '10ms', max_open: '10ms', long_open: '10ms' };

/**
 * A policy that says the tier, and whose store may take as long as a busy machine needs.
 *
 * @param {Fields[]} limits
 * @param {Fields[]} [routes] default: `/a` with all limits
 * @param {{ gateway?: Fields, store?: Fields, degraded?: Fields, defaults?: Fields }} [sections]
 * @returns {Fields}
 */
export function policy(limits, routes, { gateway = {}, store = {}, ...sections } = {}) {
  return {
    version: 1,
    gateway: { origin: 'http://origin.invalid', tier_header: true, ...gateway },
    store: { timeout: '10s', breaker: CALM_BREAKER, ...store },
    ...sections,
    limits,
    routes: routes ?? [
      route(
        '/a',
        limits.map(({ name }) => String(name)),
      ),
    ],
  };
}
