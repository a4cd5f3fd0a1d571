// The clients in clients/, as real processes that hold slots through the real gateway.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, afterEach, describe, test } from 'node:test';

import { FenceGuard } from '../../clients/javascript/slots.js';
import { FAULTS } from '../../dev/store/faults.js';
import { policy } from '../edge/support/policy.js';
import { slots } from '../edge/support/slots.js';
import { ADMIN_TOKEN, until, useWorld } from '../edge/support/world.js';
import { LANGUAGES, startWorker } from './process.js';

const LEASE_MS = 3_000;
const world = useWorld();

/** @param {number} most */
function diagnoses(most) {
  const limit = { name: 'diagnoses', algorithm: 'concurrency', limit: most, lease: `${LEASE_MS}ms` };
  return policy([{ ...limit, key: ['header:x-tenant'], on_store_error: 'closed' }], [], { store: { timeout: '1s' } });
}

for (const language of LANGUAGES) {
  const skip = language.missing ? `no ${language.language} here` : false;

  describe(`the client for ${language.language}`, { skip }, () => {
    /** @type {Awaited<ReturnType<typeof startWorker>>[]} */
    const workers = [];
    afterEach(() => Promise.all(workers.splice(0).map((worker) => worker.end())));

    /** @param {{ url: string }} gateway @param {{ waitMs?: number, site?: string, subject?: string[] }} [options] */
    async function worker(gateway, { waitMs = 0, site, subject = ['a tenant, 100 %'] } = {}) {
      const asked = { url: gateway.url, token: ADMIN_TOKEN, limit: 'diagnoses', subject, waitMs };
      const started = await startWorker(language, asked, site);
      workers.push(started);
      return started;
    }

    /** @param {{ send: import('../edge/support/world.js').Edge['send'] }} gateway */
    async function holders(gateway) {
      const path = `/.sluicegate/v1/slots/diagnoses/${encodeURIComponent('a tenant, 100 %')}`;
      const reply = await gateway.send(path, { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } });
      return JSON.parse(reply.text).holders;
    }

    test('takes, refuses while it is taken, frees twice, takes with a higher fence', async () => {
      const gateway = await world.gateway(diagnoses(1));
      const [first, second] = [await worker(gateway), await worker(gateway)];
      const held = await first.ask('take');
      assert.equal(held.event, 'held');
      assert.equal((await second.ask('take')).event, 'refused');
      assert.equal((await first.ask('free')).event, 'freed');
      assert.equal((await first.ask('free')).event, 'freed');
      const taken = await second.ask('take');
      assert.equal(taken.event, 'held');
      assert.ok(taken.fence > held.fence);
      assert.equal((await first.ask('check')).event, 'lost');
    });

    test('renews for as long as it holds', async () => {
      const gateway = await world.gateway(diagnoses(1));
      const first = await worker(gateway);
      const { fence, id } = await first.ask('take');
      const expiries = new Set();
      await until(async () => {
        const [holder] = await holders(gateway);
        assert.deepEqual([holder.id, holder.fence], [id, fence]);
        expiries.add(holder.expires_at_ms);
        // The first, and two renewals at a third of the lease each would end within it; four reach beyond.
        return expiries.size > 4;
      }, 'renewals beyond the first lease');
      assert.equal((await first.ask('check')).event, 'sure');
    });

    test('killed: its slot is free within its lease and a second', async () => {
      const gateway = await world.gateway(diagnoses(1));
      const [first, second] = [await worker(gateway), await worker(gateway, { waitMs: 9_000 })];
      await first.ask('take');
      first.child.kill('SIGKILL');
      const [{ expires_at_ms }] = await holders(gateway);
      const taken = await second.ask('take');
      assert.equal(taken.event, 'held');
      // Fences are 1,024 times the store's clock.
      assert.ok(taken.fence >= expires_at_ms * 1024, 'never two at once');
      // At the head of a queue the gateway asks every half second or oftener (src/gateway/slot_wait.rs).
      const takes = world.store.stats.recent().filter(({ commands: [command] }) => command.includes('take'));
      const late = takes.filter(({ at }) => at > expires_at_ms).length;
      assert.ok(late <= 1, `whoever asks first after its end gets it, not after ${late} calls`);
    });

    test('stopped beyond its lease: it knows that it lost, and its fence and its renewal are refused', async () => {
      const gateway = await world.gateway(diagnoses(1));
      const [first, second] = [await worker(gateway), await worker(gateway, { waitMs: 9_000 })];
      const held = await first.ask('take');
      first.child.kill('SIGSTOP');
      const taken = await second.ask('take');
      assert.equal(taken.event, 'held');
      first.child.kill('SIGCONT');
      await first.heard('aborted');
      assert.equal((await first.ask('check')).event, 'lost');
      const { id, fence } = held;
      const path = `diagnoses/${encodeURIComponent('a tenant, 100 %')}/${id}`;
      assert.equal((await slots(gateway, path, 'PUT', { fence })).status, 410);
      assert.deepEqual((await slots(gateway, path, 'DELETE', { fence })).json(), { freed: false });
      assert.equal((await first.ask('free')).event, 'freed');
      assert.equal((await second.ask('check')).event, 'sure');
      const guard = new FenceGuard();
      assert.equal(guard.admits('report', taken.fence), true);
      assert.equal(guard.admits('report', held.fence), false);
      assert.deepEqual(
        (await holders(gateway)).map((/** @type {{ fence: number }} */ { fence }) => fence),
        [taken.fence],
      );
    });

    test('without an answer it stops before its lease ends', async () => {
      const gateway = await world.gateway(diagnoses(1));
      const first = await worker(gateway);
      await first.ask('take');
      world.store.faults.push(FAULTS.resetBefore, Number.POSITIVE_INFINITY);
      await first.heard('aborted');
      assert.equal((await first.ask('check')).event, 'lost');
    });

    test('gives its place back during a pause', async () => {
      const gateway = await world.gateway(diagnoses(1));
      const [first, second] = [await worker(gateway), await worker(gateway)];
      const held = await first.ask('take');
      assert.equal((await first.ask('pause')).event, 'paused');
      assert.equal((await second.ask('take')).event, 'held');
      assert.equal((await first.ask('resume')).event, 'refused');
      await second.ask('free');
      const resumed = await first.ask('resume');
      assert.equal(resumed.event, 'held');
      assert.ok(resumed.fence > held.fence);
      assert.equal((await first.ask('check')).event, 'sure');
    });

    test('a ban is told at once, however long it would wait', async () => {
      const gateway = await world.gateway(diagnoses(1));
      await gateway.send(`/.sluicegate/v1/overrides/diagnoses/${encodeURIComponent('a tenant, 100 %')}`, {
        method: 'PUT',
        body: '{"limit":0}',
        headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
      });
      const first = await worker(gateway, { waitMs: 60_000 });
      world.store.stats.reset();
      assert.equal((await first.ask('take')).event, 'refused');
      assert.ok(world.store.stats.recent().length <= 3, `${world.store.stats.recent().length} calls`);
    });

    test('an unknown limit and a wrong token are told', async () => {
      const gateway = await world.gateway(diagnoses(1));
      const wrong = await startWorker(language, { url: gateway.url, token: 'x', limit: 'diagnoses', subject: ['a'] });
      const unknown = await startWorker(language, {
        url: gateway.url,
        token: ADMIN_TOKEN,
        limit: 'no',
        subject: ['a'],
      });
      workers.push(wrong, unknown);
      assert.match((await wrong.ask('take')).message, /token/);
      assert.match((await unknown.ask('take')).message, /no limit is named/);
    });

    test('many processes, never more at once than the limit', async () => {
      const gateway = await world.gateway(diagnoses(2));
      const [most, total, site] = await inside(18);
      const many = await Promise.all(Array.from({ length: 6 }, () => worker(gateway, { waitMs: 9_000, site })));
      const worked = await Promise.all(
        many.map(async (one) => {
          const fences = [];
          for (let round = 0; round < 3; round += 1) fences.push((await one.ask('work')).fence);
          return fences;
        }),
      );
      assert.equal(new Set(worked.flat()).size, 18, 'every lease has a fence of its own');
      assert.equal(total(), 18);
      assert.equal(most(), 2);
      assert.deepEqual(await holders(gateway), []);
    });
  });
}

/**
 * A server that counts who is inside, and lets nobody work before there are two, or the last has come.
 *
 * @param {number} all
 * @returns {Promise<[() => number, () => number, string]>}
 */
async function inside(all) {
  let [now, most, total] = [0, 0, 0];
  /** @type {import('node:http').ServerResponse[]} */
  const alone = [];
  const server = createServer((request, response) => {
    alone.push(response);
    now += request.url === '/in' ? 1 : -1;
    most = Math.max(most, now);
    total += request.url === '/in' ? 1 : 0;
    if (request.url === '/out' || now > 1 || total === all) for (const one of alone.splice(0)) one.end();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  servers.push(server);
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return [() => most, () => total, `http://127.0.0.1:${port}`];
}

/** @type {import('node:http').Server[]} */
const servers = [];
after(() => {
  for (const server of servers) server.close();
});
