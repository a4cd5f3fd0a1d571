// The consumer: requests that waited in a queue, each decided and charged as if it came now, then sent to the origin.
// A message is acknowledged when its request is over, or has been put back: never before.

import { base64url } from 'jose';
import { log, OPEN_MS, put, said } from './accept.js';
import { core } from './core.js';
import { count, give, take } from './queue-numbers.js';

/** @typedef {import('./accept.js').Task} Task */

/**
 * @typedef {object} Delivery one attempt, while the core's steps are followed
 * @property {{ headers: Headers, cf: unknown }} seen what the core sees of the request: as it came
 * @property {string | undefined} payload of its token
 * @property {() => void} admitted called when the request may go to its origin
 * @property {string} later where it may not yet: the core's `ms LF ms LF behind`
 * @property {boolean} own whether the answer is the gateway's
 */

/**
 * @typedef {object} Gate
 * @property {(request: Request, delivery: Delivery) => Promise<Response>} deliver
 * @property {import('./accept.js').Tell} tell
 */

/** How long after its batch has come a request is waited for here; after that it is put back. */
const PATIENCE_MS = 30_000;

/** Longest time for one attempt, head and body. */
export const LONGEST_ATTEMPT_MS = 60_000;

/** Longest delay that a request is put back with, in seconds: it may pass sooner than was thought. */
const LONGEST_DELAY_S = 900;

/** Delay, in seconds, after a fault that is not the request's. */
const AFTER_FAULT_S = 30;

/** Most bytes of an answer's body, and most characters of its fields, that are kept. */
const [KEPT_BODY, KEPT_FIELDS] = [24_576, 8_192];

/** Most subjects whose next moment is known. */
const MOST_LANES = 1_000;

/** When the limit lets the next one through that waits behind others, by whom it waits behind. @type {Map<string, number>} */
const lanes = new Map();

/**
 * Decides messages one after another, in their order, and does not wait for one's origin before it decides the next.
 *
 * @param {MessageBatch} batch
 * @param {Record<string, unknown>} env
 * @param {Gate} gate
 */
export async function consume(batch, env, gate) {
  const until = Date.now() + PATIENCE_MS;
  /** @type {Map<unknown, Promise<void>>} By the task's id: one that came twice is delivered twice only if it has to be. */
  const under = new Map();
  for (const message of /** @type {readonly Message<Task>[]} */ (batch.messages)) {
    const { promise, resolve } = Promise.withResolvers();
    const id = message.body?.id;
    const earlier = under.get(id);
    if (earlier) resolve(0);
    const handled = Promise.resolve(earlier).then(() => handle(message, env, gate, until, resolve));
    under.set(
      id,
      handled.finally(() => resolve(0)),
    );
    await promise;
  }
  await Promise.all(under.values());
}

/**
 * @param {Message<Task>} message
 * @param {Record<string, unknown>} env
 * @param {Gate} gate
 * @param {number} until when patience ends
 * @param {(decided: number) => void} decided
 */
async function handle(message, env, gate, until, decided) {
  const task = message.body;
  if (task?.v !== 1) {
    // Not ours. By its own count of retries the platform puts it among the dead letters.
    log({ event: 'queue-unreadable', attempts: message.attempts });
    message.retry();
    return;
  }
  take(task.options.queue);
  try {
    if ((message.attempts > 1 || task.named) && (await isOver(task, gate))) message.ack();
    else await tried(message, env, gate, until, decided);
  } catch (error) {
    console.error(JSON.stringify({ event: 'fault', said: String(error) }));
    message.retry({ delaySeconds: AFTER_FAULT_S });
  } finally {
    give(task.options.queue);
  }
}

/**
 * Whether a request that may have been here before has its answer already.
 *
 * @param {Task} task
 * @param {Gate} gate
 */
async function isOver(task, gate) {
  const step = await gate.tell(() => core.task(task.id, undefined, false, 0, Date.now()));
  if (!step.startsWith('answer\n200\n')) return false;
  const { state } = JSON.parse(step.slice(step.indexOf('\n\n') + 2));
  return state === 'done';
}

/**
 * @param {Message<Task>} message
 * @param {Record<string, unknown>} env
 * @param {Gate} gate
 * @param {number} until
 * @param {(decided: number) => void} decided
 */
async function tried(message, env, gate, until, decided) {
  const task = message.body;
  const tell = (/** @type {Parameters<typeof said>[1]} */ state, keepMs = OPEN_MS, /** @type {object} */ more = {}) =>
    gate.tell(() => core.task(task.id, said(task, state, { ...more }), false, keepMs, Date.now()));
  const putBack = async (/** @type {number} */ delay, /** @type {Task} */ as = task) => {
    if (await put(env, task.options.queue, as, delay)) message.ack();
    else message.retry({ delaySeconds: delay });
  };
  for (let waited = false; ; waited = true) {
    /** @type {Promise<unknown> | undefined} */
    let told;
    /** @type {Delivery} */
    const delivery = {
      seen: { headers: new Headers(task.headers), cf: task.cf },
      payload: task.payload,
      admitted() {
        decided(0);
        // Not waited for before the origin is asked, but before anything else is said.
        told = tell('running');
      },
      later: '',
      own: false,
    };
    const response = await gate.deliver(requestOf(task), delivery);
    if (delivery.later) {
      const at = moment(delivery.later, waited);
      decided(0);
      if (at > until) {
        await putBack(Math.min(LONGEST_DELAY_S, Math.ceil((at - Date.now()) / 1000)));
        return;
      }
      await scheduler.wait(Math.max(0, at - Date.now()));
      continue;
    }
    if (delivery.own && response.status >= 500) {
      await putBack(AFTER_FAULT_S);
      return;
    }
    const { attempts, backoff_ms, keep_ms, dead_letter } = task.options;
    // What the gateway itself refuses for good is not tried again.
    const status = delivery.own ? 0 : response.status;
    const after = seconds(response.headers.get('retry-after'));
    const answer = await kept(response);
    await told;
    const next = core.task_attempted(status, task.tried + 1, attempts, backoff_ms, after, Math.random());
    if (next !== 0) task.tried += 1;
    if (next > 0) {
      count('retried');
      // First told, then put back: it may be over before this is.
      await tell('queued');
      await putBack(Math.round(next / 1000));
    } else if (next === 0) {
      count('delivered');
      await tell('done', keep_ms, { done_at_ms: Date.now(), answer });
      message.ack();
    } else {
      const died = { at_ms: Date.now(), status: response.status };
      if (await put(env, dead_letter, { ...task, died })) {
        count('dead');
        await tell('dead', keep_ms, { dead_at_ms: died.at_ms, answer });
        message.ack();
      } else message.retry({ delaySeconds: AFTER_FAULT_S });
    }
    return;
  }
}

/**
 * When a request that was refused is tried again. The first time it stands behind those of its subject that wait
 * already; later it is its turn, and somebody else was quicker.
 *
 * @param {string} later
 * @param {boolean} waited
 */
function moment(later, waited) {
  const [ms, each, behind] = later.split('\n');
  const at = Date.now() + Number(ms);
  if (waited || behind === '') return at;
  const mine = Math.max(at, lanes.get(behind) ?? 0);
  if (lanes.size >= MOST_LANES) for (const [lane, next] of lanes) if (next <= Date.now()) lanes.delete(lane);
  if (lanes.size < MOST_LANES || lanes.has(behind)) lanes.set(behind, mine + Number(each));
  return mine;
}

/**
 * The request as it goes to the origin, which knows a repeat by the key.
 *
 * @param {Task} task
 */
function requestOf({ id, method, url, headers, body }) {
  const fields = new Headers(headers);
  if (!fields.has('idempotency-key')) fields.set('idempotency-key', id);
  const bytes = base64url.decode(body);
  return new Request(url, { method, headers: fields, body: bytes.byteLength > 0 ? bytes : null, redirect: 'manual' });
}

/**
 * What is kept of an answer.
 *
 * @param {Response} response
 */
async function kept({ status, headers, body }) {
  let length = 0;
  const fields = [...headers].filter(([name, value]) => {
    length += name.length + value.length;
    return length <= KEPT_FIELDS;
  });
  const pieces = [];
  let read = 0;
  const reader = body?.getReader();
  const late = scheduler.wait(LONGEST_ATTEMPT_MS).then(() => ({ done: true, value: undefined }));
  try {
    for (;;) {
      const { done, value } = (await (reader && Promise.race([reader.read(), late]))) ?? { done: true };
      if (done || value === undefined) break;
      if (read < KEPT_BODY) pieces.push(value.subarray(0, KEPT_BODY - read));
      read += value.byteLength;
    }
  } catch {
    // It was cut short, and its head is the answer all the same.
  }
  reader?.cancel().catch(() => {});
  const bytes = new Uint8Array(await new Blob(pieces).arrayBuffer());
  const truncated = read > KEPT_BODY;
  return { status, headers: fields, ...textOf(bytes), ...(truncated && { truncated }) };
}

/** Text as it is, anything else as base64url. @param {Uint8Array} bytes */
function textOf(bytes) {
  try {
    return { body: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    return { body: base64url.encode(bytes), encoding: 'base64url' };
  }
}

/** @param {string | null} text of a Retry-After in seconds; a date or anything else is 0 */
function seconds(text) {
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : 0;
}
