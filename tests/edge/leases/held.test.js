// A slot is held while a response runs, and free when its last byte has been delivered; the bytes are the origin's.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { FAULTS } from '../../../dev/store/faults.js';
import { problem, QUOTA_EXCEEDED, rateLimit, rateLimitPolicy } from '../support/fields.js';
import { limit, policy, route } from '../support/policy.js';
import { concurrency, held, holders, open, untilHeld } from '../support/slots.js';
import { until, useWorld } from '../support/world.js';

const world = useWorld();
const text = policy([concurrency('a')], [route('/a', ['a']), route('/b', ['a']), route('/free', [])]);

describe('a slot', () => {
  test('is held for as long as an event stream runs', async () => {
    const edge = await world.gateway(text);
    const [stream] = [held(world, '/a')];
    const first = await open(edge, '/a');
    await once(first.response, 'data');
    const [{ fence }] = await holders(world, 'a');
    assert.ok(Number.isSafeInteger(fence) && fence > 0);
    const refused = await edge.send('/b');
    assert.equal(problem(refused, 429).type, QUOTA_EXCEEDED);
    assert.equal((await edge.send('/b', { ip: '192.0.2.9' })).status, 200);
    stream[0].end('data: 2\n\n');
    assert.equal((await first.whole()).toString(), 'data: 2\n\n');
    await untilHeld(world, 'a', 0);
    assert.equal((await edge.send('/b')).status, 200);
  });

  test('is held until the last byte of a download has been taken', async () => {
    // More than what lies in buffers between the origin and a client that does not read.
    const size = 64 * 1024 * 1024;
    const bytes = randomBytes(size);
    let drained = false;
    held(world, '/a', (response) => {
      response.writeHead(200, { 'content-length': size });
      response.write(bytes, () => {
        drained = true;
      });
      response.end();
    });
    const edge = await world.gateway(text);
    const download = await open(edge, '/a');
    assert.equal(download.response.headers['content-length'], String(size));
    assert.equal((await edge.send('/b')).status, 429);
    assert.equal(drained, false, 'the origin is held back by the client');
    const hash = createHash('sha256');
    let read = 0;
    for await (const chunk of download.response) {
      hash.update(chunk);
      read += chunk.length;
      if (read < size / 2) assert.equal((await holders(world, 'a')).length, 1);
    }
    assert.equal(hash.digest('hex'), createHash('sha256').update(bytes).digest('hex'));
    await untilHeld(world, 'a', 0);
  });

  for (const [encoding, compress] of /** @type {const} */ ([
    ['gzip', gzipSync],
    ['br', brotliCompressSync],
    ['x-unknown', (/** @type {Buffer} */ bytes) => bytes],
  ])) {
    test(`leaves a body in ${encoding} and its length as they were sent`, async () => {
      const body = compress(Buffer.from('the same text over and over, '.repeat(1000)));
      held(world, '/a', (response) => {
        response.writeHead(200, { 'content-encoding': encoding, 'content-length': body.length, etag: '"1"' });
        response.end(body);
      });
      const edge = await world.gateway(text);
      const answer = await open(edge, '/a', { headers: { 'accept-encoding': encoding } });
      const { headers } = answer.response;
      assert.deepEqual(
        [headers['content-encoding'], headers['content-length'], headers.etag, headers['transfer-encoding']],
        [encoding, String(body.length), '"1"', undefined],
      );
      assert.deepEqual(await answer.whole(), body);
      await untilHeld(world, 'a', 0);
    });
  }

  test('leaves a body without a length as it was sent', async () => {
    held(world, '/a', (response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' });
      response.write(gzipSync('one'));
      setImmediate(() => response.end(gzipSync('two')));
    });
    const edge = await world.gateway(text);
    const answer = await open(edge, '/a');
    assert.deepEqual(await answer.whole(), Buffer.concat([gzipSync('one'), gzipSync('two')]));
    assert.equal(answer.response.headers['content-length'], undefined);
    await untilHeld(world, 'a', 0);
  });

  for (const [what, method, status, headers] of /** @type {const} */ ([
    ['a HEAD', 'HEAD', 200, { 'content-length': '1234' }],
    ['a 204', 'GET', 204, {}],
    ['a 304', 'GET', 304, { etag: '"1"' }],
    ['an empty body', 'GET', 200, { 'content-length': '0' }],
  ])) {
    test(`is free after ${what}`, async () => {
      held(world, '/a', (response) => response.writeHead(status, headers).end());
      const edge = await world.gateway(text);
      for (let sent = 0; sent < 3; sent += 1) {
        const reply = await edge.send('/a', { method });
        assert.equal(reply.status, status);
        for (const [name, value] of Object.entries(headers)) assert.equal(reply.headers[name], value);
        await untilHeld(world, 'a', 0);
      }
    });
  }

  test('is held by an upload while it runs, whose body the origin gets', async () => {
    const edge = await world.gateway(text);
    const body = 'x'.repeat(1_000_000);
    assert.equal((await edge.send('/a', { method: 'POST', body })).status, 200);
    assert.equal(world.origin.seen[0].body.length, body.length);
    await untilHeld(world, 'a', 0);
  });

  test('of an origin behind a service binding is free at the end, and gzip stays gzip', async () => {
    const body = gzipSync('bound');
    held(world, '/a', (response) => {
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': body.length });
      response.end(body);
    });
    const services = { BOUND: `127.0.0.1:${world.origin.port}` };
    const edge = await world.gateway(text, { ORIGIN: 'binding:BOUND' }, services);
    const answer = await open(edge, "/a?x=%7e'%2F|");
    assert.equal(world.origin.seen[0].path, "/a?x=%7e'%2F|");
    assert.equal(answer.response.headers['content-length'], String(body.length));
    assert.deepEqual(await answer.whole(), body);
    await untilHeld(world, 'a', 0);
  });
});

describe('headers', () => {
  test('say concurrent-requests and no window', async () => {
    const edge = await world.gateway(
      policy([limit('rate', { limit: 9 }), concurrency('a', { limit: 5 })], [route('/a', ['rate', 'a'])]),
    );
    const reply = await edge.send('/a');
    assert.deepEqual(rateLimitPolicy(reply).a, { q: 5, qu: 'concurrent-requests' });
    assert.equal(rateLimitPolicy(reply).rate.qu, undefined);
    assert.equal(rateLimit(reply).a.r, 4);
  });

  test('of a refusal: when the first lease ends at the latest, and what is taken', async () => {
    const edge = await world.gateway(text);
    held(world, '/a');
    await open(edge, '/a');
    const reply = await edge.send('/a');
    const document = problem(reply, 429);
    assert.match(document.detail, /^all slots of a are taken \(1 at once\); try again in \d+ s\.$/);
    assert.deepEqual(document['violated-policies'], ['a']);
    const retry = Number(reply.headers['retry-after']);
    assert.ok(retry >= 1 && retry <= 60, `${retry}`);
    assert.equal(document.retry_after, retry);
    assert.deepEqual(rateLimit(reply).a.r, 0);
    const [line] = await edge.logged('refused');
    assert.deepEqual([line.limit, line.reason, line.tier], ['a', 'quota-exceeded', 'store']);
  });

  test('a refusal is not remembered: the slot may be free the next moment', async () => {
    const edge = await world.gateway(text);
    const streams = held(world, '/a');
    const first = await open(edge, '/a');
    assert.equal((await edge.send('/b')).headers['sluicegate-tier'], 'store');
    assert.equal((await edge.send('/b')).headers['sluicegate-tier'], 'store');
    streams[0].end();
    await first.whole();
    await untilHeld(world, 'a', 0);
    assert.equal((await edge.send('/b')).status, 200);
  });
});

describe('slots and rates on one route', () => {
  const both = policy(
    [limit('rate', { limit: 3 }), concurrency('a'), concurrency('everybody', { limit: 2, key: ['global'] })],
    [route('/a', ['rate', 'a', 'everybody'])],
  );

  test('all or nothing: no slot without the rate, no charge without the slot', async () => {
    const edge = await world.gateway(both);
    const streams = held(world, '/a');
    const first = await open(edge, '/a');
    const refused = await edge.send('/a');
    assert.deepEqual(problem(refused, 429)['violated-policies'], ['a']);
    assert.equal(rateLimit(refused).rate.r, 2, 'refused for want of a slot, charged nothing');
    assert.equal((await holders(world, 'everybody', '-')).length, 1);
    streams[0].end();
    await first.whole();
    await untilHeld(world, 'a', 0);
    await untilHeld(world, 'everybody', 0, '-');
    world.origin.handlers.clear();
    for (let sent = 0; sent < 2; sent += 1) {
      assert.equal((await edge.send('/a')).status, 200);
      await untilHeld(world, 'a', 0);
      await untilHeld(world, 'everybody', 0, '-');
    }
    assert.deepEqual(problem(await edge.send('/a'), 429)['violated-policies'], ['rate']);
    assert.equal((await holders(world, 'a')).length, 0, 'refused by the rate, took no slot');
    assert.equal((await holders(world, 'everybody', '-')).length, 0);
  });

  test('one call takes all, one call each frees them', async () => {
    const edge = await world.gateway(both);
    await edge.send('/a', { ip: '192.0.2.8' });
    await untilHeld(world, 'a', 0, '192.0.2.8');
    await untilHeld(world, 'everybody', 0, '-');
    world.store.stats.reset();
    await edge.send('/a');
    await until(() => world.store.stats.requests === 3, 'one call to take and two to free');
    await untilHeld(world, 'everybody', 0, '-');
  });

  test('a request without a concurrency limit calls once, as ever', async () => {
    const edge = await world.gateway(policy([limit('rate'), concurrency('a')], [route('/r', ['rate'])]));
    await edge.send('/r');
    world.store.stats.reset();
    await world.resetCommands();
    await edge.send('/r');
    assert.equal(world.store.stats.requests, 1);
    assert.deepEqual(await world.commands(), { evalsha: 1, mget: 1, set: 1 });
  });

  test('a shadow slot counts and never refuses', async () => {
    const edge = await world.gateway(policy([concurrency('a', { shadow: true })]));
    const streams = held(world, '/a');
    const [first, second] = [await open(edge, '/a'), await open(edge, '/a')];
    assert.equal(second.response.statusCode, 200);
    assert.equal((await holders(world, 'a')).length, 1);
    for (const stream of streams) stream.end();
    await Promise.all([first.whole(), second.whole()]);
    await untilHeld(world, 'a', 0);
  });

  for (const store of ['the store', 'the isolate alone', 'the isolate at its share']) {
    test(`POST check takes no slot, and where none is left it refuses and charges nothing: ${store}`, async () => {
      const fields = { on_store_error: 'degraded' };
      const limits = [limit('rate', { limit: 9, ...fields }), concurrency('a', fields)];
      const vars = store === 'the isolate alone' ? { UPSTASH_REDIS_REST_URL: undefined } : {};
      const edge = await world.gateway(policy(limits, undefined, { degraded: { share: 1 } }), vars);
      if (store === 'the isolate at its share') world.store.faults.always(FAULTS.resetBefore);
      const check = async () => (await edge.check({ limits: ['rate', 'a'], subject: { ip: '192.0.2.1' } })).json();
      for (let sent = 1; sent <= 3; sent += 1) {
        const { allowed, limits } = await check();
        assert.deepEqual([allowed, limits[0].remaining, limits[1].remaining], [true, 9 - sent, 1]);
      }
      const streams = held(world, '/a');
      const running = await open(edge, '/a');
      const { allowed, retry_after_ms, limits: said } = await check();
      assert.deepEqual([allowed, said[0].allowed, said[1].allowed], [false, true, false]);
      assert.deepEqual([said[0].remaining, said[1].remaining], [5, 0]);
      assert.ok(retry_after_ms > 0 && retry_after_ms <= 60_000, `${retry_after_ms}`);
      streams[0].end();
      await running.whole();
      await until(async () => (await check()).allowed, 'the slot to be free');
    });
  }
});
