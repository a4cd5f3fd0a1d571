// Load from a process of its own: raw keep-alive connections, each sending its next request when it has the answer to
// the last. Forked by world.js, which sends a job at a time or several at once; each is answered with its result.

import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * What is sent. In path, headers and body `{n}` stands for the subject's number, four digits, and `{m}` for the
 * same modulo `spread`.
 * @typedef {object} Job
 * @property {number} port
 * @property {number} requests
 * @property {number} [connections]
 * @property {string} [method]
 * @property {string} [path]
 * @property {Record<string, string>} [headers]
 * @property {string} [body]
 * @property {number} [subjects] the requests take turns through this many
 * @property {number} [first] number of the first subject
 * @property {number} [spread]
 * @property {number} [pauseMs] between an answer and the next request of its connection
 */

/**
 * @typedef {object} Result
 * @property {number} elapsedMs
 * @property {Record<string, number>} answers how many answered what: the status, and `allowed` and `tier` of a body
 *   that has them, as `200 true store`
 * @property {number[]} latencies in ms, in the order of the answers
 */

const NOTHING = Buffer.alloc(0);
const CLOSED = 'the server closed the connection';

/** @param {Job} job @returns {Promise<Result>} */
async function run(job) {
  const { port, requests, connections = 8, pauseMs = 0 } = job;
  const messages = messagesOf(job);
  /** @type {Record<string, number>} */
  const answers = {};
  /** @type {number[]} */
  const latencies = [];
  let next = 0;

  const began = performance.now();
  const one = async () => {
    const connection = await open(port);
    try {
      while (next < requests) {
        const message = messages[next % messages.length];
        next += 1;
        const sent = performance.now();
        const answer = await connection.exchange(message);
        latencies.push(performance.now() - sent);
        const said = summary(answer);
        answers[said] = (answers[said] ?? 0) + 1;
        if (pauseMs > 0) await sleep(pauseMs);
      }
    } finally {
      connection.close();
    }
  };
  await Promise.all(Array.from({ length: Math.min(connections, requests) }, one));
  return { elapsedMs: performance.now() - began, answers, latencies };
}

/** @param {Job} job */
function messagesOf({ method = 'POST', path = '/', headers = {}, body = '', subjects = 1, first = 0, spread = 1 }) {
  const digits = (/** @type {number} */ number) => String(number).padStart(4, '0');
  return Array.from({ length: subjects }, (_, index) => {
    const fill = (/** @type {string} */ text) =>
      text.replaceAll('{n}', digits(first + index)).replaceAll('{m}', digits(index % spread));
    const content = Buffer.from(fill(body));
    const lines = [`${method} ${fill(path)} HTTP/1.1`, 'host: 127.0.0.1'];
    for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${fill(value)}`);
    if (content.length > 0) lines.push('content-type: application/json', `content-length: ${content.length}`);
    return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), content]);
  });
}

/** @typedef {{ status: number, body: string }} Answer */

/** @param {Answer} answer */
function summary({ status, body }) {
  if (!body.startsWith('{"allowed"')) return String(status);
  const { allowed, tier } = JSON.parse(body);
  return tier === undefined ? `${status} ${allowed}` : `${status} ${allowed} ${tier}`;
}

/**
 * @param {number} port
 * @returns {Promise<{ exchange: (message: Buffer) => Promise<Answer>, close: () => void }>}
 */
function open(port) {
  return new Promise((resolve, reject) => {
    /** @type {{ resolve: (answer: Answer) => void, reject: (error: Error) => void } | undefined} */
    let waiting;
    /** @type {Buffer} */
    let received = NOTHING;
    const fail = (/** @type {Error} */ error) => {
      waiting?.reject(error);
      reject(error);
    };
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    socket.on('error', fail);
    socket.on('close', () => fail(new Error(CLOSED)));
    socket.on('data', (/** @type {Buffer} */ chunk) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      const answer = parse(received);
      if (!answer || !waiting) return;
      received = NOTHING;
      const { resolve: done } = waiting;
      waiting = undefined;
      done(answer);
    });
    socket.on('connect', () =>
      resolve({
        exchange(message) {
          return new Promise((done, failed) => {
            if (socket.destroyed) return failed(new Error(CLOSED));
            waiting = { resolve: done, reject: failed };
            socket.write(message);
          });
        },
        close: () => socket.destroy(),
      }),
    );
  });
}

/** @param {Buffer} bytes @returns {Answer | undefined} once it is there whole; nothing can follow it */
function parse(bytes) {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = bytes.toString('latin1', 0, end);
  const status = Number(head.slice(9, 12));
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length !== undefined) {
    const whole = end + 4 + Number(length);
    return bytes.length < whole ? undefined : { status, body: bytes.toString('utf8', end + 4, whole) };
  }
  // Chunked: bodies here hold no line breaks of their own, so the last chunk is where its bytes are.
  const chunks = bytes.toString('utf8', end + 4);
  if (!chunks.endsWith('0\r\n\r\n')) return undefined;
  const lines = chunks.split('\r\n');
  return { status, body: lines.filter((_, index) => index % 2 === 1).join('') };
}

process.on('message', (/** @type {{ id: number, job: Job }} */ { id, job }) => {
  run(job).then(
    (result) => process.send?.({ id, result }),
    (error) => process.send?.({ id, error: `${error.message} (port ${job.port})` }),
  );
});
process.on('disconnect', () => process.exit(0));
