// When requests that wait may go on, worked out from what the store was asked, and when they reached the origin.
import assert from 'node:assert/strict';
import { policy, route } from './policy.js';
import { until } from './world.js';

/** @typedef {ReturnType<typeof import('./world.js').useWorld>} World */

/**
 * A token bucket for everybody whose requests wait.
 *
 * @param {Record<string, unknown>} [fields]
 * @returns {Record<string, unknown>}
 */
export function delaying(fields = {}) {
  return {
    ...{ name: 'rate', algorithm: 'token-bucket', limit: 10, window: '400ms', burst: 1, key: ['global'] },
    ...{ on_store_error: 'closed', over_limit: { delay: '10s' }, ...fields },
  };
}

/** Counts by address, so that a call to the store says whose request it is about. */
export const WHO = {
  ...{ name: 'who', algorithm: 'fixed-window', limit: 1000, window: '400d', key: ['ip'] },
  on_store_error: 'closed',
};

/**
 * @param {Record<string, unknown>} [fields] of the limit
 * @param {Parameters<typeof policy>[2]} [sections]
 */
export function waiting(fields, sections) {
  return policy([delaying(fields), WHO], [route('/{*rest}', ['rate', 'who'])], sections);
}

/** Whose request is the so manieth. @param {number} index */
export const ipOf = (index) => `10.${1 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;

/**
 * Listens to the scripts that Redis is asked to run, from here on.
 *
 * @param {World} world
 * @param {(words: string[], ms: number) => void} hear told each call's words, and the store's clock when it came
 */
export async function listen(world, hear) {
  const monitor = world.client.duplicate();
  monitor.on('error', () => {});
  await monitor.connect();
  await monitor.monitor((/** @type {unknown} */ line) => {
    const [, seconds, micros, text] = /^(\d+)\.(\d+) \[[^\]]*\] (.*)$/.exec(String(line)) ?? [];
    const words = [...(text ?? '').matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, word]) => word);
    if (/^eval(?:sha)?$/i.test(words[0] ?? '')) hear(words, Number(seconds) * 1000 + Math.floor(Number(micros) / 1000));
  });
  return { close: () => monitor.destroy() };
}

/**
 * Listens to whose requests Redis is asked about, from here on.
 *
 * @param {World} world
 */
export async function overhear(world) {
  /** @type {{ ip: string, clock: number }[]} calls in the order in which they were executed */
  const calls = [];
  const { close } = await listen(world, (words, store) => {
    if (!/^evalsha$/i.test(words[0])) return;
    const keys = Number(words[2]);
    const ip = words.slice(3, 3 + keys).find((key) => key.includes(':who:'));
    // Without a clock of the caller's the store's own decides.
    if (ip) calls.push({ ip: ip.split(':').at(-1) ?? '', clock: Number(words[3 + keys]) || store });
  });
  return {
    calls,
    /** @param {number} count */
    heard: (count) => until(() => calls.length >= count, `${count} calls to the store`),
    close,
  };
}

/**
 * The moment of each request, in the order of their calls: that of a bucket of 1 that gains one each `every` ms.
 *
 * @param {{ ip: string, clock: number }[]} calls
 * @param {number} every
 */
export function moments(calls, every) {
  let free = 0;
  return calls.map(({ ip, clock }) => {
    const moment = Math.max(free, clock);
    free = moment + every;
    return { ip, moment };
  });
}

/**
 * Notes when each request reaches the origin, by the origin's clock.
 *
 * @param {World} world
 * @param {string} path
 */
export function arrivals(world, path) {
  /** @type {{ ip: string, at: number }[]} */
  const arrived = [];
  world.origin.handlers.set(path, (response, { headers }) => {
    arrived.push({ ip: String(headers['cf-connecting-ip']), at: Date.now() });
    response.end('here');
  });
  return arrived;
}

/**
 * No request is early, so none comes before the moment that its call gave it; and they come in that order. On a machine
 * that is busy, decisions come when their requests are due already, and those change places on the way: by chance half of
 * all neighbours would.
 *
 * @param {{ ip: string, at: number }[]} arrived
 * @param {{ ip: string, moment: number }[]} due
 */
export function assertSpaced(arrived, due) {
  assert.equal(arrived.length, due.length);
  const at = new Map(arrived.map(({ ip, at }) => [ip, at]));
  for (const [index, { ip, moment }] of due.entries()) {
    const early = moment - (at.get(ip) ?? 0);
    assert.ok(early <= 0, `request ${index} of ${ip} is ${early} ms early`);
  }
  const order = arrived.map(({ ip }) => due.findIndex((one) => one.ip === ip));
  const overtaken = order.filter((place, index) => index > 0 && place < order[index - 1]).length;
  assert.ok(overtaken < due.length / 4, `${overtaken} of ${due.length} out of order: ${order}`);
}
