// The policy of the namespace POLICY_KV: read in the background, after an answer and never before one.

import { core } from './core.js';

/** The key that holds the policy, as JSON text. */
const KEY = 'policy';

/** Longest wait for the namespace, in ms; half of the interval, where that is shorter. */
const DEADLINE_MS = 10_000;

/** More than this many characters are not handed over; the core refuses a policy that long. */
const LONGEST = 1_048_577;

/** @typedef {{ get: (key: string, options: { type: 'text', cacheTtl: number }) => Promise<string | null> }} Namespace */

/**
 * When a namespace is to be read. A read that is not heard of again, since its request was dropped, holds up none.
 *
 * @param {unknown} namespace
 * @param {unknown} seconds from one read to the next, 1 to 3600; 30 where it says nothing
 * @param {() => void} then called after what was read has been handed over
 */
export function watch(namespace, seconds, then) {
  const everyMs = 1000 * Math.min(3600, Math.max(1, Number(seconds) || 30));
  let readAt = Number.NEGATIVE_INFINITY;
  return {
    /**
     * @param {number} nowMs
     * @returns {Promise<void> | undefined} a read, if it is time for one
     */
    due(nowMs) {
      // A clock that stepped back must not put the next read off for as long.
      if (nowMs - readAt < everyMs && nowMs >= readAt) return undefined;
      readAt = nowMs;
      return read(/** @type {Namespace} */ (namespace), Math.min(DEADLINE_MS, everyMs / 2), then);
    },
  };
}

/**
 * Reads the namespace and hands the core what it holds.
 *
 * @param {Namespace} namespace
 * @param {number} deadlineMs
 * @param {() => void} then
 */
async function read(namespace, deadlineMs, then) {
  /** @type {string | null | undefined} */
  let text;
  try {
    const late = scheduler.wait(deadlineMs).then(() => undefined);
    // The platform keeps a value for a minute unless told; 30 s is the least it takes.
    text = await Promise.race([namespace.get(KEY, { type: 'text', cacheTtl: 30 }), late]);
  } catch {
    return core.reload_failed('error');
  }
  if (text === undefined) return core.reload_failed('deadline');
  core.reload(text?.slice(0, LONGEST), Date.now());
  then();
}
