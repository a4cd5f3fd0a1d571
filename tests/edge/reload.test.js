// A policy put into POLICY_KV while the Worker runs. The namespace is workerd's own client before a server of the test's.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SignJWT } from 'jose';
import { many, statuses } from './support/client.js';
import { left } from './support/fields.js';
import { useNamespace } from './support/namespace.js';
import { limit, policy, route } from './support/policy.js';
import { until, useWorld } from './support/world.js';

/** @typedef {import('./support/world.js').Edge} Edge */

const world = useWorld();
const namespace = useNamespace();

/** A gateway that reads the namespace each second. @param {unknown} text @param {Record<string, unknown>} [vars] */
const gateway = (text, vars) =>
  world.gateway(text, { POLICY_KV_SECONDS: '1', ...vars }, {}, { namespaces: { POLICY_KV: namespace.address } });

/** What makes the gateway read, and asks no store. @param {Edge} edge */
const health = (edge) => edge.send('/.sluicegate/health');

/**
 * Waits for one more line of that event.
 *
 * @param {Edge} edge
 * @param {string} event
 * @param {() => unknown} change what leads to it
 */
async function leadsTo(edge, event, change) {
  const lines = () => edge.log().filter((line) => line.event === event);
  const before = lines().length;
  change();
  await until(async () => {
    await health(edge);
    return lines().length > before;
  }, event);
  return lines()[before];
}

/** @param {Edge} edge @param {unknown} text */
const put = (edge, text) => leadsTo(edge, 'policy-reloaded', () => namespace.put(text));

describe('counters', () => {
  test('a raised limit keeps what was used, in the store', async () => {
    const edge = await gateway(policy([limit('a', { limit: 10 })]));
    assert.deepEqual(statuses(await many(14, () => edge.send('/a'))), { 200: 10, 429: 4 });
    await put(edge, policy([limit('a', { limit: 15 })]));
    assert.deepEqual(statuses(await many(14, () => edge.send('/a'))), { 200: 5, 429: 9 });
  });

  test('and without a store', async () => {
    const edge = await gateway(policy([limit('a', { limit: 10 })]), { UPSTASH_REDIS_REST_URL: undefined });
    assert.deepEqual(statuses(await many(14, () => edge.send('/a'))), { 200: 10, 429: 4 });
    await put(edge, policy([limit('b'), limit('a', { limit: 15 })]));
    assert.deepEqual(statuses(await many(14, () => edge.send('/a?', { ip: '192.0.2.2' }))), { 200: 3, 429: 11 });
    await put(edge, policy([limit('a', { limit: 15 })]));
    // The other address had used 3 of both; this one has 5 of 15 left.
    assert.deepEqual(statuses(await many(14, () => edge.send('/a'))), { 200: 5, 429: 9 });
    assert.deepEqual(statuses(await many(14, () => edge.send('/a', { ip: '192.0.2.2' }))), { 200: 12, 429: 2 });
  });

  test('another algorithm starts a new counter', async () => {
    const edge = await gateway(policy([limit('a', { limit: 10 })]));
    assert.deepEqual(statuses(await many(14, () => edge.send('/a'))), { 200: 10, 429: 4 });
    await put(edge, policy([limit('a', { limit: 10, algorithm: 'sliding-log' })]));
    assert.deepEqual(statuses(await many(14, () => edge.send('/a'))), { 200: 10, 429: 4 });
  });
});

describe('which policy holds', () => {
  test('the first request is answered before the namespace is read, which is then read once', async () => {
    namespace.put(policy([limit('a', { limit: 9 })]));
    namespace.is = 'hangs';
    const edge = await world.gateway(policy([limit('a')]), {}, {}, { namespaces: { POLICY_KV: namespace.address } });
    assert.equal(left(await edge.send('/a'), 'a'), 2);
    await until(() => namespace.asked.length, 'a read');
    assert.deepEqual(statuses(await many(19, () => edge.send('/a'), 1)), { 200: 2, 429: 17 });
    assert.deepEqual(
      edge.log().filter(({ event }) => event === 'policy-unreadable'),
      [],
      'nobody waited for it to give up',
    );
    assert.deepEqual(
      namespace.asked,
      ['/policy?urlencoded=true&cache_ttl=30'],
      'by default no more often than each 30 s',
    );
  });

  test('nothing is read where no namespace is bound', async () => {
    const edge = await world.gateway(policy([limit('a')]), { POLICY_KV_SECONDS: '1' });
    await many(20, () => edge.send('/a'));
    assert.deepEqual(namespace.asked, []);
  });

  test('the namespace’s before POLICY; POLICY again when the key is removed', async () => {
    const edge = await gateway(policy([limit('a')]));
    const line = await put(edge, policy([limit('a', { limit: 9 })]));
    assert.equal(line.source, 'POLICY_KV');
    assert.equal(left(await edge.send('/a'), 'a'), 8);
    const back = await leadsTo(edge, 'policy-reloaded', () => {
      namespace.policy = undefined;
    });
    assert.deepEqual([back.source, back.before], ['POLICY', line.digest]);
    assert.equal(left(await edge.send('/a'), 'a'), 1);
  });

  test('and before the policy compiled in', async () => {
    const edge = await gateway(undefined);
    assert.equal(left(await edge.send('/hello'), 'hello-minute'), 19);
    await put(edge, policy([limit('a')]));
    assert.equal((await edge.send('/hello')).headers.ratelimit, undefined);
  });

  test('routes come and go', async () => {
    const limits = [limit('a'), limit('b', { limit: 7 })];
    const strict = { gateway: { unmatched: 'deny' } };
    const edge = await gateway(policy(limits, [route('/a', ['a'])], strict));
    assert.deepEqual([(await edge.send('/a')).status, (await edge.send('/b')).status], [200, 404]);
    await put(edge, policy(limits, [route('/b', ['b'])], strict));
    const replies = [await edge.send('/a'), await edge.send('/b')];
    assert.deepEqual([replies[0].status, replies[1].status, left(replies[1], 'b')], [404, 200, 6]);
  });

  test('tokens are verified by the new policy’s key and no more by the one before', async () => {
    const secrets = { ONE: 'the-first-secret-of-this-test-000', TWO: 'the-second-secret-of-this-test-00' };
    const by = (/** @type {string} */ secret) => ({
      ...policy([limit('a', { key: ['jwt:sub'] })]),
      jwt: { algorithms: ['HS256'], secret },
    });
    const edge = await gateway(by('ONE'), secrets);
    const answers = async () => {
      const sent = Object.values(secrets).map(async (secret) => {
        const token = new SignJWT({ sub: 'me' }).setProtectedHeader({ alg: 'HS256' }).setExpirationTime('1h');
        const signed = await token.sign(new TextEncoder().encode(secret));
        return (await edge.send('/a', { headers: { authorization: `Bearer ${signed}` } })).status;
      });
      return Promise.all(sent);
    };
    assert.deepEqual(await answers(), [200, 400]);
    await put(edge, by('TWO'));
    assert.deepEqual(await answers(), [400, 200]);
  });

  test('a right one heals a Worker whose POLICY is wrong', async () => {
    const edge = await gateway({ version: 2 });
    assert.deepEqual([(await edge.send('/a')).status, (await health(edge)).status], [500, 503]);
    await put(edge, policy([limit('a')]));
    assert.deepEqual([(await edge.send('/a')).status, (await health(edge)).status], [200, 200]);
  });
});

describe('a wrong policy', () => {
  test('is reported once, with place and cure; the last good one stays', async () => {
    const edge = await gateway(policy([limit('a')]));
    await put(edge, policy([limit('a', { limit: 9 })]));
    const line = await leadsTo(edge, 'bad-policy', () => namespace.put(policy([limit('a', { limit: 0 })])));
    assert.match(line.errors.join('\n'), /limits\[0\]\.limit: .*; .*"blocked"/);
    await namespace.read(() => health(edge));
    assert.equal(left(await edge.send('/a'), 'a'), 8);
    const { status, reload } = (await health(edge)).json();
    assert.equal(status, 'ok');
    assert.deepEqual(reload.errors, line.errors);
    await put(edge, policy([limit('a', { limit: 10 })]));
    assert.equal((await edge.logged('bad-policy')).length, 1);
    assert.deepEqual((await health(edge)).json(), { status: 'ok' });
  });

  for (const [what, text] of /** @type {[string, unknown][]} */ ([
    ['text that is no JSON', '{"version":1,'],
    ['more than a megabyte', { ...policy([limit('a')]), limitz: 'x'.repeat(3_000_000) }],
    ['bytes that are no text', '\u0000\uffff'],
  ])) {
    test(`${what}`, async () => {
      const edge = await gateway(policy([limit('a')]));
      await leadsTo(edge, 'bad-policy', () => namespace.put(text));
      assert.equal(left(await edge.send('/a'), 'a'), 2);
    });
  }
});

describe('a namespace that fails', () => {
  for (const [is, reason] of /** @type {const} */ ([
    ['fails', 'error'],
    ['hangs', 'deadline'],
  ])) {
    test(`${is}: nothing changes, and the log says so once each way`, async () => {
      const edge = await gateway(policy([limit('a', { limit: 5 })]));
      await put(edge, policy([limit('a', { limit: 90 })]));
      const line = await leadsTo(edge, 'policy-unreadable', () => {
        namespace.is = is;
      });
      assert.equal(line.reason, reason);
      await namespace.read(() => health(edge), 2);
      assert.equal((await edge.send('/a')).status, 200);
      assert.equal(namespace.most, 1, 'one read at a time');
      await leadsTo(edge, 'policy-readable', () => {
        namespace.is = 'well';
      });
      assert.equal((await edge.logged('policy-unreadable')).length, 1);
      assert.doesNotMatch(edge.logText(), /private-namespace-text/);
      assert.equal((await edge.logged('policy-reloaded')).length, 1);
    });
  }

  test('a binding that is no namespace', async () => {
    const edge = await world.gateway(policy([limit('a')]), { POLICY_KV: 'text', POLICY_KV_SECONDS: '1' });
    const line = await leadsTo(edge, 'policy-unreadable', () => {});
    assert.equal(line.reason, 'error');
    assert.equal((await edge.send('/a')).status, 200);
  });
});

test('under load no request is lost while policies flip, wrong ones between, and the largest limit holds', async () => {
  const sizes = [400, 700, 550];
  const other = [limit('z', { limit: 10_000 })];
  const of = (/** @type {number} */ size, /** @type {boolean} */ turned) => {
    const limits = [limit('a', { limit: size }), ...other];
    return policy(turned ? limits.toReversed() : limits, [route('/a', ['a']), route('/z', ['z', 'a'])]);
  };
  const edge = await gateway(of(sizes[0], false));
  const wrong = of(0, false);
  const told = () => edge.log().filter(({ event }) => event === 'policy-reloaded' || event === 'bad-policy');
  /** @type {Record<number, number>} */
  const totals = {};
  let sent = 0;
  let put = 0;
  const worker = async () => {
    while (sent < 2000 || told().length < 6) {
      sent += 1;
      if (told().length === put) {
        put += 1;
        namespace.put(put % 2 === 0 ? wrong : of(sizes[put % 3], put % 4 === 1));
      }
      const { status, headers } = await edge.send(sent % 2 === 0 ? '/a' : '/z');
      totals[status] = (totals[status] ?? 0) + 1;
      assert.ok(status !== 200 || headers['sluicegate-tier'] === 'store', String(headers['sluicegate-tier']));
    }
  };
  await Promise.all(Array.from({ length: 50 }, worker));
  const events = told().map(({ event }) => event);
  assert.deepEqual(events.slice(0, 4), ['policy-reloaded', 'bad-policy', 'policy-reloaded', 'bad-policy']);
  assert.deepEqual(Object.keys(totals), ['200', '429'], JSON.stringify(totals));
  assert.equal(totals[200] + totals[429], sent);
  assert.equal(totals[200], world.origin.seen.length, 'each one let through reached the origin');
  assert.ok(totals[200] >= 400 && totals[200] <= 700, JSON.stringify(totals));
});
