// What a test file runs in: one Redis, one store endpoint and one origin, empty before each test; gateways as tests ask
// for them, each a workerd process and so an isolate of its own.
//
// SLUICEGATE_DIALECT is the `store.dialect` of every policy that says none: `upstash`, or `redis` before an endpoint that
// hands scripts on as they are. Without it the dialect is `auto`, and the endpoint takes either.
import { after, afterEach, before, beforeEach } from 'node:test';
import { createClient } from '@redis/client';
import { startRedis } from '../../../dev/redis.js';
import { startStore } from '../../../dev/store/server.js';
import { startWorkerd } from '../../../dev/workerd.js';
import { send } from './client.js';
import { startOrigin } from './origin.js';
import { limit, policy } from './policy.js';

/** @typedef {import('../../../dev/workerd.js').Gateway} Workerd */
/** @typedef {import('./client.js').Sent} Sent */
/** @typedef {import('./client.js').Reply} Reply */

export const ADMIN_TOKEN = 'admin-token-for-tests';

/** The dialect asked for. */
export const DIALECT = dialectAsked();

function dialectAsked() {
  const dialect = process.env.SLUICEGATE_DIALECT;
  if (!dialect) return undefined;
  if (dialect === 'upstash' || dialect === 'redis') return dialect;
  throw new Error(`SLUICEGATE_DIALECT=${dialect}: upstash or redis is wanted`);
}

/** @param {any} policy @returns {unknown} the same in the dialect asked for, unless it says one */
const spoken = (policy) =>
  DIALECT && typeof policy === 'object' && !Array.isArray(policy)
    ? { ...policy, store: { dialect: DIALECT, ...policy.store } }
    : policy;

/**
 * @typedef {object} Edge a gateway that runs
 * @property {string} url
 * @property {number} port
 * @property {number} pid
 * @property {() => Record<string, any>[]} log its log so far, parsed
 * @property {() => string} logText
 * @property {(event: string, times?: number) => Promise<Record<string, any>[]>} logged waits until the event is in the
 *   log, that often at least: lines arrive after the answers of what wrote them
 * @property {Workerd['deliver']} deliver hands it a batch of a queue's messages
 * @property {() => Promise<void>} stop ends it, as a crash would
 * @property {(path: string, options?: Sent) => Promise<Reply>} send
 * @property {(question: unknown, options?: Sent) => Promise<Reply>} check `POST check`, as admin unless said
 */

/** @param {Workerd} workerd @returns {Edge} */
function edgeOf(workerd) {
  const lines = () => workerd.log().filter((line) => line.startsWith('{'));
  const log = () => lines().map((line) => JSON.parse(line));
  return {
    url: workerd.url,
    port: workerd.port,
    pid: workerd.pid,
    log,
    deliver: workerd.deliver,
    stop: workerd.stop,
    logText: () => workerd.log().join('\n'),
    async logged(event, times = 1) {
      const lines = () => log().filter((line) => line.event === event);
      await until(() => lines().length >= times, `${times} log lines ${event}`);
      return lines();
    },
    send: (path, options) => send(workerd.url, path, options),
    check(question, { headers = {}, ...options } = {}) {
      const body = typeof question === 'string' ? question : JSON.stringify(question);
      const authorized = { authorization: `Bearer ${ADMIN_TOKEN}`, ...headers };
      return send(workerd.url, '/.sluicegate/v1/check', { method: 'POST', body, headers: authorized, ...options });
    },
  };
}

/**
 * Waits for what another process does, and fails after a time that is long for it.
 *
 * @param {() => unknown} true_
 * @param {string} what
 * @param {number} [ms]
 */
export async function until(true_, what, ms = 10_000) {
  const deadline = performance.now() + ms;
  while (!(await true_())) {
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/**
 * @param {object} [options]
 * @param {boolean} [options.scriptKnown] whether Redis knows the script of requests from the first test on, for tests
 *   that count calls: one whose script is unknown is made twice
 */
export function useWorld({ scriptKnown = false } = {}) {
  const world = {
    redis: /** @type {import('../../../dev/redis.js').Redis} */ ({}),
    store: /** @type {import('../../../dev/store/server.js').Store} */ ({}),
    origin: /** @type {import('./origin.js').Origin} */ ({}),
    /** Straight to Redis, past the endpoint. */
    client: /** @type {ReturnType<typeof createClient>} */ ({}),
    /** @type {'up' | 'down'} whether the endpoint has its Redis */
    redisIs: 'up',

    /**
     * A gateway before the store and the origin; it ends with the test.
     *
     * @param {unknown} policy
     * @param {Record<string, unknown>} [vars] bindings beside the usual; undefined takes one away
     * @param {Record<string, string>} [services] service bindings: name to `host:port`
     * @param {import('../../../dev/workerd.js').Options} [options] more of workerd's
     */
    async gateway(policy, vars = {}, services = {}, options = {}) {
      const usual = {
        UPSTASH_REDIS_REST_URL: world.store.url,
        UPSTASH_REDIS_REST_TOKEN: world.store.token,
        ORIGIN: world.origin.url,
        ADMIN_TOKEN,
        POLICY: spoken(policy),
      };
      const set = Object.entries({ ...usual, ...vars }).filter(([, value]) => value !== undefined);
      const workerd = await startWorkerd({ ...options, vars: Object.fromEntries(set), services });
      running.push(workerd);
      return edgeOf(workerd);
    },

    /** @returns {Promise<string[]>} */
    keys: () => world.client.keys('*'),

    /** Calls of each command in Redis since the last reset; of what the script calls, too. */
    async commands() {
      /** @type {Record<string, number>} */
      const calls = {};
      const info = await world.client.info('commandstats');
      for (const [, name, count] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) calls[name] = Number(count);
      for (const own of ['info', 'config', 'config|resetstat']) delete calls[own];
      return calls;
    },

    /** Forgets the counts of {@link commands}. */
    resetCommands: () => world.client.sendCommand(['CONFIG', 'RESETSTAT']),
  };
  /** @type {Workerd[]} */
  let running = [];

  before(async () => {
    world.redis = await startRedis();
    const onRedis = (/** @type {'up' | 'down'} */ state) => {
      world.redisIs = state;
    };
    world.store = await startStore({ redis: world.redis.url, dialect: DIALECT, onRedis });
    world.origin = await startOrigin();
    world.client = createClient({ url: world.redis.url, socket: { reconnectStrategy: () => 10 } });
    world.client.on('error', () => {});
    await world.client.connect();
    if (scriptKnown) await (await world.gateway(policy([limit('a')]))).send('/a');
  });
  beforeEach(async () => {
    world.store.faults.clear();
    await world.client.flushAll();
    world.store.stats.reset();
    world.origin.seen.length = 0;
    world.origin.handlers.clear();
  });
  afterEach(async () => {
    await Promise.all(running.map((workerd) => workerd.stop()));
    running = [];
  });
  after(async () => {
    world.client.destroy();
    await world.store.close();
    await world.origin.close();
    await world.redis.stop();
  });
  return world;
}
