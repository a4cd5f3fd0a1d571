// The Worker: does what the core's steps say. All decisions are the core's; the request, its body and every promise
// stay on this side, so nothing of one request outlives it in Wasm memory.

import { core, restart } from './core.js';
import { appendFields, exposeFields } from './fields.js';
import { askLocation } from './location.js';
import { toOrigin } from './origin.js';
import { ask } from './store.js';

/**
 * @typedef {object} Store
 * @property {string} url
 * @property {Headers} headers
 */

/** @type {Record<string, unknown> | undefined} The bindings that the core is configured for. */
let configured;
/** @type {Store | undefined} */
let store;
/** Whether the policy lets scripts of other origins read answers of ours. */
let opensAnswers = false;

export default {
  /**
   * @param {Request} request
   * @param {Record<string, unknown>} env
   * @returns {Promise<Response>}
   */
  async fetch(request, env) {
    try {
      if (configured !== env) configure(env);
      return await follow(core.receive(request, request.method, request.url, Date.now(), Math.random()), request, env);
    } catch (error) {
      return fault(error);
    }
  },
};

/**
 * Follows the core's steps to an answer.
 *
 * @param {string} step
 * @param {Request} request
 * @param {Record<string, unknown>} env
 * @returns {Promise<Response>}
 */
async function follow(step, request, env) {
  for (;;) {
    const [kind, rest] = cut(step);
    switch (kind) {
      case 'store': {
        const [ticket, behind] = cut(rest);
        const [timeout, more] = cut(behind);
        const [delay, body] = cut(more);
        if (delay !== '0') await scheduler.wait(Number(delay));
        const { url, headers } = /** @type {Store} */ (store);
        const reply = await ask(url, headers, body, Number(timeout));
        const { status, retryAfter } = reply;
        step = core.conclude(Number(ticket), status, reply.body, retryAfter, Date.now(), Math.random());
        break;
      }
      case 'location': {
        const [ticket, binding, timeout, ...keys] = rest.split('\n');
        const answers = await askLocation(env[binding], keys, Number(timeout));
        step = core.conclude_location(Number(ticket), answers, Date.now());
        break;
      }
      case 'forward': {
        const [origin, behind] = cut(rest);
        const [timeout, fields] = cut(behind);
        const result = await toOrigin(request, { origin, timeoutMs: Number(timeout), fields }, env);
        return result instanceof Response ? result : answer(core.origin_failed(result), request, fields);
      }
      case 'body':
        step = core.check(await boundedText(request, Number(rest)), Date.now(), Math.random());
        break;
      default:
        return answer(step, request, '');
    }
  }
}

/**
 * @param {string} step `answer LF status LF (name: value LF)* LF body`
 * @param {Request} request
 * @param {string} fields to append, a line each
 */
function answer(step, request, fields) {
  const [status, rest] = cut(cut(step)[1]);
  const end = rest.startsWith('\n') ? 0 : rest.indexOf('\n\n') + 1;
  const headers = new Headers();
  const lines = rest.slice(0, end) + fields;
  appendFields(headers, lines);
  if (opensAnswers) {
    appendFields(headers, core.cors(request.headers.get('origin') ?? undefined) ?? '');
    if (headers.has('access-control-allow-origin')) exposeFields(headers, lines);
  }
  return new Response(request.method === 'HEAD' ? null : rest.slice(end + 1), { status: Number(status), headers });
}

/**
 * @param {string} text
 * @returns {[string, string]} what stands before the first line break, and behind it
 */
function cut(text) {
  const at = text.indexOf('\n');
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

/**
 * @param {Request} request
 * @param {number} longest in bytes
 * @returns {Promise<string | undefined>} the body, unless it is longer
 */
async function boundedText(request, longest) {
  const length = request.headers.get('content-length');
  // Reading a body piece by piece costs several times what `text()` does, so only one of unknown length is.
  if (length !== null) return Number(length) > longest ? undefined : request.text();
  const decoder = new TextDecoder();
  let text = '';
  let read = 0;
  for await (const chunk of request.body ?? []) {
    read += chunk.byteLength;
    if (read > longest) return undefined;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/** @param {Record<string, unknown>} env */
function configure(env) {
  const url = textOf(env.UPSTASH_REDIS_REST_URL)?.trim();
  const token = textOf(env.UPSTASH_REDIS_REST_TOKEN);
  store = url
    ? { url, headers: new Headers({ authorization: `Bearer ${token ?? ''}`, 'content-type': 'application/json' }) }
    : undefined;
  /** @type {Record<string, string>} */
  const texts = {};
  for (const [name, value] of Object.entries(env)) {
    if (typeof value === 'string' && name !== 'UPSTASH_REDIS_REST_TOKEN') texts[name] = value;
  }
  core.configure(
    JSON.stringify({
      store_url: url,
      has_token: token !== undefined,
      origin: textOf(env.ORIGIN),
      policy: env.POLICY,
      admin_token: textOf(env.ADMIN_TOKEN),
      key_secret: textOf(env.KEY_SECRET),
      texts,
    }),
  );
  opensAnswers = core.cors(undefined) !== undefined;
  configured = env;
}

/** @param {unknown} value */
function textOf(value) {
  return typeof value === 'string' ? value : undefined;
}

/**
 * A fault of our own: the core is started anew, so that the next request is served, and this one is answered.
 *
 * @param {unknown} error
 */
function fault(error) {
  console.error(JSON.stringify({ event: 'fault', said: String(error) }));
  if (error instanceof WebAssembly.RuntimeError) {
    restart();
    configured = undefined;
  }
  const body = JSON.stringify({
    type: 'about:blank',
    title: 'Internal error',
    status: 500,
    detail: 'a fault in the gateway',
  });
  return new Response(body, {
    status: 500,
    headers: { 'content-type': 'application/problem+json', 'cache-control': 'no-store' },
  });
}
