// What the bindings make of a gateway: no store, a wrong policy, an origin of one kind or another.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { many, statuses, tiers } from './support/client.js';
import { left, problem } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();

describe('without a store', () => {
  const NO_STORE = { UPSTASH_REDIS_REST_URL: undefined, UPSTASH_REDIS_REST_TOKEN: undefined };

  for (const algorithm of ['fixed-window', 'sliding-window', 'sliding-log', 'token-bucket']) {
    test(`${algorithm}: exact inside the isolate`, async () => {
      const fields = algorithm === 'token-bucket' ? { limit: 1, burst: 20, window: '1d' } : { limit: 20 };
      const edge = await world.gateway(policy([limit('a', { algorithm, ...fields })]), NO_STORE);
      const replies = await many(60, () => edge.send('/a'));
      assert.deepEqual([statuses(replies), tiers(replies)], [{ 200: 20, 429: 40 }, { isolate: 60 }]);
      assert.deepEqual(statuses(await many(30, () => edge.send('/a', { ip: '192.0.2.2' }))), { 200: 20, 429: 10 });
    });
  }

  test('all or nothing here too', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 10 }), limit('b', { limit: 30 })]), NO_STORE);
    assert.deepEqual(statuses(await many(31, () => edge.send('/a'))), { 200: 10, 429: 21 });
    const { limits } = (await edge.check({ limits: ['b'], subject: { ip: '192.0.2.1' }, cost: 0 })).json();
    assert.equal(limits[0].remaining, 20);
  });

  test('the log says so, once', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 1000 })]), NO_STORE);
    await many(100, () => edge.send('/a'));
    await edge.logged('no-store');
    assert.deepEqual(
      edge.log().map(({ event }) => event),
      ['no-store'],
    );
  });

  test('an empty URL is none', async () => {
    const edge = await world.gateway(policy([limit('a')]), { UPSTASH_REDIS_REST_URL: ' ' });
    assert.equal((await edge.send('/a')).headers['sluicegate-tier'], 'isolate');
  });
});

describe('a wrong policy', () => {
  const good = policy([limit('a')]);
  /** @type {[string, unknown, RegExp][]} */
  const wrong = [
    ['an unknown limit', { ...good, routes: [route('/a', ['b'])] }, /routes\[0\]\.limits.*b/],
    ['limit 0', policy([limit('a', { limit: 0 })]), /limits\[0\]\.limit.*0.*blocked/],
    ['an unknown field', { ...good, limitz: [] }, /limitz/],
    ['text that is no JSON', '{"version":1,', /JSON/],
    ['a list', [], /list/],
  ];

  for (const [what, text, reason] of wrong) {
    test(`${what}: 500 for each request, and the reason on /health and in the log, once`, async () => {
      const edge = await world.gateway(text);
      const replies = await Promise.all(
        ['/a', '/elsewhere', '/.sluicegate/v1/check'].map((path) => edge.send(path, { method: 'POST', body: '{}' })),
      );
      for (const reply of replies) assert.doesNotMatch(problem(reply, 500).detail, reason);
      const health = await edge.send('/.sluicegate/health');
      assert.equal(health.status, 503);
      assert.match(health.text, reason);
      const lines = await edge.logged('bad-policy');
      assert.equal(lines.length, 1);
      assert.match(JSON.stringify(lines), reason);
      assert.deepEqual([world.origin.seen.length, world.store.stats.requests], [0, 0]);
    });
  }

  test('several errors are all named', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 0 }), limit('b', { window: '1y' })]));
    const { errors } = (await edge.send('/.sluicegate/health')).json();
    assert.equal(errors.length, 2, errors.join('\n'));
  });
});

describe('POLICY', () => {
  test('is taken as JSON text, too', async () => {
    const edge = await world.gateway(JSON.stringify(policy([limit('a')])));
    assert.equal(left(await edge.send('/a'), 'a'), 2);
  });

  test('replaces the built-in policy, which holds where it is not set', async () => {
    const built = await world.gateway(undefined);
    assert.equal(left(await built.send('/hello'), 'hello-minute'), 19);
    const edge = await world.gateway(policy([limit('a')]));
    assert.equal((await edge.send('/hello')).headers.ratelimit, undefined);
  });
});

describe('health', () => {
  test('200 without a token, and without the store or the origin', async () => {
    const edge = await world.gateway(policy([limit('a')], [route('/{*rest}', ['a'])]), { ADMIN_TOKEN: undefined });
    for (let asked = 0; asked < 9; asked += 1) {
      const reply = await edge.send('/.sluicegate/health');
      assert.deepEqual([reply.status, reply.json()], [200, { status: 'ok' }]);
      assert.equal(reply.headers.ratelimit, undefined);
    }
    assert.deepEqual([world.origin.seen.length, world.store.stats.requests], [0, 0]);
  });
});

describe('origins', () => {
  test('the policy’s own where ORIGIN is not set', async () => {
    const text = policy([limit('a')], undefined, { gateway: { origin: world.origin.url } });
    const edge = await world.gateway(text, { ORIGIN: undefined });
    assert.equal((await edge.send('/a')).text, 'origin');
  });

  test('a base path stands before the request’s', async () => {
    const edge = await world.gateway(policy([limit('a')]), { ORIGIN: `${world.origin.url}/base/` });
    await edge.send('/a?x=1');
    assert.equal(world.origin.seen[0].path, '/base/a?x=1');
  });

  test('a route’s own origin', async () => {
    const routes = [route('/a', ['a'], { origin: `${world.origin.url}/of-a` }), route('/b', ['a'])];
    const edge = await world.gateway(policy([limit('a')], routes));
    await edge.send('/a');
    await edge.send('/b');
    assert.deepEqual(
      world.origin.seen.map(({ path }) => path),
      ['/of-a/a', '/b'],
    );
  });

  test('a service binding gets method, headers, body and every byte of the query', async () => {
    const text = policy([limit('a')], undefined, { gateway: { origin: 'binding:API' } });
    const edge = await world.gateway(text, { ORIGIN: undefined }, { API: `127.0.0.1:${world.origin.port}` });
    const reply = await edge.send("/a?x='{}", { method: 'PUT', body: 'to the service', headers: { 'x-own': 'kept' } });
    assert.deepEqual([reply.status, left(reply, 'a')], [200, 2]);
    const [{ method, path, body, headers }] = world.origin.seen;
    assert.deepEqual([method, path, body, headers['x-own']], ['PUT', "/a?x='{}", 'to the service', 'kept']);
    assert.equal(headers.via, '1.1 sluicegate');
  });

  test('a service binding that is not there: 502', async () => {
    const text = policy([limit('a')], undefined, { gateway: { origin: 'binding:API' } });
    const edge = await world.gateway(text, { ORIGIN: undefined });
    problem(await edge.send('/a'), 502);
  });
});
