// A worker process that holds a slot as its standard input says, one word a line, and tells of it, one JSON object a line.
// worker.py is its twin.

import { createInterface } from 'node:readline';

import { FenceGuard, LeaseLost, SlotRefused, Slots } from '../../clients/javascript/slots.js';

const { url, token, limit, subject, waitMs } = JSON.parse(process.argv[2]);
/** @param {object} event */
const say = (event) => console.log(JSON.stringify({ at: Date.now(), ...event }));
const slots = new Slots({ url, token });
/** @type {import('../../clients/javascript/slots.js').Slot} */
let slot;
/** @type {Promise<unknown>} */
let resuming;

/** @type {Record<string, () => Promise<object>>} */
const words = {
  async take() {
    slot = await slots.take(limit, subject, { waitMs });
    slot.signal.addEventListener('abort', () => say({ event: 'aborted' }));
    return { event: 'held', fence: slot.fence, id: slot.id };
  },
  async check() {
    slot.ensureHeld();
    return { event: 'sure' };
  },
  async pause() {
    await slot.pause();
    return { event: 'paused' };
  },
  async resume() {
    await slot.resume({ waitMs });
    return { event: 'held', fence: slot.fence, id: slot.id };
  },
  async resuming() {
    resuming = slot.resume({ waitMs }).catch((error) => error);
    return { event: 'resuming' };
  },
  async resumed() {
    const error = await resuming;
    if (error) throw error;
    return { event: 'held', fence: slot.fence };
  },
  async free() {
    await slot.free();
    return { event: 'freed' };
  },
  async work() {
    let during;
    await slots.hold(
      limit,
      subject,
      async (held) => {
        await fetch(`${process.argv[3]}/in`);
        during = held.fence;
        await fetch(`${process.argv[3]}/out`);
      },
      { waitMs },
    );
    return { event: 'worked', fence: during };
  },
  async rest() {
    const fences = await slots.hold(limit, subject, async (held) => {
      const before = held.fence;
      await held.paused(() => fetch(`${process.argv[3]}/in`));
      held.ensureHeld();
      return [before, held.fence];
    });
    return { event: 'rested', fences };
  },
  async fail() {
    await slots.hold(limit, subject, async () => {
      throw new Error('the work went wrong');
    });
    return { event: 'worked' };
  },
  async guard() {
    const guard = new FenceGuard();
    const asked = /** @type {[string, number][]} */ (JSON.parse(process.argv[4]));
    return { event: 'guarded', admitted: asked.map(([resource, fence]) => guard.admits(resource, fence)) };
  },
};

say({ event: 'ready' });
for await (const word of createInterface({ input: process.stdin })) {
  try {
    say(await words[word]());
  } catch (error) {
    const { name, message } = /** @type {Error} */ (error);
    const event = error instanceof LeaseLost ? 'lost' : error instanceof SlotRefused ? 'refused' : 'failed';
    say({ event, name, message });
  }
}
