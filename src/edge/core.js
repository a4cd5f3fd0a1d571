// The core's one instance. After an exception its memory may hold anything, so it is started anew: at once, before
// another request can call into it.

import * as raw from '#core';
import module from './index_bg.wasm';

raw.initSync({ module });

/** Which instance this is. What the one before it knew is gone, its tickets and its configuration included. */
export let life = 0;

export const core = {
  admin_body: guarded(raw.admin_body),
  check: guarded(raw.check),
  check_verified: guarded(raw.check_verified),
  conclude: guarded(raw.conclude),
  conclude_location: guarded(raw.conclude_location),
  conclude_slot: guarded(raw.conclude_slot),
  configure: guarded(raw.configure),
  cors: guarded(raw.cors),
  origin_failed: guarded(raw.origin_failed),
  receive: guarded(raw.receive),
  receive_verified: guarded(raw.receive_verified),
  release: guarded(raw.release),
  reload: guarded(raw.reload),
  reload_failed: guarded(raw.reload_failed),
  renew: guarded(raw.renew),
  settle: guarded(raw.settle),
  slot_again: guarded(raw.slot_again),
  slots: guarded(raw.slots),
  take_points: guarded(raw.take_points),
  task: guarded(raw.task),
  task_attempted: guarded(raw.task_attempted),
  token_rules: guarded(raw.token_rules),
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
