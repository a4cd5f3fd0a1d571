// `npm run bench`: measures every figure of the specification's section 10 and says which are missed.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { environment } from './environment.js';
import { cold } from './measure/cold.js';
import { commandsPerDecision } from './measure/commands.js';
import { decision } from './measure/decision.js';
import { exact } from './measure/exact.js';
import { latency } from './measure/latency.js';
import { leased } from './measure/leased.js';
import { limitsOnARequest } from './measure/limits.js';
import { memory } from './measure/memory.js';
import { optimistic } from './measure/optimistic.js';
import { proxied } from './measure/proxied.js';
import { redisTime } from './measure/redis-time.js';
import { scale } from './measure/scale.js';
import { size } from './measure/size.js';
import { stall } from './measure/stall.js';
import { median } from './statistics.js';
import { markdown, text, verdict } from './table.js';
import { openWorld } from './world.js';

/** @typedef {import('./table.js').Row} Row */
/** @typedef {import('./contest.js').Effort & { short: boolean }} Effort */

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const DOCUMENT = join(root, 'docs', 'performance.md');

/** @type {Record<string, (world: import('./world.js').World, effort: Effort) => Promise<Row[]>>} */
const SECTIONS = {
  decision,
  redis: redisTime,
  limits: limitsOnARequest,
  scale,
  proxied,
  latency,
  optimistic,
  stall,
  cold,
  commands: commandsPerDecision,
  memory,
  size,
  exact,
  leased,
};

const USAGE = `npm run bench -- [--only NAME]… [--short] [--no-fail] [--rounds N] [--requests N] [--json FILE] [--write-doc]
  NAME: ${Object.keys(SECTIONS).join(', ')}
  --short      one round of everything, under 40 s: what is counted must hold, what is timed is only shown
  --no-fail    ends with 0 also where a "must" is missed
  --json FILE  the rows and the environment, with every round's value
  --write-doc  puts the table into docs/performance.md (a full run of all sections only)`;

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        only: { type: 'string', multiple: true },
        short: { type: 'boolean', default: false },
        'no-fail': { type: 'boolean', default: false },
        rounds: { type: 'string' },
        requests: { type: 'string' },
        json: { type: 'string' },
        'write-doc': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    const only = values.only?.flatMap((names) => names.split(',')) ?? Object.keys(SECTIONS);
    const unknown = only.find((name) => !(name in SECTIONS));
    if (unknown !== undefined) throw new Error(`no section is named ${unknown}`);
    if (values['write-doc'] && (values.short || values.only)) throw new Error('--write-doc wants a full run');
    const { short } = values;
    const rounds = wholeNumber(values.rounds, short ? 1 : 7);
    const requests = wholeNumber(values.requests, short ? 150 : 4000);
    return { ...values, only, effort: { short, rounds, requests } };
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : error}\n${USAGE}`);
    process.exit(2);
  }
}

/** @param {string | undefined} given @param {number} otherwise */
function wholeNumber(given, otherwise) {
  if (given === undefined) return otherwise;
  if (!/^[1-9]\d*$/.test(given)) throw new Error(`${given} is not a whole number above 0`);
  return Number(given);
}

/** Puts the table between its markers. @param {Record<string, string>} where @param {Row[]} rows */
function writeDocument(where, rows) {
  const facts = Object.entries(where).map(([name, value]) => `- ${name}: ${value}`);
  const table = `\n\n${facts.join('\n')}\n\n${markdown(rows)}\n\n`;
  const before = readFileSync(DOCUMENT, 'utf8');
  const after = before.replace(
    /(<!-- bench:begin.*?-->)[\s\S]*(<!-- bench:end -->)/,
    (_, begin, end) => begin + table + end,
  );
  if (after === before) throw new Error(`${DOCUMENT} has no place for the table`);
  writeFileSync(DOCUMENT, after);
}

const options = readOptions();
if (options.help) {
  console.log(USAGE);
  process.exit(0);
}

if (!existsSync(join(root, 'build', 'index_bg.wasm'))) {
  console.error('bench: there is nothing built to measure; run `npm run build` first (`npm run bench` does)');
  process.exit(2);
}
// What is started here is ended when this process exits, which a signal alone would not let it do.
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) process.once(signal, () => process.exit(130));

const { effort } = options;
const world = await openWorld();
/** @type {Row[]} */
const rows = [];
/** @type {Record<string, string>} */
let where = {};
try {
  where = { ...(await environment(world)), effort: `${effort.rounds} rounds of ${effort.requests} requests` };
  for (const name of options.only) {
    const began = performance.now();
    await world.db.flushAll();
    rows.push(...(await SECTIONS[name](world, effort)));
    await world.stopWorkers();
    console.error(`bench: ${name}, ${((performance.now() - began) / 1000).toFixed(1)} s`);
  }
} finally {
  await world.close();
}

console.log(`\n${text(rows)}\n`);
for (const [name, value] of Object.entries(where)) console.log(`${name}: ${value}`);
if (options.json) {
  const judged = rows.map((row) => ({ ...row, median: median(row.values), verdict: verdict(row) }));
  writeFileSync(options.json, `${JSON.stringify({ environment: where, rows: judged }, null, 2)}\n`);
}
if (options['write-doc']) writeDocument(where, rows);

const missed = rows.filter((row) => verdict(row) === 'MISS');
// A handful of requests on a machine that is doing other things says nothing about time.
const counted = missed.filter(({ kind }) => kind === 'count' || !effort.short);
if (missed.length > 0) console.log(`\nmissed:\n${missed.map(({ figure }) => `  ${figure}`).join('\n')}`);
if (missed.length > counted.length) console.log('(in a short run, what is timed is only shown)');
if (counted.length > 0 && !options['no-fail']) process.exitCode = 1;
