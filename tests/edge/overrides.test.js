// Limits for one subject, put into the store by hand: the same EVAL reads them.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { many, statuses, tiers } from './support/client.js';
import { left, problem } from './support/fields.js';
import { limit, policy } from './support/policy.js';
import { useWorld } from './support/world.js';

const world = useWorld();

describe('overrides in the store', () => {
  const OVERRIDE = 'sg:1:a:override-instead-of-the-policy-s-limit:192.0.2.1';
  const text = policy([limit('a')], undefined, { store: { remember: '0s' } });

  test('a raised limit holds for its subject alone', async () => {
    const edge = await world.gateway(text);
    await world.client.set(OVERRIDE, '7 0');
    assert.deepEqual(statuses(await many(12, () => edge.send('/a'))), { 200: 7, 429: 5 });
    assert.deepEqual(statuses(await many(12, () => edge.send('/a', { ip: '192.0.2.2' }))), { 200: 3, 429: 9 });
  });

  test('a lowered one counts what was used', async () => {
    const edge = await world.gateway(text);
    await edge.send('/a');
    await world.client.set(OVERRIDE, '2 0');
    assert.equal(left(await edge.send('/a'), 'a'), 0);
    assert.equal((await edge.send('/a')).status, 429);
  });

  test('until its time: from then on the policy’s limit holds', async () => {
    const edge = await world.gateway(text);
    await world.client.set(OVERRIDE, `9 ${Date.now() - 1000}`);
    assert.equal(left(await edge.send('/a'), 'a'), 2);
    await world.client.set(OVERRIDE, `9 ${Date.now() + 3_600_000}`);
    assert.equal(left(await edge.send('/a'), 'a'), 7);
  });

  test('a ban without an end: 429, reason blocked, no Retry-After', async () => {
    const edge = await world.gateway(text);
    await world.client.set(OVERRIDE, '0 0');
    const reply = await edge.send('/a');
    problem(reply, 429);
    assert.equal(reply.headers['retry-after'], undefined);
    assert.equal((await edge.logged('refused'))[0].reason, 'blocked');
    await world.client.del(OVERRIDE);
    assert.equal((await edge.send('/a')).status, 200);
  });

  test('a ban until a moment: Retry-After reaches until then', async () => {
    const edge = await world.gateway(text);
    const end = Date.now() + 600_000;
    await world.client.set(OVERRIDE, `0 ${end}`);
    const before = Date.now();
    const reply = await edge.send('/a');
    const seconds = Number(reply.headers['retry-after']);
    const [least, most] = [Math.ceil((end - Date.now()) / 1000), Math.ceil((end - before) / 1000)];
    assert.ok(least <= seconds && seconds <= most, `${seconds}`);
    assert.equal((await edge.logged('refused'))[0].reason, 'blocked');
  });

  test('one that cannot be read changes nothing', async () => {
    const edge = await world.gateway(text);
    for (const value of ['', 'x', '7', '7 0 0', '-1 0', '7.5 0']) {
      await world.client.del(await world.keys().then((keys) => [OVERRIDE, ...keys]));
      await world.client.set(OVERRIDE, value);
      const reply = await edge.send('/a');
      assert.deepEqual([reply.status, left(reply, 'a')], [200, 2], value);
    }
  });

  test('costs no command more', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    await world.client.set(OVERRIDE, '1 0');
    await edge.send('/a', { ip: '192.0.2.2' });
    const tallies = [];
    for (let sent = 0; sent < 3; sent += 1) {
      await world.resetCommands();
      tallies.push([tiers([await edge.send('/a')]), await world.commands()]);
    }
    assert.deepEqual(tallies, [
      [{ store: 1 }, { evalsha: 1, mget: 1, set: 1 }],
      [{ store: 1 }, { evalsha: 1, mget: 1 }],
      [{ cache: 1 }, {}],
    ]);
  });
});
