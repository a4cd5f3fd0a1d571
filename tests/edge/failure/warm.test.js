// Degraded limits: warm from what the store said, no fresh burst when it dies, nothing replayed when it is back, and a
// table that a flood neither fills nor empties.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { many, statuses, tiers } from '../support/client.js';
import { look } from '../support/failing.js';
import { CALM_BREAKER, DAY, limit, policy, route } from '../support/policy.js';
import { until, useWorld } from '../support/world.js';

/** @typedef {import('../support/world.js').Edge} Edge */

const world = useWorld();

const ALGORITHMS = /** @type {const} */ (['fixed-window', 'sliding-window', 'sliding-log', 'token-bucket']);

/** Ten a day of each algorithm, of which an isolate grants five while the store is away. */
const byAlgorithm = policy(
  ALGORITHMS.map((algorithm) =>
    limit(algorithm, { algorithm, limit: 10, window: DAY.text, on_store_error: 'degraded' }),
  ),
  ALGORITHMS.map((algorithm) => route(`/${algorithm}`, [algorithm])),
  { degraded: { share: 0.5 }, store: { remember: '0s', retry: { budget: 0 } } },
);

/** How many of `count` requests, one after another, pass. @param {Edge} edge @param {string} path @param {number} count */
async function pass(edge, path, count, ip = '192.0.2.1') {
  const replies = await many(count, () => edge.send(path, { ip }), 1);
  const tier = Object.keys(tiers(replies)).join();
  return [tier, statuses(replies)[200] ?? 0];
}

/** @param {Edge} edge */
async function recover(edge) {
  world.store.faults.clear();
  await until(async () => typeof (await look(edge, ALGORITHMS[0], '192.0.2.250')) === 'number', 'the store');
}

/** What Redis holds, by key. */
async function contents() {
  const script = "return redis.sha1hex(redis.call('GET', KEYS[1]))";
  const keys = (await world.keys()).sort();
  return Promise.all(keys.map(async (key) => [key, await world.client.eval(script, { keys: [key] })]));
}

describe('when the store dies', () => {
  for (const algorithm of ALGORITHMS) {
    test(`${algorithm}: who used 10 of 10 is refused at once, who used 7 has 3 of the share's 5, a stranger 5`, async () => {
      const edge = await world.gateway(byAlgorithm);
      const path = `/${algorithm}`;
      assert.deepEqual(await pass(edge, path, 10, '192.0.2.10'), ['store', 10]);
      assert.deepEqual(await pass(edge, path, 7, '192.0.2.7'), ['store', 7]);
      assert.deepEqual(await pass(edge, path, 2, '192.0.2.2'), ['store', 2]);
      world.store.faults.always(FAULTS.resetBefore);
      assert.deepEqual(await pass(edge, path, 3, '192.0.2.10'), ['degraded', 0]);
      assert.deepEqual(await pass(edge, path, 8, '192.0.2.7'), ['degraded', 3]);
      assert.deepEqual(await pass(edge, path, 8, '192.0.2.2'), ['degraded', 5], 'eight are left, the share is five');
      assert.deepEqual(await pass(edge, path, 8, '192.0.2.3'), ['degraded', 5]);
    });

    test(`${algorithm}: back again, nothing was replayed, and the isolate's own count is not fresh`, async () => {
      const edge = await world.gateway(byAlgorithm);
      const path = `/${algorithm}`;
      assert.deepEqual(await pass(edge, path, 7), ['store', 7]);
      const before = await contents();
      world.store.faults.always(FAULTS.resetBefore);
      assert.deepEqual(await pass(edge, path, 8), ['degraded', 3]);
      await recover(edge);
      assert.deepEqual(await contents(), before);
      assert.equal(await look(edge, algorithm, '192.0.2.1'), 3);
      world.store.faults.always(FAULTS.resetBefore);
      assert.deepEqual(await pass(edge, path, 2), ['degraded', 0], 'a second outage is no second share');
      await recover(edge);
      assert.deepEqual(await pass(edge, path, 8), ['store', 3], 'the outage took nothing from the store');
    });

    test(`${algorithm}: a refusal of the store's counts as used up`, async () => {
      const edges = await Promise.all([world.gateway(byAlgorithm), world.gateway(byAlgorithm)]);
      const path = `/${algorithm}`;
      assert.deepEqual(await pass(edges[0], path, 10), ['store', 10]);
      assert.deepEqual(await pass(edges[1], path, 1), ['store', 0]);
      world.store.faults.always(FAULTS.resetBefore);
      assert.deepEqual(await pass(edges[1], path, 5), ['degraded', 0]);
    });
  }

  test('a cost above the share is refused, and passes once the store is back', async () => {
    const cost = { header: 'x-cost', default: 1, max: 10 };
    const costly = limit('fixed-window', { limit: 10, on_store_error: 'degraded', cost });
    const edge = await world.gateway(policy([costly], undefined, { degraded: { share: 0.5 } }));
    world.store.faults.always(FAULTS.resetBefore);
    const headers = { 'x-cost': '6' };
    const refused = await edge.send('/a', { headers });
    assert.deepEqual([refused.status, refused.headers['retry-after']], [429, '1']);
    await recover(edge);
    assert.equal((await edge.send('/a', { headers })).status, 200);
  });
});

describe('three isolates through an outage with traffic', () => {
  for (const algorithm of ['fixed-window', 'token-bucket']) {
    test(`${algorithm}: no more pass than the store's limit and three shares`, async () => {
      const [LIMIT, SHARE, SUBJECTS] = [40, 0.1, 3];
      const limits = [limit('fixed-window', { algorithm, limit: LIMIT, on_store_error: 'degraded' })];
      const breaker = { min_calls: 3, open: '50ms', max_open: '50ms' };
      const text = policy(limits, undefined, { degraded: { share: SHARE }, store: { breaker, timeout: '1s' } });
      const edges = await Promise.all([1, 2, 3].map(() => world.gateway(text)));
      const ip = (/** @type {number} */ index) => `192.0.2.${1 + (index % SUBJECTS)}`;
      const send = (/** @type {number} */ index) =>
        edges[Math.floor(index / SUBJECTS) % 3].send('/a', { ip: ip(index) });
      const before = await many(60, send, 24);
      world.store.faults.always(FAULTS.resetBefore);
      const outage = await many(360, send, 24);
      world.store.faults.clear();
      await Promise.all(edges.map(recover));
      const after = await many(360, send, 24);

      const all = [before, outage, after].flatMap((replies) =>
        replies.map((reply, index) => ({ ...reply, ip: ip(index) })),
      );
      for (let subject = 0; subject < SUBJECTS; subject += 1) {
        const mine = all.filter((reply) => reply.ip === ip(subject) && reply.status === 200);
        const { store = 0, degraded = 0, ...other } = tiers(mine);
        assert.deepEqual(other, {});
        assert.equal(store, LIMIT, 'the outage changed what the store admits');
        assert.ok(degraded <= 3 * Math.max(1, LIMIT * SHARE), `${degraded} passed in the outage`);
        assert.ok(degraded >= 3, 'nothing passed in the outage');
      }
    });
  }
});

describe('a flood of made-up subjects during an outage', () => {
  /** Resident memory in MB. @param {number} pid */
  const resident = (pid) => Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

  /**
   * One request each, down one connection.
   *
   * @param {Edge} edge
   * @param {number} from
   * @param {number} count
   * @param {number} [step] 0: all of one subject
   * @returns {Promise<number>} how many passed
   */
  function flood(edge, from, count, step = 1) {
    const AT_ONCE = 100;
    return new Promise((resolve, reject) => {
      const socket = connect(edge.port, '127.0.0.1');
      const counts = { passed: 0, answered: 0 };
      let sent = 0;
      let rest = '';
      const more = () => {
        let text = '';
        for (let batch = 0; batch < AT_ONCE && sent < count; batch += 1, sent += 1) {
          const subject = from + sent * step;
          const ip = `10.${subject >> 16}.${(subject >> 8) & 255}.${subject & 255}`;
          text += `GET /fixed-window HTTP/1.1\r\nHost: a\r\nCF-Connecting-IP: ${ip}\r\n\r\n`;
        }
        socket.write(text);
      };
      socket.setEncoding('latin1').on('data', (chunk) => {
        const lines = (rest + chunk).split('\r\n');
        rest = lines.pop() ?? '';
        for (const line of lines) {
          const status = /HTTP\/1\.1 (\d+) /.exec(line)?.[1];
          if (!status) continue;
          counts.answered += 1;
          if (status === '200') counts.passed += 1;
          if (counts.answered === count) {
            socket.destroy();
            resolve(counts.passed);
          } else if (counts.answered === sent) more();
        }
      });
      socket.on('error', reject);
      more();
    });
  }

  test('10,000 on a table of 1,000: who is known is counted exactly, strangers share one count, memory stays', async () => {
    const breaker = { ...CALM_BREAKER, min_calls: 1, open: '10m', max_open: '10m' };
    const text = { ...byAlgorithm, degraded: { share: 0.5, max_subjects: 1000 }, store: { remember: '0s', breaker } };
    const [edge, other] = await Promise.all([world.gateway(text), world.gateway(text)]);
    const [customer, attacker] = ['192.0.2.1', '192.0.2.2'];
    const path = '/fixed-window';
    assert.deepEqual(await pass(edge, path, 7, customer), ['store', 7]);
    assert.deepEqual(await pass(edge, path, 10, attacker), ['store', 10]);
    world.store.stats.reset();
    world.store.faults.always(FAULTS.resetBefore);
    assert.deepEqual(await pass(edge, path, 1, attacker), ['degraded', 0]);

    let passed = 0;
    let customers = 0;
    for (let from = 0; from < 10_000; from += 500) {
      // The other isolate is asked as often by one and the same.
      const [strangers] = await Promise.all([flood(edge, from, 500), flood(other, 0, 500, 0)]);
      passed += strangers;
      // The known two stay in use: five strangers may push out as many of those who were longest not seen.
      customers += Number((await pass(edge, path, 1, customer))[1]);
      assert.deepEqual(await pass(edge, path, 1, attacker), ['degraded', 0], 'the flood freed an attacker');
    }
    assert.equal(customers, 3, 'the flood locked a customer out, or freed it');
    assert.equal(passed, 998 + 5, 'as many as found room beside the two, and five by the count that the others share');
    assert.deepEqual(await pass(edge, path, 5, '192.0.2.99'), ['degraded', 0], 'a fresh subject has a fresh count');
    const more = resident(edge.pid) - resident(other.pid);
    assert.ok(more < 64, `10,000 subjects take ${more} MB more than one`);
    assert.ok(world.store.stats.requests <= 1 + 2, 'an open breaker let a call through');
  });
});
