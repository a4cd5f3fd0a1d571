// Holds a slot of a Sluicegate concurrency limit while some work runs. Needs nothing but `fetch`: copy this file.
//
// A slot is a lease. It is renewed in the background; where that fails for so long that the lease may have ended, the
// slot is lost: its `signal` aborts, and the work has to stop. That moment is counted from before the last renewal was
// sent, by whichever of the two clocks here has moved further, so it never comes after the lease's own end, also where
// the process was stopped or the machine slept. What the work writes should still carry `slot.fence` (see FenceGuard).

/** Every slot is taken. `retryAfterMs` says when asking again may help. */
export class SlotRefused extends Error {
  /** @param {string} message @param {number} retryAfterMs */
  constructor(message, retryAfterMs) {
    super(message);
    this.name = 'SlotRefused';
    this.retryAfterMs = retryAfterMs;
  }
}

/** The lease ended, or may have: somebody else can hold the slot now. */
export class LeaseLost extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = 'LeaseLost';
  }
}

/** The gateway did not do what was asked, for a reason that is neither of the above. */
export class SlotsError extends Error {
  /** @param {string} message @param {number} status HTTP status; 0 where there was no answer */
  constructor(message, status) {
    super(message);
    this.name = 'SlotsError';
    this.status = status;
  }
}

/** Longest time that the gateway waits for one request, in ms. Longer waits are several, each at the end of the queue. */
const LONGEST_WAIT_MS = 60_000;
/** How long one request may take beyond the wait that it asks for, in ms. */
const PATIENCE_MS = 10_000;
/** Requests for one step where the gateway does not answer. */
const ATTEMPTS = 4;

/** Milliseconds that have passed by both clocks: one stands still while a machine sleeps, the other can be set. */
function clock() {
  const steady = performance.now();
  const wall = Date.now();
  return () => Math.max(performance.now() - steady, Date.now() - wall);
}

/** @param {number} ms */
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Slots {
  #base;
  #token;

  /** @param {{ url: string, token: string }} gateway its address, and the token of its admin API */
  constructor({ url, token }) {
    this.#base = `${url.replace(/\/+$/, '')}/.sluicegate/v1/slots`;
    this.#token = token;
  }

  /**
   * Takes a slot, runs the work, and frees the slot however the work ends.
   *
   * @template T
   * @param {string} limit name of a concurrency limit in the policy
   * @param {string[]} subject a value for each part of the limit's key; `[]` for `global`
   * @param {(slot: Slot) => Promise<T>} work stops when `slot.signal` aborts
   * @param {{ waitMs?: number, id?: string }} [options] how long to queue for a slot; default: not at all
   * @returns {Promise<T>}
   * @throws {SlotRefused} when none was to be had
   * @throws {LeaseLost} when the work ended after its lease had
   */
  async hold(limit, subject, work, options) {
    const slot = await this.take(limit, subject, options);
    try {
      const result = await work(slot);
      slot.ensureHeld();
      return result;
    } finally {
      await slot.free();
    }
  }

  /**
   * Takes a slot, to be freed by `slot.free()`.
   *
   * @param {string} limit
   * @param {string[]} subject
   * @param {{ waitMs?: number, id?: string }} [options] `id`: asking again with it gets the same slot
   * @returns {Promise<Slot>}
   */
  async take(limit, subject, { waitMs = 0, id = crypto.randomUUID() } = {}) {
    const parts = subject.length === 0 ? ['-'] : subject.map(encodeURIComponent);
    const slot = new Slot(this, `/${encodeURIComponent(limit)}/${parts.join(',')}`, id);
    await slot.take('', { id }, waitMs);
    return slot;
  }

  /**
   * One call; a call that gets no answer, or one that says the store is away, is made again: every one is idempotent.
   *
   * @param {string} method
   * @param {string} path
   * @param {unknown} body
   * @param {{ wait?: () => number, within?: () => boolean }} [options] `wait`: for how long it may still wait, in ms;
   * `within`: whether asking again still makes sense
   * @returns {Promise<{ status: number, answer: any, retryAfterMs: number }>}
   */
  async call(method, path, body, { wait = () => 0, within = () => true } = {}) {
    let failure = new SlotsError('the gateway was not asked', 0);
    for (let attempt = 0; attempt < ATTEMPTS && within(); attempt += 1) {
      if (attempt > 0) await pause(Math.random() * 100 * 2 ** attempt);
      const waitMs = Math.ceil(wait());
      try {
        const response = await fetch(this.#base + path + (waitMs > 0 ? `?wait=${waitMs}ms` : ''), {
          method,
          headers: { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(waitMs + PATIENCE_MS),
        });
        const text = await response.text();
        const answer = text.startsWith('{') ? JSON.parse(text) : {};
        const retryAfterMs = 1000 * (Number(response.headers.get('retry-after')) || 0);
        if (response.status < 500) return { status: response.status, answer, retryAfterMs };
        failure = new SlotsError(answer.detail ?? `the gateway answered ${response.status}`, response.status);
      } catch (error) {
        failure = new SlotsError(`the gateway did not answer: ${error instanceof Error ? error.message : error}`, 0);
      }
    }
    throw failure;
  }
}

export class Slot {
  #slots;
  #path;
  #abort = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {() => number} ms since the request that last got or renewed the lease was sent */
  #age = () => Number.POSITIVE_INFINITY;
  #leaseMs = 0;
  /** @type {'held' | 'paused' | 'freed' | 'lost'} */
  #state = 'freed';

  /** @param {Slots} slots @param {string} path @param {string} id */
  constructor(slots, path, id) {
    this.#slots = slots;
    this.#path = path;
    this.id = id;
    /** Rises with every lease of this subject's: whoever is written to refuses a lower one than it has seen. */
    this.fence = 0;
  }

  /** Aborts when the lease is lost. */
  get signal() {
    return this.#abort.signal;
  }

  /** @throws {LeaseLost} unless the slot is surely still held */
  ensureHeld() {
    if (this.#state === 'held' && this.#age() >= this.#leaseMs) this.#lose('the lease was not renewed in time');
    if (this.#state === 'lost') throw this.signal.reason;
    if (this.#state !== 'held') throw new LeaseLost(`the slot is ${this.#state}`);
  }

  /** Gives the slot back. A second time, or after it was lost, changes nothing. */
  async free() {
    clearTimeout(this.#timer);
    // A pause whose answer was lost may not have been heard of.
    if (this.#state !== 'held' && this.#state !== 'paused') return;
    this.#state = 'freed';
    await this.#giveBack();
  }

  /**
   * Gives the place back during a long wait, and asks for it again after; the fence is higher then.
   *
   * @template T
   * @param {() => Promise<T>} wait
   * @param {{ waitMs?: number }} [options] how long to queue for the place
   * @returns {Promise<T>}
   */
  async paused(wait, { waitMs = 0 } = {}) {
    await this.pause();
    const result = await wait();
    await this.resume({ waitMs });
    return result;
  }

  async pause() {
    this.ensureHeld();
    clearTimeout(this.#timer);
    this.#state = 'paused';
    await this.#slots.call('POST', `${this.#path}/${this.id}/pause`, { fence: this.fence });
  }

  /** @param {{ waitMs?: number }} [options] */
  async resume({ waitMs = 0 } = {}) {
    if (this.#state !== 'paused') throw new SlotsError(`only a paused slot is resumed; this one is ${this.#state}`, 0);
    await this.take(`/${this.id}/resume`, { fence: this.fence }, waitMs);
  }

  /**
   * Asks until there is a slot or the wait is over.
   *
   * @param {string} step
   * @param {object} body
   * @param {number} waitMs
   */
  async take(step, body, waitMs) {
    const waited = clock();
    const left = () => Math.max(0, waitMs - waited());
    const wait = () => Math.min(left(), LONGEST_WAIT_MS);
    for (;;) {
      const [age, asked] = [clock(), wait()];
      const { status, answer, retryAfterMs } = await this.#slots.call('POST', this.#path + step, body, { wait });
      if (status === 200 || status === 201) {
        if (await this.#taken(answer, age, step !== '')) return;
        continue;
      }
      const detail = answer.detail ?? `the gateway answered ${status}`;
      if (status !== 429) throw new SlotsError(detail, status);
      // Without a moment to come back at, waiting helps nothing: the subject is banned.
      if (left() === 0 || retryAfterMs === 0) throw new SlotRefused(detail, retryAfterMs);
      // A refusal that came at once is no wait.
      if (age() < asked) await pause(Math.min(retryAfterMs, left()));
    }
  }

  /**
   * @param {{ fence: number, lease_ms: number }} answer
   * @param {() => number} age since before it was asked for
   * @param {boolean} resumed
   * @returns {Promise<boolean>} whether the slot is held
   */
  async #taken(answer, age, resumed) {
    const { fence } = answer;
    // It was taken at some moment of a long wait; a renewal tells how old the lease is.
    if (age() >= answer.lease_ms / 3) {
      const [later, renewal] = [clock(), await this.#slots.call('PUT', `${this.#path}/${this.id}`, { fence })];
      if (renewal.status !== 200) return false;
      [age, answer] = [later, renewal.answer];
    }
    this.fence = fence;
    if (resumed && this.#state === 'freed') {
      await this.#giveBack();
      throw new SlotsError('the slot was freed while it was asked for again', 0);
    }
    this.#held(answer, age);
    return true;
  }

  /** What cannot be given back ends with its lease. */
  async #giveBack() {
    await this.#slots.call('DELETE', `${this.#path}/${this.id}`, { fence: this.fence }).catch(() => {});
  }

  /** @param {{ fence: number, lease_ms: number }} answer @param {() => number} age */
  #held(answer, age) {
    this.fence = answer.fence;
    this.#leaseMs = answer.lease_ms;
    this.#age = age;
    this.#state = 'held';
    this.#beat(this.#leaseMs / 3);
  }

  /** @param {number} afterMs since the last success */
  #beat(afterMs) {
    clearTimeout(this.#timer);
    // At the lease's end at the latest, where it is lost.
    const due = Math.min(afterMs, this.#leaseMs) - this.#age();
    this.#timer = setTimeout(() => this.#renew(), Math.max(0, due));
  }

  async #renew() {
    const [age, fence] = [clock(), this.fence];
    const current = () => this.#state === 'held' && this.fence === fence;
    if (!current()) return;
    if (this.#age() >= this.#leaseMs) return this.#lose('the lease was not renewed in time');
    // Its end comes whether or not the gateway answers.
    this.#timer = setTimeout(() => this.#lose('the lease was not renewed in time'), this.#leaseMs - this.#age());
    const options = { within: () => current() && this.#age() < this.#leaseMs };
    const renewed = await this.#slots.call('PUT', `${this.#path}/${this.id}`, { fence }, options).catch(() => null);
    if (!current()) return;
    if (renewed?.status === 200) this.#held(renewed.answer, age);
    else if (renewed) this.#lose(renewed.answer.detail ?? `the gateway answered ${renewed.status}`);
    else this.#beat(this.#age() + this.#leaseMs / 12);
  }

  /** @param {string} why */
  #lose(why) {
    if (this.#state !== 'held') return;
    clearTimeout(this.#timer);
    this.#state = 'lost';
    this.#abort.abort(new LeaseLost(why));
  }
}

/**
 * The other half of a fence, for whoever is written to: refuses what comes with a lower fence than was seen before.
 * This one remembers in the memory of one process; where more than one writes, the same comparison belongs into the
 * statement that writes (see README.md).
 */
export class FenceGuard {
  /** @type {Map<string, number>} */
  #highest = new Map();

  /** Whether a write to the resource with this fence may go on. @param {string} resource @param {number} fence */
  admits(resource, fence) {
    if (!Number.isSafeInteger(fence) || fence < (this.#highest.get(resource) ?? 0)) return false;
    this.#highest.set(resource, fence);
    return true;
  }
}
