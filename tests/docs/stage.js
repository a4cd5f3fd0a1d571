// What the pieces of one page run in, one after the other: its folder, its shell, its gateway.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { holds } from '../edge/admin/openapi.js';
import { POLICY as HOLDING } from './clients.js';
import { known } from './known.js';
import { page, read, root } from './pages.js';
import { calm, isWranglers, policyOf } from './policies.js';
import { LOCAL_TOKEN, openShell } from './shell.js';

/** @typedef {import('../edge/support/world.js').Edge} Edge */
/** @typedef {import('../../dev/workerd.js').Options} Options */
/** @typedef {ReturnType<typeof openStage>} Stage */

/** By which policy the gateway of a page runs, where it is not the page's first. @type {Record<string, () => string>} */
const POLICY_OF = {
  // That of `npm start`.
  'README.md': () => read('policy.toml').text,
  'README.zh.md': () => read('policy.toml').text,
  'clients/README.md': () => HOLDING,
  'docs/admin.md': () => firstPolicy('README.md'),
  'docs/failure-modes.md': () => firstPolicy('README.md'),
  'docs/observability.md': () => firstPolicy('README.md'),
};

/** @param {string} name */
function firstPolicy(name) {
  const block = page(name).blocks.find(({ language, text }) => language === 'toml' && !isWranglers(text));
  assert.ok(block, `${name} shows no policy`);
  return block.text;
}

/** A block that sets variables of the shell and does nothing else; else ''. @param {string} text */
export const assignments = (text) => (/^(\w+=.*\n)+$/.test(text) ? text : '');

/**
 * @param {string} name of the page
 * @param {object} around
 * @param {ReturnType<typeof import('../edge/support/world.js').useWorld>} around.world
 * @param {ReturnType<typeof import('../edge/support/queue.js').useQueues>} around.queues
 * @param {string} around.demo address of the demo origin
 */
export function openStage(name, { world, queues, demo }) {
  mkdirSync(join(root, 'target'), { recursive: true });
  const dir = mkdtempSync(join(root, 'target', 'docs-'));
  const shell = openShell(dir);
  const parse = (/** @type {string} */ text) => policyOf(text, dir);
  /** @type {Promise<Edge> | undefined} */
  let edge;
  /** What the gateway answered, instead of what is shown. @type {[string, string][]} */
  const said = [];

  const stage = {
    ...{ name, world, queues, dir, parse },
    /** Blocks so far that needed a scene. */
    scenes: 0,
    /** What the page's commands call by name; docs/admin.md says it for all pages. */
    assigned: assignments(page('docs/admin.md').blocks[0].text),

    policy: () => parse((POLICY_OF[name] ?? (() => firstPolicy(name)))()),
    /** A gateway by another policy, with the tests' token and origin. @param {any} policy @param {Options} [options] */
    start: (policy, options) => world.gateway(calm(policy), {}, {}, options),
    /** The page's gateway, as `npm start` has it. @returns {Promise<Edge>} */
    edge() {
      edge ??= stage.policy().then((policy) => world.gateway(calm(policy), { ADMIN_TOKEN: LOCAL_TOKEN, ORIGIN: demo }));
      return edge;
    },
    /** Later commands name what was really said. @param {[string, string][]} pairs shown, and said */
    instead: (pairs) => said.push(...pairs),

    /** A command, or a block of them, by the shell. @param {string} text */
    async run(text) {
      const command = said.reduce((so_far, [shown, is]) => so_far.replaceAll(shown, is), text);
      const port = /\bcurl\b/.test(command) ? (await stage.edge()).port : undefined;
      const ran = await shell(`ADMIN_TOKEN=${LOCAL_TOKEN}\n${stage.assigned}\n${command}`, { port });
      assert.equal(ran.code, 0, `it ended with ${ran.code}: ${ran.failed}`);
      for (const words of ran.noted) {
        await known(words, world.client);
        const file = words.includes('--path') && words[words.indexOf('--path') + 1];
        // What is put into the namespace is a policy that holds.
        if (file) await stage.start(JSON.parse(readFileSync(join(dir, file), 'utf8')));
      }
      const path = /\/\.sluicegate\/[^\s"']*/.exec(command)?.[0];
      if (ran.answer && path) {
        const method = /-X (\w+)/.exec(command)?.[1] ?? (/ -d /.test(command) ? 'POST' : 'GET');
        holds(method, path, { ...ran.answer, text: ran.printed, json: () => JSON.parse(ran.printed) });
      }
      return ran;
    },

    /** A command in a sentence: it is only noted, since its words may stand for others. @param {string} text */
    note: (text) => shell(text, { really: false }),

    close: () => rmSync(dir, { recursive: true, force: true }),
  };
  return stage;
}
