// What goes no further than the gateway, and what is taken off what does.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { left, problem } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();
const wide = policy([limit('a', { limit: 9 })], [route('/{*rest}', ['a'])]);

test('a URL of 16 KB passes, a longer one is 414', async () => {
  const edge = await world.gateway(wide);
  const whole = 16_384 - edge.url.length;
  const path = `/${'x'.repeat(whole - 1)}`;
  assert.equal((await edge.send(path)).status, 200);
  assert.equal(world.origin.seen[0].path, path);
  for (const longer of [`${path}x`, `/?${'x'.repeat(whole - 1)}`, `/${'x'.repeat(60_000)}`]) {
    problem(await edge.send(longer), 414);
  }
  assert.equal((await edge.send(`${path}x`, { method: 'HEAD' })).text, '');
  assert.equal(world.origin.seen.length, 1);
});

test('a Host that would end the URL before its path is 400: the origin would get another path than was looked up', async () => {
  const edge = await world.gateway(policy([limit('a', { limit: 1 })], [route('/a', ['a'])]));
  assert.equal((await edge.send('/a')).status, 200);
  for (const host of ['x?', 'x#', 'x:80?', '?']) {
    problem(await edge.send('/a', { headers: { host } }), 400);
  }
  assert.equal((await edge.send('/a', { headers: { host: 'x.test:80' } })).status, 429);
  assert.equal(world.origin.seen.length, 1);
});

describe('names of our own', () => {
  test('a client’s sluicegate-* headers do not reach the origin', async () => {
    const edge = await world.gateway({ ...wide, routes: [route('/{*rest}', ['a']), route('/free', [])] });
    const headers = { 'Sluicegate-Tier': 'store', 'sluicegate-anything': '1', 'x-sluicegate': 'not ours' };
    for (const path of ['/a', '/free']) {
      await edge.send(path, { headers });
      const names = Object.keys(world.origin.seen.at(-1)?.headers ?? {});
      assert.deepEqual(
        names.filter((name) => name.includes('sluicegate')),
        ['x-sluicegate'],
      );
    }
  });

  test('an origin’s Sluicegate-Tier is not taken for ours', async () => {
    for (const tier_header of [true, false]) {
      const text = policy([limit('a')], [route('/a', ['a']), route('/free', [])], { gateway: { tier_header } });
      const edge = await world.gateway(text);
      for (const path of ['/a', '/free']) {
        world.origin.handlers.set(path, (response) => response.writeHead(200, { 'sluicegate-tier': 'forged' }).end());
        const said = (await edge.send(path)).headers['sluicegate-tier'];
        assert.equal(said, tier_header && path === '/a' ? 'store' : undefined, `${path} ${tier_header}`);
      }
    }
  });

  test('numbers of the origin’s make way for ours, lists keep both', async () => {
    const headers = ['draft-10', 'draft-03', 'x-ratelimit'];
    const edge = await world.gateway(policy([limit('a')], undefined, { gateway: { headers } }));
    world.origin.handlers.set('/a', (response) =>
      response
        .writeHead(200, {
          ratelimit: '"theirs";r=7;t=5',
          'ratelimit-limit': '5000',
          'ratelimit-remaining': '4999',
          'x-ratelimit-limit': '5000',
          'x-ratelimit-used': '1',
        })
        .end(),
    );
    const reply = await edge.send('/a');
    assert.match(String(reply.headers.ratelimit), /^"theirs";r=7;t=5, "a";r=2;t=/);
    assert.deepEqual([reply.headers['ratelimit-limit'], reply.headers['ratelimit-remaining']], ['3', '2']);
    assert.deepEqual([reply.headers['x-ratelimit-limit'], reply.headers['x-ratelimit-used']], ['3', '1']);
  });
});

test('an answer to HEAD says no length but that of GET', async () => {
  const edge = await world.gateway(policy([limit('a', { limit: 1 })]));
  await edge.send('/a');
  const get = await edge.send('/a');
  const head = await edge.send('/a', { method: 'HEAD' });
  assert.deepEqual([head.status, head.text], [429, '']);
  const { 'content-length': length, date: _, ...same } = get.headers;
  const { 'content-length': said, 'transfer-encoding': __, date: ___, ...others } = head.headers;
  assert.ok(said === undefined || said === length, `Content-Length of HEAD is ${said}, of GET ${length}`);
  for (const name of Object.keys(same)) assert.ok(name in others, name);
  assert.equal(left(head, 'a'), 0);
});

test('only refusals say no-store', async () => {
  const edge = await world.gateway(policy([limit('a', { limit: 1 })]));
  assert.equal((await edge.send('/a')).headers['cache-control'], undefined);
  assert.equal((await edge.send('/a')).headers['cache-control'], 'no-store');
});
