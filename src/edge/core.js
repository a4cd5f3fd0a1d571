// The core's one instance. After an exception its memory may hold anything, so it is started anew: at once, before
// another request can call into it.

import * as raw from '#core';
import module from './index_bg.wasm';

raw.initSync({ module });

/** Which instance this is. What the one before it knew is gone, its tickets and its configuration included. */
export let life = 0;

export const core = {
  configure: guarded(raw.configure),
  receive: guarded(raw.receive),
  conclude: guarded(raw.conclude),
  conclude_location: guarded(raw.conclude_location),
  check: guarded(raw.check),
  origin_failed: guarded(raw.origin_failed),
};

/**
 * @template {any[]} A
 * @template R
 * @param {(...args: A) => R} call
 * @returns {(...args: A) => R}
 */
function guarded(call) {
  return (...args) => {
    try {
      return call(...args);
    } catch (error) {
      life += 1;
      raw.__wbg_reset_state();
      throw error;
    }
  };
}
