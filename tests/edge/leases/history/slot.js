// A slot as its client knows it. It holds the slot for certain from the answer to its taking until it sends the freeing, or
// until the lease ends, counted from the *sending* of the last call that took or renewed it. What an answer says is held
// against that: a slot that is lost must be over, and one that is still held must not.
import assert from 'node:assert/strict';

/** The shortest that a policy may say. */
export const LEASE_MS = 1000;
/** The store's clock tells whole milliseconds, and stands still within a call. */
export const TICK_MS = 2;

/** @typedef {import('../../../soak/history.js').Loss} Loss */

/**
 * @typedef {object} Wanted what a client asks for
 * @property {string} id
 * @property {number} before the fence of the slot that was paused, or 0
 * @property {number} asked when it was asked for, in ms; where an earlier call may have taken it unheard, that one
 * @property {boolean} unheard whether a call may have taken or renewed it unheard, or may do so yet
 */

/**
 * @typedef {object} Known
 * @property {number} fence
 * @property {number} from
 * @property {number} until
 * @property {number} latest when its lease ends if the last call was carried out as late as can be
 */

/** @typedef {Wanted & Known} Slot */

/**
 * @typedef {object} Said what was said to a call
 * @property {number} asked when it was sent, in ms by the system's clock, which is the store's: not after what came next
 * @property {number} told when the answer had come: not before what came last
 * @property {number} status 0 where its gateway was killed meanwhile
 * @property {any} body
 */

/** Whether it is known what became of a call. @param {Said} said */
export const known = ({ status }) => status !== 503 && status !== 0;

/** @param {Wanted} wanted @param {Said} said @returns {Slot} */
export function taken(wanted, said) {
  assert.ok(said.status === 200 || said.status === 201, `a taking was answered ${said.status}`);
  const { fence } = said.body;
  assert.ok(fence > wanted.before, `fence ${fence} after ${wanted.before}`);
  const slot = { ...wanted, fence, from: said.told, until: 0, latest: Number.POSITIVE_INFINITY };
  extend(slot, said);
  return slot;
}

/** A call has renewed its lease, and an ended one is not revived. @param {Slot} slot @param {Said} said */
export function extend(slot, { asked, told }) {
  const late = asked - slot.latest;
  assert.ok(late <= 0 || slot.unheard, `${slot.id} was revived ${late} ms after its lease had ended`);
  slot.until = Math.max(slot.until, asked + LEASE_MS - TICK_MS);
  slot.latest = told + LEASE_MS + TICK_MS;
}

/** A call has found it no longer held. @param {Slot} slot @param {Said} said @param {Loss} [loss] */
export function over({ id, asked, until }, { told }, loss) {
  const forgot = loss && told >= loss.from && asked <= loss.to;
  assert.ok(told >= until || forgot, `${id} was lost ${until - told} ms before its lease ended`);
}

/** Whether a call has renewed it; undefined if nobody knows. @param {Slot} slot @param {Said} said @param {Loss} [loss] */
export function renewed(slot, said, loss) {
  if (!known(said)) {
    slot.unheard = true;
    return undefined;
  }
  if (said.status === 200) {
    assert.equal(said.body.fence, slot.fence);
    extend(slot, said);
    return true;
  }
  assert.ok(said.status === 410 || slot.unheard, `a renewal was answered ${said.status}`);
  over(slot, said, loss);
  return false;
}

/** Whether a call has given it back. @param {Slot} slot @param {Said} said @param {Loss} [loss] */
export function freed(slot, said, loss) {
  const before = { ...slot };
  slot.until = Math.min(slot.until, said.asked);
  if (!known(said)) return false;
  const { freed } = said.body;
  if (freed) extend(before, said);
  else {
    assert.ok(freed === false || slot.unheard, `a free was answered ${said.status}`);
    over(before, said, loss);
  }
  return freed === true;
}
