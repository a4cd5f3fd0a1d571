// The checker of histories sees what is too much, and nothing else.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { excesses, excessWindows } from './history.js';

const at = (/** @type {number[]} */ ...times) => times.map((from) => ({ from, to: from + 1 }));

describe('spans', () => {
  test('as many as the bound are no excess, one more is', () => {
    assert.deepEqual(excesses(at(0, 10, 20), 100, 3), []);
    assert.deepEqual(excesses(at(0, 10, 20, 30), 100, 3), [{ from: 0, count: 4, lost: 0 }]);
  });

  test('any span is looked at, wherever it begins', () => {
    assert.deepEqual(excesses(at(0, 90, 100, 110, 120), 100, 3), [{ from: 90, count: 4, lost: 0 }]);
  });

  test('who may have been decided outside does not count', () => {
    const slow = [...at(0, 10, 20), { from: 30, to: 150 }];
    assert.deepEqual(excesses(slow, 100, 3), []);
    assert.equal(excesses(slow, 200, 3).length, 1);
  });

  test('a loss inside allows the bound once more, one outside does not', () => {
    const passed = at(0, 10, 20, 30, 40, 50);
    assert.deepEqual(excesses(passed, 100, 3, [{ from: 25, to: 28 }]), []);
    assert.equal(excesses(passed, 100, 3, [{ from: 500, to: 501 }]).length, 3);
    const more = excesses(at(0, 10, 20, 30, 40, 50, 60), 100, 3, [{ from: 25, to: 28 }]);
    assert.deepEqual(more, [
      { from: 0, count: 7, lost: 1 },
      { from: 30, count: 4, lost: 0 },
    ]);
  });
});

describe('windows of the clock', () => {
  test('each by itself', () => {
    assert.deepEqual(excessWindows(at(70, 80, 90, 100, 110, 120), 100, 3), []);
    assert.deepEqual(excessWindows(at(60, 70, 80, 90), 100, 3), [{ from: 0, count: 4, lost: 0 }]);
  });

  test('who lies in two counts in neither', () => {
    assert.deepEqual(excessWindows([...at(60, 70, 80), { from: 99, to: 101 }], 100, 3), []);
  });
});
