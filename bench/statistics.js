// A few numbers for many.

/** @param {number[]} values */
export function median(values) {
  return percentile(values, 0.5);
}

/**
 * Interpolated, so that the median of an even number is the mean of the middle two.
 *
 * @param {number[]} values
 * @param {number} part 0 to 1
 */
export function percentile(values, part) {
  if (values.length === 0) return Number.NaN;
  const sorted = values.toSorted((a, b) => a - b);
  const at = (sorted.length - 1) * part;
  const below = sorted[Math.floor(at)];
  return below + (sorted[Math.ceil(at)] - below) * (at - Math.floor(at));
}

/** Round by round, so that what slowed a whole round cancels out. @param {number[]} ours @param {number[]} theirs */
export function ratios(ours, theirs) {
  return ours.map((value, round) => value / theirs[round]);
}
