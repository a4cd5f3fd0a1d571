// A Redis of one's own: a server process on loopback that persists nothing and ends with this process.
// SLUICEGATE_REDIS names the server's binary, where it is not to be the first that is installed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** The first of these that is installed is taken, unless another is named. */
const BINARIES = ['redis-server', 'valkey-server'];
const START_TIMEOUT_MS = 10_000;
const PORT_ATTEMPTS = 5;

/**
 * @typedef {object} Redis
 * @property {string} url
 * @property {number} port
 * @property {number} pid of the running server, also after restart()
 * @property {(signal?: NodeJS.Signals) => Promise<void>} kill SIGKILL unless said; resolves when the process is gone,
 *   at once for signals that do not end it (SIGSTOP, SIGCONT)
 * @property {() => Promise<void>} restart starts it again on the same port, empty; ends it first if it runs
 * @property {() => Promise<void>} stop ends it and removes its directory
 */

/**
 * @param {object} [options]
 * @param {number} [options.port] 0 picks a free one
 * @param {string} [options.dir] working directory; a temporary one unless given
 * @param {string[]} [options.args] more of the server's own options, e.g. `['--maxmemory', '2mb']`
 * @returns {Promise<Redis>}
 */
export async function startRedis({ port = 0, dir, args = [] } = {}) {
  const directory = dir ?? (await mkdtemp(join(tmpdir(), 'sluicegate-redis-')));
  let child = await startOnFreePort().catch(async (error) => {
    await removeDirectory();
    throw error;
  });
  // A server left behind by a test that failed would outlive the run.
  const reap = () => child.kill('SIGKILL');
  process.on('exit', reap);

  async function removeDirectory() {
    if (dir === undefined) await rm(directory, { recursive: true, force: true });
  }

  async function startOnFreePort() {
    if (port !== 0) return launch(port, directory, args);
    for (let attempt = 1; ; attempt += 1) {
      port = await freePort();
      try {
        return await launch(port, directory, args);
      } catch (error) {
        // Somebody else may have taken the port between its choice and its use.
        if (attempt === PORT_ATTEMPTS || !/in use/i.test(String(error))) throw error;
      }
    }
  }

  /** @param {NodeJS.Signals} [signal] */
  async function kill(signal = 'SIGKILL') {
    if (hasExited(child)) return;
    if (signal === 'SIGSTOP' || signal === 'SIGCONT') {
      child.kill(signal);
      return;
    }
    // Unreferenced while it runs, it would let this process end before what follows its end is done.
    child.ref();
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  }

  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    get pid() {
      return /** @type {number} */ (child.pid);
    },
    kill,
    async restart() {
      await kill();
      child = await launch(port, directory, args);
    },
    async stop() {
      process.off('exit', reap);
      await kill();
      await removeDirectory();
    },
  };
}

/** @typedef {import('node:child_process').ChildProcess} ChildProcess */

/** @param {ChildProcess} child */
const hasExited = (child) => child.exitCode !== null || child.signalCode !== null;

/** @param {number} port @param {string} dir @param {string[]} args */
async function launch(port, dir, args) {
  const settings = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', dir];
  const named = process.env.SLUICEGATE_REDIS;
  for (const binary of named ? [named] : BINARIES) {
    const child = spawn(binary, [...settings, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    try {
      await once(child, 'spawn');
    } catch (error) {
      if (named) throw new Error(`SLUICEGATE_REDIS=${named}: ${/** @type {Error} */ (error).message}`);
      if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') continue;
      throw error;
    }
    await untilReady(child, port);
    return child;
  }
  throw new Error(`no Redis: neither ${BINARIES.join(' nor ')} is on PATH (Debian: apt-get install redis-server)`);
}

/** @param {ChildProcess} child @param {number} port */
async function untilReady(child, port) {
  const outputs = /** @type {import('node:net').Socket[]} */ ([child.stdout, child.stderr]);
  let log = '';
  for (const output of outputs) {
    output.setEncoding('utf8').on('data', (text) => {
      log = (log + text).slice(-2000);
    });
  }
  // Once it has ended and all it had to say is read.
  const closed = once(child, 'close');
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (!(await answers(port, child))) {
    const exited = hasExited(child);
    if (!exited && performance.now() < deadline) {
      await sleep(10);
      continue;
    }
    child.kill('SIGKILL');
    await closed;
    throw new Error(`Redis on port ${port} ${exited ? 'ended while starting' : 'does not answer'}:\n${log.trim()}`);
  }
  // It is stopped by stop() or at exit; a test that forgets it should still be able to end.
  child.unref();
  for (const output of outputs) output.unref();
}

/**
 * Whether the server that answers on the port is this one: where the port was taken, another answers and ours ends.
 * @param {number} port @param {ChildProcess} child @returns {Promise<boolean>}
 */
function answers(port, child) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('INFO server\r\nPING\r\n'));
    let reply = '';
    socket.setEncoding('utf8').setTimeout(1000, () => socket.destroy());
    socket.on('data', (text) => {
      reply += text;
      if (reply.endsWith('+PONG\r\n')) socket.destroy();
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(reply.includes(`\r\nprocess_id:${child.pid}\r\n`)));
  });
}

/** @returns {Promise<number>} */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
}
