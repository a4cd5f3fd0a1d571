// What a client is told of its slot is held against what it knows of it, to the millisecond.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { freed, LEASE_MS, over, renewed, TICK_MS, taken } from './slot.js';

/** @param {number} asked @param {number} status @param {unknown} [body] */
const said = (asked, status, body) => ({ asked, told: asked + 10, status, body });
const own = () => taken({ id: 'own', before: 5, asked: 0, unheard: false }, said(0, 201, { fence: 7 }));
/** When its lease ends if the call was carried out as it was sent, and as it was answered. */
const [FIRST, LAST] = [LEASE_MS - TICK_MS, 10 + LEASE_MS + TICK_MS];

test('a slot is held from the answer on, under a higher fence than before', () => {
  const { from, until, fence } = own();
  assert.deepEqual([from, until, fence], [10, FIRST, 7]);
  assert.throws(() => taken({ ...own(), before: 7 }, said(0, 200, { fence: 7 })), /fence 7 after 7/);
});

describe('a renewal', () => {
  test('lengthens the lease from when it was sent, and not after its end', () => {
    const slot = own();
    assert.equal(renewed(slot, said(LAST, 200, { fence: 7 })), true);
    assert.equal(slot.until, LAST + FIRST);
    assert.throws(() => renewed(own(), said(LAST + 1, 200, { fence: 7 })), /revived 1 ms after/);
  });

  test('finds the slot lost after the end of its lease, and not before', () => {
    assert.equal(renewed(own(), said(FIRST - 10, 410)), false);
    assert.throws(() => renewed(own(), said(FIRST - 11, 410)), /lost 1 ms before/);
    assert.throws(() => renewed(own(), said(FIRST, 409)), /answered 409/);
  });

  test('that nobody heard of may have lengthened it', () => {
    const slot = own();
    assert.equal(renewed(slot, said(500, 503)), undefined);
    assert.equal(slot.until, FIRST);
    assert.equal(renewed(slot, said(LAST + 1, 200, { fence: 7 })), true);
  });
});

test('a slot that is freed is held until that was sent', () => {
  for (const [status, is] of /** @type {const} */ ([
    [200, true],
    [503, false],
  ])) {
    const slot = own();
    assert.equal(freed(slot, said(300, status, { freed: true })), is);
    assert.equal(slot.until, 300);
  }
  assert.throws(() => freed(own(), said(300, 200, { freed: false })), /lost/);
  assert.throws(() => freed(own(), said(300, 409, {})), /answered 409/);
});

test('what was taken before a flush may be lost after it', () => {
  const loss = { from: 100, to: 110 };
  over(own(), said(90, 410), loss);
  assert.throws(() => over(own(), said(80, 410), loss), /lost/);
  assert.throws(() => over({ ...own(), asked: 111 }, said(120, 410), loss), /lost/);
});
