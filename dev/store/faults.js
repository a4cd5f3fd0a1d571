// What a test can make go wrong: which request a fault strikes, and the faults by name.

/**
 * A fault strikes one request. Kinds:
 * - `delay`: waits `ms`, then runs and answers; with `apply` it runs first and answers late
 * - `hold`: waits for the promise `until`, then runs and answers
 * - `stall`: never answers; with `apply` it runs first
 * - `stall-after-headers`: runs, sends the true headers and no byte of the body
 * - `drip`: runs, then sends the body one byte every `everyMs`
 * - `reset-before`, `reset-after`: resets the connection before or after running
 * - `cut`: runs, sends half of the body it announced, closes
 * - `reply`: answers `status`, `headers`, `body` and runs nothing; with `apply` it runs first, with `chunked` the length
 *   of the body is not said
 * - `noscript`: answers NOSCRIPT and runs nothing
 * - `plain-redis`: leaves the script flags in and the SHAs alone, so that Redis itself refuses the line
 * @typedef {object} Fault
 * @property {'delay' | 'hold' | 'stall' | 'stall-after-headers' | 'drip' | 'reset-before' | 'reset-after' | 'cut'
 *   | 'reply' | 'noscript' | 'plain-redis'} kind
 * @property {number} [ms]
 * @property {Promise<unknown>} [until]
 * @property {number} [everyMs]
 * @property {number} [status]
 * @property {import('node:http').OutgoingHttpHeaders} [headers]
 * @property {string | Uint8Array} [body]
 * @property {boolean} [apply] run the command first
 * @property {boolean} [chunked] send the body in pieces
 * @property {(command: string[]) => boolean} [match] strikes only requests one of whose commands passes
 */

/**
 * @typedef {object} Faults
 * @property {(fault: Fault, times?: number) => void} push strikes the next `times` requests that match
 * @property {(fault: Fault) => void} always strikes every request that match and no pushed fault takes
 * @property {() => void} clear
 * @property {() => number} pending how many pushed strikes are left
 */

/** @returns {Faults & { take: (commands: string[][]) => Fault | undefined, idle: () => boolean }} */
export function createFaults() {
  /** @type {{ fault: Fault, left: number }[]} */
  let pushed = [];
  /** @type {Fault[]} */
  let standing = [];

  return {
    push(fault, times = 1) {
      if (times > 0) pushed.push({ fault, left: times });
    },
    always(fault) {
      standing.push(fault);
    },
    clear() {
      pushed = [];
      standing = [];
    },
    pending: () => pushed.reduce((sum, { left }) => sum + left, 0),
    idle: () => pushed.length === 0 && standing.length === 0,
    take(commands) {
      const strikes = (/** @type {Fault} */ { match }) => !match || commands.some(match);
      const index = pushed.findIndex(({ fault }) => strikes(fault));
      if (index === -1) return standing.find(strikes);
      const entry = pushed[index];
      entry.left -= 1;
      if (entry.left === 0) pushed.splice(index, 1);
      return entry.fault;
    },
  };
}

const UPSTASH_DOCS = 'https://upstash.com/docs/redis/troubleshooting';
export const NOSCRIPT = 'NOSCRIPT No matching script. Please use EVAL.';

/** @param {string} body @param {number} [status] @returns {Fault} */
const json = (body, status = 200) => ({ kind: 'reply', status, body });

/** @param {number} status @param {string} title @returns {Fault} */
const html = (status, title) => ({
  kind: 'reply',
  status,
  headers: { 'content-type': 'text/html' },
  body: `<html><head><title>${status} ${title}</title></head><body><h1>${status} ${title}</h1></body></html>`,
});

/** @param {string} text the error text, as Redis or the service words it @param {number} [status] @returns {Fault} */
const error = (text, status = 400) => json(JSON.stringify({ error: text }), status);

/** The usual faults; add `apply` or `match` with a spread: `{ ...FAULTS.html502, apply: true }`. */
export const FAULTS = {
  delay: (/** @type {number} */ ms) => fault({ kind: 'delay', ms }),
  late: (/** @type {number} */ ms) => fault({ kind: 'delay', ms, apply: true }),
  hold: (/** @type {Promise<unknown>} */ until) => fault({ kind: 'hold', until }),
  drip: (everyMs = 5) => fault({ kind: 'drip', everyMs }),
  stall: fault({ kind: 'stall' }),
  stallAfterHeaders: fault({ kind: 'stall-after-headers' }),
  resetBefore: fault({ kind: 'reset-before' }),
  resetAfter: fault({ kind: 'reset-after' }),
  cut: fault({ kind: 'cut' }),
  plainRedis: fault({ kind: 'plain-redis' }),

  // Nothing ran, and it can be sent again.
  noscript: fault({ kind: 'noscript' }),
  loading: error('LOADING Redis is loading the dataset in memory'),
  busy: error('BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.'),
  tryAgain: error('TRYAGAIN Multiple keys request during rehashing of slot'),
  clusterDown: error('CLUSTERDOWN The cluster is down'),
  masterDown: error("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
  readOnly: error("READONLY You can't write against a read only replica."),

  // Nothing ran, and sending it again is of no use.
  unauthorized: error('WRONGPASS invalid or missing auth token', 401),
  noPerm: error("NOPERM this user has no permissions to run the 'evalsha' command"),
  requestsExceeded: error(
    `ERR max requests limit exceeded. Limit: 500000, Usage: 500000. See ${UPSTASH_DOCS}/max_requests_limit for details`,
  ),
  suspended: error(
    'ERR This database has been suspended for exceeding the defined budget limit. ' +
      'Please increase budget or switch to a Fixed plan on Upstash Console',
  ),
  oom: error("OOM command not allowed when used memory > 'maxmemory'."),
  capacity: error(
    'ERR DB capacity quota exceeded. Threshold: 268435456 bytes, Usage: 268979370 bytes. ' +
      `See ${UPSTASH_DOCS}/db_capacity_quota_exceeded for details`,
  ),
  misconf: error(
    'MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk. ' +
      'Commands that may modify the data set are disabled.',
  ),
  tooManyRequests: (/** @type {number | string} */ retryAfter = 7) =>
    fault({ ...error('ERR too many requests', 429), headers: { 'retry-after': String(retryAfter) } }),

  // A bug of the caller's.
  wrongType: error('WRONGTYPE Operation against a key holding the wrong kind of value'),
  scriptError: error(
    'ERR user_script:3: attempt to perform arithmetic on a nil value script: 0123, on @user_script:3.',
  ),
  shebangRefused: error('ERR Unexpected flag in script shebang: allow-key-locking'),
  dynamicKey: error(
    "ERR Dynamic keys are not allowed in Lua scripts when 'allow-key-locking' flag is set. Key was: other",
  ),

  // Replies that say nothing about whether the command ran.
  html502: html(502, 'Bad Gateway'),
  html503: html(503, 'Service Unavailable'),
  html200: html(200, 'Sign in'),
  internal500: error('ERR internal error', 500),
  empty503: fault({ kind: 'reply', status: 503, body: '' }),
  empty200: json(''),
  notJson: json('upstream connect error'),
  cutJson: json('{"result":[1,2,'),
  nullBody: json('null'),
  noResult: json('{}'),
  nullResult: json('{"result":null}'),
  textResult: json('{"result":"OK"}'),
  emptyResult: json('{"result":[]}'),
  floats: json('{"result":[1.5,0.25,1e400]}'),
  duplicateKeys: json('{"result":[1],"result":"OK","error":null}'),
  both: json('{"result":[1],"error":"ERR both at once"}'),
  bareArray: json('[1,2,3]'),
  huge: () => json(`{"result":"${'x'.repeat(2 * 1024 * 1024)}"}`),
  redirect: (/** @type {string} */ location, status = 302) =>
    fault({ kind: 'reply', status, headers: { location }, body: '' }),
  error,
  reply: (/** @type {Omit<Fault, 'kind'>} */ reply) => fault({ ...reply, kind: 'reply' }),
};

/** @param {Fault} value @returns {Fault} */
function fault(value) {
  return value;
}
