// Whom a path is about: the same subject as a request with those values, whatever characters they hold.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { problem } from '../support/fields.js';
import { limit, policy, route } from '../support/policy.js';
import { useWorld } from '../support/world.js';
import { call, subjectOf } from './api.js';

const world = useWorld();

const text = policy(
  [
    limit('query', { limit: 9, key: ['query:q'] }),
    limit('pair', { limit: 9, key: ['ip', 'query:q'] }),
    limit('all', { limit: 9, key: ['global'] }),
    limit('shared', { limit: 9, key: ['query:q', 'header:x-none'], on_missing_key: 'share' }),
  ],
  [route('/query', ['query', 'pair', 'all', 'shared'])],
);

const VALUES = [
  'acme',
  'a,b',
  'a%2Cb',
  '100%',
  'a/b',
  '../../../../../../query',
  '/.sluicegate/health',
  'a b',
  'a+b',
  'ü€𝄞',
  '-',
  '.',
  '..',
  'a?b#c',
  'a:b',
  '"{}\\',
  '\u0000\n',
  'x'.repeat(10_240),
];

for (const secret of [undefined, 'a key secret']) {
  test(`any value is found again ${secret ? 'under a KEY_SECRET' : ''}`, async () => {
    const edge = await world.gateway(text, { KEY_SECRET: secret });
    for (const value of VALUES) {
      await world.client.flushAll();
      await edge.send(`/query?q=${encodeURIComponent(value)}`);
      for (const path of [
        `limits/query/${subjectOf(value)}`,
        `limits/pair/${subjectOf('192.0.2.1', value)}`,
        `limits/all/-`,
        `limits/shared/${subjectOf(value, null)}`,
      ]) {
        const reply = await call(edge, 'GET', path);
        assert.equal(reply.json().used, 1, `${path.slice(0, 80)}: ${reply.text}`);
        assert.equal((await call(edge, 'DELETE', path)).json().forgotten, true, path);
        assert.equal((await call(edge, 'GET', path)).json().used, 0);
      }
      assert.deepEqual(await world.keys(), []);
    }
    assert.equal(world.origin.seen.filter(({ path }) => !path.startsWith('/query?')).length, 0, 'never forwarded');
  });
}

test('of bytes that are no UTF-8 in a URL, each is its own, as for a request', async () => {
  const edge = await world.gateway(text);
  const values = ['caf%E9', 'caf%E8', 'caf%C3%A9', 'caf%EF%BF%BD', 'caf%EF%BF%BDE9', 'caf%EF%BF%BDE8'];
  for (const value of values) {
    const used = async () => (await call(edge, 'GET', `limits/query/${value}`)).json().used;
    assert.equal(await used(), 0, value);
    await edge.send(`/query?q=${value}`);
    assert.equal(await used(), 1, value);
  }
  // Of these JSON can hold all but the first two.
  for (const value of values.slice(2)) {
    const subject = { 'query:q': decodeURIComponent(value) };
    const { limits } = (await edge.check({ limits: ['query'], subject, cost: 1 })).json();
    assert.equal(limits[0].remaining, 7, value);
  }
});

describe('what names nobody', () => {
  test('400 that says what would be right', async () => {
    const edge = await world.gateway(text);
    for (const [path, said] of [
      ['limits/query/', /query:q is empty: write `-`/],
      ['limits/query/%20', /query:q is blank/],
      ['limits/query/-', /cannot be `-`/],
      ['limits/query/a,b', /2 parts are written, 1 wanted; limit query counts by \{query:q\}/],
      ['limits/pair/192.0.2.1', /1 part is written, 2 wanted/],
      ['limits/pair/nowhere,x', /one IPv4 or IPv6 address/],
      ['limits/query/%', /write `%25`/],
      ['limits/shared/x,%ff', /header:x-none is not UTF-8/],
      ['limits/all/x', /`global` holds nothing: write `-`/],
    ]) {
      assert.match(
        problem(await call(edge, 'GET', String(path)), 400).detail,
        /** @type {RegExp} */ (said),
        String(path),
      );
    }
    assert.equal(world.store.stats.requests, 0);
  });

  test('404 for limits that are not there, naming those that are', async () => {
    const edge = await world.gateway(text);
    for (const name of ['nosuch', 'Query', 'query%20', '%00', 'constructor']) {
      const { detail } = problem(await call(edge, 'GET', `limits/${name}/x`), 404);
      assert.match(detail, /known are: query, pair, all, shared/);
    }
    assert.equal((await call(edge, 'GET', 'limits/quer%79/x')).status, 200);
  });

  test('404 and 405 for calls that are not there', async () => {
    const edge = await world.gateway(text);
    for (const path of [
      '',
      'x',
      'limits',
      'limits/query',
      'limits/query/a/b',
      'overrides/query',
      'status/x',
      'Status',
    ]) {
      problem(await call(edge, 'GET', path), 404);
    }
    for (const [method, path, allow] of [
      ['POST', 'limits/query/x', 'GET, DELETE'],
      ['PATCH', 'overrides/query/x', 'GET, PUT, DELETE'],
      ['POST', 'status', 'GET'],
      ['DELETE', 'metrics', 'GET'],
    ]) {
      const reply = await call(edge, method, path);
      problem(reply, 405);
      assert.equal(reply.headers.allow, allow);
    }
    assert.equal(world.origin.seen.length, 0);
  });
});
