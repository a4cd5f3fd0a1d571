// What a history says of the slots of one limit. Each holder held its slot for certain over some interval; in whatever
// order the store had the calls, these intervals overlap no more than the limit allows.

/**
 * @typedef {object} Held a slot, held for certain
 * @property {number} from from this moment on, in ms
 * @property {number} until and before this one
 */

/**
 * @typedef {object} Taken
 * @property {number} asked when its taking was asked for, in ms
 * @property {number} from when the answer had come
 * @property {number} fence
 */

/**
 * @typedef {object} Listed a list of the holders
 * @property {number} from when it was asked for, in ms
 * @property {number} to when it had come
 * @property {number} count how many it shows
 */

/**
 * The most that held at once, and when first.
 *
 * @param {Held[]} held
 */
export function most(held) {
  const sure = held.filter(({ from, until }) => from < until);
  const edges = sure.flatMap(({ from, until }) => [
    { at: from, step: 1 },
    { at: until, step: -1 },
  ]);
  // One ends before the next begins at the same moment.
  edges.sort((a, b) => a.at - b.at || a.step - b.step);
  const peak = { count: 0, at: Number.NEGATIVE_INFINITY };
  let now = 0;
  for (const { at, step } of edges) {
    now += step;
    if (now > peak.count) Object.assign(peak, { count: now, at });
  }
  return peak;
}

/**
 * The takings whose fence is lower than one that had been told before they were asked for, or was given before.
 *
 * @param {Taken[]} taken
 * @returns {Taken[]}
 */
export function falls(taken) {
  const told = taken.toSorted((a, b) => a.from - b.from);
  const given = new Set();
  let [next, highest] = [0, 0];
  return taken
    .toSorted((a, b) => a.asked - b.asked)
    .filter(({ asked, fence }) => {
      for (; next < told.length && told[next].from < asked; next += 1) highest = Math.max(highest, told[next].fence);
      const again = given.has(fence);
      given.add(fence);
      return again || fence < highest;
    });
}

/**
 * The lists that show fewer than held from before they were asked for until after they had come.
 *
 * @param {Listed[]} lists
 * @param {Held[]} held
 * @returns {(Listed & { sure: number })[]}
 */
export function hidden(lists, held) {
  return lists
    .map((list) => ({ ...list, sure: held.filter(({ from, until }) => from <= list.from && list.to <= until).length }))
    .filter(({ count, sure }) => count < sure);
}

/**
 * How long a lease lasts that ends at a moment unless it is renewed before.
 *
 * @param {number} until in ms
 * @param {number[]} renewals when each was carried out, in their order
 * @param {number} leaseMs
 */
export function lasts(until, renewals, leaseMs) {
  return renewals.reduce((ends, at) => (at < ends ? Math.max(ends, at + leaseMs) : ends), until);
}
