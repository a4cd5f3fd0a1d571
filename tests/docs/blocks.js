// How a fenced block in each language is run.
import assert from 'node:assert/strict';
import { until } from '../edge/support/world.js';
import { runSnippet } from './clients.js';
import { instead, same, sameAnswer } from './compare.js';
import { checkWranglers, isWranglers } from './policies.js';
import { SCENES } from './scenes.js';
import { commands } from './shell.js';
import { ANALYTICS, columnsOf, runFence, runQuery } from './sql.js';
import { assignments } from './stage.js';

/** @typedef {import('./pages.js').Block} Block */
/** @typedef {import('./stage.js').Stage} Stage */

/** Says of an error what it is about. @param {string} what @param {() => Promise<unknown>} run */
export async function within(what, run) {
  try {
    await run();
  } catch (error) {
    throw new Error(`${what}\n${error instanceof Error ? error.message : error}`);
  }
}

/** The scene that leads to what a block shows. @param {Stage} stage @param {Block} block */
function play(stage, { text }) {
  const scene = SCENES[stage.name]?.[stage.scenes];
  assert.ok(scene, 'no scene in tests/docs/scenes.js leads to this');
  stage.scenes += 1;
  return scene(stage, text);
}

/** @type {Record<string, (stage: Stage, block: Block) => Promise<unknown>>} */
export const RUN = {
  toml: async (stage, { text }) => (isWranglers(text) ? checkWranglers(text, stage.dir) : stage.parse(text)),

  async sh(stage, { text }) {
    stage.assigned = assignments(text) || stage.assigned;
    const { answer, printed } = await stage.run(text);
    assert.ok(answer === undefined || answer.status < 400, printed);
  },

  async console(stage, { text }) {
    for (const { command, shown } of commands(text)) {
      await within(command, async () => {
        // What npm itself says first is not shown.
        const printed = (await stage.run(command)).printed.replace(/^\n(> .*\n)+\n/, '');
        if (shown.startsWith('HTTP/')) sameAnswer(printed, shown, { all: true });
        else same(printed, shown);
        stage.instead(instead(printed, shown));
      });
    }
  },

  js: async (stage, block) => runSnippet(block, await stage.start(await stage.policy()), stage.dir),
  python: async (stage, block) => runSnippet(block, await stage.start(await stage.policy()), stage.dir),

  async http(stage, block) {
    const seen = await play(stage, block);
    if (block.text.startsWith('HTTP/')) sameAnswer(seen.text, block.text, { all: false, own: seen.own });
    else same(seen.text, block.text, seen.own);
  },

  async json(stage, block) {
    const seen = await play(stage, block);
    same(seen.text, block.text, seen.own);
  },

  async sql(stage, { text }) {
    if (text.startsWith('UPDATE ')) runFence(text);
    else runQuery(text, await written(stage));
  },
};

/** @type {WeakMap<Stage, Promise<import('./sql.js').Point[]>>} */
const points = new WeakMap();

/** Data points of decisions of each kind, by the page's policy and a limit in shadow. @param {Stage} stage */
function written(stage) {
  const already = points.get(stage);
  if (already) return already;
  const write = async () => {
    const { limits, routes, ...policy } = await stage.policy();
    const shadow = {
      name: 'new-limit',
      algorithm: 'sliding-window',
      limit: 1,
      window: '1h',
      key: ['ip'],
      shadow: true,
    };
    routes[0].limits.push(shadow.name);
    const shadowed = { ...policy, limits: [...limits, { ...shadow, on_store_error: 'open' }], routes };
    const edge = await stage.start(shadowed, { wrapped: { ANALYTICS } });
    for (const cost of ['30', '30', '1', '1']) {
      await edge.send('/v1/chat/x', { method: 'POST', headers: { 'x-tenant': 'bolt', 'x-cost': cost } });
    }
    const all = () => /** @type {any[]} */ (edge.log().filter(({ event }) => event === 'point'));
    await until(() => all().length === 4, 'four data points');
    return all();
  };
  const writing = write();
  points.set(stage, writing);
  return writing;
}

/** The columns that a data point has. @param {Stage} stage */
export const columns = async (stage) => columnsOf((await written(stage))[0]);
