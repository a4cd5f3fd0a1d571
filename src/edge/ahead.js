// Optimistic routes: the request is at the origin already while it is decided.

import { asked, finish } from './origin.js';

/**
 * @typedef {object} Begun
 * @property {(forward: Where) => boolean} isFor whether it was begun there, and so
 * @property {(fields: string) => Promise<Response | 502 | 504>} take the answer, as `toOrigin` gives it
 * @property {() => void} drop ends it and throws away what has come of it, unless it was taken
 */

/** @typedef {import('./origin.js').Where} Where */

/**
 * Begins a request, which has no body, and does meanwhile what decides it. Nobody sees what comes of it, a failure
 * neither, unless it is taken; whatever else the decision comes to, nothing is left of it.
 *
 * @param {Request} request
 * @param {Where} where
 * @param {Record<string, unknown>} env
 * @param {(begun: Begun) => Promise<Response>} decide
 */
export async function ahead(request, where, env, decide) {
  const begun = begin(request, where, env);
  try {
    return await decide(begun);
  } finally {
    begun.drop();
  }
}

/**
 * @param {Request} request
 * @param {Where} where
 * @param {Record<string, unknown>} env
 * @returns {Begun}
 */
function begin(request, where, env) {
  const abort = new AbortController();
  let taken = false;
  const came = asked(request, where, env, undefined, abort, (response) => response);
  return {
    isFor: ({ origin, timeoutMs, charge }) =>
      origin === where.origin && timeoutMs === where.timeoutMs && charge === where.charge,
    async take(fields) {
      taken = true;
      const answer = await came;
      return answer instanceof Response ? finish(answer, fields, request, undefined) : answer;
    },
    drop() {
      // Ends its body too, where the head has come (Fetch standard, "abort a fetch() call").
      if (!taken) abort.abort();
    },
  };
}
