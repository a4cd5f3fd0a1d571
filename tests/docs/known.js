// Commands that are not run for a page, because they take minutes, an account or the whole machine: what they name is
// there, each sub-command, option, file and test.
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { experimental_getWranglerCommands } from 'wrangler';
import { root } from './pages.js';
import { check } from './policies.js';

const text = (/** @type {string} */ file) => readFileSync(join(root, file), 'utf8');
const exists = (/** @type {string} */ file) =>
  assert.ok(existsSync(join(root, file)) || globSync(file, { cwd: root }).length > 0, `no file ${file}`);
/** @type {Record<string, string>} */
const scripts = JSON.parse(text('package.json')).scripts;

/** Options are of a usage that a program prints. @param {string[]} args @param {string} usage */
function options(args, usage) {
  /** @type {string[]} */
  const known = usage.match(/(?<![\w-])--?[a-zA-Z][\w-]*/g) ?? [];
  for (const arg of args.filter((one) => one.startsWith('-'))) assert.ok(known.includes(arg), `no option ${arg}`);
}

/** What stands behind `npm run NAME --`. @type {Record<string, (args: string[]) => Promise<void> | void>} */
const OF_SCRIPT = {
  check: async (args) => options(args, await check('--help')),
  bench(args) {
    const source = text('bench/run.js');
    options(args, String(/const USAGE = `(.*?)`;/s.exec(source)?.[1]));
    /** @type {string[]} */
    const sections = String(/const SECTIONS = \{(.*?)\n\};/s.exec(source)?.[1]).match(/^ {2}\w+/gm) ?? [];
    const only = args.flatMap((arg, at) => (args[at - 1] === '--only' ? arg.split(',') : []));
    for (const name of only) assert.ok(sections.includes(`  ${name}`), `no section ${name}`);
  },
  deploy: (args) => wrangler(['deploy', ...args]),
};

/** @param {string[]} args */
async function npm([verb, ...rest]) {
  const name = verb === 'run' ? rest.shift() : verb;
  assert.ok(name && Object.hasOwn(scripts, name), `no script ${name}`);
  assert.ok(verb === 'run' || ['start', 'test'].includes(verb), `npm ${verb} is none of ours`);
  const args = rest.includes('--') ? rest.slice(rest.indexOf('--') + 1) : [];
  const own = rest.slice(0, rest.length - args.length).filter((one) => !['--', '--silent'].includes(one));
  assert.deepEqual(own, [], `npm takes these for itself; put them behind --`);
  if (args.length > 0) await OF_SCRIPT[name]?.(args);
  assert.ok(args.length === 0 || name in OF_SCRIPT, `nobody knows the options of npm run ${name}`);
}

/** A command of wrangler's, by its own registry. @param {string[]} words */
function wrangler(words) {
  const { registry, globalFlags } = experimental_getWranglerCommands();
  /** @type {any} */
  let at = { subtree: registry.subtree };
  const rest = [...words];
  while (at.subtree.has(rest[0])) at = at.subtree.get(rest.shift());
  assert.equal(at.definition?.type, 'command', `wrangler ${words.join(' ')} is no command`);
  const { args = {}, positionalArgs = [] } = at.definition;
  const flags = { ...globalFlags, ...args };
  const values = [];
  while (rest.length > 0) {
    const word = String(rest.shift());
    if (!word.startsWith('--')) values.push(word);
    else {
      assert.ok(Object.hasOwn(flags, word.slice(2)), `wrangler ${words[0]} has no option ${word}`);
      if (flags[word.slice(2)].type !== 'boolean') assert.ok(rest.shift(), `${word} wants a value`);
    }
  }
  assert.ok(values.length <= positionalArgs.length, `wrangler takes ${positionalArgs.join(', ')} and nothing more`);
  const wanted = positionalArgs.filter((/** @type {string} */ name) => args[name].demandOption);
  assert.ok(values.length >= wanted.length, `wrangler wants ${wanted.join(', ')}`);
}

/** @param {string[]} args */
function cargo([verb, ...args]) {
  if (verb === 'deny') {
    const sections = args.slice(1).every((name) => text('deny.toml').includes(`[${name}]`));
    return assert.ok(args[0] === 'check' && sections, 'deny.toml has rules for each');
  }
  if (verb === 'install') return assert.deepEqual(args, ['cargo-deny'], 'what is installed besides');
  if (verb === 'fmt') return assert.deepEqual(args, []);
  assert.equal(verb, 'test', `cargo ${verb} is no command of the pages`);
  const [kind, name, ...more] = args;
  assert.deepEqual(more, []);
  if (kind === undefined) return;
  assert.ok(['--lib', '--test'].includes(kind) && name, `cargo test ${kind}`);
  const places = kind === '--lib' ? [`src/${name}`, `src/${name}.rs`] : [`tests/${name}.rs`, `tests/${name}/main.rs`];
  assert.ok(
    places.some((place) => existsSync(join(root, place))),
    `cargo test ${kind} ${name} runs nothing`,
  );
}

/**
 * @param {string[]} words of a command, as a shell reads it
 * @param {ReturnType<typeof import('@redis/client').createClient>} redis
 */
export async function known([program, ...args], redis) {
  const files = args.filter((arg) => !arg.startsWith('-'));
  switch (program) {
    case 'npm':
      return npm(args);
    case 'npx':
      assert.equal(args[0], 'wrangler');
      return wrangler(args.slice(1));
    case 'cargo':
      return cargo(args);
    case 'node':
    case 'bash':
      assert.equal(files.length, 1);
      options(args, '--test');
      return exists(files[0]);
    case 'redis-cli': {
      const [info] = /** @type {any[]} */ (await redis.sendCommand(['COMMAND', 'INFO', args[0]]));
      return assert.ok(info, `Redis has no command ${args[0]}`);
    }
    default:
      assert.fail(`${program} is no command of the pages`);
  }
}

/** Settings of the tests and tools that a text names are read somewhere. @param {string} words */
export function settingsAreRead(words) {
  const readers = globSync('{build.rs,src,tests,bench,dev}/**/*.{rs,js}', { cwd: root }).filter(
    (file) => !file.startsWith('tests/docs/'),
  );
  for (const name of new Set(words.match(/\bSLUICEGATE_[A-Z_]+/g))) {
    const reads = [`"${name}"`, `process.env.${name}`];
    assert.ok(
      readers.some((file) => reads.some((one) => text(file).includes(one))),
      `nobody reads ${name}`,
    );
  }
}
