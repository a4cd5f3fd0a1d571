// A request over its limit, put on a queue: what the message holds, and the answer that tells where to ask for it.
// Whatever keeps it from being queued, it gets the refusal instead: 202 is said only of what the queue has confirmed.

import { base64url } from 'jose';
import { boundedBytes } from './body.js';
import { core } from './core.js';
import { stripHopByHop, stripOwn } from './origin.js';
import { count } from './queue-numbers.js';

/**
 * @typedef {object} Options of the limit, as the core says them
 * @property {string} queue name of the binding
 * @property {string} dead_letter name of the binding
 * @property {string} limit
 * @property {number} max_body in bytes
 * @property {number} max_depth
 * @property {number} attempts
 * @property {number} backoff_ms
 * @property {number} keep_ms
 */

/**
 * @typedef {object} Task a message of the queue
 * @property {1} v
 * @property {string} id
 * @property {Options} options as they were when it was accepted
 * @property {number} accepted_ms
 * @property {number} tried attempts so far that failed
 * @property {boolean} named whether the client named the request, so that it may have been here before
 * @property {string} method
 * @property {string} url
 * @property {[string, string][]} headers
 * @property {string} body base64url
 * @property {{ country?: unknown, asn?: unknown }} cf
 * @property {string} [payload] of its token, which was verified
 * @property {{ at_ms: number, status: number }} [died] of a dead letter: when, and the status of the last attempt
 */

/** Tells the store of a task. @typedef {(begin: () => string) => Promise<string>} Tell */

/** Longest message, in bytes: the queue's 128,000 less what it adds itself. */
const LONGEST_MESSAGE = 127_500;

/** How long the store remembers a task that is not over, in ms: as long as a queue keeps a message unless told otherwise. */
export const OPEN_MS = 345_600_000;

/** Where tasks are. */
const TASKS = '/.sluicegate/v1/tasks/';

/** Fields about a body that is read, and of what the platform does for itself. */
const OF_THE_BODY = ['content-length', 'transfer-encoding', 'expect'];

/** Fields that differ from one sending of a request to the next, and say nothing of whose it is. */
const OF_THE_SENDING = /^(?:cf-.*|date|traceparent|tracestate|x-forwarded-.*|x-real-ip|x-request-id)$/;

/** How long what a queue said of its depth is believed, in ms. */
const BELIEVED_MS = 1_000;

/** What queues said of themselves, by their bindings. @type {Map<string, { depth: number, at: number }>} */
const depths = new Map();

/** Bindings whose last message was not taken. @type {Set<string>} */
const failing = new Set();

/**
 * @param {string} options {@link Options} as JSON
 * @param {string} refusal the core's step
 * @param {Request} request
 * @param {string | undefined} payload of its token
 * @param {Record<string, unknown>} env
 * @param {Tell} tell
 * @returns {Promise<string>} the step that answers
 */
export async function accept(options, refusal, request, payload, env, tell) {
  /** @type {Options} */
  const limit = JSON.parse(options);
  if (isFull(limit.queue, limit.max_depth)) return refusal;
  const body = await queueable(request, limit.max_body);
  if (body === undefined) return refusal;
  const task = await taskOf(limit, request, body, payload, env);
  // Measured as it is sent.
  if (new TextEncoder().encode(JSON.stringify(task)).byteLength > LONGEST_MESSAGE) return refusal;
  if (!(await put(env, limit.queue, task))) return refusal;
  count('accepted');
  await tell(() => core.task(task.id, said(task, 'queued'), true, OPEN_MS, Date.now()));
  const [status_path, status_url] = [TASKS + task.id, new URL(TASKS + task.id, request.url).href];
  const head = refusal.slice(refusal.indexOf('\n', 'answer\n'.length) + 1, refusal.indexOf('\n\n') + 1);
  const fields = head.replace(/^Content-Type: .*\n/m, `Content-Type: application/json\nLocation: ${status_path}\n`);
  return `answer\n202\n${fields}\n${JSON.stringify({ id: task.id, status_url, state: 'queued' })}`;
}

/**
 * Sends a message, and says once when a queue begins to fail and once when it is well again.
 *
 * @param {Record<string, unknown>} env
 * @param {string} binding
 * @param {Task} task
 * @param {number} [delaySeconds]
 * @returns {Promise<boolean>} whether the queue has it
 */
export async function put(env, binding, task, delaySeconds) {
  const queue = /** @type {Queue<Task> | undefined} */ (env[binding]);
  try {
    if (!queue) throw new TypeError('not bound');
    const sent = await queue.send(task, { contentType: 'json', ...(delaySeconds !== undefined && { delaySeconds }) });
    depths.set(binding, { depth: sent?.metadata?.metrics?.backlogCount ?? 0, at: Date.now() });
  } catch (error) {
    // Of what the platform says no more than its kind: a message may quote what was sent.
    if (!failing.has(binding)) log({ event: 'queue-failing', binding, said: /** @type {Error} */ (error)?.name });
    failing.add(binding);
    return false;
  }
  if (failing.delete(binding)) log({ event: 'queue-recovered', binding });
  return true;
}

/**
 * Whether a queue was full when it was last heard of. What is older than a moment is not believed, so that one that is
 * empty again is heard of.
 *
 * @param {string} binding
 * @param {number} most
 */
function isFull(binding, most) {
  const known = depths.get(binding);
  return known !== undefined && known.depth >= most && Date.now() - known.at < BELIEVED_MS;
}

/**
 * What the store is told of a task, which is what its status URL says.
 *
 * @param {Task} task
 * @param {'queued' | 'running' | 'done' | 'dead'} state
 * @param {Record<string, unknown>} [more]
 */
export function said(task, state, more) {
  const { id, accepted_ms, tried } = task;
  return JSON.stringify({ id, state, accepted_at_ms: accepted_ms, failed_attempts: tried, ...more });
}

/** @param {Record<string, unknown>} line */
export function log(line) {
  console.log(JSON.stringify(line));
}

/**
 * @param {Options} options
 * @param {Request} request
 * @param {Uint8Array} bytes
 * @param {string | undefined} payload
 * @param {Record<string, unknown>} env
 * @returns {Promise<Task>}
 */
async function taskOf(options, request, bytes, payload, env) {
  const fields = new Headers(request.headers);
  stripHopByHop(fields);
  stripOwn(fields, request);
  for (const name of OF_THE_BODY) fields.delete(name);
  const { method, url, cf } = request;
  const headers = [...fields];
  const body = base64url.encode(bytes);
  const named = fields.has('idempotency-key') && typeof env.KEY_SECRET === 'string' && env.KEY_SECRET !== '';
  const whose = () => headers.filter(([name]) => !OF_THE_SENDING.test(name));
  const id = named
    ? await digest(String(env.KEY_SECRET), JSON.stringify([options.limit, method, url, whose(), body]))
    : crypto.getRandomValues(new Uint8Array(18));
  return {
    v: 1,
    id: base64url.encode(id.subarray(0, 18)),
    options,
    accepted_ms: Date.now(),
    tried: 0,
    named,
    method,
    url,
    headers,
    body,
    cf: { country: cf?.country, asn: cf?.asn },
    ...(payload !== undefined && { payload }),
  };
}

/**
 * @param {string} secret
 * @param {string} text
 */
async function digest(secret, text) {
  const bytes = (/** @type {string} */ of) => new TextEncoder().encode(of);
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const key = await crypto.subtle.importKey('raw', bytes(secret), algorithm, false, ['sign']);
  return new Uint8Array(await crypto.subtle.sign('HMAC', key, bytes(`task\n${text}`)));
}

/**
 * @param {Request} request
 * @param {number} longest in bytes
 * @returns {Promise<Uint8Array | undefined>} its body; undefined where this request cannot be queued
 */
async function queueable(request, longest) {
  const { method, headers } = request;
  if (headers.has('upgrade') || Number(headers.get('content-length')) > longest) return undefined;
  const bytes = await boundedBytes(request, longest);
  // What is made anew of a GET or HEAD has no body.
  const lost = bytes !== undefined && bytes.byteLength > 0 && (method === 'GET' || method === 'HEAD');
  return lost ? undefined : bytes;
}
