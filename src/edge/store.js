// The call to the store: one fetch under one deadline, built from nothing but the store's own headers.

/** Longest reply that is read, in bytes; a decision's is a few hundred. */
const LONGEST_REPLY = 65_536;

/**
 * @typedef {object} Reply
 * @property {number} status 0 where there is no whole reply
 * @property {string} body the reply, or why there is none: `deadline`, `connection` or `subrequests`
 * @property {number} retryAfter seconds that a throttling store asked for; 0 where it did not
 */

/**
 * @param {string} url
 * @param {Headers} headers
 * @param {string} body the command array
 * @param {number} timeoutMs over connect, headers and body
 * @returns {Promise<Reply>} never rejects
 */
export async function ask(url, headers, body, timeoutMs) {
  try {
    const signal = AbortSignal.timeout(timeoutMs);
    const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal });
    const status = response.status;
    const retryAfter = status === 429 ? seconds(response.headers.get('retry-after')) : 0;
    if (Number(response.headers.get('content-length')) > LONGEST_REPLY) {
      response.body?.cancel().catch(() => {});
      return { status, body: '', retryAfter };
    }
    return { status, body: await response.text(), retryAfter };
  } catch (error) {
    // What the platform says of a lost connection may name the store's host.
    const late = error instanceof Error && error.name === 'TimeoutError';
    // A request may make so many calls and no more, which says nothing of the store.
    const spent = error instanceof Error && /too many subrequests/i.test(error.message);
    return { status: 0, body: spent ? 'subrequests' : late ? 'deadline' : 'connection', retryAfter: 0 };
  }
}

/**
 * Whole seconds of a Retry-After header; a date or anything else is 0.
 *
 * @param {string | null} text
 */
function seconds(text) {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : 0;
}
