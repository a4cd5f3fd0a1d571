// Who is counted: every key part, several in one key, and a part that is not there.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { many, statuses } from './support/client.js';
import { left, problem } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

/** @typedef {import('./support/client.js').Sent} Sent */

const world = useWorld();

/**
 * Requests of the same subject share one count of 2, and one of another has its own.
 *
 * @param {string[]} key
 * @param {[string, Sent?][]} same at least two spellings of one subject
 * @param {[string, Sent?][]} others each a subject of its own
 */
async function tellsApart(key, same, others) {
  const limits = [limit('a', { limit: same.length, key })];
  const edge = await world.gateway(policy(limits, [route('/of/{id}', ['a']), route('/a', ['a'])]));
  const replies = [];
  for (const [path, options] of same) replies.push(await edge.send(path, options));
  assert.deepEqual(
    replies.map((reply) => left(reply, 'a')),
    same.map((_, index) => same.length - 1 - index),
  );
  assert.equal((await edge.send(...same[0])).status, 429);
  for (const [path, options] of others) {
    const reply = await edge.send(path, options);
    assert.equal(left(reply, 'a'), same.length - 1, `${path} ${JSON.stringify(options)}`);
  }
}

/** @param {Record<string, string>} fields @returns {Sent} */
const headers = (fields) => ({ headers: fields });

describe('key parts', () => {
  test('global', () => tellsApart(['global'], [['/a'], ['/of/1', { ip: '192.0.2.2' }]], []));

  test('ip', () =>
    tellsApart(
      ['ip'],
      [
        ['/a', { ip: '192.0.2.1' }],
        ['/of/1', { ip: '192.0.2.1' }],
        ['/a', { ip: '::ffff:192.0.2.1' }],
      ],
      [
        ['/a', { ip: '192.0.2.2' }],
        ['/a', { ip: '2001:db8::1' }],
      ],
    ));

  test('route', () => tellsApart(['route'], [['/of/1'], ['/of/2', { ip: '192.0.2.2' }]], [['/a']]));

  test('method', () =>
    tellsApart(
      ['method'],
      [['/a'], ['/of/1']],
      [
        ['/a', { method: 'POST' }],
        ['/a', { method: 'PURGE' }],
      ],
    ));

  test('host', () =>
    tellsApart(
      ['host'],
      [
        ['/a', headers({ host: 'api.test' })],
        ['/a', headers({ host: 'API.test:8080' })],
        ['/a', headers({ host: 'api.test.' })],
      ],
      [['/a', headers({ host: 'other.test' })]],
    ));

  test('path', () =>
    tellsApart(['path'], [['/of/1'], ['/of/%31?x=1'], ['//of/./1']], [['/of/2'], ['/of/A'], ['/of/a'], ['/of/1+']]));

  test('header', () =>
    tellsApart(
      ['header:x-tenant'],
      [
        ['/a', headers({ 'x-tenant': 't' })],
        ['/a', headers({ 'X-Tenant': 't' })],
      ],
      [
        ['/a', headers({ 'x-tenant': 'T' })],
        ['/a', headers({ 'x-tenant': 't:t' })],
      ],
    ));

  test('cookie', () =>
    tellsApart(
      ['cookie:sid'],
      [
        ['/a', headers({ cookie: 'sid=1' })],
        ['/a', headers({ cookie: 'a=b; sid=1; sid=2' })],
      ],
      [['/a', headers({ cookie: 'sid=2; xsid=1' })]],
    ));

  test('query', () =>
    tellsApart(
      ['query:key'],
      [['/a?key=k'], ['/a?x=1&key=%6B'], ['/of/1?key=k&key=z']],
      [['/a?key=z'], ['/a?key=K'], ['/a?key=k%20']],
    ));

  test('param', async () => {
    const limits = [limit('a', { limit: 2, key: ['param:id'] })];
    const edge = await world.gateway(policy(limits, [route('/of/{id}', ['a']), route('/for/{id}/all', ['a'])]));
    assert.equal(left(await edge.send('/of/1'), 'a'), 1);
    assert.equal(left(await edge.send('/for/%31/all'), 'a'), 0);
    assert.equal((await edge.send('/of/1')).status, 429);
    assert.equal(left(await edge.send('/of/2'), 'a'), 1);
  });

  test('several in one key, which cannot be shifted into each other', () =>
    tellsApart(
      ['header:x-a', 'header:x-b', 'method'],
      [
        ['/a', headers({ 'x-a': '1', 'x-b': '23' })],
        ['/a', headers({ 'x-b': '23', 'x-a': '1' })],
      ],
      [
        ['/a', headers({ 'x-a': '12', 'x-b': '3' })],
        ['/a', headers({ 'x-a': '23', 'x-b': '1' })],
        ['/a', { method: 'POST', ...headers({ 'x-a': '1', 'x-b': '23' }) }],
      ],
    ));
});

describe('a part that is missing', () => {
  /** @param {string} [on_missing_key] @param {string[]} [key] */
  const withMissing = (on_missing_key, key = ['header:x-tenant']) =>
    policy([limit('a', { key, ...(on_missing_key && { on_missing_key }) })]);

  test('deny, the default: 400 that names the part, before the store', async () => {
    // FIELD-REPORTS B34.
    for (const edge of [await world.gateway(withMissing()), await world.gateway(withMissing('deny'))]) {
      for (const options of [{}, headers({ 'x-tenant': '' }), headers({ 'x-tenant': '  ' })]) {
        assert.match(problem(await edge.send('/a', options), 400).detail, /header:x-tenant/);
      }
    }
    assert.equal(world.store.stats.requests, 0);
    assert.equal(world.origin.seen.length, 0);
  });

  test('skip: the limit does not apply', async () => {
    const edge = await world.gateway(withMissing('skip'));
    assert.deepEqual(statuses(await many(9, () => edge.send('/a'))), { 200: 9 });
    assert.equal(world.store.stats.requests, 0);
    assert.deepEqual(statuses(await many(9, () => edge.send('/a', headers({ 'x-tenant': 't' })))), { 200: 3, 429: 6 });
  });

  test('share: all of them are one subject', async () => {
    const edge = await world.gateway(withMissing('share'));
    const replies = await many(9, (index) => edge.send('/a', { ip: `192.0.2.${index}` }));
    assert.deepEqual(statuses(replies), { 200: 3, 429: 6 });
    assert.equal((await edge.send('/a', headers({ 'x-tenant': '-' }))).status, 200, 'the name of the shared one');
  });

  test('an address that is missing or none is never taken from elsewhere', async () => {
    const edge = await world.gateway(withMissing('deny', ['ip']));
    for (const options of [
      { ip: '', headers: { 'x-forwarded-for': '192.0.2.9', 'x-real-ip': '192.0.2.9' } },
      { ip: 'unknown' },
      { ip: '192.0.2.1, 192.0.2.2' },
      { ip: '999.0.2.1' },
    ]) {
      assert.equal((await edge.send('/a', options)).status, 400, JSON.stringify(options));
    }
    assert.equal(world.store.stats.requests, 0);
  });

  test('client_ip names the one header that counts', async () => {
    const edge = await world.gateway(policy([limit('a')], undefined, { gateway: { client_ip: 'x-real-ip' } }));
    const replies = await many(9, (index) =>
      edge.send('/a', { ip: `192.0.2.${index}`, headers: { 'x-real-ip': '198.51.100.1' } }),
    );
    assert.deepEqual(statuses(replies), { 200: 3, 429: 6 });
  });
});
