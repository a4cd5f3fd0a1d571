// The platform's own rate limiting binding: a bound per location, asked while the store fails.

/**
 * @typedef {object} Limiter
 * @property {(options: { key: string }) => Promise<{ success: boolean }>} limit
 */

/**
 * Asks once for each key, until one is refused.
 *
 * @param {unknown} binding
 * @param {string[]} keys
 * @param {number} timeoutMs for all of them
 * @returns {Promise<string>} a character for each key asked: `1` let through, `0` refused, `x` no answer
 */
export async function askLocation(binding, keys, timeoutMs) {
  const limiter = /** @type {Limiter | undefined} */ (binding);
  if (typeof limiter?.limit !== 'function') return 'x'.repeat(keys.length);
  const deadline = scheduler.wait(timeoutMs).then(() => 'x');
  let answers = '';
  for (const key of keys) {
    const answer = await Promise.race([one(limiter, key), deadline]);
    answers += answer;
    if (answer === '0') break;
  }
  return answers;
}

/**
 * @param {Limiter} limiter
 * @param {string} key
 */
async function one(limiter, key) {
  try {
    return (await limiter.limit({ key })).success ? '1' : '0';
  } catch {
    return 'x';
  }
}
