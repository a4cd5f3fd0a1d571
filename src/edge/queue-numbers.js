// What is counted of requests that wait in queues, and how the queues stand: for the admin API's status and metrics.

/** Longest wait for what a queue says of itself, in ms. */
const DEADLINE_MS = 1_000;

/**
 * What became of requests in this isolate: put on a queue; taken by the origin; tried in vain, not for the last time;
 * given up.
 */
const counts = { accepted: 0, delivered: 0, retried: 0, dead: 0 };

/** Messages in hand, by the binding that they came by. @type {Map<string, number>} */
const inHand = new Map();

/** @param {keyof typeof counts} event */
export function count(event) {
  counts[event] += 1;
}

/** @param {string} binding */
export function take(binding) {
  inHand.set(binding, (inHand.get(binding) ?? 0) + 1);
}

/** @param {string} binding */
export function give(binding) {
  inHand.set(binding, (inHand.get(binding) ?? 1) - 1);
}

/**
 * @param {string} call of the admin API: `status` or `metrics`
 * @param {string} lines of the policy's queues, each `queue dead-letter` by their bindings
 * @param {Record<string, unknown>} env
 * @returns {Promise<string>} a member of the status as JSON, or families of the metrics as OpenMetrics text
 */
export async function numbers(call, lines, env) {
  const queues = await Promise.all(lines.split('\n').map((line) => standing(line, env)));
  return call === 'status' ? JSON.stringify({ ...counts, queues }) : families(queues);
}

/** @typedef {Awaited<ReturnType<typeof standing>>} Standing */

/**
 * How a queue stands, as the platform says; null for what is not known.
 *
 * @param {string} line
 * @param {Record<string, unknown>} env
 */
async function standing(line, env) {
  const [binding, dead_letter] = line.split(' ');
  const [queue, dead] = await Promise.all([metrics(env[binding]), metrics(env[dead_letter])]);
  const since = queue?.backlogCount ? queue.oldestMessageTimestamp?.getTime() : undefined;
  return {
    binding,
    dead_letter,
    bound: [env[binding], env[dead_letter]].every((it) => it !== undefined),
    depth: queue?.backlogCount ?? null,
    oldest_age_ms: since ? Math.max(0, Date.now() - since) : null,
    in_hand: inHand.get(binding) ?? 0,
    dead_letters: dead?.backlogCount ?? null,
  };
}

/** @param {unknown} binding @returns {Promise<QueueMetrics | undefined>} */
async function metrics(binding) {
  const late = scheduler.wait(DEADLINE_MS).then(() => undefined);
  try {
    return await Promise.race([/** @type {Queue} */ (binding).metrics(), late]);
  } catch {
    return undefined;
  }
}

/** @param {Standing[]} queues */
function families(queues) {
  const family = (/** @type {string} */ name, /** @type {string} */ kind, /** @type {string} */ help) =>
    `# TYPE ${name} ${kind}\n${name.endsWith('_seconds') ? `# UNIT ${name} seconds\n` : ''}# HELP ${name} ${help}\n`;
  const gauge = (
    /** @type {string} */ name,
    /** @type {string} */ help,
    /** @type {(of: Standing) => [string, number | null][]} */ samples,
  ) => {
    const known = queues.flatMap(samples).filter(([, value]) => value !== null);
    return family(name, 'gauge', help) + known.map(([of, value]) => `${name}{binding="${of}"} ${value}\n`).join('');
  };
  const events = Object.entries(counts).map(([event, value]) => `sluicegate_tasks_total{event="${event}"} ${value}\n`);
  return [
    family('sluicegate_tasks', 'counter', 'Requests that wait in queues, by what became of them.'),
    ...events,
    gauge('sluicegate_queue_depth', 'Messages in a queue or a dead-letter queue, as the platform says.', (of) => [
      [of.binding, of.depth],
      [of.dead_letter, of.dead_letters],
    ]),
    gauge('sluicegate_queue_in_hand', 'Messages of a queue that this isolate has in hand.', (of) => [
      [of.binding, of.in_hand],
    ]),
    gauge('sluicegate_queue_oldest_seconds', 'How long the oldest message of a queue has been there.', (of) => [
      [of.binding, of.oldest_age_ms === null ? null : of.oldest_age_ms / 1000],
    ]),
  ].join('');
}
