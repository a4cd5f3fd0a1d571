// Whatever twenty clients do through several gateways at once, never more than the limit hold a slot for certain. After a
// flush it is twice the limit, for a lease at most; a gateway that is killed changes nothing.
//
// SLUICEGATE_OPERATIONS says how many operations each test has, SLUICEGATE_SEED which.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SEED } from '../support/random.js';
import { useWorld } from '../support/world.js';
import { KINDS, LIMIT, letLoose, POLICY } from './history/clients.js';
import { falls, hidden, most } from './history/overlap.js';
import { LEASE_MS } from './history/slot.js';

const OPERATIONS = Math.max(300, Number(process.env.SLUICEGATE_OPERATIONS ?? 0));

const world = useWorld();
const start = async () => ({ edge: await world.gateway(POLICY), gone: false });

/** @typedef {import('./history/overlap.js').Held} Held */
/** @typedef {import('./history/clients.js').Play} Play */

/**
 * Plays a history, and tells what came up.
 *
 * @param {import('node:test').TestContext} context
 * @param {Omit<Play, 'operations' | 'seed'>} play
 */
async function played(context, play) {
  context.diagnostic(`again: SLUICEGATE_SEED=${SEED}`);
  const began = performance.now();
  const history = await letLoose(world, { operations: OPERATIONS, seed: SEED, ...play });
  const seconds = (performance.now() - began) / 1000;
  const { operations, kinds, slots, responses, lists } = history;
  const held = [...slots, ...responses];
  const said = Object.entries(kinds).map(([kind, times]) => `${kind} ${times}`);
  context.diagnostic(`${operations} operations in ${seconds.toFixed(1)} s, ${most(held).count} at once`);
  context.diagnostic(said.toSorted().join(', '));
  assert.deepEqual(falls(slots), [], 'fences rise');
  assert.ok(!lists.some(({ count }) => count > LIMIT), 'no list shows more than the limit');
  assert.ok(play.enough(lists), 'all slots are used');
  return { ...history, held };
}

/** @param {import('./history/overlap.js').Listed[]} lists */
const allUsed = (lists) => lists.some(({ count }) => count === LIMIT);

test('never more than the limit hold, through three gateways', async (context) => {
  const gateways = await Promise.all([start(), start(), start()]);
  const { held, lists, responses, kinds } = await played(context, { gateways, kinds: KINDS, enough: allUsed });
  const { count } = most(held);
  assert.ok(count <= LIMIT && count > LIMIT / 4, `${count} at once`);
  assert.deepEqual(hidden(lists, held), [], 'lists show all who hold');
  const outlasting = responses.filter(({ outlasts }) => outlasts);
  assert.ok(outlasting.length > 0, 'requests hold their slots beyond a lease');
  assert.ok(kinds['renewed too late'] > 0 && kinds['freed too late'] > 0, 'leases end');
});

test('nor when a gateway is killed, and another started', async (context) => {
  const gateways = await Promise.all([start(), start()]);
  /** @type {Play['trouble']} */
  const kill = ([response]) =>
    response &&
    (async () => {
      const { gateway } = response;
      gateways.splice(gateways.indexOf(gateway), 1);
      gateway.gone = true;
      process.kill(gateway.edge.pid, 'SIGKILL');
      gateways.push(await start());
    });
  const { held, lists, kinds } = await played(context, { gateways, trouble: kill, enough: allUsed });
  assert.ok(most(held).count <= LIMIT);
  assert.deepEqual(hidden(lists, held), [], 'lists show all who hold');
  assert.ok(kinds.broken > 0, 'a response was under way');
});

test('after a flush twice the limit hold, for a lease at most', async (context) => {
  const gateways = await Promise.all([start(), start()]);
  const loss = { from: Number.POSITIVE_INFINITY, to: Number.POSITIVE_INFINITY };
  const flush = async () => {
    loss.from = Date.now();
    await world.client.flushAll();
    loss.to = Date.now() + 1;
  };
  const before = (/** @type {Held} */ { from, until }) => ({ from, until: Math.min(until, loss.from) });
  const after = (/** @type {Held} */ { from, until }) => ({ from: Math.max(from, loss.to + LEASE_MS), until });
  const history = await played(context, {
    ...{ gateways, loss, trouble: () => flush },
    enough: (lists) => allUsed(lists.filter(({ from }) => from > loss.to + LEASE_MS)),
  });
  // Who runs since before learns by its next renewal that it holds nothing.
  const responses = history.responses.map((one) =>
    one.asked <= loss.to ? { ...one, until: Math.min(one.until, loss.from + LEASE_MS) } : one,
  );
  const held = [...history.slots, ...responses];
  assert.ok(most(held.map(before)).count <= LIMIT, 'before');
  assert.ok(most(held).count <= 2 * LIMIT, 'over the flush');
  assert.ok(most(held.map(after)).count <= LIMIT, 'a lease later');
});
