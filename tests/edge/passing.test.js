// What passes arrives as it was sent, both ways.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { left, problem, rateLimit } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();

const wide = policy([limit('a', { limit: 1000 })], [route('/{*rest}', ['a'])]);
const sha256 = (/** @type {string | Uint8Array} */ data) => createHash('sha256').update(data).digest('hex');

describe('the request', () => {
  test('any method, its query’s bytes and its body', async () => {
    const edge = await world.gateway(wide);
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'PURGE', 'PROPFIND', 'OPTIONS', 'REPORT']) {
      const body = method === 'GET' ? undefined : `body of ${method}`;
      const reply = await edge.send('/x?b=2&a=1&a=%20+%7E', { method, body });
      assert.equal(reply.status, 200, method);
      const seen = world.origin.seen.at(-1);
      assert.deepEqual([seen?.method, seen?.path, seen?.body], [method, '/x?b=2&a=1&a=%20+%7E', body ?? '']);
    }
  });

  test('a body of a megabyte, echoed', async () => {
    const edge = await world.gateway(wide);
    world.origin.handlers.set('/echo', (response, { body }) => response.end(body));
    const body = randomBytes(524_288).toString('hex');
    const reply = await edge.send('/echo', { method: 'POST', body });
    assert.equal(sha256(reply.text), sha256(body));
  });

  test('its headers, but those of the hop; Via and X-Forwarded-* are set', async () => {
    const edge = await world.gateway(wide);
    const headers = {
      host: 'api.test:8443',
      accept: 'text/x',
      'x-own': 'kept',
      cookie: 'a=1; b=2',
      authorization: 'Bearer mine',
      connection: 'keep-alive, x-hop',
      'x-hop': 'named by Connection',
      'keep-alive': 'timeout=5',
      te: 'trailers',
      'proxy-authorization': 'Basic eA==',
      'x-forwarded-host': 'forged.test',
      'x-forwarded-proto': 'gopher',
      via: '1.0 front',
    };
    await edge.send('/x', { headers });
    const seen = world.origin.seen[0].headers;
    for (const name of /** @type {const} */ (['accept', 'x-own', 'cookie', 'authorization'])) {
      assert.equal(seen[name], headers[name], name);
    }
    for (const name of ['x-hop', 'keep-alive', 'te', 'proxy-authorization']) assert.equal(seen[name], undefined, name);
    assert.equal(seen['x-forwarded-host'], 'api.test:8443');
    assert.equal(seen['x-forwarded-proto'], 'http');
    assert.equal(seen.via, '1.0 front, 1.1 sluicegate');
  });

  test('an Upgrade that is no WebSocket goes no further', async () => {
    const edge = await world.gateway(wide);
    const reply = await edge.send('/x', { headers: { connection: 'upgrade', upgrade: 'h2c' } });
    assert.equal(reply.status, 200);
    assert.equal(world.origin.seen[0].headers.upgrade, undefined);
  });
});

describe('the answer', () => {
  test('its status, headers and body, with our fields behind', async () => {
    const edge = await world.gateway(wide);
    world.origin.handlers.set('/x', (response) => {
      response.writeHead(418, 'Teapot', {
        'content-type': 'text/odd',
        'x-own': 'kept',
        'cache-control': 'max-age=60',
        'keep-alive': 'timeout=9',
        connection: 'x-hop',
        'x-hop': 'named by Connection',
      });
      response.end('short and stout');
    });
    const reply = await edge.send('/x');
    assert.deepEqual([reply.status, reply.text], [418, 'short and stout']);
    assert.equal(reply.headers['content-type'], 'text/odd');
    assert.equal(reply.headers['x-own'], 'kept');
    assert.equal(reply.headers['cache-control'], 'max-age=60');
    assert.equal(reply.headers['x-hop'], undefined);
    assert.equal(reply.headers['keep-alive'], undefined);
    assert.equal(left(reply, 'a'), 999);
  });

  test('several Set-Cookie stay several', async () => {
    const edge = await world.gateway(wide);
    const cookies = ['a=1; Path=/', 'b=2; Expires=Thu, 01 Jan 2099 00:00:00 GMT', 'c=3'];
    world.origin.handlers.set('/x', (response) => response.writeHead(200, { 'set-cookie': cookies }).end());
    assert.deepEqual((await edge.send('/x')).headers['set-cookie'], cookies);
  });

  for (const status of [301, 302, 303, 307, 308]) {
    test(`a ${status} is not followed`, async () => {
      const edge = await world.gateway(wide);
      const location = `${world.origin.url}/elsewhere`;
      world.origin.handlers.set('/x', (response) => response.writeHead(status, { location }).end());
      const reply = await edge.send('/x', { method: 'POST', body: 'once' });
      assert.deepEqual([reply.status, reply.headers.location, left(reply, 'a')], [status, location, 999]);
      assert.equal(world.origin.seen.length, 1);
    });
  }

  test('204, 304 and HEAD have no body and our fields', async () => {
    const edge = await world.gateway(wide);
    for (const status of [204, 304]) {
      world.origin.handlers.set('/x', (response) => response.writeHead(status, { etag: '"e"' }).end());
      const reply = await edge.send('/x');
      assert.deepEqual([reply.status, reply.text, reply.headers.etag], [status, '', '"e"']);
      assert.ok(rateLimit(reply).a);
    }
    world.origin.handlers.delete('/x');
    const head = await edge.send('/x', { method: 'HEAD' });
    assert.deepEqual([head.status, head.text, head.headers['content-length']], [200, '', '6']);
  });

  test('an error of the origin’s arrives as it is', async () => {
    const edge = await world.gateway(wide);
    world.origin.handlers.set('/x', (response) => response.writeHead(503, { 'retry-after': '9' }).end('mine'));
    const reply = await edge.send('/x');
    assert.deepEqual([reply.status, reply.text, reply.headers['retry-after']], [503, 'mine', '9']);
  });

  test('gzip is not unpacked on the way', async () => {
    const edge = await world.gateway(wide);
    const packed = gzipSync('packed '.repeat(1000));
    world.origin.handlers.set('/x', (response) =>
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': packed.length }).end(packed),
    );
    const reply = await fetch(`${edge.url}/x`, {
      headers: { 'cf-connecting-ip': '192.0.2.1', 'accept-encoding': 'gzip' },
    });
    assert.equal(reply.headers.get('content-encoding'), 'gzip');
    assert.equal(reply.headers.get('content-length'), String(packed.length));
    assert.equal(await reply.text(), 'packed '.repeat(1000));
  });

  test('RateLimit fields of the origin’s own are kept, ours behind them', async () => {
    const edge = await world.gateway(wide);
    world.origin.handlers.set('/x', (response) =>
      response.writeHead(200, { ratelimit: '"theirs";r=7;t=5', 'ratelimit-policy': '"theirs";q=8;w=60' }).end(),
    );
    const reply = await edge.send('/x');
    assert.deepEqual(Object.keys(rateLimit(reply)), ['theirs', 'a']);
    assert.equal(rateLimit(reply).theirs.r, 7);
    assert.match(String(reply.headers['ratelimit-policy']), /^"theirs";q=8;w=60, "a";q=1000;/);
  });

  test('streams: the first bytes are there before the last are sent', async () => {
    const edge = await world.gateway(wide);
    /** @type {() => void} */
    let finish = () => {};
    world.origin.handlers.set('/x', (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: first\n\n');
      finish = () => response.end('data: last\n\n');
    });
    const response = await fetch(`${edge.url}/x`, { headers: { 'cf-connecting-ip': '192.0.2.1' } });
    const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
    assert.equal(Buffer.from((await reader.read()).value ?? []).toString(), 'data: first\n\n');
    finish();
    assert.equal(Buffer.from((await reader.read()).value ?? []).toString(), 'data: last\n\n');
  });
});

describe('an origin that fails', () => {
  test('down: 502, and the limit’s fields are there all the same', async () => {
    const edge = await world.gateway(wide, { ORIGIN: 'http://127.0.0.1:1' });
    const reply = await edge.send('/x');
    problem(reply, 502);
    assert.equal(left(reply, 'a'), 999);
    assert.doesNotMatch(reply.text, /127\.0\.0\.1/);
    const head = await edge.send('/x', { method: 'HEAD' });
    assert.deepEqual([head.status, head.text], [502, '']);
  });

  test('one that hangs up: 502', async () => {
    const edge = await world.gateway(wide);
    world.origin.handlers.set('/x', (response) => response.socket?.destroy());
    problem(await edge.send('/x'), 502);
    assert.equal((await edge.send('/y')).status, 200);
  });

  test('slower than origin_timeout: 504', async () => {
    const edge = await world.gateway({
      ...wide,
      gateway: { origin: 'http://origin.invalid', origin_timeout: '100ms' },
    });
    world.origin.handlers.set('/x', () => {});
    const reply = await edge.send('/x');
    problem(reply, 504);
    assert.equal(left(reply, 'a'), 999);
    assert.equal((await edge.send('/y')).status, 200);
  });

  test('slow to finish what it began in time is none of that', async () => {
    const edge = await world.gateway({
      ...wide,
      gateway: { origin: 'http://origin.invalid', origin_timeout: '200ms' },
    });
    world.origin.handlers.set('/x', (response) => {
      response.writeHead(200);
      response.write('slow');
      setTimeout(() => response.end('ly'), 300);
    });
    assert.equal((await edge.send('/x')).text, 'slowly');
  });
});
