// What a forwarded request that holds slots does beside: it renews them while it runs, and frees them when its answer
// has been delivered to its end, when the client has gone or when the origin has failed.

import { core } from './core.js';

/**
 * @callback Settle
 * @param {() => string} begin a call of the core's that answers the first step
 * @returns {Promise<string>} the kind of the last step
 */

/**
 * Holds slots until it is told that the request is over, and a free that fails is left to the lease.
 *
 * @param {ExecutionContext} ctx
 * @param {string} held `MS NOTE( NOTE)*`: how often to renew, and what the core wants to hear again for each slot
 * @param {Settle} settle
 * @returns {(free: boolean) => void} ends it; with false the slots stay until their lease ends
 */
export function hold(ctx, held, settle) {
  const [every, ...slots] = held.split(' ');
  let notes = slots;
  /** @type {(free: boolean) => void} */
  let over = () => {};
  /** @type {Promise<boolean>} */
  const ended = new Promise((resolve) => {
    over = resolve;
  });
  /** @type {ReturnType<typeof setTimeout> | null} */
  let timer = null;
  let running = true;
  const next = () => {
    timer = running && notes.length > 0 ? setTimeout(renew, Number(every)) : null;
  };
  const renew = async () => {
    const lost = await Promise.all(notes.map((note) => settle(() => core.renew(note, Date.now()))));
    notes = notes.filter((_, index) => lost[index] !== 'lost');
    next();
  };
  next();
  ctx.waitUntil(
    ended.then((free) => {
      running = false;
      clearTimeout(timer);
      if (!free) return;
      return Promise.all(notes.map((note) => settle(() => core.release(note, Date.now()))));
    }),
  );
  return over;
}

/**
 * The origin's answer, its body passed through a pipe of the platform's own, whose promise says when the last byte has
 * been taken or either side was lost. No byte comes into JavaScript, and as the body is carried as it is encoded, none
 * is unpacked; its length stays announced.
 *
 * @param {Response} response fetched with `encodeResponseBody: 'manual'`
 * @param {(free: boolean) => void} over
 * @returns {Response}
 */
export function deliver(response, over) {
  const { body, headers, status, statusText } = response;
  if (body === null) {
    over(true);
    return new Response(null, response);
  }
  const length = headers.get('content-length');
  // A length that is said twice, or beside chunks, promises nothing.
  const fixed = length !== null && /^\d{1,15}$/.test(length) && !headers.has('transfer-encoding');
  const pipe = fixed ? new FixedLengthStream(Number(length)) : new IdentityTransformStream();
  const done = () => over(true);
  body.pipeTo(pipe.writable).then(done, done);
  return new Response(pipe.readable, { status, statusText, headers, encodeBody: 'manual' });
}
