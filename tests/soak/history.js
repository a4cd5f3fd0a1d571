// What a history of requests says of a limit: since the moment of a decision is known only to lie between a request's
// sending and its answer, it lies in any span that both lie in.

/**
 * @typedef {object} Passed a request that passed
 * @property {number} from when it was sent, in ms
 * @property {number} to when it was answered
 */

/**
 * @typedef {object} Loss a time in which the store may have lost what it knew
 * @property {number} from
 * @property {number} to
 */

/**
 * @typedef {object} Excess
 * @property {number} from when the span begins
 * @property {number} count how many passed in it
 * @property {number} lost how many losses touch it
 */

/**
 * The spans of a length in which more passed than the bound allows: once the bound, and once more for each loss that
 * touches the span.
 *
 * @param {Passed[]} passed
 * @param {number} spanMs
 * @param {number} bound
 * @param {Loss[]} [losses]
 * @returns {Excess[]}
 */
export function excesses(passed, spanMs, bound, losses = []) {
  const byStart = passed.toSorted((a, b) => a.from - b.from);
  const found = [];
  for (const [index, { from }] of byStart.entries()) {
    const until = from + spanMs;
    let count = 0;
    for (let at = index; at < byStart.length && byStart[at].from < until; at += 1)
      count += Number(byStart[at].to < until);
    const lost = losses.filter((loss) => loss.from < until && loss.to > from).length;
    if (count > bound * (1 + lost)) found.push({ from, count, lost });
  }
  return found;
}

/**
 * The same for windows of the clock.
 *
 * @param {Passed[]} passed in ms since 1970
 * @param {number} windowMs
 * @param {number} bound
 * @param {Loss[]} [losses]
 * @returns {Excess[]}
 */
export function excessWindows(passed, windowMs, bound, losses = []) {
  /** @type {Map<number, number>} */
  const counts = new Map();
  for (const { from, to } of passed) {
    const window = Math.floor(from / windowMs);
    if (Math.floor(to / windowMs) === window) counts.set(window, (counts.get(window) ?? 0) + 1);
  }
  return [...counts]
    .map(([window, count]) => {
      const from = window * windowMs;
      const lost = losses.filter((loss) => loss.from < from + windowMs && loss.to > from).length;
      return { from, count, lost };
    })
    .filter(({ count, lost }) => count > bound * (1 + lost));
}
