// Who a client is by its address: one client is one subject however its address is written, and nobody chooses another's.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { many, statuses } from './support/client.js';
import { left, problem } from './support/fields.js';
import { limit, policy } from './support/policy.js';
import { useWorld } from './support/world.js';

/** @typedef {import('./support/client.js').Sent} Sent */

const world = useWorld();

/** @param {Record<string, unknown>} [gateway] */
const byAddress = (gateway = {}) => world.gateway(policy([limit('a', { limit: 9 })], undefined, { gateway }));

/** The subjects that these requests were counted as, in the order in which they first came. @param {Sent[]} sent */
async function subjects(sent, gateway = {}) {
  const edge = await byAddress(gateway);
  const seen = [];
  for (const options of sent) {
    await world.client.flushAll();
    assert.equal((await edge.send('/a', options)).status, 200, JSON.stringify(options));
    const [key] = await world.keys();
    seen.push(key.replace(/^sg:1:a:f\d+[dh]:/, ''));
  }
  return seen;
}

test('an address has one form', async () => {
  const spellings = [
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.1:8080', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:c000:201', '192.0.2.1'],
    ['[::ffff:192.0.2.1]:443', '192.0.2.1'],
    ['2001:db8:1:2::1', '2001:db8:1:2::/64'],
    // FIELD-REPORTS B37.
    ['2001:db8:1:2:aaaa::9', '2001:db8:1:2::/64'],
    ['[2001:DB8:1:2::1]:443', '2001:db8:1:2::/64'],
    ['fe80::1%eth0', 'fe80::/64'],
  ];
  const found = await subjects(spellings.map(([ip]) => ({ ip })));
  assert.deepEqual(
    found,
    spellings.map(([, subject]) => subject),
  );
});

for (const [ipv6_prefix, expected] of /** @type {const} */ ([
  [32, '2001:db8::/32'],
  [48, '2001:db8:1::/48'],
  [56, '2001:db8:1:200::/56'],
  [128, '2001:db8:1:2ff::1'],
])) {
  test(`IPv6 is counted by ${ipv6_prefix} bits where the policy says so`, async () => {
    assert.deepEqual(await subjects([{ ip: '2001:db8:1:2ff::1' }], { ipv6_prefix }), [expected]);
  });
}

test('headers that anybody can write choose no subject: a thousand of them are one', async () => {
  // FIELD-REPORTS B35, and "1000 requests with rotating XFF and True-Client-IP -> one bucket".
  const edge = await world.gateway(policy([limit('a', { limit: 5 })]));
  const replies = await many(
    1000,
    (index) => {
      const forged = `10.0.${index >> 8}.${index & 255}`;
      const names = ['x-forwarded-for', 'true-client-ip', 'x-real-ip', 'forwarded', 'cf-connecting-ipv6', 'cf-worker'];
      return edge.send('/a', { headers: Object.fromEntries(names.map((name) => [name, forged])) });
    },
    32,
  );
  assert.deepEqual(statuses(replies), { 200: 5, 429: 995 });
  assert.equal((await world.keys()).length, 1);
});

test('the operator may name another header, and then it alone counts', async () => {
  for (const client_ip of ['x-forwarded-for', 'true-client-ip']) {
    const sent = { ip: '192.0.2.1', headers: { [client_ip]: '198.51.100.7' } };
    assert.deepEqual(await subjects([sent], { client_ip }), ['198.51.100.7']);
    const edge = await byAddress({ client_ip });
    problem(await edge.send('/a', { ip: '192.0.2.1' }), 400);
  }
});

describe('what is no address goes by on_missing_key', () => {
  /** @type {Sent[]} */
  const odd = [
    { ip: '' },
    { headers: { 'cf-connecting-ip': '' } },
    { ip: 'unknown' },
    // The header sent twice.
    { headers: { 'cf-connecting-ip': ['192.0.2.1', '192.0.2.2'] } },
    { headers: { 'cf-connecting-ip': ['192.0.2.1:80', '192.0.2.2'] } },
    { headers: { 'cf-connecting-ip': ['[2001:db8::1]:443', '192.0.2.2'] } },
    { headers: { 'cf-connecting-ip': ['2001:db8::1%eth0', '192.0.2.2'] } },
    { ip: '192.0.2.1\xff' },
    { ip: '1'.repeat(10_240) },
  ];

  test('deny: 400', async () => {
    const edge = await byAddress();
    for (const options of odd) {
      assert.match(problem(await edge.send('/a', options), 400).detail, /^limit a counts by ip, /);
    }
    assert.equal(world.store.stats.requests, 0);
  });

  test('skip: not counted; share: one subject of their own', async () => {
    const skipping = await world.gateway(policy([limit('a', { limit: 9, on_missing_key: 'skip' })]));
    for (const options of odd) assert.equal((await skipping.send('/a', options)).status, 200);
    assert.equal(world.store.stats.requests, 0);
    const sharing = await world.gateway(policy([limit('a', { limit: 9, on_missing_key: 'share' })]));
    for (const [index, options] of odd.entries()) assert.equal(left(await sharing.send('/a', options), 'a'), 8 - index);
    assert.equal((await world.keys()).length, 1);
    assert.equal(left(await sharing.send('/a'), 'a'), 8, 'a client with an address is not among them');
  });
});

describe('pseudo-IPv4', () => {
  const pseudo = (/** @type {string} */ ip, /** @type {string} */ real) => ({
    ip,
    headers: { 'cf-connecting-ipv6': real },
  });

  test('the real address counts where Cloudflare made one up', async () => {
    const sent = [pseudo('240.1.2.3', '2001:db8:1:2::1'), pseudo('250.9.9.9', '2001:db8:1:2::2'), { ip: '240.1.2.3' }];
    assert.deepEqual(await subjects(sent), ['2001:db8:1:2::/64', '2001:db8:1:2::/64', '240.1.2.3']);
  });

  test('and nowhere else', async () => {
    const sent = [
      pseudo('192.0.2.1', '2001:db8:1:2::1'),
      pseudo('240.1.2.3', 'none'),
      pseudo('240.1.2.3', '198.51.100.7'),
      pseudo('240.1.2.3', '2001:db8::1, 2001:db8::2'),
    ];
    assert.deepEqual(await subjects(sent), ['192.0.2.1', '240.1.2.3', '240.1.2.3', '240.1.2.3']);
    const named = { ip: '', headers: { 'x-real-ip': '240.1.2.3', 'cf-connecting-ipv6': '2001:db8::1' } };
    assert.deepEqual(await subjects([named], { client_ip: 'x-real-ip' }), ['240.1.2.3']);
  });
});

describe('Workers of other zones', () => {
  const WORKERS = '2a06:98c0:3600::103';
  const of = (/** @type {string} */ zone) => ({ ip: WORKERS, headers: { 'cf-worker': zone } });

  test('are apart from their network, and one zone from another', async () => {
    const sent = [
      of('a.example'),
      of('A.example'),
      of('b.example'),
      { ip: WORKERS },
      of('a.example, b.example'),
      of('x:y'),
      { ip: '2a06:98c0:3600::104' },
      { ip: '192.0.2.1', headers: { 'cf-worker': 'a.example' } },
    ];
    assert.deepEqual(await subjects(sent), [
      ...[`${WORKERS}%a.example`, `${WORKERS}%a.example`, `${WORKERS}%b.example`],
      ...[WORKERS, WORKERS, WORKERS],
      ...['2a06:98c0:3600::/64', '192.0.2.1'],
    ]);
  });

  test('have one subject where another header says the address: there anybody could write the zone', async () => {
    const named = { ip: '', headers: { 'x-real-ip': WORKERS, 'cf-worker': 'a.example' } };
    assert.deepEqual(await subjects([named], { client_ip: 'x-real-ip' }), [WORKERS]);
  });

  test('are named by the decision API as they are counted', async () => {
    const edge = await byAddress();
    await edge.send('/a', of('a.example'));
    const ask = async (/** @type {string} */ ip) =>
      (await edge.check({ limits: ['a'], subject: { ip }, cost: 0 })).json().limits[0].remaining;
    assert.equal(await ask(`${WORKERS}%a.example`), 8);
    assert.equal(await ask(`${WORKERS}%b.example`), 9);
    assert.equal(await ask(WORKERS), 9);
    const described = {
      method: 'GET',
      url: 'http://a/a',
      headers: { 'cf-connecting-ip': WORKERS, 'CF-Worker': 'a.example' },
    };
    assert.equal((await edge.check(described)).json().limits[0].remaining, 7);
  });
});
