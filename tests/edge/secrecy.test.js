// What leaves the gateway, and where to: nothing of the client's to the store but digests, nothing of the store's to
// anybody.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { startStore } from '../../dev/store/server.js';
import { tiers } from './support/client.js';
import { problem, REDUCED_CAPACITY } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useQueues } from './support/queue.js';
import { startRecorder } from './support/recorder.js';
import { useSettling } from './support/settling.js';
import { ADMIN_TOKEN, useWorld } from './support/world.js';

/** @typedef {import('./support/client.js').Reply} Reply */

const world = useWorld();
const queues = useQueues();
const { settling, charges, untilSettled, told } = useSettling(world);

/** What the client sends, none of which may be seen elsewhere. */
const PRIVATE = {
  'x-tenant': 'private-tenant-value',
  cookie: 'session=private-cookie-value; theme=dark',
  authorization: 'Bearer private-bearer-value',
  'x-forwarded-for': '198.51.100.77',
  'x-api-key': 'private-key-value',
  'user-agent': 'private-agent-value',
  referer: 'http://private-referer-value.test/',
};
const PRIVATE_QUERY = 'token=private-query-value';
const SENT = [/private-[a-z]+-value/, /198\.51\.100\.77/];

const everyPart = limit('every-part', {
  key: ['header:x-tenant', 'cookie:session', 'query:token', 'header:authorization', 'param:id'],
});
const byClient = policy([everyPart], [route('/of/{id}', ['every-part'])]);
const path = `/of/private-param-value?${PRIVATE_QUERY}`;

describe('what the store is sent', () => {
  /** @type {Awaited<ReturnType<typeof startRecorder>>} */
  let recorder;
  before(async () => {
    recorder = await startRecorder();
  });
  after(() => recorder.close());

  test('one POST with the store’s own headers, none of the client’s, and one array of strings', async () => {
    // FIELD-REPORTS B09, and "outgoing store call never carries client headers".
    const vars = { UPSTASH_REDIS_REST_URL: recorder.url, UPSTASH_REDIS_REST_TOKEN: 'store-token' };
    const edge = await world.gateway(byClient, vars);
    const reply = await edge.send(path, { method: 'PUT', body: 'private-body-value', headers: PRIVATE });
    assert.equal(reply.headers['sluicegate-tier'], 'store');
    assert.equal(recorder.requests.length, 1);
    const [{ method, path: asked, headers, body }] = recorder.requests;
    assert.deepEqual([method, asked], ['POST', '/']);
    assert.equal(headers.authorization, 'Bearer store-token');
    const known = ['authorization', 'content-type', 'content-length', 'host', 'connection'];
    assert.deepEqual(
      Object.keys(headers).filter((name) => !known.includes(name)),
      [],
    );
    for (const text of SENT) assert.doesNotMatch(JSON.stringify(headers) + body, text);
    const command = JSON.parse(body);
    assert.ok(Array.isArray(command) && command.every((argument) => typeof argument === 'string'));
    assert.deepEqual([command[0], command[2]], ['EVALSHA', '2']);
    for (const key of command.slice(3, 5)) assert.match(key, /^sg:1:every-part:[^:]+:[\w-]{20}$/);
  });
});

describe('what is kept and said of a client', () => {
  test('no key and no log line holds a header, a cookie, a query value or a path parameter', async () => {
    const edge = await world.gateway(byClient);
    const replies = [];
    for (let sent = 0; sent < 5; sent += 1) replies.push(await edge.send(path, { headers: PRIVATE }));
    world.store.faults.always(FAULTS.html502);
    replies.push(await edge.send(path, { headers: { ...PRIVATE, 'x-tenant': 'private-other-value' } }));
    assert.deepEqual(tiers(replies), { store: 4, cache: 1, closed: 1 });
    await edge.logged('store-failing');
    const keys = await world.keys();
    assert.equal(keys.length, 1);
    assert.match(keys[0], /^sg:1:every-part:f(1d|17h):[\w-]{20}$/);
    for (const text of SENT) {
      assert.doesNotMatch(keys.join('\n'), text);
      assert.doesNotMatch(edge.logText(), text);
      for (const reply of replies.filter(({ status }) => status !== 200)) assert.doesNotMatch(reply.text, text);
    }
  });

  test('nor does any answer that says what is wrong with a request', async () => {
    // 400, 414, 422, 431, 404 and 508, and what CORS lets a script read.
    const limits = [
      limit('keyed', { limit: 9, key: ['header:x-tenant', 'cookie:session'] }),
      limit('costed', { limit: 9, cost: { header: 'x-cost', max: 5 }, idempotency: 'header:idempotency-key' }),
    ];
    const routes = [route('/keyed', ['keyed']), route('/costed', ['costed'])];
    const gateway = { unmatched: 'deny', cors: ['https://app.example.com'] };
    const edge = await world.gateway(policy(limits, routes, { gateway }));
    const long = 'private-long-value'.repeat(1000);
    const headers = { ...PRIVATE, origin: 'https://private-origin-value.test' };
    const key = { 'idempotency-key': 'private-repeat-value' };
    const asked = /** @type {[number, string, Record<string, string>][]} */ ([
      [400, `/keyed?${PRIVATE_QUERY}`, { ...headers, cookie: '' }],
      [400, '/costed', { ...headers, 'x-cost': 'private-cost-value' }],
      [400, '/costed', { ...headers, host: 'private-host-value?' }],
      [404, '/private-path-value', headers],
      [414, `/${long}`, headers],
      [431, '/keyed', { ...headers, 'x-tenant': long }],
      [431, '/keyed', { ...headers, cookie: `session=${long}` }],
      [431, '/costed', { ...headers, 'idempotency-key': long }],
      [200, '/costed', { ...headers, ...key }],
      [422, '/costed', { ...headers, ...key, 'x-cost': '2' }],
      [508, '/keyed', { ...headers, via: '1.1 sluicegate' }],
    ]);
    for (const [status, path, sent] of asked) {
      const reply = await edge.send(path, { headers: sent });
      assert.equal(reply.status, status, path.slice(0, 30));
      const shown = JSON.stringify(reply.headers) + (status === 200 ? '' : reply.text);
      for (const text of [...SENT, /192\.0\.2\.1/, /sg:1:/, /redis\.call/]) assert.doesNotMatch(shown, text);
    }
    for (const text of SENT) assert.doesNotMatch(edge.logText(), text);
  });

  test('nor does the store or the log of a request that waits in a queue, or dies there', async () => {
    const over_limit = { queue: 'WORK', attempts: 1, backoff: '1s' };
    const hooks = limit('hooks', { limit: 2, key: everyPart.key, over_limit });
    const text = policy([hooks], [route('/of/{id}', ['hooks'])], { store: { remember: '0s' } });
    const edge = await world.gateway(text, { KEY_SECRET: 'private-secret-value' }, {}, { queues: queues.bindings });
    const sent = { method: 'POST', body: 'private-body-value', headers: PRIVATE };
    const said = [];
    /** @param {import('./support/client.js').Reply} reply */
    const heard = (reply) => said.push(JSON.stringify(reply.headers) + (reply.status === 200 ? '' : reply.text));
    for (let index = 0; index < 2; index += 1) heard(await edge.send(path, sent));
    const repeated = { ...sent, headers: { ...PRIVATE, 'idempotency-key': 'private-repeat-value' } };
    const accepted = [await edge.send(path, sent), await edge.send(path, repeated)];
    assert.deepEqual(
      accepted.map(({ status }) => status),
      [202, 202],
    );
    accepted.forEach(heard);
    const tasks = async () => {
      for (const reply of accepted) {
        const task = await edge.send(String(reply.headers.location));
        said.push(JSON.stringify(task.headers) + task.text);
      }
    };
    await tasks();
    // Whatever it comes to: put back, then refused by the origin for good.
    world.origin.handlers.set('/of/private-param-value', (response) => response.writeHead(503).end('no'));
    await world.client.flushAll();
    await queues.drained(edge);
    await tasks();
    queues.work.well = false;
    heard(await edge.send(path, sent));
    await edge.logged('queue-failing');
    const keys = await world.keys();
    assert.ok(
      keys.some((key) => key.includes('task')),
      keys.join(' '),
    );
    for (const key of keys) {
      const value = (await world.client.type(key)) === 'string' ? await world.client.get(key) : '';
      said.push(`${key} ${value}`);
    }
    for (const shown of [...said, edge.logText()]) for (const text of SENT) assert.doesNotMatch(shown, text);
  });

  test('nor does what is said of a charge, whose id only the origin is told', async () => {
    const key = everyPart.key;
    const text = { ...settling({ key }), routes: [route('/of/{id}', ['tokens'])] };
    const edge = await world.gateway(text);
    const own = { ...PRIVATE, 'sluicegate-charge': 'private-charge-value' };
    const answers = { 200: '150', 201: 'private-usage-value' };
    const replies = [];
    for (const [status, used] of Object.entries(answers)) {
      world.origin.handlers.set('/of/private-param-value', (response) =>
        response.writeHead(Number(status), { 'x-usage-tokens': used }).end('answer'),
      );
      replies.push(await edge.send(path, { headers: own }));
    }
    await untilSettled(edge, 1);
    await edge.logged('unreadable-cost');
    const [charge] = charges();
    assert.match(charge, /^[\w,-]{40,}$/);
    replies.push(await told(edge, 'private-charge-value', 1), await told(edge, charge, 'private-used-value'));
    const [first, second, ...api] = replies;
    assert.deepEqual(
      [first.status, second.status, second.headers['x-usage-tokens']],
      [200, 201, 'private-usage-value'],
    );
    delete second.headers['x-usage-tokens'];
    const keys = await world.keys();
    for (const shown of [...[first, second, ...api].map(({ headers, text }) => JSON.stringify(headers) + text)]) {
      for (const id of charges()) assert.ok(!shown.includes(id), shown);
      for (const text of SENT) assert.doesNotMatch(shown, text);
    }
    for (const shown of [edge.logText(), ...keys]) {
      for (const text of SENT) assert.doesNotMatch(shown, text);
    }
    for (const id of charges()) assert.ok(!edge.logText().includes(id), 'a charge is in the log');
  });

  test('KEY_SECRET changes the digests', async () => {
    const one = await world.gateway(byClient);
    const other = await world.gateway(byClient, { KEY_SECRET: 'a secret' });
    await one.send(path, { headers: PRIVATE });
    await other.send(path, { headers: PRIVATE });
    assert.equal((await world.keys()).length, 2);
  });

  test('a refusal is logged with its route, limit, digest, cost, tier, reason and wait', async () => {
    const edge = await world.gateway(byClient);
    for (let sent = 0; sent < 4; sent += 1) await edge.send(path, { headers: PRIVATE });
    const [{ subject, retry_after, ...line }] = await edge.logged('refused');
    assert.match(subject, /^[\w-]{20}$/);
    assert.ok(retry_after > 0);
    const said = { route: '_of__id_', limit: 'every-part', cost: 1, tier: 'store', reason: 'quota-exceeded' };
    assert.deepEqual(line, { event: 'refused', ...said });
  });

  test('an address is logged as a digest too', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 1 })]));
    for (let sent = 0; sent < 2; sent += 1) await edge.send('/a', { ip: '192.0.2.199' });
    const [{ subject }] = await edge.logged('refused');
    assert.match(subject, /^[\w-]{20}$/);
    assert.ok(!edge.logText().includes('192.0.2.199'));
  });
});

describe('the store’s secrets', () => {
  const TOKEN = 'a-very-secret-store-token';
  const HIDDEN = [TOKEN, ADMIN_TOKEN, 'evalsha', 'EVALSHA', 'redis.call', 'sg:1:'];
  const kinds = /** @type {const} */ (['open', 'closed', 'degraded']);
  const byKind = policy(
    kinds.map((kind) => limit(kind, { limit: 20, on_store_error: kind })),
    kinds.map((kind) => route(`/${kind}`, [kind])),
  );

  /** @param {import('./support/world.js').Edge} edge @param {string[]} hidden */
  async function showsNothing(edge, hidden) {
    const replies = [];
    for (const kind of kinds) {
      for (let sent = 0; sent < 4; sent += 1) replies.push(await edge.send(`/${kind}`));
    }
    replies.push(
      await edge.send('/.sluicegate/health'),
      await edge.check({ limits: ['closed'], subject: { ip: '::1' } }),
    );
    await edge.logged('store-failing');
    const texts = [edge.logText(), ...replies.map((reply) => JSON.stringify(reply.headers) + reply.text)];
    for (const secret of hidden) {
      for (const text of texts) assert.ok(!text.includes(secret), `${secret} is shown: ${text}`);
    }
    return replies;
  }

  for (const [what, token] of /** @type {const} */ ([
    ['wrong', 'another-wrong-token'],
    ['missing', undefined],
    ['in two lines, which no header holds,', 'one-half-of-it\nthe-other-half'],
  ])) {
    test(`a token that is ${what}: the policy decides, and neither token nor URL is shown`, async () => {
      const store = await startStore({ redis: world.redis.url, token: TOKEN });
      try {
        const vars = { UPSTASH_REDIS_REST_URL: store.url, UPSTASH_REDIS_REST_TOKEN: token };
        const edge = await world.gateway(byKind, vars);
        const replies = await showsNothing(edge, [
          ...HIDDEN,
          ...String(token).split('\n'),
          store.url,
          `:${store.port}`,
        ]);
        assert.deepEqual(tiers(replies.slice(0, 12)), { open: 4, closed: 4, degraded: 4 });
        assert.equal(problem(replies[4], 503).type, REDUCED_CAPACITY);
        assert.equal((await edge.logged('store-failing'))[0].reason, 'misconfigured');
        assert.deepEqual(await world.keys(), []);
      } finally {
        await store.close();
      }
    });
  }

  test('a store that is away: its URL is not shown', async () => {
    const away = 'http://user-of-the-store:pass-of-the-store@127.0.0.1:9/base-of-the-store';
    const edge = await world.gateway(byKind, { UPSTASH_REDIS_REST_URL: away, UPSTASH_REDIS_REST_TOKEN: TOKEN });
    await showsNothing(edge, [...HIDDEN, 'of-the-store', '127.0.0.1:9']);
  });

  test('a store that repeats its token, its URL and a key in its error', async () => {
    const store = await startStore({ redis: world.redis.url, token: TOKEN });
    try {
      store.faults.always(FAULTS.error(`ERR ${store.url} does not take ${TOKEN} for sg:1:open:f24h:192.0.2.1`));
      const vars = { UPSTASH_REDIS_REST_URL: store.url, UPSTASH_REDIS_REST_TOKEN: TOKEN };
      const edge = await world.gateway(byKind, vars);
      await showsNothing(edge, [TOKEN, store.url, 'sg:1:']);
    } finally {
      await store.close();
    }
  });
});
