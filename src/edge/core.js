// The core's one instance. After a trap its memory may hold anything, so it is started anew.

import * as core from '#core';
import module from './index_bg.wasm';

core.initSync({ module });

/** Replaces the instance; what it knew is gone. */
export function restart() {
  core.__wbg_reset_state();
}

export { core };
