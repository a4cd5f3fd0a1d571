// Redis commands per decision, counted by Redis: the script's own and the call of it.

import { commands, resetCommands } from '../contest.js';
import { check, limit, names, policy } from '../requests.js';

/** @typedef {import('../world.js').World} World */
/** @typedef {import('../table.js').Row} Row */

const ALGORITHMS = ['fixed-window', 'sliding-window', 'sliding-log', 'token-bucket'];

/** @param {World} world @returns {Promise<Row[]>} */
export async function commandsPerDecision(world) {
  const single = ALGORITHMS.map((algorithm) => limit(algorithm, { algorithm, limit: 1, window: '1h' }));
  const many = Array.from({ length: 10 }, (_, index) =>
    limit(`many-${index}`, { algorithm: ALGORITHMS[index % ALGORITHMS.length], limit: 1000, window: '1h' }),
  );
  const gateway = await world.gateway(policy([...single, ...many]));
  let subject = 0;

  /** @param {string[]} limits @param {string} answers */
  async function decide(limits, answers) {
    await resetCommands(world);
    const result = await world.run({ ...check(limits), port: gateway.port, requests: 1, first: subject });
    if (!result.answers[answers])
      throw new Error(`${limits}: "${answers}" expected, got ${Object.keys(result.answers)}`);
    return commands(world);
  }

  // The first call of a store that does not know the script yet is the one that is not EVALSHA alone.
  await world.run({ ...check(names(many)), port: gateway.port, requests: 1, first: 9999 });

  /** @type {Record<'passed' | 'refused' | 'again', { algorithm: string, calls: number, said: string }[]>} */
  const seen = { passed: [], refused: [], again: [] };
  for (const algorithm of ALGORITHMS) {
    subject += 1;
    const stages = /** @type {const} */ ([
      ['passed', '200 true store'],
      ['refused', '200 false store'],
      ['again', '200 false cache'],
    ]);
    for (const [stage, answers] of stages) {
      const { calls, byName } = await decide([algorithm], answers);
      seen[stage].push({ algorithm, calls, said: Object.entries(byName).join(' ').replaceAll(',', ' ') });
    }
  }
  /** @param {string} figure @param {keyof typeof seen} stage @param {number} must @returns {Row} */
  const row = (figure, stage, must) => {
    const worst = seen[stage].reduce((most, one) => (one.calls > most.calls ? one : most));
    const note = `the most of ${ALGORITHMS.length} algorithms: ${worst.said || 'none'}`;
    return {
      figure: `Redis commands: ${figure}`,
      unit: '',
      values: [worst.calls],
      kind: 'count',
      must,
      aim: 'fewer',
      note,
    };
  };
  const rows = [row('1 limit, passed', 'passed', 3), row('1 limit, refused', 'refused', 2)];
  rows.push({ ...row('1 limit, refused again', 'again', 0), aim: undefined });
  for (const count of [1, 3, 10]) {
    subject += 1;
    const { calls } = await decide(names(many.slice(0, count)), '200 true store');
    const figure = `Redis commands: ${count} ${count === 1 ? 'limit' : 'limits'}`;
    rows.push({ figure, unit: '', values: [calls], kind: 'count', must: 2 + count, aim: 'fewer' });
  }
  return rows;
}
