// Queues as the platform has them, in this process, so that they outlive any gateway: a message that was taken is there
// again if it was not acknowledged. Delays are counted and, unless a test wants them, not waited for.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, afterEach, before, beforeEach } from 'node:test';
import { until } from './world.js';

/** @typedef {import('./world.js').Edge} Edge */

/**
 * @typedef {object} Message
 * @property {string} id
 * @property {number} timestamp
 * @property {any} body
 * @property {number} attempts
 */

/** Longest message, in bytes: https://developers.cloudflare.com/queues/platform/limits/ */
const LONGEST = 128_000;

class Queue {
  address = '';
  /** @type {Message[]} Ready, oldest first. */
  ready = [];
  /** @type {Message[]} Taken and not acknowledged yet. */
  taken = [];
  /** Delays asked for, in seconds, in their order. @type {number[]} */
  delays = [];
  /** Messages that came, put back or not. */
  sent = 0;
  /** Batches that a gateway has been handed. */
  batches = 0;
  /** Whether it takes messages. */
  well = true;
  /** Milliseconds that a second of delay takes. */
  second = 0;
  /** Timers of delayed messages. @type {Set<NodeJS.Timeout>} */
  timers = new Set();
  #server = createServer((request, response) => this.#serve(request, response));

  async listen() {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const { port } = /** @type {import('node:net').AddressInfo} */ (this.#server.address());
    this.address = `127.0.0.1:${port}`;
  }

  async close() {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  reset() {
    for (const timer of this.timers) clearTimeout(timer);
    this.timers.clear();
    Object.assign(this, { ready: [], taken: [], delays: [], sent: 0, batches: 0, well: true, second: 0 });
  }

  /** Messages that are not acknowledged, wherever they are. */
  get depth() {
    return this.ready.length + this.taken.length + this.timers.size;
  }

  /** @param {Message} message @param {number} [seconds] */
  put(message, seconds = 0) {
    if (seconds > 0) this.delays.push(seconds);
    const ready = () => this.ready.push(message);
    const ms = seconds * this.second;
    if (ms === 0) return void ready();
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      ready();
    }, ms);
    this.timers.add(timer);
  }

  /** @param {number} most */
  take(most) {
    const batch = this.ready.splice(0, most);
    this.taken.push(...batch);
    return batch;
  }

  /** @param {Message} message */
  done(message) {
    this.taken = this.taken.filter((other) => other !== message);
  }

  /** @param {import('node:http').IncomingMessage} request @param {import('node:http').ServerResponse} response */
  async #serve(request, response) {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const bytes = Buffer.concat(pieces);
    if (request.url?.endsWith('/message')) {
      if (!this.well || bytes.byteLength > LONGEST || request.headers['x-msg-fmt'] !== 'json') {
        response.writeHead(500, 'no').end();
        return;
      }
      this.sent += 1;
      const message = { id: randomBytes(16).toString('hex'), timestamp: Date.now(), body: JSON.parse(String(bytes)) };
      this.put({ ...message, attempts: 0 }, Number(request.headers['x-msg-delay-secs'] ?? 0));
    }
    const oldest = Math.min(...[...this.taken, ...this.ready].map(({ timestamp }) => timestamp));
    const metrics = {
      backlogCount: this.depth,
      backlogBytes: 0,
      oldestMessageTimestamp: Number.isFinite(oldest) ? oldest : 0,
    };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(request.method === 'POST' ? { metadata: { metrics } } : metrics));
  }
}

/** @param {{ retries?: number, batch?: number, consumers?: number }} [options] of the consumer, as wrangler.toml sets them */
export function useQueues({ retries = 100, batch = 10, consumers = 1 } = {}) {
  const queues = {
    work: new Queue(),
    dead: new Queue(),
    /** For `options.queues` of a gateway. @returns {Record<string, string>} */
    get bindings() {
      return { WORK: queues.work.address, WORK_DEAD: queues.dead.address };
    },
    /** The gateway that consumes; while there is none, messages wait. @type {Edge | undefined} */
    consumer: undefined,

    /** Hands messages over until the queue is empty. @param {Edge} edge @param {number} [ms] */
    async drained(edge, ms = 60_000) {
      queues.consumer = edge;
      await until(() => queues.work.depth === 0, 'the queue to be empty', ms);
    },
  };
  const { work, dead } = queues;
  let running = true;
  let test = 0;

  /** One consumer: batch after batch, as long as somebody is there to take them. */
  async function consume() {
    while (running) {
      const edge = queues.consumer;
      const messages = edge ? work.take(batch) : [];
      if (edge === undefined || messages.length === 0) {
        await new Promise((resolve) => setTimeout(resolve, 2));
        continue;
      }
      work.batches += 1;
      const began = test;
      for (const message of messages) message.attempts += 1;
      const result = await edge.deliver('work', messages).catch(() => undefined);
      // What comes back of a gateway that has ended with its test is nobody's.
      for (const message of began === test ? messages : []) {
        work.done(message);
        const acked = result?.explicitAcks.includes(message.id);
        const retried = result?.retryMessages?.find((/** @type {any} */ { msgId }) => msgId === message.id);
        if (acked || (result?.outcome === 'ok' && !retried)) continue;
        if (message.attempts > retries) dead.put(message);
        else work.put(message, retried?.delaySeconds);
      }
    }
  }

  before(async () => {
    await Promise.all([work.listen(), dead.listen()]);
    for (let at = 0; at < consumers; at += 1) consume();
  });
  beforeEach(() => {
    work.reset();
    dead.reset();
  });
  afterEach(() => {
    test += 1;
    queues.consumer = undefined;
  });
  after(async () => {
    running = false;
    await Promise.all([work.close(), dead.close()]);
  });
  return queues;
}
