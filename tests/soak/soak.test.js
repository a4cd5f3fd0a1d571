// Three gateways under load while everything around them goes wrong: the store's answers, Redis itself (paused, killed,
// flushed), the policy (replaced, also by a wrong one) and the gateways (killed). Whatever happens, what passes stays within
// what docs/failure-modes.md states, nobody sees a 5xx but where a limit is closed, and memory stays flat.
//
// SLUICEGATE_SOAK_SECONDS says for how long, SLUICEGATE_SEED which chaos.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { FAULTS } from '../../dev/store/faults.js';
import { useNamespace } from '../edge/support/namespace.js';
import { policy, route } from '../edge/support/policy.js';
import { numbers, SEED } from '../edge/support/random.js';
import { until, useWorld } from '../edge/support/world.js';
import { excesses, excessWindows } from './history.js';

const SECONDS = Number(process.env.SLUICEGATE_SOAK_SECONDS ?? 5);
const GATEWAYS = 3;
const CLIENTS = 12;
const SUBJECTS = 2;
/** A clock in whole milliseconds is off by less than one at either end. */
const ROUNDING_MS = 2;
/** For memory to be judged: shorter runs still grow into their heaps. */
const LONG_S = 600;

const world = useWorld();
const namespace = useNamespace();

const usual = { key: ['header:x-subject'], on_store_error: 'degraded' };
/** @type {{ name: string, algorithm: string, limit: number, window: string, burst?: number, key: string[], on_store_error: string }[]} */
const LIMITS = [
  { name: 'log', algorithm: 'sliding-log', limit: 20, window: '2s', ...usual },
  { name: 'bucket', algorithm: 'token-bucket', limit: 10, window: '1s', burst: 15, ...usual },
  { name: 'fixed', algorithm: 'fixed-window', limit: 30, window: '3s', ...usual },
  { name: 'sliding', algorithm: 'sliding-window', limit: 20, window: '2s', ...usual },
  { name: 'shut', algorithm: 'sliding-log', limit: 20, window: '2s', ...usual, on_store_error: 'closed' },
];
const SHARE = 0.2;
const PAIRS = new Map(
  ['log', 'bucket', 'fixed', 'sliding', 'shut'].map((name) => [name, name === 'shut' ? ['shut'] : [name]]),
);
PAIRS.set('two', ['log', 'bucket']);

/** @param {number} window of a limit that nobody meets, so that the text differs @returns {Record<string, unknown>} */
const text = (window) =>
  policy(
    [...LIMITS, { name: 'unused', algorithm: 'fixed-window', limit: 1, window: `${window}m`, ...usual }],
    [...PAIRS].map(([name, limits]) => route(`/${name}`, limits)),
    {
      store: {
        timeout: '500ms',
        remember: '1s',
        breaker: { window: '1s', min_calls: 5, open: '100ms', max_open: '400ms', long_open: '400ms' },
      },
      degraded: { share: SHARE },
    },
  );

/** Resident memory of a process in MiB. @param {number} pid */
function memory(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}

/** What a limit lets pass in its window when it is asked of one place alone. @param {typeof LIMITS[number]} limit @param {number} share */
function quota(limit, share) {
  const of = (/** @type {number} */ units) => Math.max(1, Math.floor(units * share));
  const windowMs = Number.parseInt(limit.window, 10) * 1000;
  const rate = of(limit.limit);
  if (limit.algorithm === 'token-bucket')
    return { windowMs, most: of(limit.burst ?? limit.limit) + rate, each: undefined };
  if (limit.algorithm === 'sliding-log') return { windowMs, most: rate, each: undefined };
  return { windowMs, most: 2 * rate, each: limit.algorithm === 'fixed-window' ? rate : undefined };
}

test(`${SECONDS} s of chaos`, { timeout: (2 * SECONDS + 240) * 1000 }, async (context) => {
  context.diagnostic(`again: SLUICEGATE_SEED=${SEED}`);
  const random = numbers(SEED);
  const pick = (/** @type {any[]} */ from) => from[Math.floor(random() * from.length)];
  const now = () => performance.timeOrigin + performance.now();
  namespace.put(text(1));
  const start = async () => ({
    edge: await world.gateway(
      text(1),
      { POLICY_KV_SECONDS: '1' },
      {},
      { namespaces: { POLICY_KV: namespace.address } },
    ),
    agent: new Agent({ keepAlive: true, maxSockets: 32 }),
    gone: false,
  });
  let gateways = await Promise.all(Array.from({ length: GATEWAYS }, start));
  const lives = [...gateways];

  /** @type {{ life: number, name: string, subject: string, status: number, tier: string, from: number, to: number }[]} */
  const history = [];
  /** @type {import('./history.js').Loss[]} */
  const losses = [];
  const began = now();
  let ends = Number.POSITIVE_INFINITY;

  const client = async () => {
    while (now() < ends) {
      const gateway = pick(gateways);
      const name = pick([...PAIRS.keys()]);
      const subject = `s${Math.floor(random() * SUBJECTS)}`;
      const from = now();
      try {
        const { status, headers } = await gateway.edge.send(`/${name}`, {
          headers: { 'x-subject': subject },
          agent: gateway.agent,
        });
        const tier = String(headers['sluicegate-tier']);
        history.push({ life: lives.indexOf(gateway), name, subject, status, tier, from, to: now() });
      } catch (error) {
        // A gateway that was killed ends its connections; no other does.
        assert.ok(gateway.gone, String(error));
      }
      await pause(random() * 8);
    }
  };

  const { delay, stall, resetBefore, resetAfter, cut, loading, noscript, html502, stallAfterHeaders } = FAULTS;
  const faults = [
    delay(50),
    delay(500),
    stall,
    resetBefore,
    resetAfter,
    cut,
    loading,
    noscript,
    html502,
    stallAfterHeaders,
  ];
  const lossy = async (/** @type {() => Promise<unknown>} */ act) => {
    const from = now();
    await act();
    losses.push({ from, to: now() });
  };
  /** @type {Record<string, () => Promise<unknown>>} */
  const chaos = {
    faults: async () => world.store.faults.push(pick(faults), Math.ceil(random() * 20)),
    always: async () => {
      world.store.faults.always(pick(faults));
      await pause(200 + random() * 600);
      world.store.faults.clear();
    },
    paused: async () => {
      await world.redis.kill('SIGSTOP');
      await pause(100 + random() * 500);
      await world.redis.kill('SIGCONT');
    },
    killed: () => lossy(() => world.redis.restart()),
    flushed: () => lossy(() => world.client.flushAll()),
    policy: async () => namespace.put(text(1 + Math.floor(random() * 50))),
    wrongPolicy: async () => namespace.put({ version: 1, limits: [{ name: 'log' }] }),
    gateway: async () => {
      // The first one lives through it all, and tells whether memory grows.
      const index = 1 + Math.floor(random() * (GATEWAYS - 1));
      const old = gateways[index];
      old.gone = true;
      process.kill(old.edge.pid, 'SIGKILL');
      old.agent.destroy();
      const next = await start();
      lives.push(next);
      gateways = gateways.with(index, next);
    },
    calm: async () => pause(500 + random() * 1500),
  };
  /** @type {Record<string, number>} */
  const done = {};
  /** @type {{ at: number, gateways: Map<number, number>, redis: number }[]} */
  const memories = [];
  const has = (/** @type {string} */ what) => history.some(({ status, tier }) => `${status} ${tier}` === what);
  const trouble = async () => {
    // Once each, whatever chance will bring: all well, and the store gone.
    await until(() => has('200 store') && has('429 store'), 'the store to let pass and refuse', 60_000);
    world.store.faults.always(stall);
    await until(() => has('200 degraded'), 'the isolates to go on by themselves', 60_000);
    world.store.faults.clear();
    const last = now() + SECONDS * 1000;
    while (now() < last) {
      const what = pick(Object.keys(chaos));
      done[what] = (done[what] ?? 0) + 1;
      await chaos[what]();
      await pause(50 + random() * 300);
      const of = gateways.map(({ edge }) => /** @type {[number, number]} */ ([edge.pid, memory(edge.pid)]));
      memories.push({ at: now(), gateways: new Map(of), redis: memory(world.redis.pid) });
    }
    world.store.faults.clear();
    namespace.put(text(1));
    ends = now() + 1000;
  };
  await Promise.all([trouble(), ...Array.from({ length: CLIENTS }, client)]);

  // Within what is stated.
  const tell = (/** @type {string} */ said, /** @type {import('./history.js').Excess[]} */ [first, ...more]) =>
    assert.ok(!first, `${said}: ${JSON.stringify(first)} and ${more.length} more`);
  for (const limit of LIMITS) {
    for (let number = 0; number < SUBJECTS; number += 1) {
      const of = history.filter(
        ({ name, subject, status }) =>
          status === 200 && subject === `s${number}` && PAIRS.get(name)?.includes(limit.name),
      );
      const places = [{ what: 'the store', passed: of.filter(({ tier }) => tier === 'store'), share: 1, lost: losses }];
      for (const life of lives.keys()) {
        const passed = of.filter((one) => one.tier === 'degraded' && one.life === life);
        places.push({ what: `isolate ${life}`, passed, share: SHARE, lost: [] });
      }
      for (const { what, passed, share, lost } of places) {
        const { windowMs, most, each } = quota(limit, share);
        const said = `${limit.name}, s${number}, by ${what}`;
        tell(said, excesses(passed, windowMs - ROUNDING_MS, most, lost));
        if (each !== undefined) tell(said, excessWindows(passed, windowMs, each, lost));
      }
    }
  }

  // Nothing but 200 and 429, and 503 where the limit is closed.
  /** @type {Record<string, number>} */
  const seen = {};
  for (const { name, status, tier } of history) {
    const what = `${status} ${tier}${status === 503 ? ` ${name}` : ''}`;
    seen[what] = (seen[what] ?? 0) + 1;
  }
  const expected = /^(?:200 (?:store|degraded)|429 (?:store|degraded|cache)|503 closed shut)$/;
  assert.deepEqual(
    Object.keys(seen).filter((what) => !expected.test(what)),
    [],
  );

  // When all is well again, the store decides again.
  for (const { edge } of gateways) {
    await until(async () => {
      const { headers } = await edge.send('/log', { headers: { 'x-subject': 'after' } });
      return headers['sluicegate-tier'] === 'store';
    }, 'the store to decide again');
  }
  const keys = await world.client.dbSize();
  assert.ok(keys <= LIMITS.length * (SUBJECTS + 1), `${keys} keys`);

  const quarter = memories.find(({ at }) => at > began + SECONDS * 250) ?? memories[0];
  const last = memories[memories.length - 1];
  const grown = [...last.gateways].filter(([pid]) => quarter.gateways.has(pid));
  const told = grown.map(([pid, mib]) => `${quarter.gateways.get(pid)?.toFixed(0)} → ${mib.toFixed(0)} MiB`);
  context.diagnostic(`${history.length} requests ${JSON.stringify(seen)}, chaos ${JSON.stringify(done)}`);
  context.diagnostic(`gateways ${told.join(', ')}; Redis ${quarter.redis.toFixed(0)} → ${last.redis.toFixed(0)} MiB`);
  if (SECONDS >= LONG_S) {
    for (const [pid, mib] of grown) assert.ok(mib < 1.25 * Number(quarter.gateways.get(pid)) + 10, told.join(', '));
    assert.ok(last.redis < quarter.redis + 5, `Redis: ${quarter.redis} → ${last.redis} MiB`);
  }
});
