// Code within sentences that names something of ours: commands, calls of the API, fields of the policy, JSON, functions.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { document, operations } from '../edge/admin/openapi.js';
import { known } from './known.js';
import { root } from './pages.js';
import { checkField } from './policies.js';

/** @typedef {import('./stage.js').Stage} Stage */

const PROGRAMS = 'npm|npx|node|cargo|curl|sh|bash|wrangler|redis-cli|docker|apt|apt-get|brew|git|python3|pip';

/** What a function in a sentence does: what it is given, and what it gives. @type {Record<string, [any, any][]>} */
const FUNCTIONS = {
  parts: [
    [['Müller, Söhne'], 'M%C3%BCller%2C%20S%C3%B6hne'],
    [['192.0.2.1', 'chat'], '192.0.2.1,chat'],
    [['-'], '%2D'],
  ],
};

/** Paths without the names of their parameters. @param {string} path */
const bare = (path) => path.replaceAll(/\{\w+\}/g, '{}');

/** @param {any} at @returns {string[]} names of members that a document's schemas have */
function members(at) {
  if (at === null || typeof at !== 'object') return [];
  return [...Object.keys(at.properties ?? {}), ...Object.values(at).flatMap(members)];
}

const sources = globSync('src/gateway/**/*.rs', { cwd: root }).map((file) => readFileSync(join(root, file), 'utf8'));
const inDocument = new Set(members(document));

/** @type {[RegExp, (text: string, stage: Stage) => Promise<void> | void][]} */
const KINDS = [
  [
    new RegExp(`^([A-Z_]+=\\S* )*(${PROGRAMS}) \\S`),
    async (text, stage) => {
      const { code, noted, failed } = await stage.note(text);
      assert.equal(code, 0, failed);
      for (const words of noted) await known(words, stage.world.client);
    },
  ],
  [
    /^(GET|HEAD|PUT|POST|DELETE) \S/,
    (text) => {
      const [method, path] = text.split(' ');
      const end = path.startsWith('/') ? path : path.replace(/^(…\/)?/, '/');
      const is = (/** @type {import('../edge/admin/openapi.js').Operation} */ one) =>
        one.method === method && (one.path === path || bare(one.path).endsWith(bare(end)));
      assert.ok(operations.some(is), 'the API has no such call');
    },
  ],
  [/^[a-z_][\w.]* = /, (text, stage) => checkField(text, stage.dir)],
  [
    /^\{"/,
    (text) => {
      for (const [, name] of text.matchAll(/"(\w+)"(?=[:,}])(?!(?<=:"\w+")[,}])/g)) {
        const isLogged = sources.some((source) => source.includes(`"${name}"`) || source.includes(`\\"${name}\\"`));
        assert.ok(inDocument.has(name) || isLogged, `no answer and no line of the log has a member ${name}`);
      }
    },
  ],
  [
    /=>/,
    (text) => {
      const name = String(/^\w+/.exec(text)?.[0]);
      assert.ok(FUNCTIONS[name], 'nothing is known of what it does');
      const run = new Function(name, `return ${text}`);
      for (const [given, gives] of FUNCTIONS[name]) assert.equal(run(given), gives);
    },
  ],
];

/** @param {Stage} stage @param {string} text @returns {Promise<boolean>} whether it is something to be run */
export async function runSpan(stage, text) {
  const kind = KINDS.find(([pattern]) => pattern.test(text));
  await kind?.[1](text, stage);
  return kind !== undefined;
}
