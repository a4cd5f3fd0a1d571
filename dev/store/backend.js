// The connection to the real Redis: one, shared and pipelined, that comes back by itself and never queues while away.
import { createClient, ErrorReply, RESP_TYPES } from '@redis/client';

/** @typedef {import('./protocol.js').Argument} Argument */
/** @typedef {import('./protocol.js').Reply} Reply */

/** Redis gave no answer: away, gone in the middle, or too slow. Whether the command ran is not known. */
export class Unavailable extends Error {}

const REPLY_TYPES = {
  [RESP_TYPES.NUMBER]: String,
  [RESP_TYPES.SIMPLE_STRING]: Buffer,
  [RESP_TYPES.BLOB_STRING]: Buffer,
};

const RECONNECT_MS = { first: 10, most: 250 };
const CONNECT_TIMEOUT_MS = 1000;
// A Redis that is stopped but not closed takes commands in and answers none: this bounds what waits for it.
const MAX_WAITING = 50_000;

/**
 * @typedef {object} Backend
 * @property {(commands: Argument[][]) => Promise<Reply[]>} pipeline one reply a command, error replies included
 * @property {(commands: Argument[][]) => Promise<Reply>} transaction the reply of EXEC
 * @property {() => void} close
 */

/**
 * Resolves once the first attempt to connect has succeeded or failed.
 * @param {string} url
 * @param {{ timeout: number, onState: (state: 'up' | 'down', error?: Error) => void }} options timeout in ms
 * @returns {Promise<Backend>}
 */
export async function connectBackend(url, { timeout, onState }) {
  const client = createClient({
    url,
    RESP: 2,
    disableOfflineQueue: true,
    disableClientInfo: true,
    commandsQueueMaxLength: MAX_WAITING,
    socket: {
      connectTimeout: CONNECT_TIMEOUT_MS,
      reconnectStrategy: (retries) => Math.min(RECONNECT_MS.first * 2 ** retries, RECONNECT_MS.most),
    },
  });

  /** @type {'up' | 'down' | undefined} */
  let state;
  await new Promise((settled) => {
    /** @param {'up' | 'down'} now @param {Error} [error] */
    const change = (now, error) => {
      if (now !== state) onState(now, error);
      state = now;
      settled(undefined);
    };
    client.on('ready', () => change('up'));
    client.on('error', (error) => change('down', error));
    // Rejects only when close() comes before the first connection.
    client.connect().catch(() => {});
  });

  /** @param {Argument[]} args @param {symbol} [chainId] @returns {Promise<Reply>} */
  const send = (args, chainId) =>
    /** @type {Promise<Reply>} */ (client.sendCommand(args, { typeMapping: REPLY_TYPES, chainId })).catch((error) => {
      if (error instanceof ErrorReply) return error;
      throw new Unavailable(`ERR the Redis behind this endpoint does not answer: ${error.message}`);
    });

  /** @template T @param {Promise<T>} replies @returns {Promise<T>} */
  const inTime = (replies) =>
    new Promise((resolve, reject) => {
      const late = () => reject(new Unavailable(`ERR the Redis behind this endpoint did not answer in ${timeout} ms`));
      const timer = setTimeout(late, timeout);
      replies.then(resolve, reject).finally(() => clearTimeout(timer));
    });

  return {
    pipeline: (commands) => inTime(Promise.all(commands.map((args) => send(args)))),
    transaction(commands) {
      // Sent in one turn, so nothing comes between; the chain id keeps a reconnection from splitting it.
      const chain = Symbol('transaction');
      const replies = [['MULTI'], ...commands, ['EXEC']].map((args) => send(args, chain));
      return inTime(Promise.all(replies).then((all) => all[all.length - 1]));
    },
    close: () => client.destroy(),
  };
}
