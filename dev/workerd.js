// The built Worker in a workerd of its own: what tests and benchmarks run, one process an isolate.

import { spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
/** The program itself: the command of the package is a script around it, which a SIGKILL would end alone. */
const WORKERD = /** @type {string} */ (createRequire(import.meta.url)('workerd').default);

/** The compatibility date of wrangler.toml, unless SLUICEGATE_COMPATIBILITY_DATE says another. */
export const COMPATIBILITY_DATE = process.env.SLUICEGATE_COMPATIBILITY_DATE || '2026-11-01';

/** The compatibility flags of wrangler.toml. */
export const COMPATIBILITY_FLAGS = ['enable_request_signal'];

/**
 * @typedef {object} Options
 * @property {Record<string, unknown>} [vars] bindings: text as it is, anything else as JSON
 * @property {Record<string, string>} [modules] paths by module name, the main one first; default: the built Worker
 * @property {string} [compatibilityDate]
 * @property {Record<string, string>} [services] service bindings: name to `host:port` of a server here
 * @property {Record<string, string>} [namespaces] KV namespaces: name to `host:port` of a server here that plays them
 * @property {Record<string, string>} [queues] queues: name of the binding to `host:port` of a server here that plays it,
 *   and delivers by `Gateway.deliver`
 * @property {Record<string, string>} [wrapped] bindings that JavaScript stands in for: name to the text of a module
 *   whose default export makes the binding
 * @property {boolean} [tls] whether `https:` goes anywhere; the usual authorities are trusted
 */

/**
 * @typedef {object} Gateway
 * @property {string} url
 * @property {number} port
 * @property {number} pid
 * @property {() => string[]} log lines that the Worker logged so far
 * @property {(queue: string, messages: unknown[]) => Promise<any>} deliver hands the Worker a batch of a queue's messages,
 *   and answers what became of them
 * @property {() => Promise<void>} stop
 */

/** Hands the Worker what a queue would: the consumer's side of the platform. */
const DISPATCHER = `export default {
  async fetch(request, env) {
    const { queue, messages } = await request.json();
    const dated = messages.map(({ timestamp, ...message }) => ({ ...message, timestamp: new Date(timestamp) }));
    const { outcome, ackAll, retryBatch, explicitAcks, retryMessages } = await env.GATEWAY.queue(queue, dated);
    return Response.json({ outcome, ackAll, retryBatch, explicitAcks, retryMessages });
  },
};
`;

/**
 * Starts workerd on a free port and waits until it listens.
 *
 * @param {Options} [options]
 * @returns {Promise<Gateway>}
 */
export async function startWorkerd({
  vars = {},
  modules = built(),
  compatibilityDate = COMPATIBILITY_DATE,
  services = {},
  namespaces = {},
  queues = {},
  wrapped = {},
  tls = false,
} = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'sluicegate-workerd-'));
  const config = join(dir, 'config.capnp');
  for (const [name, path] of Object.entries(modules)) copyFileSync(path, join(dir, name));
  for (const [name, text] of Object.entries(wrapped)) writeFileSync(join(dir, `${name}.wrapped`), text);
  writeFileSync(join(dir, 'dispatcher.js'), DISPATCHER);
  writeFileSync(config, capnp({ vars, modules, compatibilityDate, services, namespaces, queues, wrapped, tls }));
  const child = spawn(WORKERD, ['serve', config, '--control-fd=3', '--experimental'], {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  /** @type {string[]} */
  const lines = [];
  for (const stream of [child.stdout, child.stderr]) if (stream) collectLines(stream, lines);
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await gone;
    }
    rmSync(dir, { recursive: true, force: true });
  };
  children.add(child);
  child.once('exit', () => children.delete(child));
  const heard = listening(child, lines);
  const port = await heard('http');
  /** @type {Promise<number> | undefined} */
  let dispatcher;
  const deliver = async (/** @type {string} */ queue, /** @type {unknown[]} */ messages) => {
    const body = JSON.stringify({ queue, messages });
    dispatcher ??= heard('queues');
    const response = await fetch(`http://127.0.0.1:${await dispatcher}`, { method: 'POST', body });
    if (!response.ok) throw new Error(`the dispatcher said ${response.status}`);
    return response.json();
  };
  return { url: `http://127.0.0.1:${port}`, port, pid: child.pid ?? 0, log: () => [...lines], deliver, stop };
}

/** Those that run; they end with this process. @type {Set<import('node:child_process').ChildProcess>} */
const children = new Set();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

/** The built Worker's modules. */
function built() {
  return { 'index.js': join(root, 'build', 'index.js'), 'index_bg.wasm': join(root, 'build', 'index_bg.wasm') };
}

/**
 * @param {import('node:stream').Readable} stream
 * @param {string[]} lines
 */
function collectLines(stream, lines) {
  let rest = '';
  stream.setEncoding('utf8').on('data', (text) => {
    const parts = (rest + text).split('\n');
    rest = parts.pop() ?? '';
    lines.push(...parts);
  });
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @param {string[]} lines
 * @returns {(socket: string) => Promise<number>} waits for a socket's port, which workerd reports on its control pipe
 */
function listening(child, lines) {
  let text = '';
  const control = /** @type {import('node:stream').Readable} */ (child.stdio[3]);
  control.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  return (socket) =>
    new Promise((resolve, reject) => {
      const look = () => {
        const said = text.split('\n').find((line) => line.includes('"listen"') && line.includes(`"${socket}"`));
        const port = said && /"port":(\d+)/.exec(said)?.[1];
        if (port) resolve(Number(port));
      };
      control.on('data', look);
      look();
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`workerd ended with ${code}: ${lines.join('\n')}`)));
    });
}

/**
 * @param {Required<Options>} options
 * @returns {string}
 */
function capnp({ vars, modules, compatibilityDate, services, namespaces, queues, wrapped, tls }) {
  const quoted = (/** @type {string} */ text) => JSON.stringify(text);
  const moduleList = Object.keys(modules).map((name) => {
    const kind = name.endsWith('.wasm') ? 'wasm' : 'esModule';
    return `(name = ${quoted(name)}, ${kind} = embed ${quoted(name)})`;
  });
  const bindings = Object.entries(vars).map(([name, value]) =>
    typeof value === 'string'
      ? `(name = ${quoted(name)}, text = ${quoted(value)})`
      : `(name = ${quoted(name)}, json = ${quoted(JSON.stringify(value))})`,
  );
  const external = Object.entries({ ...services, ...namespaces, ...queues }).map(([name, address]) => {
    const kind = name in namespaces ? 'kvNamespace' : name in queues ? 'queue' : 'service';
    bindings.push(`(name = ${quoted(name)}, ${kind} = ${quoted(name)})`);
    return `(name = ${quoted(name)}, external = (address = ${quoted(address)}, http = ()))`;
  });
  const extensions = Object.keys(wrapped).map((name) => {
    bindings.push(`(name = ${quoted(name)}, wrapped = (moduleName = ${quoted(`wrapped:${name}`)}))`);
    const module = `(name = ${quoted(`wrapped:${name}`)}, internal = true, esModule = embed ${quoted(`${name}.wrapped`)})`;
    return `(modules = [${module}])`;
  });
  const consumes = Object.keys(queues).length > 0;
  const dispatcher = `(name = "queues", worker = (
      modules = [(name = "dispatcher.js", esModule = embed "dispatcher.js")],
      compatibilityDate = ${quoted(compatibilityDate)},
      compatibilityFlags = ["experimental", "service_binding_extra_handlers"],
      bindings = [(name = "GATEWAY", service = "main")],
    )),`;
  const trust = tls ? ', tlsOptions = (trustBrowserCas = true)' : '';
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .gateway),
    (name = "internet", network = (allow = ["local", "private", "public"]${trust})),
    ${consumes ? dispatcher : ''}
    ${external.join(',\n    ')}
  ],
  sockets = [
    (name = "http", address = "127.0.0.1:0", http = (), service = "main"),
    ${consumes ? '(name = "queues", address = "127.0.0.1:0", http = (), service = "queues"),' : ''}
  ],
  extensions = [${extensions.join(', ')}],
);
const gateway :Workerd.Worker = (
  modules = [${moduleList.join(', ')}],
  compatibilityDate = ${quoted(compatibilityDate)},
  compatibilityFlags = [${COMPATIBILITY_FLAGS.map(quoted).join(', ')}],
  bindings = [${bindings.join(', ')}],
);
`;
}
