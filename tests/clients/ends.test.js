// How holding a slot ends and begins in the clients: by an error, a pause, an answer that is lost, a wait; and when the
// lease of a holder that cannot renew it is over.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, afterEach, describe, test } from 'node:test';

import { LeaseLost, Slots } from '../../clients/javascript/slots.js';
import { policy } from '../edge/support/policy.js';
import { concurrency, holders, slots, untilHeld } from '../edge/support/slots.js';
import { ADMIN_TOKEN, until, useWorld } from '../edge/support/world.js';
import { LANGUAGES, startWorker } from './process.js';

/** @typedef {import('../edge/support/world.js').Edge} Edge */

const world = useWorld();
const one = policy([concurrency('jobs', { key: ['global'] })], []);

for (const language of LANGUAGES) {
  const skip = language.missing ? `no ${language.language} here` : false;

  describe(`the client for ${language.language}`, { skip }, () => {
    /** @type {Awaited<ReturnType<typeof startWorker>>[]} */
    const workers = [];
    afterEach(() => Promise.all(workers.splice(0).map((worker) => worker.end())));

    /** @param {string} url @param {{ waitMs?: number, site?: string, writes?: [string, number][] }} [options] */
    async function worker(url, { waitMs = 0, site, writes } = {}) {
      const asked = { url, token: ADMIN_TOKEN, limit: 'jobs', subject: [], waitMs };
      const started = await startWorker(language, asked, site, writes);
      workers.push(started);
      return started;
    }

    test('work that fails gives its slot back', async () => {
      const gateway = await world.gateway(one);
      const said = await (await worker(gateway.url)).ask('fail');
      assert.deepEqual([said.event, said.message], ['failed', 'the work went wrong']);
      assert.deepEqual(await holders(world, 'jobs', '-'), []);
    });

    test('work that rests holds nothing meanwhile, and goes on under a higher fence', async () => {
      const gateway = await world.gateway(one);
      let held = 1;
      const site = await serve(async () => {
        held = (await holders(world, 'jobs', '-')).length;
      });
      const { event, fences } = await (await worker(gateway.url, { site })).ask('rest');
      assert.equal(event, 'rested');
      assert.equal(held, 0);
      assert.ok(fences[1] > fences[0]);
      assert.deepEqual(await holders(world, 'jobs', '-'), []);
    });

    test('a slot that is freed while it is asked for again is not kept', async () => {
      const gateway = await world.gateway(one);
      const [first, second] = [await worker(gateway.url, { waitMs: 30_000 }), await worker(gateway.url)];
      await first.ask('take');
      await first.ask('pause');
      assert.equal((await second.ask('take')).event, 'held');
      await first.ask('resuming');
      await until(async () => (await slots(gateway, 'jobs/-', 'GET')).json().waiting.length === 1, 'one that waits');
      assert.equal((await first.ask('free')).event, 'freed');
      await second.ask('free');
      assert.equal((await first.ask('resumed')).event, 'failed');
      await untilHeld(world, 'jobs', 0, '-');
    });

    test('an answer that is lost on its way is asked for again, and it is one slot', async () => {
      const gateway = await world.gateway(one);
      const lossy = await between(gateway, 1);
      const held = await (await worker(lossy.url)).ask('take');
      assert.equal(held.event, 'held');
      assert.deepEqual(lossy.asked, ['/.sluicegate/v1/slots/jobs/-', '/.sluicegate/v1/slots/jobs/-']);
      const found = await holders(world, 'jobs', '-');
      assert.deepEqual(
        found.map(({ id, fence }) => [id, fence]),
        [[held.id, held.fence]],
      );
    });

    test('a wait of up to a minute is one request, which keeps its place', async () => {
      const gateway = await world.gateway(one);
      for (const [waitMs, least, most] of [
        [45_000, 30_000, 45_000],
        [90_000, 60_000, 60_000],
      ]) {
        const watched = await between(gateway);
        const waits = await worker(watched.url, { waitMs });
        assert.equal((await waits.ask('take')).event, 'held');
        const asked = Number(/\?wait=(\d+)ms$/.exec(watched.asked[0])?.[1]);
        assert.ok(asked >= least && asked <= most, watched.asked[0]);
        await waits.ask('free');
      }
    });

    test('a fence lower than one that was seen is refused, each resource for itself', async () => {
      /** @type {[string, number][]} */
      const writes = [
        ['report', 2],
        ['report', 1],
        ['report', 2],
        ['other', 1],
        ['report', 3],
        ['report', 2],
      ];
      const { admitted } = await (await worker('http://127.0.0.1:1', { writes })).ask('guard');
      assert.deepEqual(admitted, [true, false, true, true, true, false]);
    });
  });
}

test('a holder that cannot renew is told at the end of its lease at the latest', async (t) => {
  const [LEASE_MS, STEP_MS] = [12_000, 50];
  for (let answersAfter = 0; answersAfter <= 3_000; answersAfter += 500) {
    t.mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 1_785_432_000_000 });
    t.mock.method(Math, 'random', () => 0);
    const slot = { id: 'w', fence: 1, lease_ms: LEASE_MS };
    t.mock.method(globalThis, 'fetch', async (/** @type {string} */ _, /** @type {RequestInit} */ { method }) => {
      if (method === 'POST') return Response.json(slot, { status: 201 });
      await new Promise((resolve) => setTimeout(resolve, answersAfter));
      return new Response('', { status: 503 });
    });
    const began = Date.now();
    const held = await new Slots({ url: 'http://gateway.invalid', token: 't' }).take('jobs', []);
    let told = Number.POSITIVE_INFINITY;
    held.signal.addEventListener('abort', () => {
      told = Date.now() - began;
    });
    for (let passed = 0; passed < 2 * LEASE_MS && told === Number.POSITIVE_INFINITY; passed += STEP_MS) {
      t.mock.timers.tick(STEP_MS);
      await new Promise(setImmediate);
    }
    assert.ok(told > LEASE_MS / 3 && told <= LEASE_MS, `told after ${told} ms, with answers after ${answersAfter}`);
    assert.throws(() => held.ensureHeld(), LeaseLost);
    t.mock.timers.reset();
    t.mock.restoreAll();
  }
});

/** @type {import('node:http').Server[]} */
const servers = [];
after(() => {
  for (const server of servers) server.close();
});

/**
 * @param {(request: import('node:http').IncomingMessage, response: import('node:http').ServerResponse) => Promise<void>} handle
 * @returns {Promise<string>} its address
 */
async function serve(handle) {
  const server = createServer((request, response) => handle(request, response).then(() => response.end()));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  servers.push(server);
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return `http://127.0.0.1:${port}`;
}

/**
 * Stands before a gateway, notes what it is asked, and loses its first answers.
 *
 * @param {Edge} gateway
 * @param {number} [lost]
 */
async function between(gateway, lost = 0) {
  /** @type {string[]} */
  const asked = [];
  const url = await serve(async (request, response) => {
    let body = '';
    for await (const chunk of request.setEncoding('utf8')) body += chunk;
    asked.push(String(request.url));
    const { method, headers } = request;
    const reply = await gateway.send(String(request.url), {
      method,
      body,
      headers: { authorization: String(headers.authorization) },
    });
    if (asked.length <= lost) response.socket?.destroy();
    else response.writeHead(reply.status, { 'content-type': 'application/json' }).write(reply.text);
  });
  return { url, asked };
}
