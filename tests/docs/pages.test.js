// The pages, as they stand: every fenced block and every command in a sentence is run, or is in the list of those that
// are not, with the reason. Commands at the heads of examples/ are run by tests/examples.rs.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { startOrigin } from '../../dev/origin.js';
import { useQueues } from '../edge/support/queue.js';
import { useWorld } from '../edge/support/world.js';
import { columns, RUN, within } from './blocks.js';
import { settingsAreRead } from './known.js';
import { examples, page, pages, read } from './pages.js';
import { buildChecker } from './policies.js';
import { SCENES } from './scenes.js';
import { commands, LOCAL_TOKEN } from './shell.js';
import { runSpan } from './spans.js';
import { openStage } from './stage.js';

/** Blocks that cannot be run, by how they begin. */
const NOT_RUN = [
  { name: 'docs/ahead.md', begins: 'requests at the origin that did not pass', why: 'a formula' },
  { name: 'docs/failure-modes.md', begins: 'what the store had admitted', why: 'a formula' },
  { name: 'docs/leases.md', begins: 'what was held when it failed', why: 'a formula' },
];

const world = useWorld();
const queues = useQueues();
/** @type {import('node:http').Server} */
let demo;
before(async () => {
  buildChecker();
  demo = await startOrigin(0);
});
after(() => demo.close());

/** @param {string} name @param {import('node:test').TestContext} context that it ends with */
function stageOf(name, context) {
  const { port } = /** @type {import('node:net').AddressInfo} */ (demo.address());
  const stage = openStage(name, { world, queues, demo: `http://127.0.0.1:${port}` });
  context.after(stage.close);
  return stage;
}

const noCurl = spawnSync('curl', ['--version']).status !== 0;

for (const { name, text, blocks, spans } of pages) {
  const skip = noCurl && blocks.some((block) => /\bcurl /.test(block.text)) && 'no curl here';
  test(name, { skip }, async (context) => {
    const stage = stageOf(name, context);
    /** @type {string[]} */
    const faults = [];
    /** @param {string} place @param {() => unknown} run */
    const attempt = (place, run) => within(place, async () => run()).catch((error) => faults.push(error.message));
    for (const block of blocks) {
      if (NOT_RUN.some((one) => one.name === name && block.text.startsWith(one.begins))) continue;
      const run = RUN[block.language];
      await attempt(block.place, () => {
        assert.ok(run, `a block of ${block.language || 'no language'} is neither run nor listed as one that cannot be`);
        return run(stage, block);
      });
    }
    for (const span of spans) await attempt(`${span.place}: ${span.text}`, () => runSpan(stage, span.text));
    await attempt(name, () => settingsAreRead(text));
    if (faults.length > 0) throw new Error(faults.join('\n\n'));
  });
}

test('what is listed as not run, and every scene, is of a block that there is', () => {
  for (const { name, begins } of NOT_RUN) {
    assert.ok(
      page(name).blocks.some(({ text }) => text.startsWith(begins)),
      `${name}: ${begins}`,
    );
  }
  for (const [name, scenes] of Object.entries(SCENES)) {
    const shown = page(name).blocks.filter(({ language }) => ['http', 'json'].includes(language));
    assert.equal(shown.length, scenes.length, name);
  }
});

test('docs/observability.md lists the columns of a data point', async (context) => {
  const name = 'docs/observability.md';
  const rows = page(name).text.match(/^\| `(index|blob|double).*?\|/gm) ?? [];
  const listed = rows.flatMap((row) => row.match(/\w+\d/g) ?? []);
  const stage = stageOf(name, context);
  assert.deepEqual(listed.toSorted(), (await columns(stage)).toSorted());
});

test('npm start tells to try what the README shows', () => {
  const told = read('dev/start.js')
    .text.replace(/\$\{GATEWAY\}/g, '8787')
    .replace(/\$\{ADMIN_TOKEN\}/g, LOCAL_TOKEN);
  const shown = page('README.md').blocks.filter(({ text }) => text.startsWith('$ curl'));
  for (const { command } of shown.flatMap(({ text }) => commands(text)))
    assert.ok(told.includes(`  ${command}\n`), command);
  assert.equal(shown.length, 1);
});

test('commands of the examples are those that tests/examples.rs runs, and their calls are of the API', async (context) => {
  let seen = 0;
  for (const { name, text } of examples) {
    const commented = text.match(/^#.*\b(npm|npx|curl|cargo|node) .*$/gm) ?? [];
    for (const line of commented)
      assert.ok(line.startsWith(`#   $ npm run check -- ${name} --explain `), `${name}: ${line}`);
    const stage = stageOf(name, context);
    for (const [call] of text.matchAll(/\b(GET|PUT|POST|DELETE) \/\.sluicegate\/[\w/{}-]+/g))
      await runSpan(stage, call);
    seen += commented.length;
  }
  assert.ok(seen >= examples.length);
});
