// Limits whose costs settle after the answer: what the origin says a request has really cost is what it is charged.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { call } from './admin/api.js';
import { many } from './support/client.js';
import { left, problem } from './support/fields.js';
import { limit, policy, route } from './support/policy.js';
import { useSettling } from './support/settling.js';
import { useWorld } from './support/world.js';

/** @typedef {import('./support/world.js').Edge} Edge */

const world = useWorld();
const { tokens, settling, isSettlement, charging, counts, untilSettled, used, charges, told } = useSettling(world);

describe('by the header of the answer', () => {
  for (const algorithm of ['fixed-window', 'sliding-window', 'token-bucket']) {
    test(`${algorithm}: less is given back, more is charged, once`, async () => {
      charging();
      const edge = await world.gateway(settling({ algorithm }));
      const cheap = await edge.send('/a?used=30');
      assert.deepEqual([cheap.status, cheap.text, left(cheap, 'tokens')], [200, 'answer', 900]);
      assert.equal(cheap.headers['x-usage-tokens'], '30', "the header is the origin's, and stays");
      await untilSettled(edge, 1);
      assert.equal(await used(edge), 30);
      await edge.send('/a?used=150');
      await untilSettled(edge, 2);
      assert.equal(await used(edge), 180);
      const { made, charged, given_back, lost } = await counts(edge);
      assert.deepEqual([made, charged, given_back, lost], [2, 50, 70, 0]);
    });
  }

  test('a debt is charged in full, and nothing passes before it is paid', async () => {
    charging();
    const edge = await world.gateway(settling({ algorithm: 'token-bucket', limit: 100, window: '1d' }));
    await edge.send('/a?used=600');
    await untilSettled(edge, 1);
    const refused = await edge.send('/a?used=1');
    problem(refused, 429);
    // 500 of debt and 100 for the request itself, at 100 a day.
    const wait = Number(refused.headers['retry-after']);
    assert.ok(wait > 5.9 * 86_400 && wait <= 6 * 86_400, `${wait} s`);
    const [key] = (await world.keys()).filter((name) => name.includes(':tokens:'));
    assert.ok((await world.client.pTTL(key)) > 5.9 * 86_400_000, 'the key outlives the debt');
  });

  test('no more than max is believed; without the header, or without a number, the reservation stands', async () => {
    charging();
    const edge = await world.gateway(settling({ limit: 100_000 }));
    await edge.send('/a?used=99999999999999999999999');
    await untilSettled(edge, 1);
    assert.equal(await used(edge), 1000);
    for (const odd of ['-1', '1.5', '1e3', 'many', '1,2', '0x10'])
      await edge.send(`/a?used=${encodeURIComponent(odd)}`);
    await untilSettled(edge, 6, 'unreadable');
    await edge.send('/a');
    await untilSettled(edge, 1, 'without_header');
    assert.equal(await used(edge), 1000 + 700);
    assert.equal((await edge.logged('unreadable-cost')).length, 1, 'said once, not six times');
    await edge.send('/a?used=5');
    await untilSettled(edge, 2);
    await edge.send('/a?used=x');
    await edge.logged('unreadable-cost', 2);
  });

  test('the answer waits for no settlement', async () => {
    charging();
    const edge = await world.gateway(settling());
    world.store.faults.always({ ...FAULTS.stall, match: isSettlement });
    const reply = await edge.send('/a?used=10');
    assert.deepEqual([reply.status, reply.text], [200, 'answer']);
    assert.equal((await counts(edge)).made, 0);
  });

  test('an origin that fails or is too slow leaves the reservation', async () => {
    charging();
    world.origin.handlers.set('/a', (response) => response.destroy());
    const edge = await world.gateway(settling());
    problem(await edge.send('/a'), 502);
    assert.equal(await used(edge), 100);
    // What it had done it may still tell.
    assert.equal((await told(edge, charges()[0], 0)).json().settled, true);
    assert.equal(await used(edge), 0);
    const slow = await world.gateway(policy([tokens()], undefined, { gateway: { origin_timeout: '50ms' } }));
    world.origin.handlers.set('/a', () => {});
    problem(await slow.send('/a'), 504);
    assert.equal(await used(edge), 100);
  });

  test('a request costs an EVAL more, of three commands', async () => {
    charging();
    const edge = await world.gateway(settling());
    await edge.send('/a?used=1');
    await untilSettled(edge, 1);
    await world.resetCommands();
    await edge.send('/a?used=1');
    await untilSettled(edge, 2);
    assert.deepEqual(await world.commands(), { evalsha: 2, mget: 2, set: 3 });
    for (const key of await world.keys()) assert.ok((await world.client.pTTL(key)) > 0, key);
  });

  test('limits with headers of their own, and those that do not settle, on one route', async () => {
    const images = limit('images', { limit: 50, cost: 5, settle: { header: 'x-usage-images', max: 50 } });
    const edge = await world.gateway(policy([tokens(), images, limit('requests', { limit: 10 })]));
    world.origin.handlers.set('/a', (response) => {
      response.writeHead(200, { 'x-usage-tokens': '7', 'x-usage-images': '9' }).end();
    });
    await edge.send('/a');
    await untilSettled(edge, 1);
    assert.deepEqual([await used(edge), await used(edge, 'images'), await used(edge, 'requests')], [7, 9, 1]);
  });
});

describe('the charge', () => {
  test('the origin is told of it, and no client can say one', async () => {
    const edge = await world.gateway(
      policy([tokens({ key: ['header:x-tenant'] }), limit('other')], [route('/a', ['tokens']), route('/b', ['other'])]),
    );
    const headers = { 'sluicegate-charge': 'forged', 'x-tenant': 'secret-tenant' };
    await edge.send('/a', { headers });
    await edge.send('/b', { headers });
    const [first, second] = world.origin.seen.map(({ headers }) => headers['sluicegate-charge']);
    assert.match(String(first), /^[!-~]{60,200}$/);
    assert.ok(!String(first).includes('secret-tenant') && !String(first).includes('forged'));
    assert.equal(second, undefined, 'a limit that does not settle has none');
  });

  for (const secret of [undefined, 'key-secret']) {
    test(`changed in any place, or of another gateway, it is refused (${secret ?? 'no KEY_SECRET'})`, async () => {
      const edge = await world.gateway(settling(), { KEY_SECRET: secret });
      await edge.send('/a');
      const [charge] = charges();
      for (const at of [0, 25, 40, charge.length - 30, charge.length - 1]) {
        const other = charge[at] === '1' ? '2' : '1';
        const changed = charge.slice(0, at) + other + charge.slice(at + 1);
        assert.match(problem(await told(edge, changed, 1), 400).detail, /settle\.charge/);
      }
      for (const odd of ['', ',', 'x', `${charge}"`, `${charge}\n`]) problem(await told(edge, odd, 1), 400);
      assert.equal(await used(edge), 100);
      const another = await world.gateway(settling(), { KEY_SECRET: 'another' });
      problem(await told(another, charge, 1), 400);
    });
  }
});

describe('by the API', () => {
  test('what a stream has cost is told when it has ended, once', async () => {
    const edge = await world.gateway(settling());
    await edge.send('/a');
    const [charge] = charges();
    assert.deepEqual((await told(edge, charge, 30)).json(), {
      settled: true,
      limits: [{ name: 'tokens', units: -70, remaining: 970 }],
    });
    assert.deepEqual((await told(edge, charge, 999)).json(), {
      settled: false,
      reason: 'already-settled',
      limits: [{ name: 'tokens', units: -70, remaining: 970 }],
    });
    assert.equal(await used(edge), 30);
    const elsewhere = await world.gateway(settling());
    assert.equal((await told(elsewhere, charge, 999)).json().reason, 'already-settled', 'from another isolate too');
    assert.equal((await counts(edge)).repeated, 1);
  });

  test('after the header it changes nothing', async () => {
    charging();
    const edge = await world.gateway(settling());
    await edge.send('/a?used=20');
    await untilSettled(edge, 1);
    assert.equal((await told(edge, charges()[0], 500)).json().settled, false);
    assert.equal(await used(edge), 20);
  });

  test('from any isolate, by all that it holds: two hundred at once, each told twice by two', async () => {
    const [one, other] = await Promise.all([
      world.gateway(settling({ limit: 100_000 })),
      world.gateway(settling({ limit: 100_000 })),
    ]);
    await many(200, () => one.send('/a'), 32);
    const costs = charges().map((_, index) => index);
    const answers = await many(
      400,
      (index) => told(index % 2 ? one : other, charges()[index >> 1], costs[index >> 1]),
      32,
    );
    // A call that is made again, its reply having been lost, counts as the one that settled, whoever did.
    const retries = async (/** @type {Edge} */ edge) => (await call(edge, 'GET', 'status')).json().store.retries;
    const again = (await retries(one)) + (await retries(other));
    const settled = answers.filter((reply) => reply.json().settled).length;
    assert.ok(settled >= 200 && settled <= 200 + again, `${settled} settled, ${again} calls made again`);
    assert.equal(
      await used(one),
      costs.reduce((sum, cost) => sum + cost, 0),
    );
  });

  test('a check that charges such a limit answers with a charge of its own', async () => {
    const edge = await world.gateway(settling());
    const question = { limits: ['tokens'], subject: { ip: '192.0.2.1' } };
    const { charge } = (await call(edge, 'POST', 'check', question)).json();
    assert.equal((await told(edge, charge, { tokens: 1 })).json().settled, true);
    assert.equal(await used(edge), 1);
    assert.equal((await call(edge, 'POST', 'check', { ...question, cost: 0 })).json().charge, undefined, 'a look');
  });

  test('questions that make no sense are refused, and change nothing', async () => {
    const edge = await world.gateway(settling());
    await edge.send('/a');
    const [charge] = charges();
    for (const used_ of [-1, 1.5, '5', null, {}, { other: 1 }, { tokens: -1 }, [1], true]) {
      problem(await told(edge, charge, used_), 400);
    }
    for (const settle_ of [{}, { charge }, { used: 1 }, { charge, used: 1, more: 1 }, [], 'x']) {
      problem(await call(edge, 'POST', 'check', { settle: settle_ }), 400);
    }
    problem(await call(edge, 'POST', 'check', { settle: { charge, used: 1 }, limits: ['tokens'] }), 400);
    const unauthorized = await edge.check({ settle: { charge, used: 1 } }, { headers: { authorization: 'Bearer x' } });
    problem(unauthorized, 401);
    assert.equal(await used(edge), 100);
  });
});
