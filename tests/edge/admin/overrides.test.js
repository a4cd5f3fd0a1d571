// Limits for one subject, set through the API: bans, ends, bounds, and which keys are touched.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { left, problem } from '../support/fields.js';
import { limit, policy } from '../support/policy.js';
import { useWorld } from '../support/world.js';
import { call, everything } from './api.js';

const world = useWorld();

const PATH = 'overrides/a/192.0.2.1';
const KEY = 'sg:1:a:override-instead-of-the-policy-s-limit:192.0.2.1';
const DAYS_400 = 34_560_000_000;

describe('PUT, GET and DELETE overrides', () => {
  test('one key with a TTL, one command, no other key touched', async () => {
    const edge = await world.gateway(policy([limit('a'), limit('b')]));
    await edge.send('/a');
    const before = await everything(world);
    await world.resetCommands();
    const until = Math.ceil(Date.now() / 1000) * 1000 + 3_600_000;
    const set = (await call(edge, 'PUT', PATH, { limit: 500, until })).json();
    const text = new Date(until).toISOString().replace('.000Z', 'Z');
    const expected = { name: 'a', limit: 500, until: text, until_ms: until, kept_until: text, kept_until_ms: until };
    assert.deepEqual(set, expected);
    assert.deepEqual(await world.commands(), { set: 1 });
    assert.deepEqual(await everything(world), { ...before, [KEY]: `500 ${until}` });
    const ttl = await world.client.pTTL(KEY);
    assert.ok(ttl > 3_590_000 && ttl <= 3_603_000, `${ttl}`);
    await world.resetCommands();
    assert.deepEqual((await call(edge, 'GET', PATH)).json(), expected);
    assert.deepEqual(await world.commands(), { eval: 1, get: 1, pttl: 1 });
    assert.equal(left(await edge.send('/a'), 'a'), 498);
    const charged = await everything(world);
    await world.resetCommands();
    assert.deepEqual((await call(edge, 'DELETE', PATH)).json(), { name: 'a', removed: true });
    assert.deepEqual(await world.commands(), { del: 1 });
    delete charged[KEY];
    assert.deepEqual(await everything(world), charged);
    assert.deepEqual((await call(edge, 'DELETE', PATH)).json(), { name: 'a', removed: false });
    problem(await call(edge, 'GET', PATH), 404);
  });

  test('the same moment as RFC 3339 text and as milliseconds', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    for (const until of ['2099-01-01T00:00:00Z', '2099-01-01T01:30:00.000+01:30', 4_070_908_800_000]) {
      const set = (await call(edge, 'PUT', PATH, { limit: 1, until })).json();
      assert.deepEqual([set.until, set.until_ms], ['2099-01-01T00:00:00Z', 4_070_908_800_000]);
    }
    assert.equal(await world.client.get(KEY), '1 4070908800000');
  });

  test('without an end it is kept for 400 days, and says so', async () => {
    // FIELD-REPORTS B01: every key has a TTL.
    const edge = await world.gateway(policy([limit('a')]));
    for (const body of [{ limit: 7 }, { limit: 7, until: null }]) {
      const before = Date.now();
      const set = (await call(edge, 'PUT', PATH, body)).json();
      assert.deepEqual([set.until, set.until_ms], [null, null]);
      assert.ok(set.kept_until_ms >= before + DAYS_400 && set.kept_until_ms <= Date.now() + DAYS_400);
      assert.equal(await world.client.get(KEY), '7 0');
      const ttl = await world.client.pTTL(KEY);
      assert.ok(ttl > DAYS_400 - 60_000 && ttl <= DAYS_400, `${ttl}`);
      const found = (await call(edge, 'GET', PATH)).json();
      assert.deepEqual([found.limit, found.until], [7, null]);
      assert.ok(Math.abs(found.kept_until_ms - set.kept_until_ms) < 60_000);
    }
  });

  test('what the script would not follow is not shown', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    for (const value of ['x', '7', `7 ${Date.now() - 1000}`]) {
      await world.client.set(KEY, value);
      problem(await call(edge, 'GET', PATH), 404);
    }
    await world.client.set(KEY, '7 0');
    assert.equal((await call(edge, 'GET', PATH)).json().kept_until, null, 'set by hand, without a TTL');
  });
});

describe('bans', () => {
  test('seen at once by the isolate that set it and, within what it remembers, by another', async () => {
    const text = policy([limit('a')], undefined, { store: { remember: '10m' } });
    const [one, other] = await Promise.all([world.gateway(text), world.gateway(text)]);
    assert.equal((await one.send('/a')).status, 200);
    await call(one, 'PUT', PATH, { limit: 0 });
    for (const edge of [one, other]) {
      const reply = await edge.send('/a');
      problem(reply, 429);
      assert.equal(reply.headers['retry-after'], undefined);
      assert.equal((await edge.logged('refused'))[0].reason, 'blocked');
    }
    assert.equal((await one.send('/a', { ip: '192.0.2.2' })).status, 200, 'nobody else');
    const known = (await call(one, 'GET', 'limits/a/192.0.2.1')).json();
    assert.deepEqual([known.banned, known.limit, known.remaining, known.retry_after_ms], [true, 0, 0, null]);
    // The refusal is remembered for ten minutes, and forgotten by lifting the ban here.
    assert.equal((await one.send('/a')).headers['sluicegate-tier'], 'cache');
    await call(one, 'DELETE', PATH);
    assert.equal((await one.send('/a')).status, 200);
  });

  test('replaced by a higher limit it is over at once', async () => {
    const edge = await world.gateway(policy([limit('a')], undefined, { store: { remember: '10m' } }));
    await call(edge, 'PUT', PATH, { limit: 0, until: Date.now() + 600_000 });
    const reply = await edge.send('/a');
    assert.ok(Number(reply.headers['retry-after']) > 590);
    assert.ok((await call(edge, 'GET', 'limits/a/192.0.2.1')).json().retry_after_ms > 590_000);
    await call(edge, 'PUT', PATH, { limit: 10 });
    assert.equal(left(await edge.send('/a'), 'a'), 9);
  });
});

describe('what is refused says what is wrong, and nothing is written', () => {
  const most = { fixed: 4_294_967_295, day: 52_124_995, log: 10_000 };
  const limits = [
    limit('a'),
    limit('window', { algorithm: 'sliding-window', window: '1d' }),
    limit('log', { algorithm: 'sliding-log', window: '1h' }),
    limit('bucket', { algorithm: 'token-bucket', limit: 1, burst: 1_000_000, window: '1s' }),
    limit('great-bucket', { algorithm: 'token-bucket', limit: 1_000_000_000, window: '1s' }),
    limit('great', { limit: 1_000_000_000 }),
    limit('free', { limit: 'unlimited' }),
  ];

  test('bodies', async () => {
    const edge = await world.gateway(policy(limits));
    for (const [body, said] of [
      ['', /EOF/],
      ['{', /EOF/],
      ['null', /expected struct/],
      ['[]', /found a list where an object belongs/],
      ['[5]', /found a list where an object belongs/],
      [' [5,null]', /found a list where an object belongs/],
      ['{}', /missing field `limit`/],
      ['{"limit":"5"}', /invalid type: string/],
      ['{"limit":-1}', /invalid value: integer `-1`/],
      ['{"limit":1.5}', /invalid type: floating point/],
      ['{"limit":1e3}', /invalid type: floating point/],
      ['{"limit":5,"limit":6}', /duplicate field/],
      ['{"limit":5,"untill":1}', /unknown field `untill`/],
      ['{"limit":5,"until":"tomorrow"}', /write milliseconds since 1970, such as/],
      ['{"limit":5,"until":"2027-01-01"}', /RFC 3339 text/],
      ['{"limit":5,"until":true}', /is no moment/],
      ['{"limit":5,"until":-1}', /is no moment/],
      ['{"limit":5,"until":1.5}', /is no moment/],
      ['{"limit":5,"until":[]}', /is no moment/],
      ['{"limit":5,"until":99999999999999999}', /is no moment/],
      ['{"limit":5,"until":1000}', /in the past: write a moment to come/],
      ['{"limit":5} x', /trailing characters/],
    ]) {
      const reply = await call(edge, 'PUT', PATH, String(body));
      assert.match(problem(reply, 400).detail, /** @type {RegExp} */ (said), String(body));
    }
    const long = problem(await call(edge, 'PUT', PATH, `{"limit":5${' '.repeat(5000)}}`), 413);
    assert.match(long.detail, /at most 4096 bytes/);
    assert.equal(await world.client.dbSize(), 0);
    assert.equal(world.store.stats.requests, 0, 'refused before the store');
  });

  test('numbers beyond what the arithmetic is exact for', async () => {
    const edge = await world.gateway(policy(limits));
    const put = (/** @type {string} */ name, /** @type {number} */ most) =>
      call(edge, 'PUT', `overrides/${name}/192.0.2.1`, { limit: most });
    for (const [name, greatest, said] of /** @type {[string, number, RegExp][]} */ ([
      ['a', most.fixed, /for a; write at most 4294967295$/],
      ['window', most.day, /write at most 52124995$/],
      ['log', most.log, /write at most 10000$/],
      ['bucket', 9_007_199, /write at most 9007199$/],
      ['great-bucket', 9_007_199, /write at most 9007199$/],
      ['great', most.fixed, /write at most 4294967295$/],
    ])) {
      assert.equal((await put(name, greatest)).status, 200, name);
      assert.match(problem(await put(name, greatest + 1), 400).detail, said, name);
    }
    assert.match(problem(await put('a', Number.MAX_SAFE_INTEGER), 400).detail, /write at most/);
    assert.match(problem(await put('free', 5), 409).detail, /counts nobody/);
  });

  test('without a store: 409 that names the cure', async () => {
    const edge = await world.gateway(policy([limit('a')]), { UPSTASH_REDIS_REST_URL: undefined });
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const reply = await call(edge, method, PATH, method === 'PUT' ? { limit: 5 } : undefined);
      assert.match(problem(reply, 409).detail, /set UPSTASH_REDIS_REST_URL/);
    }
  });
});
