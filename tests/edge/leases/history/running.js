// Requests whose answers run for as long as a test likes, and what is known of the slots that they hold. A gateway tells
// nobody the id of a request's slot, so Redis is listened to: to whose request a slot was given, and when it was renewed.
import { ipOf, listen } from '../../support/moments.js';
import { open } from '../../support/slots.js';
import { until } from '../../support/world.js';
import { lasts } from './overlap.js';
import { LEASE_MS, TICK_MS } from './slot.js';

/** @typedef {import('../../support/slots.js').World} World */
/** @typedef {import('../../support/world.js').Edge} Edge */

/** How an answer ends: by the origin, which ends or cuts it, or by the client, whose connection ends or breaks. */
export const ENDS = /** @type {const} */ (['whole', 'cut', 'leave', 'reset']);
/** An origin that says something now and then lets a gateway learn of a client that has left. */
const SPEAKS_MS = 50;

/**
 * @typedef {object} Running
 * @property {string} ip whose request it is
 * @property {number} asked when it was sent, in ms
 * @property {number} from when the head of its answer had come
 * @property {number} ended when its end began
 */

/** Of a route `/work` with one concurrency limit, and one by address named `who`. @param {World} world */
export async function runningRequests(world) {
  /** @type {Map<string, import('node:http').ServerResponse>} the origin's answers by address */
  const answers = new Map();
  /** @type {Map<string, string>} ids of slots by address */
  const slotOf = new Map();
  /** @type {Map<string, number[]>} by the id of a slot */
  const renewals = new Map();
  let [requests, settled] = [0, 0];

  world.origin.handlers.set('/work', (response, { headers }) => {
    answers.set(String(headers['cf-connecting-ip']), response);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: 1\n\n');
    const speaking = setInterval(() => response.writable && response.write(': still here\n\n'), SPEAKS_MS);
    response.on('close', () => clearInterval(speaking));
  });
  const monitor = await listen(world, (words, ms) => {
    const keys = words.slice(3, 3 + Number(words[2]));
    const rest = words.slice(3 + keys.length);
    const who = keys.find((key) => key.includes(':who:'));
    // lua/check.lua: of a concurrency limit `c`, limit, lease, id; lua/slots.lua: operation, limit, lease, ttl, id.
    if (who) slotOf.set(who.slice(who.lastIndexOf(':') + 1), rest[rest.indexOf('c') + 3]);
    else if (rest[0] === 'renew') renewals.set(rest[4], [...(renewals.get(rest[4]) ?? []), ms]);
    else if (rest[0] === 'settled') settled += 1;
  });

  return {
    /** Sends one; its answer's head has come. @param {Edge} edge */
    async begin(edge) {
      const ip = ipOf(requests++);
      return { ip, ...(await open(edge, '/work', { ip })) };
    },

    /**
     * Ends one, and waits until the client has all that it gets.
     *
     * @param {Awaited<ReturnType<typeof open>> & { ip: string }} request
     * @param {typeof ENDS[number]} how
     */
    async end({ ip, leave, reset, whole }, how) {
      const answer = answers.get(ip);
      if (how === 'leave') return leave();
      if (how === 'reset') return reset();
      if (how === 'whole') answer?.end('data: last\n\n');
      else answer?.destroy();
      const text = await whole().then(String, () => undefined);
      const cut = !text?.endsWith('data: last\n\n');
      if (cut !== (how === 'cut')) throw new Error(`an answer that was to be ${how} was ${text}`);
    },

    /** Waits until Redis has told all that it was asked. */
    async heard() {
      await world.client.sendCommand(['EVAL', 'return 1', '0', 'settled']);
      await until(() => settled > 0, 'Redis to tell what it was asked').finally(monitor.close);
    },

    /** When a request held its slot for certain, by what has been heard so far. @param {Running} request */
    held({ ip, asked, from, ended }) {
      const times = renewals.get(slotOf.get(ip) ?? '') ?? [];
      const until = Math.min(lasts(asked + LEASE_MS, times, LEASE_MS) - TICK_MS, ended);
      return { asked, from, until, outlasts: until > asked + LEASE_MS };
    },
  };
}
