// The checker of holders sees what is too much, and nothing else.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { falls, hidden, lasts, most } from './overlap.js';

const held = (/** @type {[number, number][]} */ ...spans) => spans.map(([from, until]) => ({ from, until }));

describe('the most at once', () => {
  test('as many as overlap, and one more is one more', () => {
    assert.deepEqual(most(held([0, 100], [10, 90], [20, 30], [40, 50])), { count: 3, at: 20 });
    assert.deepEqual(most(held([0, 100], [10, 90], [20, 30], [29, 200], [40, 50])), { count: 4, at: 29 });
  });

  test('who begins when another ends does not overlap it, in whatever order they are told', () => {
    assert.equal(most(held([0, 10], [10, 20], [20, 30])).count, 1);
    assert.equal(most(held([20, 30], [10, 20], [0, 10])).count, 1);
    assert.equal(most(held([0, 11], [10, 20])).count, 2);
  });

  test('who ended before the answer came held nothing for certain', () => {
    assert.equal(most(held([0, 100], [50, 50], [50, 40])).count, 1);
    assert.equal(most(held([0, 100], [20, 30], [50, 15])).count, 2, 'nor does it make room');
    assert.equal(most([]).count, 0);
  });
});

describe('fences', () => {
  const first = { asked: 0, from: 10, fence: 5 };

  test('rise where one was told before the next was asked for', () => {
    const next = { asked: 11, from: 20, fence: 6 };
    assert.deepEqual(falls([next, first]), []);
    const lower = { ...next, fence: 4 };
    assert.deepEqual(falls([lower, first]), [lower]);
  });

  test('of two at once are in either order, but not the same', () => {
    const beside = { asked: 10, from: 20, fence: 4 };
    assert.deepEqual(falls([first, beside]), []);
    assert.equal(falls([first, { ...beside, fence: 5 }]).length, 1);
  });

  test('are held against the highest that was told, not the last', () => {
    const high = { asked: 0, from: 12, fence: 9 };
    const low = { asked: 0, from: 14, fence: 7 };
    const between = { asked: 15, from: 20, fence: 8 };
    assert.deepEqual(falls([first, high, low, between]), [between]);
  });
});

test('a list shows all who held while it was made', () => {
  const list = { from: 10, to: 20, count: 1 };
  assert.deepEqual(hidden([list], held([10, 20], [11, 30], [0, 19])), []);
  assert.deepEqual(hidden([list], held([10, 20], [0, 30])), [{ ...list, sure: 2 }]);
});

test('a renewal counts from when it was carried out, and revives nothing', () => {
  assert.equal(lasts(100, [], 100), 100);
  assert.equal(lasts(100, [40, 130], 100), 230);
  assert.equal(lasts(100, [40, 140, 150], 100), 140);
});
