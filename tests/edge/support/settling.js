// Limits whose costs settle, and an origin that says what requests have cost.
import { call } from '../admin/api.js';
import { limit, policy } from './policy.js';
import { until } from './world.js';

/** @typedef {import('./world.js').Edge} Edge */
/** @typedef {ReturnType<typeof import('./world.js').useWorld>} World */

/** @param {World} world */
export function useSettling(world) {
  const settle = { header: 'x-usage-tokens', max: 1000 };

  /** A limit of 1000 a day that reserves 100 a request. @param {object} [fields] */
  const tokens = (fields = {}) => limit('tokens', { limit: 1000, cost: 100, settle, ...fields });

  const retries = { retry: { budget: 1, backoff: '0s' } };

  /** @param {object} [fields] @param {object} [store] */
  const settling = (fields, store = {}) => policy([tokens(fields)], undefined, { store: { ...retries, ...store } });

  /** Calls about a settlement, and no other. @param {string[]} command */
  const isSettlement = (command) => command.some((part) => part.startsWith('sg:1::settled:'));

  /** The origin says on `/a` what a request of `?used=…` has cost. */
  function charging() {
    world.origin.handlers.set('/a', (response, { path }) => {
      const used = new URL(path, 'http://o').searchParams.get('used');
      response.writeHead(200, used === null ? {} : { 'x-usage-tokens': used });
      response.end('answer');
    });
  }

  /** @param {Edge} edge @returns {Promise<Record<string, number>>} */
  const counts = async (edge) => (await call(edge, 'GET', 'status')).json().settlements;

  /** Waits until that many charges were dealt with. @param {Edge} edge @param {number} many_ @param {string} [what] */
  const untilSettled = (edge, many_, what = 'made') =>
    until(async () => (await counts(edge))[what] >= many_, `${many_} ${what}`);

  /** What is used, as the admin API says it. @param {Edge} edge @param {string} [name] @param {string} [ip] */
  const used = async (edge, name = 'tokens', ip = '192.0.2.1') =>
    (await call(edge, 'GET', `limits/${name}/${ip}`)).json().used;

  /** The charges that the origin was told of. */
  const charges = () => world.origin.seen.map(({ headers }) => String(headers['sluicegate-charge']));

  /** @param {Edge} edge @param {string} charge @param {unknown} used */
  const told = (edge, charge, used) => call(edge, 'POST', 'check', { settle: { charge, used } });

  return { tokens, settling, isSettlement, charging, counts, untilSettled, used, charges, told };
}
