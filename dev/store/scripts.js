// Upstash's `allow-key-locking` script flag, in front of a Redis that refuses it.
//
// The flag only says which locks the service takes, so a script means the same without it. Clients compute the SHA-1
// over the text they send, flag included; Redis knows the text without it. This keeps the one mapped to the other.
import { createHash } from 'node:crypto';

/** @typedef {import('./protocol.js').Command} Command */

const FLAG = 'allow-key-locking';

/**
 * The script without the flag, or undefined if it does not carry it. Other flags stay; a line left with nothing but
 * the engine's name goes, its newline stays, so that line numbers in errors are those of the text sent.
 * @param {string} script
 */
export function withoutKeyLocking(script) {
  if (!script.startsWith('#!lua')) return undefined;
  const end = script.indexOf('\n');
  if (end === -1) return undefined;

  let found = false;
  const words = [];
  for (const word of script.slice(0, end).trim().split(/\s+/)) {
    if (!word.startsWith('flags=')) {
      words.push(word);
      continue;
    }
    const flags = word.slice('flags='.length).split(',');
    const kept = flags.filter((flag) => flag !== FLAG);
    found ||= kept.length < flags.length;
    if (kept.length > 0) words.push(`flags=${kept.join(',')}`);
  }
  if (!found) return undefined;
  const line = words.length > 1 ? words.join(' ') : '';
  return line + script.slice(end);
}

/** @param {string} text */
export const sha1 = (text) => createHash('sha1').update(text).digest('hex');

/**
 * @typedef {object} Rewritten
 * @property {import('./protocol.js').Argument[]} args what Redis is sent
 * @property {string} [loaded] the SHA the client expects as the reply of its SCRIPT LOAD
 */

export function createScripts() {
  /** @type {Map<string, string>} from the client's SHA to the one Redis knows */
  const known = new Map();

  /** @param {import('./protocol.js').Argument} sha */
  const serverSha = (sha) => known.get(String(sha).toLowerCase()) ?? sha;

  /** @param {import('./protocol.js').Argument} argument */
  function learn(argument) {
    const script = String(argument);
    const plain = withoutKeyLocking(script);
    if (plain === undefined) return undefined;
    const sha = sha1(script);
    known.set(sha, sha1(plain));
    return { plain, sha };
  }

  /** @param {Command} command @returns {Rewritten} */
  function rewrite({ name, args }) {
    switch (name) {
      case 'EVALSHA':
      case 'EVALSHA_RO':
        return args.length > 1 ? { args: args.with(1, serverSha(args[1])) } : { args };
      case 'EVAL':
      case 'EVAL_RO': {
        const script = args.length > 1 ? learn(args[1]) : undefined;
        return script ? { args: args.with(1, script.plain) } : { args };
      }
      case 'SCRIPT':
        return rewriteScript(args);
      default:
        return { args };
    }
  }

  /** @param {import('./protocol.js').Argument[]} args @returns {Rewritten} */
  function rewriteScript(args) {
    switch (String(args[1]).toUpperCase()) {
      case 'LOAD': {
        const script = args.length === 3 ? learn(args[2]) : undefined;
        return script ? { args: args.with(2, script.plain), loaded: script.sha } : { args };
      }
      case 'EXISTS':
        return { args: [...args.slice(0, 2), ...args.slice(2).map(serverSha)] };
      case 'FLUSH':
        // Otherwise a SHA forgotten here would come back to life when the same text is loaded without the flag.
        known.clear();
        return { args };
      default:
        return { args };
    }
  }

  return { rewrite };
}
