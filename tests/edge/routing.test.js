// Which requests a route takes, however they are spelled, and which are free.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { describe, test } from 'node:test';
import { many, statuses } from './support/client.js';
import { left, problem } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();

describe('no spelling of a path dodges its limit', () => {
  const spellings = [
    ...['/hello', '/%68ello', '/%68%65%6C%6c%6f', '//hello', '///hello//', '/./hello', '/x/../hello', '/hello/'],
    ...['/hello/.', '/hello/x/..', '/%2e/hello', '/x/%2E%2e/hello', '/..//hello', '/hello?x=1', '/hello/?', '/hello#x'],
    ...['/hello%2F', '/%2Fhello', '/hello%5C', '/\\hello'],
  ];

  test('each of them is counted with the others', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: spellings.length })], [route('/hello', ['a'])]));
    for (const [index, path] of spellings.entries()) {
      assert.equal(left(await edge.send(path), 'a'), spellings.length - 1 - index, path);
    }
    for (const path of spellings) assert.equal((await edge.send(path)).status, 429, path);
  });

  test('other paths are not', async () => {
    const edge = await world.gateway(policy([limit('a')], [route('/hello', ['a'])]));
    for (const path of ['/', '/Hello', '/hello2', '/hello/x', '/%2568ello', '/xhello', '/hello;x']) {
      assert.equal((await edge.send(path)).headers.ratelimit, undefined, path);
    }
  });

  test('the origin gets the bytes that the client sent', async () => {
    const edge = await world.gateway(policy([limit('a', { limit: 100 })], [route('/hello', ['a'])]));
    const sent = [
      ...['/%68ello', '//hello', '/hello//', '/hello/', '/hello?', '/%e2%82%ac', '/a%2Fb', '/%zz', '/a;b=c', '/a[b]'],
      ...[
        '/hello?a=%7B{}&b=a+b%20c|^`',
        '/hello?x=/../y',
        '/hello?%00',
        '/hello?a=%7B%7d&&=',
        '//127.0.0.1:1/x',
        '/@x',
      ],
    ];
    for (const path of sent) await edge.send(path);
    assert.deepEqual(
      world.origin.seen.map(({ path }) => path),
      sent,
    );
  });
});

describe('the most specific route wins', () => {
  const names = ['literal', 'param', 'rest', 'posts', 'hosted'];
  const routes = [
    route('/v1/{*rest}', ['rest'], { name: 'rest' }),
    route('/v1/{id}', ['param'], { name: 'param' }),
    route('/v1/chat', ['literal'], { name: 'literal' }),
    route('/v1/chat', ['posts'], { name: 'posts', methods: ['POST'] }),
    route('/v1/{id}', ['hosted'], { name: 'hosted', host: 'api.test' }),
  ];
  const byRoute = policy(
    names.map((name) => limit(name, { limit: 100 })),
    routes,
  );

  test('literal, then {param}, then {*rest}; then the method; then the host', async () => {
    const edge = await world.gateway(byRoute);
    /** @type {[string, string, import('./support/client.js').Sent?][]} */
    const expected = [
      ['/v1/chat', 'literal'],
      ['/v1/chat', 'posts', { method: 'POST' }],
      ['/v1/chat', 'literal', { headers: { host: 'api.test' } }],
      ['/v1/x', 'param'],
      ['/v1/x', 'hosted', { headers: { host: 'API.test:99' } }],
      ['/v1/x/y', 'rest'],
    ];
    for (const [path, name, options] of expected) {
      assert.equal(left(await edge.send(path, options), name), 99, `${path} is not ${name}'s`);
      await world.client.flushAll();
    }
  });

  test('a route for GET takes HEAD', async () => {
    const edge = await world.gateway(policy([limit('a')], [route('/a', ['a'], { methods: ['GET'] })]));
    assert.equal(left(await edge.send('/a', { method: 'HEAD' }), 'a'), 2);
    assert.equal((await edge.send('/a', { method: 'POST' })).headers.ratelimit, undefined);
  });
});

describe('what no route takes', () => {
  test('passes, without limit fields and without the store', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    const reply = await edge.send('/elsewhere');
    assert.deepEqual([reply.status, reply.text, reply.headers.ratelimit], [200, 'origin', undefined]);
    assert.equal(world.store.stats.requests, 0);
  });

  test('unmatched = "deny": 404, and the origin does not see it', async () => {
    const edge = await world.gateway(policy([limit('a')], undefined, { gateway: { unmatched: 'deny' } }));
    problem(await edge.send('/elsewhere'), 404);
    assert.equal((await edge.send('/a')).status, 200);
    assert.deepEqual(
      world.origin.seen.map(({ path }) => path),
      ['/a'],
    );
  });

  test('a route without limits passes under "deny"', async () => {
    const routes = [route('/a', ['a']), route('/free', [])];
    const edge = await world.gateway(policy([limit('a')], routes, { gateway: { unmatched: 'deny' } }));
    assert.equal((await edge.send('/free')).status, 200);
    assert.equal(world.store.stats.requests, 0);
  });
});

describe('preflights', () => {
  const preflight = {
    method: 'OPTIONS',
    headers: { origin: 'http://app.test', 'access-control-request-method': 'POST' },
  };

  test('are free, whatever is left', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    assert.deepEqual(statuses(await many(9, () => edge.send('/a', preflight))), { 200: 9 });
    assert.equal(world.store.stats.requests, 0);
    assert.equal(left(await edge.send('/a'), 'a'), 2);
  });

  test('are free to the decision API, too', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    const headers = { 'cf-connecting-ip': '192.0.2.1', ...preflight.headers };
    const asked = { method: 'OPTIONS', url: 'https://x.test/a', headers };
    for (let sent = 0; sent < 9; sent += 1) {
      const { allowed, limits } = (await edge.check(asked)).json();
      assert.deepEqual([allowed, limits], [true, []]);
    }
    const { 'access-control-request-method': _, ...plain } = headers;
    assert.equal((await edge.check({ ...asked, headers: plain })).json().limits[0].remaining, 2);
  });

  test('count where the route names OPTIONS', async () => {
    const routes = [route('/a', ['a'], { methods: ['OPTIONS', 'POST'] })];
    const edge = await world.gateway(policy([limit('a')], routes));
    assert.deepEqual(statuses(await many(9, () => edge.send('/a', preflight))), { 200: 3, 429: 6 });
  });

  test('an OPTIONS that is no preflight counts', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    assert.deepEqual(statuses(await many(9, () => edge.send('/a', { method: 'OPTIONS' }))), { 200: 3, 429: 6 });
  });
});

describe('loops', () => {
  test('a request that went through the gateway already: 508', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    for (const via of [
      '1.1 sluicegate',
      '1.0 fred, 1.1 sluicegate',
      'HTTP/1.1 Sluicegate (edge)',
      '1.1 sluicegate, 1.1 x',
    ]) {
      problem(await edge.send('/a', { headers: { via } }), 508);
    }
    assert.equal(world.store.stats.requests, 0);
    assert.equal(world.origin.seen.length, 0);
  });

  test('another proxy is none', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    for (const via of ['1.1 varnish', '1.1 sluicegate-front', '1.1 x (sluicegate)']) {
      assert.equal((await edge.send('/a', { headers: { via } })).status, 200, via);
    }
  });

  test('a gateway that is its own origin: one pass, then 508, and one charge', async () => {
    /** @type {import('./support/world.js').Edge | undefined} */
    let edge;
    let passes = 0;
    const relay = createServer((socket) => {
      passes += 1;
      socket.on('error', () => {});
      socket.pipe(connect(Number(edge?.port), '127.0.0.1').on('error', () => {})).pipe(socket);
    });
    relay.listen(0, '127.0.0.1');
    await once(relay, 'listening');
    const { port } = /** @type {import('node:net').AddressInfo} */ (relay.address());
    edge = await world.gateway(policy([limit('a')]), { ORIGIN: `http://127.0.0.1:${port}` });
    const reply = await edge.send('/a').finally(() => relay.close());
    problem(reply, 508);
    assert.deepEqual([passes, left(reply, 'a')], [1, 2]);
  });

  test('a gateway that is the origin of another answers', async () => {
    const edge = await world.gateway(policy([limit('a')], [route('/a', ['a'])]));
    const looping = await world.gateway(policy([limit('a', { limit: 100 })]), { ORIGIN: edge.url });
    assert.equal((await looping.send('/a')).status, 508);
  });
});
