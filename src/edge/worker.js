// The Worker: does what the core's steps say. All decisions are the core's; the request, its body and every promise
// stay on this side, so nothing of one request outlives it in Wasm memory.

import { accept } from './accept.js';
import { ahead } from './ahead.js';
import { boundedText } from './body.js';
import { analytics, opensAnswers, policyKv, ready, store, verify } from './configured.js';
import { core, life } from './core.js';
import { appendFields, exposeFields, namedFields } from './fields.js';
import { hold } from './hold.js';
import { askLocation } from './location.js';
import { atMoment } from './moment.js';
import { toOrigin } from './origin.js';
import { page } from './page.js';
import { fault, problem } from './problem.js';
import { consume, LONGEST_ATTEMPT_MS } from './queue.js';
import { numbers } from './queue-numbers.js';
import { ask } from './store.js';

export default {
  /**
   * @param {Request} request
   * @param {Record<string, unknown>} env
   * @param {ExecutionContext} ctx
   * @returns {Promise<Response>}
   */
  async fetch(request, env, ctx) {
    try {
      const response = await follow(receive(request, env), request, env, ctx);
      const reading = policyKv?.due(Date.now());
      if (reading) ctx.waitUntil(reading.catch(fault));
      return response;
    } catch (error) {
      return ours(fault(error), request, env);
    }
  },

  /**
   * @param {MessageBatch} batch
   * @param {Record<string, unknown>} env
   * @param {ExecutionContext} ctx
   */
  queue(batch, env, ctx) {
    return consume(batch, env, {
      deliver: (request, delivery) => follow(receiveTask(request, env, delivery), request, env, ctx, { delivery }),
      tell: (begin) => beside(begin, env),
    });
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
 * @param {Request} request
 * @param {Record<string, unknown>} env
 * @param {import('./queue.js').Delivery} delivery
 * @returns {string} the first step
 */
function receiveTask({ method, url }, env, { seen, payload }) {
  ready(env);
  return core.receive_verified(seen, method, url, payload, true, Date.now(), Math.random());
}

/**
 * @typedef {object} Handed what is known of a request that is followed
 * @property {import('./ahead.js').Begun} [begun] the request at the origin, where it is there already
 * @property {boolean} [again] whether it has been handed in before
 * @property {import('./queue.js').Delivery} [delivery] of a request from a queue
 */

/**
 * Follows the core's steps to an answer.
 *
 * @param {string} step
 * @param {Request} request
 * @param {Record<string, unknown>} env
 * @param {ExecutionContext} ctx
 * @param {Handed} [handed]
 * @returns {Promise<Response>}
 */
async function follow(step, request, env, ctx, { begun, again = false, delivery } = {}) {
  // Tickets are good in the life that drew them.
  let began = life;
  // A body can be read once, also by a request that is handed in again.
  /** @type {Promise<string | undefined> | undefined} */
  let text;
  const bodyText = async (/** @type {string} */ longest) => {
    text ??= boundedText(request, Number(longest));
    const body = await text;
    revive();
    return body;
  };
  const revive = () => {
    ready(env);
    began = life;
  };
  /** @type {string | undefined} What the decision API is asked. */
  let question;
  /** @type {string | undefined} Of the request's token. */
  let payload;
  for (;;) {
    if (analytics) analytics(core.take_points());
    const [kind, rest] = cut(step);
    switch (kind) {
      case 'store':
      case 'take': {
        const [ticket, asking] = send(rest);
        if (kind === 'take') ctx.waitUntil(asking);
        const { status, body, retryAfter } = await asking;
        step = began === life ? core.conclude(ticket, status, body, retryAfter, Date.now(), Math.random()) : 'again';
        break;
      }
      case 'ahead': {
        const [origin, behind] = cut(rest);
        const [timeout, call] = cut(behind);
        const where = { origin, timeoutMs: Number(timeout), charge: '' };
        step = `store\n${call}`;
        // One that is handed in again may be there already.
        if (begun?.isFor(where)) break;
        const next = step;
        return ahead(request, where, env, (begun) => follow(next, request, env, ctx, { begun, again, delivery }));
      }
      case 'location': {
        const [ticket, binding, timeout, ...keys] = rest.split('\n');
        const answers = await askLocation(env[binding], keys, Number(timeout));
        step = began === life ? core.conclude_location(Number(ticket), answers, Date.now()) : 'again';
        break;
      }
      case 'forward': {
        const [origin, behind] = cut(rest);
        const [timeout, more] = cut(behind);
        const [held, last] = cut(more);
        const [settling, fields] = cut(last);
        const [charge, ...names] = settling.split(' ');
        const over = held === '' ? undefined : hold(ctx, held, (begin) => beside(begin, env));
        delivery?.admitted();
        const timeoutMs = Number(timeout) || (delivery ? LONGEST_ATTEMPT_MS : 0);
        const forward = { origin, timeoutMs, charge, fields };
        const result =
          begun !== undefined && held === '' && begun.isFor(forward)
            ? await begun.take(fields)
            : await toOrigin(request, forward, env, over);
        if (charge !== '' && result instanceof Response) {
          const said = namedFields(result.headers, names);
          ctx.waitUntil(beside(() => core.settle(charge, said, Date.now()), env));
        }
        return result instanceof Response ? result : answer(core.origin_failed(result), request, fields);
      }
      case 'hold':
        step = await atMoment(rest);
        break;
      case 'body':
        question = await bodyText(rest);
        step = core.check(question, Date.now(), Math.random());
        break;
      case 'again':
        if (again) {
          if (delivery) delivery.own = true;
          return ours(problem(503, 'Interrupted', 'the gateway was restarted; try again'), request, env);
        }
        again = true;
        step = delivery ? receiveTask(request, env, delivery) : receive(request, env);
        began = life;
        break;
      case 'admin-body': {
        const body = await bodyText(rest);
        step = core.admin_body(request, request.method, request.url, body, Date.now());
        break;
      }
      case 'page':
        return page(request.method);
      case 'slots': {
        const body = await bodyText(rest);
        step = core.slots(request.method, request.url, body, Date.now(), Math.random());
        break;
      }
      case 'slot':
        step = await storeCall(rest);
        break;
      case 'wait': {
        const [ms, note] = cut(rest);
        await scheduler.wait(Number(ms));
        revive();
        step = core.slot_again(note, Date.now(), Math.random());
        break;
      }
      case 'verify': {
        const by = verify;
        payload = await by(rest);
        revive();
        // Under another policy than it was verified by, the token is looked at anew.
        if (by !== verify) step = 'again';
        else
          step =
            question === undefined
              ? core.receive_verified(request, request.method, request.url, payload, false, Date.now(), Math.random())
              : core.check_verified(question, payload, Date.now(), Math.random());
        break;
      }
      case 'queue': {
        const [options, refusal] = cut(rest);
        step = await accept(options, refusal, request, payload, env, (begin) => beside(begin, env));
        break;
      }
      case 'depths': {
        const [call, lines] = cut(rest);
        const text = await numbers(call, lines, env);
        revive();
        step = core.admin_body(request, request.method, request.url, text, Date.now());
        break;
      }
      case 'later':
        if (delivery) delivery.later = rest;
        return new Response(null);
      default:
        if (delivery) delivery.own = true;
        return answer(step, request, '');
    }
  }
}

/**
 * Makes a call to the store, when its time has come.
 *
 * @param {string} call `ticket LF timeout LF delay LF body`
 * @returns {[number, ReturnType<typeof ask>]} the ticket, and the reply to come
 */
function send(call) {
  const [ticket, behind] = cut(call);
  const [timeout, more] = cut(behind);
  const [delay, body] = cut(more);
  const { url, headers } = /** @type {import('./configured.js').Store} */ (store);
  const now = () => ask(url, headers, body, Number(timeout));
  return [Number(ticket), delay === '0' ? now() : scheduler.wait(Number(delay)).then(now)];
}

/**
 * A call to the store about one slot, one charge or one task.
 *
 * @param {string} call as {@link send} takes it
 * @param {typeof core.conclude} conclude
 * @returns {Promise<string>} the next step
 */
async function storeCall(call, conclude = core.conclude_slot) {
  // Tickets are good in the life that drew them.
  const began = life;
  const [ticket, asking] = send(call);
  const { status, body, retryAfter } = await asking;
  if (began !== life) return 'again';
  return conclude(ticket, status, body, retryAfter, Date.now(), Math.random());
}

/**
 * Renews or frees a slot, settles a charge, or asks or tells the store of a task, beside the request. Nobody is there to
 * be told of a fault.
 *
 * @param {() => string} begin
 * @param {Record<string, unknown>} env
 * @returns {Promise<string>} the last step
 */
async function beside(begin, env) {
  try {
    ready(env);
    let again = false;
    for (let step = begin(); ; ) {
      const [kind, rest] = cut(step);
      if (kind === 'slot') step = await storeCall(rest);
      else if (kind === 'store') step = await storeCall(rest, core.conclude);
      else if (kind !== 'again' || again) return step;
      else {
        again = true;
        ready(env);
        step = begin();
      }
    }
  } catch (error) {
    fault(error);
    return 'fault';
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
  open(headers, request, lines);
  return new Response(request.method === 'HEAD' ? null : rest.slice(end + 1), { status: Number(status), headers });
}

/**
 * An answer that the core did not make, open to whom its own are.
 *
 * @param {Response} response
 * @param {Request} request
 * @param {Record<string, unknown>} env
 */
function ours(response, request, env) {
  try {
    // Most likely the core has just been started anew, and knows no policy.
    ready(env);
    open(response.headers, request, '');
  } catch {
    // Without a policy it is open to nobody.
  }
  return request.method === 'HEAD' ? new Response(null, response) : response;
}

/**
 * Lets a script of another origin read an answer of ours, where the policy does.
 *
 * @param {Headers} headers
 * @param {Request} request
 * @param {string} lines the fields that it may read
 */
function open(headers, request, lines) {
  if (!opensAnswers) return;
  appendFields(headers, core.cors(request.headers.get('origin') ?? undefined) ?? '');
  if (headers.has('access-control-allow-origin')) exposeFields(headers, lines);
}

/**
 * @param {string} text
 * @returns {[string, string]} what stands before the first line break, and behind it
 */
function cut(text) {
  const at = text.indexOf('\n');
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}
