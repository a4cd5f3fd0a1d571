// Numbers as people read them, always with their unit.

const NUMBER = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const UNITS = /** @type {const} */ ([
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
]);

/** @param {number} number */
export const count = (number) => NUMBER.format(number);

/** `1 request`, `2 requests`. @param {number} number @param {string} what */
export const counted = (number, what) => `${count(number)} ${what}${number === 1 ? '' : 's'}`;

/** A duration in its two largest units, rounded up to the last. @param {number} ms */
export function duration(ms) {
  if (ms < 1000) return `${count(ms)} ms`;
  const at = UNITS.findIndex(([, length]) => ms >= length);
  const [unit, length] = UNITS[at];
  const finer = UNITS[at + 1];
  if (!finer) return `${ms < 10_000 ? count(Math.ceil(ms / 100) / 10) : Math.ceil(ms / 1000)} ${unit}`;
  const rounded = Math.ceil(ms / finer[1]) * finer[1];
  const [whole, rest] = [Math.floor(rounded / length), (rounded % length) / finer[1]];
  return rest ? `${whole} ${unit} ${rest} ${finer[0]}` : `${whole} ${unit}`;
}

/** A moment on this machine's clock. @param {number} ms since 1970 */
export const moment = (ms) => new Date(ms).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/** The time of day. @param {number} ms since 1970 */
export const clock = (ms) => new Date(ms).toLocaleTimeString('en-GB');
