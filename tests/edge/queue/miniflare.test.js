// The same Worker with queues as wrangler.toml sets them up, in the platform's own simulator: its producers, its batches,
// its acknowledgements and its dead-letter queue.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from 'miniflare';
import { COMPATIBILITY_DATE, COMPATIBILITY_FLAGS } from '../../../dev/workerd.js';
import { many, send, statuses } from '../support/client.js';
import { limit, policy, route } from '../support/policy.js';
import { ADMIN_TOKEN, until, useWorld } from '../support/world.js';

const build = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..', 'build');
const world = useWorld();

/** Tells the origin what it is handed, as whoever looks after dead letters would. */
const UNDERTAKER = `export default {
  async queue(batch, env) {
    for (const { body } of batch.messages) {
      await fetch(env.ORIGIN + '/dead', { method: 'POST', body: JSON.stringify([body.id, body.died.status]) });
    }
  },
};`;

test('through the queues of the simulator, down to its dead-letter queue', async () => {
  const hooks = { algorithm: 'token-bucket', limit: 10, window: '1s', burst: 2, key: ['global'] };
  const over_limit = { queue: 'HOOKS', dead_letter: 'LOST', attempts: 2, backoff: '1s' };
  const modules = [
    {
      type: /** @type {const} */ ('ESModule'),
      path: 'index.js',
      contents: readFileSync(join(build, 'index.js'), 'utf8'),
    },
    {
      type: /** @type {const} */ ('CompiledWasm'),
      path: 'index_bg.wasm',
      contents: readFileSync(join(build, 'index_bg.wasm')),
    },
  ];
  const shared = { compatibilityDate: COMPATIBILITY_DATE, compatibilityFlags: COMPATIBILITY_FLAGS };
  const simulator = new Miniflare(
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: 0,
      cf: false,
      log: new Log(LogLevel.ERROR),
      workers: [
        {
          ...shared,
          name: 'gateway',
          modules,
          bindings: {
            UPSTASH_REDIS_REST_URL: world.store.url,
            UPSTASH_REDIS_REST_TOKEN: world.store.token,
            ORIGIN: world.origin.url,
            ADMIN_TOKEN,
            POLICY: policy([limit('hooks', { ...hooks, over_limit })], [route('/hooks', ['hooks'])]),
          },
          queueProducers: { HOOKS: { queueName: 'hooks' }, LOST: { queueName: 'hooks-lost' } },
          queueConsumers: {
            hooks: { maxBatchSize: 10, maxBatchTimeout: 0, maxRetries: 100, deadLetterQueue: 'hooks-lost' },
          },
        },
        {
          ...shared,
          name: 'undertaker',
          modules: true,
          script: UNDERTAKER,
          bindings: { ORIGIN: world.origin.url },
          queueConsumers: { 'hooks-lost': { maxBatchTimeout: 0 } },
        },
      ],
    }),
  );
  try {
    const url = String(await simulator.ready).replace(/\/$/, '');
    /** @type {any[]} */
    const dead = [];
    world.origin.handlers.set('/dead', (response, { body }) => {
      dead.push(JSON.parse(body));
      response.end();
    });
    const isPoison = (/** @type {string} */ body) => body.endsWith('9');
    world.origin.handlers.set('/hooks', (response, { body }) => response.writeHead(isPoison(body) ? 503 : 200).end());
    const replies = await many(40, (index) => send(url, '/hooks', { method: 'POST', body: `${index}` }));
    const { 200: passed = 0, 202: queued = 0, 503: tooBad = 0 } = statuses(replies);
    assert.equal(passed + queued + tooBad, 40);
    const waits = replies.flatMap((reply, index) => (reply.status === 202 ? [{ index, id: reply.json().id }] : []));
    const poison = waits.filter(({ index }) => isPoison(`${index}`)).map(({ id }) => id);
    assert.ok(poison.length > 0 && waits.length > poison.length);
    const ids = waits.map(({ id }) => id);
    const state = async (/** @type {string} */ id) => (await send(url, `/.sluicegate/v1/tasks/${id}`)).json().state;
    for (const id of ids) {
      const over = poison.includes(id) ? 'dead' : 'done';
      await until(async () => (await state(id)) === over, `${id} to be ${over}`, 60_000);
    }
    await until(() => dead.length >= poison.length, 'the dead letters to arrive');
    assert.deepEqual(dead.sort(), poison.map((id) => [id, 503]).sort());
    const seen = world.origin.seen.filter(({ path }) => path === '/hooks');
    assert.equal(new Set(seen.map(({ body }) => body)).size, 40);
    const keys = seen.flatMap(({ headers }) => headers['idempotency-key'] ?? []);
    assert.deepEqual([...new Set(keys)].sort(), ids.sort());
    const authorization = `Bearer ${ADMIN_TOKEN}`;
    await until(async () => {
      const { tasks } = (await send(url, '/.sluicegate/v1/status', { headers: { authorization } })).json();
      const [{ depth, in_hand, dead_letters }] = tasks.queues;
      return depth === 0 && in_hand === 0 && dead_letters === 0;
    }, 'the queues to be empty');
  } finally {
    await simulator.dispose();
  }
});
