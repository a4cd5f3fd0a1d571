// Slots as a test sees them: in the store, through the API, and held by requests that run.
import { request } from 'node:http';
import { send } from './client.js';
import { ADMIN_TOKEN, until } from './world.js';

/** @typedef {ReturnType<typeof import('./world.js').useWorld>} World */
/** @typedef {import('./world.js').Edge} Edge */
/** @typedef {import('./client.js').Reply} Reply */

/**
 * A concurrency limit of 1 per address whose lease outlasts any wait of a test, so that what is free was freed.
 *
 * @param {string} name
 * @param {Record<string, unknown>} [fields]
 * @returns {Record<string, unknown>}
 */
export function concurrency(name, fields = {}) {
  const usual = { algorithm: 'concurrency', limit: 1, lease: '60s', key: ['ip'], on_store_error: 'closed' };
  return { name, ...usual, ...fields };
}

/**
 * Who holds a slot, read in Redis itself: ids by fence.
 *
 * @param {World} world
 * @param {string} name
 * @param {string} [subject]
 */
export async function holders(world, name, subject = '192.0.2.1') {
  const members = await world.client.zRangeWithScores(`sg:1:${name}:c:${subject}`, 0, -1);
  const now = await storeClock(world);
  const fences = new Map(members.map(({ value, score }) => [value, score]));
  return members
    .filter(({ value, score }) => !value.startsWith(':') && score > now)
    .map(({ value, score }) => ({ id: value, fence: Number(fences.get(`:${value}`)), expires: score }));
}

/** Waits until so many hold. @param {World} world @param {string} name @param {number} count @param {string} [subject] */
export function untilHeld(world, name, count, subject) {
  return until(
    async () => (await holders(world, name, subject)).length === count,
    `${count} holders of ${name} ${subject ?? ''}`,
  );
}

/** @param {World} world @returns {Promise<number>} ms */
export async function storeClock(world) {
  const [seconds, micros] = /** @type {string[]} */ (/** @type {unknown} */ (await world.client.sendCommand(['TIME'])));
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
}

/**
 * A request whose answer's head has come and whose body nobody reads yet.
 *
 * @param {Edge} edge
 * @param {string} path
 * @param {{ method?: string, headers?: Record<string, string>, ip?: string }} [options]
 */
export async function open(edge, path, options) {
  const sent = begin(edge, path, options);
  const response = await sent.head;
  return {
    ...sent,
    response,
    /** Reads it to its end. */
    async whole() {
      const chunks = [];
      for await (const chunk of response) chunks.push(chunk);
      return Buffer.concat(chunks);
    },
  };
}

/**
 * A request of which nothing has come yet.
 *
 * @param {Edge} edge
 * @param {string} path
 * @param {{ method?: string, headers?: Record<string, string>, ip?: string, body?: string }} [options]
 */
export function begin(edge, path, { method = 'GET', headers = {}, ip = '192.0.2.1', body } = {}) {
  const sent = { 'cf-connecting-ip': ip, ...headers };
  const outgoing = request({ hostname: '127.0.0.1', port: edge.port, path, method, agent: false, headers: sent });
  outgoing.on('error', () => {});
  /** @type {Promise<import('node:http').IncomingMessage>} */
  const head = new Promise((resolve, reject) => {
    outgoing.on('response', (response) => {
      response.on('error', () => {});
      resolve(response);
    });
    outgoing.on('error', reject);
  });
  head.catch(() => {});
  outgoing.end(body);
  return {
    head,
    /** The client goes in good order (FIN). */
    leave: () => outgoing.destroy(),
    /** The client's connection breaks (RST); one that ends already Node can neither reset nor forget, and would never exit. */
    reset: () => (outgoing.socket?.writableEnded ? outgoing.destroy() : outgoing.socket?.resetAndDestroy()),
  };
}

/**
 * A handler of the origin's whose answers a test goes on with.
 *
 * @param {World} world
 * @param {string} path
 * @param {(response: import('node:http').ServerResponse) => void} [start] default: a head and one event
 */
export function held(world, path, start = event) {
  /** @type {import('node:http').ServerResponse[]} */
  const responses = [];
  world.origin.handlers.set(path, (response) => {
    responses.push(response);
    start(response);
  });
  return responses;
}

/** @param {import('node:http').ServerResponse} response */
function event(response) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write('data: 1\n\n');
}

/**
 * A caller of the slots API.
 *
 * @param {Edge} edge
 * @param {string} path behind `slots/`
 * @param {string} method
 * @param {unknown} [body]
 * @param {Record<string, string>} [headers]
 * @returns {Promise<Reply>}
 */
export function slots(edge, path, method = 'POST', body = undefined, headers = {}) {
  return send(edge.url, `/.sluicegate/v1/slots/${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN_TOKEN}`, ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
}
