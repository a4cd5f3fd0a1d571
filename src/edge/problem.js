// Answers to faults of our own; all others are the core's.

/**
 * A fault of our own. The core has been started anew, so the next request is served; this one is answered.
 *
 * @param {unknown} error
 */
export function fault(error) {
  console.error(JSON.stringify({ event: 'fault', said: String(error) }));
  return problem(500, 'Internal error', 'a fault in the gateway');
}

/**
 * @param {number} status
 * @param {string} title
 * @param {string} detail
 */
export function problem(status, title, detail) {
  return new Response(JSON.stringify({ type: 'about:blank', title, status, detail }), {
    status,
    headers: { 'content-type': 'application/problem+json', 'cache-control': 'no-store' },
  });
}
