// What a store has been seen to answer, and what SPEC section 5 makes of each: the rows of the fault matrix.
import { FAULTS } from '../../../dev/store/faults.js';

/** @typedef {import('../../../dev/store/faults.js').Fault} Fault */

/**
 * @typedef {object} Row
 * @property {string} name
 * @property {Fault} fault strikes every call
 * @property {string} reason the class, as the log has it
 * @property {string} sign how it was told, as the log has it
 * @property {0 | 1} charged what one call charges
 * @property {1 | 2} calls to the store for one request that has no charge id
 * @property {boolean} repeatable whether a charge id lets it be sent once more
 */

/** @param {string} text @param {number} [status] */
const says = (text, status) => FAULTS.error(text, status);

/** @type {[string, string][]} a text that a store answers, and the sign it is known by */
const BUSY = [
  ['LOADING Redis is loading the dataset in memory', 'LOADING'],
  ['BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.', 'BUSY'],
  ['TRYAGAIN Multiple keys request during rehashing of slot', 'TRYAGAIN'],
  ['CLUSTERDOWN The cluster is down', 'CLUSTERDOWN'],
  ["MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", 'MASTERDOWN'],
  ["READONLY You can't write against a read only replica. script: 76, on @user_script:1.", 'READONLY'],
  ['UNKILLABLE Sorry the script already executed write commands against the dataset.', 'UNKILLABLE'],
];

/** @type {[string, string][]} */
const MISCONFIGURED = [
  ['WRONGPASS invalid or missing auth token', 'WRONGPASS'],
  ['NOAUTH Authentication required.', 'NOAUTH'],
  ["NOPERM this user has no permissions to run the 'evalsha' command", 'NOPERM'],
  [
    "ERR The user executing the script can't run this command or subcommand script: 76, on @user_script:1.",
    'The user executing the script',
  ],
  [
    "ERR ACL failure in script: User x has no permissions to run the 'set' command script: 76, on @user_script:1.",
    'ACL failure in script',
  ],
  ['Unauthorized', 'Unauthorized'],
];

/** @type {[string, string][]} */
const QUOTA = [
  ['ERR max requests limit exceeded. Limit: 500000, Usage: 500000.', 'max requests limit exceeded'],
  ['ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.', 'max daily request limit exceeded'],
  ['ERR This database has been suspended for exceeding the defined budget limit.', 'suspended'],
  ['ERR Your account is suspended', 'suspended'],
];

/** @type {[string, string][]} */
const FULL = [
  ["OOM command not allowed when used memory > 'maxmemory'. script: 76, on @user_script:1.", 'OOM'],
  [
    "ERR Error running script (call to f_76): @user_script:9: @user_script: 9: -OOM command not allowed when used memory > 'maxmemory'.",
    'OOM',
  ],
  ['ERR DB capacity quota exceeded. Threshold: 268435456 bytes, Usage: 268979370 bytes.', 'DB capacity quota exceeded'],
  ['MISCONF Redis is configured to save RDB snapshots, but is unable to persist to disk.', 'MISCONF'],
  ['NOREPLICAS Not enough good replicas to write. script: 76, on @user_script:1.', 'NOREPLICAS'],
];

/** @type {[string, string][]} */
const BUG = [
  ['WRONGTYPE Operation against a key holding the wrong kind of value', 'WRONGTYPE'],
  ["CROSSSLOT Keys in request don't hash to the same slot", 'CROSSSLOT'],
  ['ERR user_script:3: attempt to perform arithmetic on a nil value script: 76, on @user_script:3.', 'script error'],
  ['ERR Error running script (call to f_76): @user_script:3: attempt to index a nil value', 'Error running script'],
  ['ERR Error compiling script (new function): user_script:9: unexpected symbol', 'Error compiling script'],
  [
    "ERR Dynamic keys are not allowed in Lua scripts when 'allow-key-locking' flag is set.",
    'Dynamic keys are not allowed',
  ],
  ["ERR unknown command 'EVALSHA'", 'unknown command'],
  ["ERR wrong number of arguments for 'evalsha' command", 'wrong number of arguments'],
];

/** @type {[string, string][]} */
const DIALECT = [
  ['ERR Unexpected flag in script shebang: allow-key-locking', 'Unexpected flag in script shebang'],
  ['ERR Unexpected engine in script shebang: lua', 'Unexpected engine in script shebang'],
];

/** @param {string} reason @param {[string, string][]} texts @param {1 | 2} calls @returns {Row[]} */
const told = (reason, texts, calls) =>
  texts.map(([text, sign]) => {
    return { name: text, fault: says(text), reason, sign, charged: 0, calls, repeatable: false };
  });

/** Every error text of SPEC section 5, as Redis, Upstash, Valkey or an older Redis words it. */
export const TEXTS = [
  ...told('busy', BUSY, 2),
  ...told('misconfigured', MISCONFIGURED, 1),
  ...told('quota', QUOTA, 1),
  ...told('full', FULL, 1),
  ...told('bug', BUG, 1),
  ...told('dialect', DIALECT, 1),
  ...told('noscript', [['NOSCRIPT No matching script. Please use EVAL.', 'NOSCRIPT']], 2),
];

/**
 * A row of which nobody knows whether the script ran: never sent again as it is.
 *
 * @param {string} name
 * @param {Fault} fault
 * @param {string} sign
 * @param {0 | 1} [charged]
 * @returns {Row}
 */
const odd = (name, fault, sign, charged = 0) => {
  return { name, fault, reason: 'malformed', sign, charged, calls: 1, repeatable: true };
};

/** @param {string} name @param {Fault} fault @param {string} sign @param {0 | 1} charged @returns {Row} */
const lost = (name, fault, sign, charged) => ({ ...odd(name, fault, sign, charged), reason: 'unreachable' });

const OTHER_SHAPE = 'reply of another shape';

/** @param {string} body */
const body = (body) => FAULTS.reply({ body });

const HUGE = `{"result":"${'x'.repeat(2 * 1024 * 1024)}"}`;

/** Replies that say nothing about whether the script ran. */
const ODD = [
  odd('502 HTML', FAULTS.html502, 'status 502'),
  odd('502 HTML after the script ran', { ...FAULTS.html502, apply: true }, 'status 502', 1),
  odd('503 HTML', FAULTS.html503, 'status 503'),
  odd('200 HTML', FAULTS.html200, 'status 200'),
  odd('500 and an error nobody knows', FAULTS.internal500, 'status 500'),
  odd('500 after the script ran', { ...FAULTS.internal500, apply: true }, 'status 500', 1),
  odd('503, empty', FAULTS.empty503, 'status 503'),
  odd('200, empty', FAULTS.empty200, 'status 200'),
  odd('404', FAULTS.reply({ status: 404, body: '{}' }), 'status 404'),
  odd('no JSON', FAULTS.notJson, 'status 200'),
  odd('cut JSON', FAULTS.cutJson, 'status 200'),
  odd('null', FAULTS.nullBody, 'status 200'),
  odd('no result', FAULTS.noResult, 'status 200'),
  odd('result null', FAULTS.nullResult, 'status 200'),
  odd('result null after the script ran', { ...FAULTS.nullResult, apply: true }, 'status 200', 1),
  odd('a text for a result', FAULTS.textResult, 'status 200'),
  odd('an empty result', FAULTS.emptyResult, OTHER_SHAPE),
  odd('floats', body('{"result":[1.0,10.0,9.0,1000.0,0.0]}'), 'status 200'),
  odd('a fraction', body('{"result":[1,10,9.5,1000,0]}'), 'status 200'),
  odd('a number beyond 64 bits', body('{"result":[1,10,99999999999999999999,1000,0]}'), 'status 200'),
  odd('one limit too few', body('{"result":[1]}'), OTHER_SHAPE),
  odd('one limit too many', body('{"result":[1,10,9,1000,0,10,9,1000,0]}'), OTHER_SHAPE),
  odd('a number too few', body('{"result":[1,10,9,1000]}'), OTHER_SHAPE),
  odd('below zero', body('{"result":[1,10,-9,1000,0]}'), OTHER_SHAPE),
  odd('a verdict beside its limits', body('{"result":[1,10,0,1000,500]}'), OTHER_SHAPE),
  odd('strings', body('{"result":["1","10","9","1000","0"]}'), 'status 200'),
  odd('base64', body('{"result":"MQ=="}'), 'status 200'),
  odd('a pipeline’s answer', body('[{"result":[1,10,9,1000,0]}]'), 'status 200'),
  odd('a bare array', FAULTS.bareArray, 'status 200'),
  odd('a decision twice', body('{"result":[1,10,9,1000,0],"result":[1,10,9,1000,0]}'), 'status 200'),
  odd('an error twice', body('{"error":"ERR a","error":"ERR b"}'), 'status 200'),
  odd('a result and an error', FAULTS.both, 'status 200'),
  odd('a decision with a 500', FAULTS.reply({ status: 500, body: '{"result":[1,10,9,1000,0]}' }), 'status 500'),
  odd('2 MB', FAULTS.huge(), 'status 200'),
  odd('2 MB after the script ran', { ...FAULTS.huge(), apply: true }, 'status 200', 1),
  odd('2 MB of unsaid length', FAULTS.reply({ body: HUGE, chunked: true }), 'reply too long'),
  ...[301, 302, 307, 308].map((status) => {
    return odd(`${status}`, FAULTS.redirect('http://127.0.0.1:1/elsewhere', status), `status ${status}`);
  }),
];

/** Connections that end too early. */
const LOST = [
  lost('reset before the script ran', FAULTS.resetBefore, 'connection', 0),
  lost('reset after the script ran', FAULTS.resetAfter, 'connection', 1),
  lost('body cut short', FAULTS.cut, 'connection', 1),
  lost('error code: 1016', FAULTS.reply({ status: 530, body: 'error code: 1016' }), 'status 530', 0),
];

/** Refusals that only the status tells. */
const BY_STATUS = [401, 403].map((status) => {
  const row = odd(`${status} HTML`, FAULTS.reply({ status, body: '<html>no</html>' }), `status ${status}`);
  return { ...row, reason: 'misconfigured', repeatable: false };
});

/** All that is answered without delay. */
export const ANSWERS = [...TEXTS, ...ODD, ...LOST, ...BY_STATUS];

/** What outlasts the deadline: there is no time to send it again, charge id or not. */
export const SLOW = [
  lost('no answer', FAULTS.stall, 'deadline', 0),
  lost('no answer after the script ran', { ...FAULTS.stall, apply: true }, 'deadline', 1),
  lost('headers and no body', FAULTS.stallAfterHeaders, 'deadline', 1),
  lost('one byte at a time', FAULTS.drip(100), 'deadline', 1),
  lost('an answer too late', FAULTS.late(2000), 'deadline', 1),
];
