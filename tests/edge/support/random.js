// Chance that can be had again: SLUICEGATE_SEED says which, and a test that is random tells the one it had.

/** The seed asked for, or one of the clock's. */
export const SEED = Number(process.env.SLUICEGATE_SEED ?? Date.now() % 2 ** 32);

/** Numbers in [0, 1) from a seed (mulberry32). @param {number} seed @returns {() => number} */
export function numbers(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
