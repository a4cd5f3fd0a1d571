// The call to the store: one fetch under one deadline, built from nothing but the store's own headers.

/** Longest reply that is read, in bytes; a decision's is a few hundred. */
const LONGEST_REPLY = 65_536;

/**
 * @typedef {object} Reply
 * @property {number} status 0 where there is no whole reply
 * @property {string} body the reply, or why there is none
 */

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
      resolve({ status: 0, body: 'deadline' });
      abort.abort();
    }, timeoutMs);
    fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal: abort.signal })
      .then(async (response) => {
        if (Number(response.headers.get('content-length')) > LONGEST_REPLY) {
          settle({ status: response.status, body: '' });
          abort.abort();
          return;
        }
        const status = response.status;
        settle({ status, body: await response.text() });
      })
      .catch((error) => settle({ status: 0, body: String(error?.message ?? error) }));
  });
}
