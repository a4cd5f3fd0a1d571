// The first request of a fresh process, and what it costs to get there, beside the floor's.

import { cpuMs } from '../contest.js';
import { check, names, policy, THREE } from '../requests.js';
import { median, ratios } from '../statistics.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../world.js').Worker} Worker */
/** @typedef {import('../table.js').Row} Row */

/** @param {World} world @param {import('../contest.js').Effort & { short: boolean }} effort @returns {Promise<Row[]>} */
export async function cold(world, { rounds, short }) {
  const turns = short ? rounds : rounds * 2;
  const starts = {
    ours: () => world.gateway(policy(THREE)),
    floor: () => world.peer('floor'),
    upstash: () => world.peer('upstash'),
  };
  const contenders = /** @type {(keyof typeof starts)[]} */ (Object.keys(starts));
  const empty = () => /** @type {Record<keyof typeof starts, number[]>} */ ({ ours: [], floor: [], upstash: [] });
  const first = empty();
  const cpu = empty();
  for (let turn = 0; turn <= turns; turn += 1) {
    for (const name of contenders) {
      const worker = await starts[name]();
      const result = await world.run({ ...check(names(THREE)), port: worker.port, requests: 1 });
      const spent = cpuMs(worker.pid);
      await world.stop(worker);
      if (!Object.keys(result.answers)[0].startsWith('200')) throw new Error(`${name}: ${Object.keys(result.answers)}`);
      // The first turn warms the files up, and gives the store its scripts.
      if (turn === 0) continue;
      first[name].push(result.latencies[0]);
      cpu[name].push(spent);
    }
  }
  /** @param {string} figure @param {keyof typeof starts} theirs @returns {Row} */
  const row = (figure, theirs) => ({
    figure: `cold start: first request ÷ ${figure}`,
    unit: '×',
    values: ratios(first.ours, first[theirs]),
    kind: 'timing',
    note: `${median(first.ours).toFixed(1)} ms ÷ ${median(first[theirs]).toFixed(1)} ms`,
  });
  // A start is a few clock ticks: only their sum says anything.
  const mean = (/** @type {number[]} */ values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return [
    row('floor', 'floor'),
    row('@upstash/ratelimit', 'upstash'),
    {
      figure: 'cold start: CPU of the process until its first answer ÷ floor',
      unit: '×',
      values: [mean(cpu.ours) / mean(cpu.floor)],
      kind: 'timing',
      note: `means: ${mean(cpu.ours).toFixed(1)} ms ÷ ${mean(cpu.floor).toFixed(1)} ms`,
    },
  ];
}
