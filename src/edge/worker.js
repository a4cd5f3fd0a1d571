// The Worker: does what the core's steps say. All decisions are the core's; the request, its body and every promise
// stay on this side, so nothing of one request outlives it in Wasm memory.

import { core, life } from './core.js';
import { appendFields } from './fields.js';
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
/** The life of the core that is. */
let configuredLife = life;
/** @type {Store | undefined} */
let store;

export default {
  /**
   * @param {Request} request
   * @param {Record<string, unknown>} env
   * @returns {Promise<Response>}
   */
  async fetch(request, env) {
    try {
      return await follow(receive(request, env), request, env);
    } catch (error) {
      return fault(error);
    }
  },
};

/**
 * @param {Request} request
 * @param {Record<string, unknown>} env
 * @returns {string} the first step
 */
function receive(request, env) {
  ready(env);
  return core.receive(request, request.method, request.url, Date.now(), Math.random());
}

/**
 * Follows the core's steps to an answer.
 *
 * @param {string} step
 * @param {Request} request
 * @param {Record<string, unknown>} env
 * @returns {Promise<Response>}
 */
async function follow(step, request, env) {
  // Tickets are good in the life that drew them.
  let began = life;
  let again = false;
  /** @type {Promise<string | undefined> | undefined} */
  let text;
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
        step =
          began === life
            ? core.conclude(Number(ticket), status, reply.body, retryAfter, Date.now(), Math.random())
            : 'again';
        break;
      }
      case 'location': {
        const [ticket, binding, timeout, ...keys] = rest.split('\n');
        const answers = await askLocation(env[binding], keys, Number(timeout));
        step = began === life ? core.conclude_location(Number(ticket), answers, Date.now()) : 'again';
        break;
      }
      case 'forward': {
        const [origin, behind] = cut(rest);
        const [timeout, fields] = cut(behind);
        const result = await toOrigin(request, { origin, timeoutMs: Number(timeout), fields }, env);
        return result instanceof Response ? result : answer(core.origin_failed(result), request.method, fields);
      }
      case 'body': {
        // A body can be read once, also by a request that is handed in again.
        text ??= boundedText(request, Number(rest));
        const body = await text;
        ready(env);
        began = life;
        step = core.check(body, Date.now(), Math.random());
        break;
      }
      case 'again':
        if (again) return problem(503, 'Interrupted', 'the gateway was restarted; try again');
        again = true;
        step = receive(request, env);
        began = life;
        break;
      default:
        return answer(step, request.method, '');
    }
  }
}

/**
 * @param {string} step `answer LF status LF (name: value LF)* LF body`
 * @param {string} method
 * @param {string} fields to append, a line each
 */
function answer(step, method, fields) {
  const [status, rest] = cut(cut(step)[1]);
  const end = rest.startsWith('\n') ? 0 : rest.indexOf('\n\n') + 1;
  const headers = new Headers();
  appendFields(headers, rest.slice(0, end));
  appendFields(headers, fields);
  return new Response(method === 'HEAD' ? null : rest.slice(end + 1), { status: Number(status), headers });
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
function ready(env) {
  if (configured !== env || configuredLife !== life) configure(env);
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
  configured = env;
  configuredLife = life;
}

/** @param {unknown} value */
function textOf(value) {
  return typeof value === 'string' ? value : undefined;
}

/**
 * A fault of our own. The core has been started anew, so the next request is served; this one is answered.
 *
 * @param {unknown} error
 */
function fault(error) {
  console.error(JSON.stringify({ event: 'fault', said: String(error) }));
  return problem(500, 'Internal error', 'a fault in the gateway');
}

/**
 * @param {number} status
 * @param {string} title
 * @param {string} detail
 */
function problem(status, title, detail) {
  return new Response(JSON.stringify({ type: 'about:blank', title, status, detail }), {
    status,
    headers: { 'content-type': 'application/problem+json', 'cache-control': 'no-store' },
  });
}
