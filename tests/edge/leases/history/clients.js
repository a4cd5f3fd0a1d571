// Twenty clients of one limit's slots, through several gateways at once, each of which does at random what clients do.
// Nothing waits for time to pass: they go on with something else until it has.
import assert from 'node:assert/strict';
import { WHO } from '../../support/moments.js';
import { policy, route } from '../../support/policy.js';
import { numbers } from '../../support/random.js';
import { begin, concurrency, slots, untilHeld } from '../../support/slots.js';
import { ADMIN_TOKEN } from '../../support/world.js';
import { ENDS, runningRequests } from './running.js';
import { extend, freed, known, LEASE_MS, over, renewed, taken } from './slot.js';

/** @typedef {import('./slot.js').Slot} Slot */
/** @typedef {import('./slot.js').Said} Said */
/** @typedef {import('./overlap.js').Listed} Listed */

const CLIENTS = 20;
export const LIMIT = 8;

/** The store may take as long as so short a lease admits, and no call is made twice. */
export const POLICY = policy(
  [concurrency('jobs', { limit: LIMIT, lease: `${LEASE_MS}ms`, key: ['global'] }), WHO],
  [route('/work', ['jobs', 'who'])],
  { store: { timeout: '599ms', retry: { budget: 0, backoff: '0s' } } },
);

/** What comes up while clients are busy. */
export const KINDS = [
  ...['taken', 'refused', 'waited for it', 'waited in vain', 'taken again', 'left waiting', 'renewed', 'wrong fence'],
  ...['freed', 'freed again', 'forgotten', 'paused', 'resumed', 'not resumed', 'listed', 'passed', 'not passed'],
  ...[...ENDS, 'longer than a lease'],
];
/** How often each that is wanted must have come up, and for how many times the operations clients go on until it has. */
const [OFTEN, MOST] = [2, 10];

/**
 * @typedef {object} Gateway
 * @property {import('../../support/world.js').Edge} edge
 * @property {boolean} gone whether it was killed
 */

/** @typedef {Awaited<ReturnType<Awaited<ReturnType<typeof runningRequests>>['begin']>>} Request */
/** @typedef {import('./running.js').Running & { request: Request, gateway: Gateway, long: boolean }} Response */

/**
 * @typedef {object} Play
 * @property {number} operations of all clients
 * @property {number} seed
 * @property {Gateway[]} gateways in use, now
 * @property {string[]} [kinds] of answers that are wanted
 * @property {(lists: Listed[]) => boolean} enough whether such lists were seen as a history needs to prove much
 * @property {(running: Response[]) => (() => Promise<void>) | undefined} [trouble] asked from half way on what shall
 *   happen, until something shall
 * @property {import('./slot.js').Loss} [loss] when the store forgot everything
 */

/**
 * Lets all clients loose, until nobody holds any more.
 *
 * @param {import('../../support/slots.js').World} world
 * @param {Play} play
 */
export async function letLoose(world, play) {
  const { operations, seed, gateways, kinds = [], enough, loss } = play;
  const requests = await runningRequests(world);
  const history = {
    operations: 0,
    /** @type {Record<string, number>} */
    kinds: {},
    /** @type {Slot[]} */
    slots: [],
    /** @type {Response[]} */
    responses: [],
    /** @type {Listed[]} */
    lists: [],
  };
  const note = (/** @type {string} */ kind) => {
    history.kinds[kind] = (history.kinds[kind] ?? 0) + 1;
  };
  /** @type {Set<Response>} */
  const running = new Set();

  /** What a gateway does; undefined where it was killed meanwhile. @template T @param {Gateway} gateway @param {Promise<T>} doing */
  const by = (gateway, doing) =>
    doing.catch((error) => {
      if (!gateway.gone) throw error;
      note('cut off');
    });

  /** @param {number} name */
  function client(name) {
    const random = numbers(seed + name);
    const below = (/** @type {number} */ bound) => Math.floor(random() * bound);
    /** @template T @param {readonly T[]} from @returns {T} */
    const pick = (from) => from[below(from.length)];
    let ids = 0;
    const another = () => ({ id: `client-${name}-${ids++}`, before: 0, asked: 0, unheard: false });
    let wanted = another();
    /** @type {Slot | undefined} */
    let slot;
    /** @type {Slot[]} */
    const forgotten = [];
    /** @type {Response | undefined} */
    let response;

    /** @param {string} path @param {string} method @param {unknown} [body] @returns {Promise<Said>} */
    async function call(path, method, body) {
      const gateway = pick(gateways);
      const asked = sent();
      const reply = await by(gateway, slots(gateway.edge, `jobs/-${path}`, method, body));
      if (reply?.status === 503) note('503');
      return { asked, told: told(), status: reply?.status ?? 0, body: reply?.json() };
    }

    function lose() {
      if (slot) history.slots.push(slot);
      slot = undefined;
      wanted = another();
    }

    async function list() {
      const said = await call('', 'GET');
      if (!known(said)) return;
      note('listed');
      const { limit, free, holders } = said.body;
      assert.deepEqual([limit, free + holders.length], [LIMIT, LIMIT]);
      history.lists.push({ from: said.asked, to: said.told, count: holders.length });
    }

    async function take() {
      const waits = random() < 0.6;
      const query = waits ? `?wait=${100 + below(300)}ms` : '';
      const { id, before } = wanted;
      const [path, body] = before ? [`/${id}/resume`, { fence: before }] : ['', { id }];
      const said = await call(`${path}${query}`, 'POST', body);
      if (!wanted.unheard) wanted.asked = said.asked;
      if (!known(said)) wanted.unheard = true;
      else if (said.status === 429) {
        note(before ? 'not resumed' : 'refused');
        if (waits) note('waited in vain');
      } else {
        note(before ? 'resumed' : 'taken');
        if (waits) note('waited for it');
        slot = taken(wanted, said);
        if (below(4) === 0) await again(slot);
      }
    }

    /** As if the answer had been lost: it is one slot. @param {Slot} own */
    async function again(own) {
      const said = await call('', 'POST', { id: own.id });
      if (!known(said)) {
        own.unheard = true;
        return;
      }
      if (said.body.fence === own.fence) {
        note('taken again');
        return extend(own, said);
      }
      over(own, said, loss);
      lose();
      if (said.status !== 429)
        slot = taken({ ...own, before: own.fence, asked: own.unheard ? own.asked : said.asked }, said);
    }

    /** Asks for one, waits, and goes: whether a slot comes of it nobody hears. */
    async function leave() {
      if (!wanted.unheard) wanted.asked = sent();
      wanted.unheard = true;
      const body = JSON.stringify({ id: wanted.id });
      const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
      const path = '/.sluicegate/v1/slots/jobs/-?wait=300ms';
      const waiting = begin(pick(gateways).edge, path, { method: 'POST', headers, body });
      await list();
      waiting[pick(/** @type {const} */ (['leave', 'reset']))]();
      note('left waiting');
    }

    /** @param {Slot} own */
    async function renew(own) {
      const still = renewed(own, await call(`/${own.id}`, 'PUT', { fence: own.fence }), loss);
      if (still !== undefined) note(still ? 'renewed' : 'renewed too late');
      if (still === false) lose();
    }

    /** Not its own to change: nothing changes. @param {Slot} own */
    async function wrong(own) {
      const [path, method] = [
        ['', 'PUT'],
        ['', 'DELETE'],
        ['/pause', 'POST'],
      ][below(3)];
      const said = await call(`/${own.id}${path}`, method, { fence: own.fence + pick([-1, 1]) });
      if (said.status === 409) return note('wrong fence');
      if (!known(said)) return;
      assert.ok(said.status === 410 || said.body.freed === false, `a wrong fence was answered ${said.status}`);
      over(own, said, loss);
    }

    /** Twice. @param {Slot} own */
    async function free(own) {
      const giveBack = () => call(`/${own.id}`, 'DELETE', { fence: own.fence });
      const said = await giveBack();
      if (freed(own, said, loss)) note('freed');
      lose();
      const second = known(said) ? await giveBack() : said;
      if (!known(second)) return;
      assert.ok(second.body.freed === false || own.unheard, `a second free was answered ${second.status}`);
      note('freed again');
    }

    /** @param {Slot} own */
    async function pause(own) {
      const said = await call(`/${own.id}/pause`, 'POST', { fence: own.fence });
      lose();
      if (!freed(own, said, loss)) return;
      note('paused');
      wanted = { id: own.id, before: own.fence, asked: 0, unheard: own.unheard };
    }

    /** The lease alone gives it back. @param {Slot} own */
    async function forget(own) {
      note('forgotten');
      forgotten.push(own);
      lose();
    }

    /** Comes back to one that was forgotten; where its lease has ended, nothing changes. @param {Slot} old */
    async function late(old) {
      const said = await call(`/${old.id}`, 'PUT', { fence: old.fence });
      if (renewed(old, said, loss) !== false) return;
      note('renewed too late');
      forgotten.splice(forgotten.indexOf(old), 1);
      const again = await call(`/${old.id}`, 'DELETE', { fence: old.fence });
      if (!freed(old, again, loss) && known(again)) note('freed too late');
    }

    async function request() {
      const gateway = pick(gateways);
      const asked = sent();
      const request = await by(gateway, requests.begin(gateway.edge));
      const from = told();
      if (!request) return;
      const { statusCode: status } = request.response;
      if (status === 200) {
        note('passed');
        response = { ...{ ip: request.ip, asked, from, ended: 0 }, ...{ request, gateway, long: below(4) === 0 } };
        running.add(response);
        return;
      }
      request.response.resume();
      assert.ok(status === 429 || status === 503, `a request was answered ${status}`);
      note(status === 429 ? 'not passed' : '503');
    }

    /** @param {Response} ending */
    async function end(ending, how = pick(ENDS)) {
      response = undefined;
      running.delete(ending);
      ending.ended = sent();
      history.responses.push(ending);
      if (ending.ended > ending.asked + LEASE_MS) note('longer than a lease');
      await by(ending.gateway, requests.end(ending.request, how));
      note(ending.gateway.gone ? 'broken' : how);
    }

    return {
      /** One of what there is to do, by its weight. */
      operate() {
        /** @type {[number, () => Promise<void>][]} */
        const choice = [[6, list]];
        const [own, runs] = [slot, response];
        if (own) {
          choice.push([10, () => renew(own)], [5, () => again(own)], [8, () => wrong(own)]);
          choice.push([8, () => pause(own)], [4, () => forget(own)], [16, () => free(own)]);
        } else choice.push([30, take], [2, leave]);
        for (const old of forgotten) choice.push([old.latest < sent() ? 10 : 1, () => late(old)]);
        if (!runs) choice.push([8, request]);
        else if (!runs.long || sent() > runs.asked + LEASE_MS) choice.push([20, () => end(runs)]);
        const act = pick(choice.flatMap(([weight, act]) => Array.from({ length: weight }, () => act)));
        return act();
      },

      /** Goes, and gives nothing back. */
      async go() {
        if (slot) await forget(slot);
        if (response) await end(response, pick(/** @type {const} */ (['leave', 'reset'])));
      },

      /** Comes back when nobody holds any more. */
      async comeBack() {
        await list();
        for (const old of [...forgotten]) {
          await late(old);
          assert.ok(!forgotten.includes(old) || old.unheard, `${old.id} was revived`);
        }
      },
    };
  }

  let { trouble } = play;
  const missing = () => kinds.filter((kind) => (history.kinds[kind] ?? 0) < OFTEN);
  const wanting = () => trouble !== undefined || missing().length > 0 || !enough(history.lists);
  const more = () => history.operations < operations || (history.operations < operations * MOST && wanting());
  /** @type {unknown[]} */
  const faults = [];
  const live = async (/** @type {number} */ name) => {
    const { operate, go, comeBack } = client(name);
    while (faults.length === 0 && more()) {
      history.operations += 1;
      const act = history.operations > operations / 2 ? trouble?.([...running]) : undefined;
      if (act) trouble = undefined;
      await (act ?? operate)();
    }
    await go();
    return comeBack;
  };
  const lives = Array.from({ length: CLIENTS }, (_, name) => live(name).catch((fault) => void faults.push(fault)));
  const gone = await Promise.all(lives);
  await requests.heard();
  if (faults.length > 0) throw faults[0];
  await untilHeld(world, 'jobs', 0, '-');
  await Promise.all(gone.map((comeBack) => comeBack?.()));
  assert.deepEqual(missing(), [], 'answers that did not come up often enough');
  return { ...history, responses: history.responses.map(requests.held) };
}

/** A moment that is not after what comes next, by the system's clock, which is the store's too. */
const sent = () => Date.now();
/** One that is not before what came last. */
const told = () => Date.now() + 1;
