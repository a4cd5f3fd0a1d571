// Each fault as a plain client sees it, and whether the command ran.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { createTimers } from '../../dev/store/inject.js';
import { ask, call, useStore } from './setup.js';

const context = useStore();

const INCR = ['INCR', 'n'];

const count = async () => Number((await ask(context.store, ['GET', 'n'])).result ?? 0);

/** @param {AbortSignal} [signal] */
const start = (signal) =>
  fetch(context.store.url, {
    method: 'POST',
    headers: { authorization: 'Bearer local' },
    body: JSON.stringify(INCR),
    signal,
  });

/** @param {any} error */
const isReset = (error) => error.cause.code === 'ECONNRESET';

/** @param {Promise<unknown>} promise */
const outcome = (promise) =>
  promise.then(
    () => 'settled',
    () => 'settled',
  );
/** @param {number} ms @returns {Promise<string>} */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms, 'waiting'));

/** Polls rather than sleeps: the command runs behind a reply that never comes. @param {number} expected */
async function untilCount(expected) {
  while ((await count()) !== expected) await pause(1);
}

describe('slow answers', () => {
  test('delay answers after its time, and runs only then', async () => {
    context.store.faults.push(FAULTS.delay(400));
    const began = performance.now();
    const answer = call(context.store, INCR);
    while (context.store.stats.requests === 0) await pause(1);
    assert.equal(await count(), 0);
    assert.equal((await answer).text, '{"result":1}');
    assert.ok(performance.now() - began >= 399);
  });

  test('hold waits until it is let go, and runs only then', async () => {
    /** @type {PromiseWithResolvers<void>} */
    const { promise, resolve } = Promise.withResolvers();
    context.store.faults.push(FAULTS.hold(promise));
    const request = call(context.store, INCR);
    assert.equal(await Promise.race([outcome(request), pause(40)]), 'waiting');
    assert.equal(await count(), 0);
    resolve();
    assert.equal((await request).text, '{"result":1}');
  });

  test('late runs at once and answers after its time', async () => {
    context.store.faults.push({ ...FAULTS.late(40), match: ([name]) => name === 'INCR' });
    const began = performance.now();
    const answer = call(context.store, INCR);
    await untilCount(1);
    assert.equal((await answer).text, '{"result":1}');
    assert.ok(performance.now() - began >= 39);
  });

  test('nothing is left to happen once the timers are closed', async () => {
    const timers = createTimers();
    const elapsed = outcome(timers.after(1));
    timers.close();
    assert.equal(await Promise.race([elapsed, pause(10)]), 'waiting');
  });

  for (const apply of [false, true]) {
    test(`stall never answers (apply: ${apply})`, async () => {
      context.store.faults.push({ ...FAULTS.stall, apply });
      const abort = new AbortController();
      const request = start(abort.signal);
      if (apply) await untilCount(1);
      assert.equal(await Promise.race([outcome(request), pause(40)]), 'waiting');
      assert.equal(await count(), apply ? 1 : 0);
      abort.abort();
      await assert.rejects(request, { name: 'AbortError' });
    });
  }

  test('stall-after-headers sends the true headers and no body', async () => {
    context.store.faults.push(FAULTS.stallAfterHeaders);
    const abort = new AbortController();
    const response = await start(abort.signal);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('content-length'), String('{"result":1}'.length));
    const body = response.text();
    assert.equal(await Promise.race([outcome(body), pause(40)]), 'waiting');
    abort.abort();
    await assert.rejects(body);
    assert.equal(await count(), 1);
  });

  test('drip sends the whole body, byte by byte', async () => {
    context.store.faults.push(FAULTS.drip(2));
    const response = await start();
    const sizes = [];
    let text = '';
    for await (const chunk of response.body ?? []) {
      sizes.push(chunk.length);
      text += Buffer.from(chunk);
    }
    assert.equal(text, '{"result":1}');
    assert.ok(sizes.length > 2, `${sizes.length} chunks`);
  });
});

describe('lost connections', () => {
  test('reset before anything ran', async () => {
    context.store.faults.push(FAULTS.resetBefore);
    await assert.rejects(start(), isReset);
    assert.equal(await count(), 0);
  });

  test('reset after the command ran', async () => {
    context.store.faults.push(FAULTS.resetAfter);
    await assert.rejects(start(), isReset);
    assert.equal(await count(), 1);
  });

  test('a body shorter than announced', async () => {
    context.store.faults.push(FAULTS.cut);
    const response = await start();
    assert.equal(response.headers.get('content-length'), '12');
    await assert.rejects(response.text(), { message: 'terminated' });
    assert.equal(await count(), 1);
  });
});

describe('canned answers', () => {
  test('noscript runs nothing, in a batch as well', async () => {
    context.store.faults.push(FAULTS.noscript, 2);
    const single = await call(context.store, INCR);
    const error = 'NOSCRIPT No matching script. Please use EVAL.';
    assert.deepEqual([single.status, JSON.parse(single.text)], [400, { error }]);
    const batch = await call(context.store, [INCR, INCR], { path: '/pipeline' });
    assert.deepEqual([batch.status, JSON.parse(batch.text)], [200, [{ error }, { error }]]);
    assert.equal(await count(), 0);
  });

  test('html, status and headers are as given, and nothing ran', async () => {
    context.store.faults.push(FAULTS.html502);
    const html = await call(context.store, INCR);
    assert.deepEqual([html.status, html.headers.get('content-type')], [502, 'text/html']);
    assert.match(html.text, /^<html>/);
    assert.equal(await count(), 0);
  });

  test('apply runs the command behind a canned answer', async () => {
    context.store.faults.push({ ...FAULTS.tooManyRequests(9), apply: true });
    const limited = await call(context.store, INCR);
    assert.deepEqual([limited.status, limited.headers.get('retry-after')], [429, '9']);
    assert.equal(await count(), 1);
  });

  test('redirects, duplicate keys, a body of 2 MB', async () => {
    context.store.faults.push(FAULTS.redirect('http://127.0.0.1:9/'));
    const redirected = await call(context.store, INCR, { redirect: 'manual' });
    assert.deepEqual([redirected.status, redirected.headers.get('location')], [302, 'http://127.0.0.1:9/']);
    context.store.faults.push(FAULTS.duplicateKeys);
    assert.match((await call(context.store, INCR)).text, /"result".*"result"/);
    context.store.faults.push(FAULTS.huge());
    assert.ok((await call(context.store, INCR)).text.length > 2 * 1024 * 1024);
  });

  test('every named error is an error in JSON, every other one is sent to the byte', async () => {
    const named = Object.values(FAULTS).filter((fault) => typeof fault === 'object' && fault.kind === 'reply');
    assert.ok(named.length > 25);
    for (const fault of /** @type {import('../../dev/store/faults.js').Fault[]} */ (named)) {
      context.store.faults.push(fault);
      const { status, text } = await call(context.store, INCR);
      assert.deepEqual([status, text], [fault.status, fault.body]);
    }
    assert.equal(await count(), 0);
  });
});

describe('which request is struck', () => {
  const fault = FAULTS.error('ERR struck');
  const struck = async (/** @type {unknown[]} */ command) => (await ask(context.store, command)).error === 'ERR struck';

  test('pushed ones strike as often as said, then the standing one', async () => {
    context.store.faults.push(fault, 2);
    assert.equal(context.store.faults.pending(), 2);
    assert.deepEqual([await struck(INCR), await struck(INCR), await struck(INCR)], [true, true, false]);
    context.store.faults.always(fault);
    context.store.faults.push(FAULTS.nullResult);
    assert.deepEqual([await struck(INCR), await struck(INCR), await struck(INCR)], [false, true, true]);
    context.store.faults.clear();
    assert.equal(await struck(INCR), false);
  });

  test('match chooses by command, in batches too', async () => {
    context.store.faults.push({ ...fault, match: ([name, key]) => name === 'GET' && key === 'k' });
    assert.equal(await struck(['GET', 'other']), false);
    assert.equal(await struck(['GET', 'k']), true);
    context.store.faults.push({ ...fault, match: ([name]) => name === 'GET' });
    const batch = await ask(context.store, [INCR, ['GET', 'k']], { path: '/pipeline' });
    assert.deepEqual(batch, { error: 'ERR struck' });
  });
});
