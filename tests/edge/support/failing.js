// One request to a store that fails, and all that can be seen of it.
import { until } from './world.js';

/** @typedef {import('./world.js').Edge} Edge */
/** @typedef {ReturnType<typeof import('./world.js').useWorld>} World */

/** One address for each question, so that no count is shared. */
let last = 0;
export function nextIp() {
  last += 1;
  return `10.${last >> 16}.${(last >> 8) & 255}.${last & 255}`;
}

/**
 * Asks under a standing or a passing fault, then makes the store well again and waits for the gateway to say so. What
 * it logged in between is then complete.
 *
 * @param {World} world
 * @param {Edge} edge whose policy has a limit `open` that fails open
 * @param {() => Promise<T>} ask
 * @template T
 */
export async function during(world, edge, ask) {
  const mark = edge.log().length;
  world.store.stats.reset();
  await world.resetCommands();
  const answer = await ask();
  const calls = world.store.stats.requests;
  const { set: writes = 0 } = await world.commands();
  world.store.faults.clear();
  const recovered = (/** @type {Record<string, any>} */ { event }) => event === 'store-recovered';
  await until(async () => {
    await look(edge, 'open', '192.0.2.200');
    return edge.log().slice(mark).some(recovered);
  }, 'the gateway to say that the store is back');
  const lines = edge.log().slice(mark);
  return { answer, calls, writes, log: lines.slice(0, lines.findIndex(recovered)), mark };
}

/**
 * What is left of a limit, charging nothing.
 *
 * @param {Edge} edge
 * @param {string} name
 * @param {string} ip
 */
export async function look(edge, name, ip) {
  const { tier, limits } = (await edge.check({ limits: [name], subject: { ip }, cost: 0 })).json();
  return tier === 'store' ? Number(limits[0].remaining) : tier;
}

/** Transitions in a log. @param {Record<string, any>[]} lines */
export const transitions = (lines) =>
  lines
    .filter(({ event }) => event.startsWith('store-'))
    .map(({ event, reason }) => (reason ? `${event} ${reason}` : event));
