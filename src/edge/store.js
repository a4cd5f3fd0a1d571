// The call to the store: one fetch under one deadline, built from nothing but the store's own headers.

/** Longest reply that is read, in bytes; a decision's is a few hundred. */
const LONGEST_REPLY = 65_536;

/**
 * @typedef {object} Reply
 * @property {number} status 0 where there is no whole reply
 * @property {string} body the reply, or why there is none: `deadline` or `connection`
 * @property {number} retryAfter seconds that a throttling store asked for; 0 where it did not
 */

/** @type {(body: string) => Reply} */
const none = (body) => ({ status: 0, body, retryAfter: 0 });

/**
 * @param {string} url
 * @param {Record<string, string>} headers
 * @param {string} body the command array
 * @param {number} timeoutMs over connect, headers and body
 * @returns {Promise<Reply>} never rejects
 */
export function ask(url, headers, body, timeoutMs) {
  return new Promise((resolve) => {
    const abort = new AbortController();
    /** @param {Reply} reply */
    const settle = (reply) => {
      clearTimeout(timer);
      resolve(reply);
    };
    const timer = setTimeout(() => {
      resolve(none('deadline'));
      abort.abort();
    }, timeoutMs);
    fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal: abort.signal })
      .then(async (response) => {
        const status = response.status;
        const retryAfter = status === 429 ? seconds(response.headers.get('retry-after')) : 0;
        if (Number(response.headers.get('content-length')) > LONGEST_REPLY) {
          settle({ status, body: '', retryAfter });
          abort.abort();
          return;
        }
        settle({ status, body: await response.text(), retryAfter });
      })
      // What the platform says of a lost connection may name the store's host.
      .catch(() => settle(none('connection')));
  });
}

/**
 * Whole seconds of a Retry-After header; a date or anything else is 0.
 *
 * @param {string | null} text
 */
function seconds(text) {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : 0;
}
