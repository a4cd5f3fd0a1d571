// A fault carried out on one exchange.
import { NOSCRIPT } from './faults.js';
import { errorBody } from './protocol.js';

/** @typedef {import('./protocol.js').Answer} Answer */
/** @typedef {import('node:http').ServerResponse} ServerResponse */

/**
 * @typedef {object} Exchange
 * @property {ServerResponse} res
 * @property {import('./protocol.js').Parsed} request
 * @property {(options?: { asSent?: boolean }) => Promise<Answer>} run
 * @property {Timers} timers
 */

/**
 * Timers that neither keep the process alive nor outlive close().
 * @typedef {{ after: (ms: number) => Promise<void>, close: () => void }} Timers
 */

/** @returns {Timers} */
export function createTimers() {
  /** @type {Set<NodeJS.Timeout>} */
  const running = new Set();
  return {
    after: (ms) =>
      new Promise((resolve) => {
        const timer = setTimeout(() => {
          running.delete(timer);
          resolve();
        }, ms).unref();
        running.add(timer);
      }),
    close() {
      for (const timer of running) clearTimeout(timer);
      running.clear();
    },
  };
}

/** @param {ServerResponse} res @param {Answer} answer */
export function sendHeaders(res, { status, body }) {
  return res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
}

/** @param {ServerResponse} res @param {Answer} answer */
export function send(res, answer) {
  sendHeaders(res, answer).end(answer.body);
}

/** @param {import('./faults.js').Fault} fault @param {Exchange} exchange */
export async function inject(fault, { res, request, run, timers }) {
  switch (fault.kind) {
    case 'delay': {
      const early = fault.apply ? await run() : undefined;
      await timers.after(fault.ms ?? 0);
      return send(res, early ?? (await run()));
    }
    case 'hold':
      await fault.until;
      return send(res, await run());
    case 'stall':
      if (fault.apply) await run();
      return;
    case 'stall-after-headers':
      sendHeaders(res, await run()).flushHeaders();
      return;
    case 'drip':
      return drip(res, await run(), fault.everyMs ?? 5, timers);
    case 'reset-before':
      return reset(res);
    case 'reset-after':
      await run();
      return reset(res);
    case 'cut':
      return cut(res, await run());
    case 'reply':
      if (fault.apply) await run();
      return reply(res, fault);
    case 'noscript':
      return send(res, noscript(request));
    case 'plain-redis':
      return send(res, await run({ asSent: true }));
    default:
      throw new Error(`unknown fault kind ${JSON.stringify(fault.kind)}`);
  }
}

/** @param {ServerResponse} res */
function reset(res) {
  res.socket?.resetAndDestroy();
}

/** @param {ServerResponse} res @param {Answer} answer */
function cut(res, answer) {
  const half = Buffer.from(answer.body).subarray(0, Buffer.byteLength(answer.body) >> 1);
  // Ends the connection in good order, so that what arrives is a body shorter than announced and not a reset.
  sendHeaders(res, answer).write(half, () => res.socket?.destroySoon());
}

/** @param {ServerResponse} res @param {Answer} answer @param {number} everyMs @param {Timers} timers */
async function drip(res, answer, everyMs, timers) {
  sendHeaders(res, answer).flushHeaders();
  for (const byte of Buffer.from(answer.body)) {
    await timers.after(everyMs);
    if (res.destroyed) return;
    res.write(Buffer.of(byte));
  }
  res.end();
}

/** @param {ServerResponse} res @param {import('./faults.js').Fault} fault */
function reply(res, { status = 200, headers = {}, body = '', chunked = false }) {
  res.setHeader('Content-Type', 'application/json');
  if (!chunked) res.setHeader('Content-Length', Buffer.byteLength(body));
  else res.setHeader('Transfer-Encoding', 'chunked');
  res.writeHead(status, headers).end(body);
}

/** @param {import('./protocol.js').Parsed} request @returns {Answer} */
function noscript({ form, commands }) {
  const body = errorBody(NOSCRIPT);
  if (form !== 'pipeline') return { status: 400, body };
  return { status: 200, body: `[${commands.map(() => body).join(',')}]` };
}
