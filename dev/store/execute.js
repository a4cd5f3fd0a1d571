// A parsed request run against Redis, and its answer.
import { Unavailable } from './backend.js';
import { NOSCRIPT } from './faults.js';
import { batchBody, errorBody, replyBody } from './protocol.js';

/** @typedef {import('./protocol.js').Answer} Answer */
/** @typedef {import('./protocol.js').Command} Command */
/** @typedef {import('./protocol.js').Reply} Reply */

// They change or block the connection, which here is everybody's; the REST API has no connection to change.
const CONNECTION_COMMANDS = new Set(
  `AUTH HELLO QUIT RESET SELECT MULTI EXEC DISCARD WATCH UNWATCH MONITOR SYNC PSYNC
   SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE
   BLPOP BRPOP BRPOPLPUSH BLMOVE BLMPOP BZPOPMIN BZPOPMAX BZMPOP WAIT WAITAOF`.split(/\s+/),
);

/** @param {Command} command */
function refusal({ name }) {
  if (!CONNECTION_COMMANDS.has(name)) return undefined;
  const details = 'https://upstash.com/docs/redis/overall/compatibility';
  return new Error(`ERR Command is not available: '${name}'. See ${details} for details`);
}

/**
 * @param {import('./backend.js').Backend} backend
 * @param {(command: Command) => import('./scripts.js').Rewritten} rewrite
 */
export function createExecutor(backend, rewrite) {
  /** @param {Command[]} commands @param {boolean} asSent */
  const prepare = (commands, asSent) => commands.map((command) => (asSent ? { args: command.args } : rewrite(command)));

  /** @param {import('./scripts.js').Rewritten} sent @param {Reply} reply @returns {Reply} */
  function restore(sent, reply) {
    if (!(reply instanceof Error)) return sent.loaded ? Buffer.from(sent.loaded) : reply;
    // In Upstash's words, which are Redis's; Valkey has others.
    return reply.message.startsWith('NOSCRIPT ') ? new Error(NOSCRIPT) : reply;
  }

  /** @param {Command[]} commands @param {boolean} asSent @returns {Promise<Reply[]>} */
  async function pipeline(commands, asSent) {
    const refused = commands.map(refusal);
    const sent = prepare(
      commands.filter((_, index) => !refused[index]),
      asSent,
    );
    const replies = await backend.pipeline(sent.map(({ args }) => args));
    let next = 0;
    return refused.map((error) => {
      if (error) return error;
      const index = next++;
      return restore(sent[index], replies[index]);
    });
  }

  /** @param {Command[]} commands @param {boolean} asSent @returns {Promise<Reply[] | Error>} */
  async function transaction(commands, asSent) {
    const refused = commands.map(refusal).find(Boolean);
    if (refused) return refused;
    const sent = prepare(commands, asSent);
    const reply = await backend.transaction(sent.map(({ args }) => args));
    if (!Array.isArray(reply)) return reply instanceof Error ? reply : new Error('ERR transaction without a reply');
    return reply.map((item, index) => restore(sent[index], item));
  }

  /**
   * @param {import('./protocol.js').Parsed} request
   * @param {{ base64: boolean, asSent: boolean }} options asSent leaves scripts and SHAs alone, as a plain Redis would
   * @returns {Promise<Answer>}
   */
  return async function execute({ form, commands }, { base64, asSent }) {
    try {
      switch (form) {
        case 'pipeline':
          return { status: 200, body: batchBody(await pipeline(commands, asSent), base64) };
        case 'multi-exec': {
          const replies = await transaction(commands, asSent);
          if (replies instanceof Error) return { status: 400, body: errorBody(replies.message) };
          return { status: 200, body: batchBody(replies, base64) };
        }
        default: {
          const [reply] = await pipeline(commands, asSent);
          return { status: reply instanceof Error ? 400 : 200, body: replyBody(reply, base64) };
        }
      }
    } catch (error) {
      if (error instanceof Unavailable) return { status: 503, body: errorBody(error.message) };
      throw error;
    }
  };
}
