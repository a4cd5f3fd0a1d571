// A store that was never alive for this isolate: the policy from the first request on, the reason in one log line, and
// no storm of calls.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { many, statuses, tiers } from '../support/client.js';
import { problem, REDUCED_CAPACITY } from '../support/fields.js';
import { limit, policy, route } from '../support/policy.js';
import { until, useWorld } from '../support/world.js';

const world = useWorld();

const KINDS = /** @type {const} */ (['open', 'closed', 'degraded']);

/** The breaker and the retries are those of a policy that says nothing of them. */
const text = policy(
  KINDS.map((kind) => limit(kind, { limit: 20, on_store_error: kind })),
  KINDS.map((kind) => route(`/${kind}`, [kind])),
  { store: { timeout: '2s', remember: '0s', breaker: {} } },
);

/**
 * 150 requests, of which the first come alone.
 *
 * @param {{ reason: string, sign: string | RegExp, calls: number, vars?: object, options?: object, before?: string[] }} expected
 */
async function dead({ reason, sign, calls, vars = {}, options = {}, before = [] }) {
  const edge = await world.gateway(text, { ...vars }, {}, options);
  world.store.stats.reset();
  const first = await many(12, (index) => edge.send(`/${KINDS[index % 3]}`), 1);
  const later = await many(138, (index) => edge.send(`/${KINDS[index % 3]}`), 24);
  const replies = [...first, ...later];
  const by = (/** @type {number} */ kind) => replies.filter((_, index) => index % 3 === kind);
  assert.deepEqual([statuses(by(0)), tiers(by(0))], [{ 200: 50 }, { open: 50 }]);
  assert.deepEqual([statuses(by(1)), tiers(by(1))], [{ 503: 50 }, { closed: 50 }]);
  assert.deepEqual([statuses(by(2)), tiers(by(2))], [{ 200: 2, 429: 48 }, { degraded: 50 }]);
  for (const reply of by(1)) assert.equal(problem(reply, 503).type, REDUCED_CAPACITY);
  for (const reply of by(2).slice(2)) assert.equal(problem(reply, 429).type, REDUCED_CAPACITY);
  assert.ok(world.store.stats.requests <= calls, `${world.store.stats.requests} calls, at most ${calls}`);
  assert.equal(await world.client.dbSize(), 0, 'something was charged');

  assert.equal((await edge.logged('refused', 98)).length, 98);
  const lines = edge.log().filter(({ event }) => event !== 'refused');
  assert.deepEqual(
    lines.map(({ event }) => event),
    [...before, 'store-failing'],
  );
  assert.equal(lines.at(-1)?.reason, reason);
  assert.match(String(lines.at(-1)?.sign), typeof sign === 'string' ? new RegExp(`^${sign}$`) : sign);
  return edge.logText();
}

/** Five failures open the breaker; a retry, the script's text and a probe or two after a second are the rest. */
const FEW = 12;

describe('dead from the first request', () => {
  test('nobody listens', async () => {
    await dead({
      reason: 'unreachable',
      sign: 'connection',
      calls: 0,
      vars: { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1' },
    });
  });

  test('each connection is reset', async () => {
    world.store.faults.always(FAULTS.resetBefore);
    await dead({ reason: 'unreachable', sign: 'connection', calls: FEW });
  });

  for (const tls of [true, false]) {
    test(`https: to a port that speaks none${tls ? '' : ', from a runtime that cannot'}`, async () => {
      const vars = { UPSTASH_REDIS_REST_URL: world.store.url.replace('http:', 'https:') };
      await dead({ reason: 'unreachable', sign: 'connection', calls: 0, vars, options: { tls } });
    });
  }

  test('the URL is somebody else’s', async () => {
    const vars = { UPSTASH_REDIS_REST_URL: `${world.origin.url}/elsewhere` };
    await dead({ reason: 'malformed', sign: 'status 200', calls: 0, vars });
    const asked = world.origin.seen.filter(({ path }) => path === '/elsewhere').length;
    assert.ok(asked >= 5 && asked <= FEW, `${asked} calls`);
  });

  test('Redis is gone behind the endpoint', async () => {
    world.store.faults.always(FAULTS.empty503);
    await dead({ reason: 'malformed', sign: 'status 503', calls: FEW });
  });
});

describe('alive, and of no use', () => {
  test('a wrong token: one call', async () => {
    const vars = { UPSTASH_REDIS_REST_TOKEN: 'private-wrong-token' };
    const log = await dead({ reason: 'misconfigured', sign: 'WRONGPASS', calls: 1, vars });
    assert.doesNotMatch(log, /private-wrong-token/);
  });

  test('no token: one call, and a line that says so', async () => {
    const vars = { UPSTASH_REDIS_REST_TOKEN: undefined };
    await dead({ reason: 'misconfigured', sign: /^(WRONGPASS|Unauthorized)$/, calls: 1, vars, before: ['no-token'] });
  });

  test('a token that may not run scripts: one call', async () => {
    await withUser(['-evalsha', '-eval'], () => dead({ reason: 'misconfigured', sign: 'NOPERM', calls: 1 }));
  });

  test('a token that may read only: one call, and one with the script’s text', async () => {
    const sign = /^(NOPERM|The user executing the script|ACL failure in script)$/;
    await withUser(['-set'], () => dead({ reason: 'misconfigured', sign, calls: 2 }));
  });

  test('a replica that is read-only', async () => {
    await world.client.sendCommand(['REPLICAOF', '127.0.0.1', '1']);
    try {
      await dead({ reason: 'busy', sign: /^(READONLY|MASTERDOWN)$/, calls: FEW });
    } finally {
      await world.client.sendCommand(['REPLICAOF', 'NO', 'ONE']);
    }
  });

  test('a database that is full', async () => {
    await world.client.configSet('maxmemory', '1');
    try {
      await dead({ reason: 'full', sign: 'OOM', calls: FEW });
    } finally {
      await world.client.configSet('maxmemory', '0');
    }
  });

  test('a quota that is used up: one call', async () => {
    world.store.faults.always(FAULTS.requestsExceeded);
    await dead({ reason: 'quota', sign: 'max requests limit exceeded', calls: 1 });
  });

  test('a database that was suspended: one call', async () => {
    world.store.faults.always(FAULTS.suspended);
    await dead({ reason: 'quota', sign: 'suspended', calls: 1 });
  });

  test('a provider that asks for fewer calls: one call', async () => {
    world.store.faults.always(FAULTS.tooManyRequests(60));
    await dead({ reason: 'throttled', sign: 'status 429', calls: 1 });
  });

  /**
   * With rights taken from the endpoint's user.
   *
   * @param {string[]} rights
   * @param {() => Promise<unknown>} run
   */
  async function withUser(rights, run) {
    await world.client.sendCommand(['ACL', 'SETUSER', 'default', ...rights]);
    try {
      await run();
    } finally {
      await world.client.sendCommand(['ACL', 'SETUSER', 'default', '+@all']);
    }
  }
});

test('well later: the first request that finds it so is the store’s', async () => {
  const brief = { ...text, store: { timeout: '2s', breaker: { open: '50ms', max_open: '50ms', long_open: '50ms' } } };
  for (const fault of [FAULTS.resetBefore, FAULTS.unauthorized, FAULTS.oom]) {
    const edge = await world.gateway(brief);
    world.store.faults.always(fault);
    await many(20, () => edge.send('/open'));
    world.store.faults.clear();
    await until(async () => (await edge.send('/open')).headers['sluicegate-tier'] === 'store', 'the store');
    await until(() => edge.send('/open').then(() => edge.log().length === 2), 'a line that says so');
    assert.deepEqual(
      edge.log().map(({ event }) => event),
      ['store-failing', 'store-recovered'],
    );
  }
});
