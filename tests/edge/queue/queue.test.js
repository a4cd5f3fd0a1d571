// Requests over their limit wait in a queue: 202 at once, delivered in time, and never refused for having waited.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { describe, test } from 'node:test';
import { FAULTS } from '../../../dev/store/faults.js';
import { holds } from '../admin/openapi.js';
import { many, statuses } from '../support/client.js';
import { problem, rateLimit } from '../support/fields.js';
import { inSeconds, token } from '../support/issuer.js';
import { limit, policy, route } from '../support/policy.js';
import { useQueues } from '../support/queue.js';
import { ADMIN_TOKEN, until, useWorld } from '../support/world.js';

/** @typedef {import('../support/world.js').Edge} Edge */
/** @typedef {import('../support/client.js').Reply} Reply */

const world = useWorld();
const queues = useQueues();

/** Five a day, and then none for hours, unless a test makes room. */
const DAILY = { limit: 5, key: ['global'], over_limit: { queue: 'WORK', attempts: 3 } };

/**
 * A gateway whose route /hooks has the limit `hooks`, and others.
 *
 * @param {Record<string, unknown>} [fields] of the limit
 * @param {{ vars?: Record<string, unknown>, more?: any[], rest?: Record<string, unknown>, bound?: Record<string, string> }} [options]
 */
const gateway = (fields = DAILY, { vars = {}, more = [], rest = {}, bound = queues.bindings } = {}) =>
  world.gateway(
    policy([limit('hooks', fields), ...more], [route('/hooks', ['hooks', ...more.map(({ name }) => name)])], rest),
    vars,
    {},
    { queues: bound },
  );
/** @param {number | string} event @param {Record<string, string>} [headers] */
const hook = (event, headers = {}) => ({ method: 'POST', body: `${event}`, headers });
/** Uses up what passes today. @param {Edge} edge @param {Record<string, string>} [headers] */
async function spend(edge, headers) {
  for (let at = 0; at < DAILY.limit; at += 1) {
    assert.equal((await edge.send('/hooks', hook('spent', headers))).status, 200);
  }
  world.origin.seen.length = 0;
}
/** Forgets what was used, so that as many pass again. @param {Edge} edge @param {string} [subject] */
async function room(edge, subject = '-') {
  const reply = await edge.send(`/.sluicegate/v1/limits/hooks/${subject}`, { method: 'DELETE', ...admin });
  assert.deepEqual(reply.json(), { name: 'hooks', forgotten: true });
}
/** Makes room and hands over what waits. @param {Edge} edge */
async function delivered(edge) {
  await room(edge);
  await queues.drained(edge);
}
/** @param {Edge} edge @param {Parameters<typeof hook>} sent */
async function accepted(edge, ...sent) {
  const reply = await edge.send('/hooks', hook(...sent));
  assert.equal(reply.status, 202, reply.text);
  return String(reply.json().id);
}
/** @param {Edge} edge @param {string} id */
async function task(edge, id) {
  const path = `/.sluicegate/v1/tasks/${id}`;
  const reply = await edge.send(path);
  holds('GET', path, reply);
  return reply.json();
}
const admin = { headers: { authorization: `Bearer ${ADMIN_TOKEN}` } };
/** @param {Edge} edge */
async function numbers(edge) {
  const reply = await edge.send('/.sluicegate/v1/status', admin);
  holds('GET', '/.sluicegate/v1/status', reply);
  return reply.json().tasks;
}
/** A body whose length is not said. @param {Edge} edge @param {string[]} pieces @returns {Promise<{ status: number }>} */
const inPieces = (edge, pieces) =>
  new Promise((resolve, reject) => {
    const options = { port: edge.port, path: '/hooks', method: 'POST', headers: { 'cf-connecting-ip': '192.0.2.1' } };
    const outgoing = request(options, (response) => {
      response.resume().on('end', () => resolve({ status: response.statusCode ?? 0 }));
    });
    outgoing.on('error', reject);
    for (const piece of pieces) outgoing.write(piece);
    outgoing.end();
  });
const bodies = () => world.origin.seen.map(({ body }) => body);
/** @param {number} status @param {Record<string, string>} [headers] */
const answers =
  (status, headers = {}) =>
  (/** @type {any} */ response) =>
    response.writeHead(status, headers).end('no');

test('what is over the limit is accepted, and delivered as it was sent', async () => {
  const edge = await gateway();
  const headers = {
    'x-source': 'shop',
    authorization: 'Bearer t',
    connection: 'x-hop, a b',
    'x-hop': '1',
    'sluicegate-tier': 'x',
  };
  const replies = await many(7, (index) => edge.send('/hooks?a=%7B1', hook(index, headers)));
  assert.deepEqual(statuses(replies), { 200: 5, 202: 2 });
  const late = replies.filter(({ status }) => status === 202);
  for (const reply of late) {
    const { id, status_url, state } = reply.json();
    assert.match(id, /^[\w-]{24}$/);
    assert.equal(state, 'queued');
    assert.equal(reply.headers.location, `/.sluicegate/v1/tasks/${id}`);
    assert.equal(status_url, `${edge.url}/.sluicegate/v1/tasks/${id}`);
    assert.equal(reply.headers['cache-control'], 'no-store');
    assert.equal(reply.headers['content-type'], 'application/json');
    assert.ok(Number(reply.headers['retry-after']) >= 1);
    assert.equal(rateLimit(reply).hooks.r, 0);
    const known = await task(edge, id);
    assert.deepEqual([known.id, known.state, known.failed_attempts], [id, 'queued', 0]);
  }
  const before = await numbers(edge);
  assert.deepEqual([before.accepted, before.queues[0].depth, before.queues[0].bound], [2, 2, true]);
  assert.ok(before.queues[0].oldest_age_ms >= 0);
  await delivered(edge);
  const seen = world.origin.seen.slice(5);
  for (const { method, path, headers } of seen) {
    assert.deepEqual([method, path], ['POST', '/hooks?a=%7B1']);
    assert.deepEqual([headers['x-source'], headers.authorization], ['shop', 'Bearer t']);
    assert.deepEqual(
      [headers['x-hop'], headers['sluicegate-tier'], headers['content-length']],
      [undefined, undefined, '1'],
    );
    assert.match(String(headers.via), /sluicegate/);
  }
  const ids = late.map((reply) => reply.json().id).sort();
  assert.deepEqual(seen.map(({ headers }) => headers['idempotency-key']).sort(), ids);
  for (const id of ids) {
    const { state, answer } = await task(edge, id);
    assert.deepEqual([state, answer.status, answer.body], ['done', 200, 'origin']);
  }
  const after = await numbers(edge);
  assert.deepEqual([after.accepted, after.delivered, after.retried, after.dead], [2, 2, 0, 0]);
  const [{ depth, oldest_age_ms, in_hand, dead_letters }] = after.queues;
  assert.deepEqual([depth, oldest_age_ms, in_hand, dead_letters], [0, null, 0, 0]);
  const metrics = (await edge.send('/.sluicegate/v1/metrics', admin)).text;
  assert.match(metrics, /^sluicegate_tasks_total\{event="delivered"\} 2$/m);
  assert.match(metrics, /^sluicegate_queue_depth\{binding="WORK"\} 0$/m);
  assert.match(metrics, /\n# EOF\n$/);
});

test('a limit delivers in order, and a subject that has long to wait holds up nobody else', async () => {
  const edge = await gateway({ ...DAILY, key: ['header:x-tenant'] });
  const of = (/** @type {string} */ tenant) => ({ 'x-tenant': tenant });
  for (const tenant of ['a', 'b']) await spend(edge, of(tenant));
  for (const event of [1, 2, 3]) {
    await accepted(edge, `a${event}`, of('a'));
    await accepted(edge, `b${event}`, of('b'));
  }
  await room(edge, 'b');
  queues.consumer = edge;
  await until(() => world.origin.seen.length === 3, 'the second to be delivered');
  assert.deepEqual(bodies(), ['b1', 'b2', 'b3']);
  await until(() => queues.work.delays.length >= 9, 'the first to be put back more than once');
  assert.ok(
    queues.work.delays.every((delay) => delay > 0 && delay <= 900),
    String(queues.work.delays),
  );
  await until(() => queues.work.ready.length > 0, 'one to lie in the queue');
  assert.equal(queues.work.ready[0].body.tried, 0, 'waiting is no failure');
  await room(edge, 'a');
  await queues.drained(edge);
  assert.equal(world.origin.seen.length, 6);
  assert.equal((await numbers(edge)).retried, 0);
});

test('a short wait is waited for by the consumer, and ends no sooner than the limit says', async () => {
  const edge = await gateway({ ...DAILY, algorithm: 'token-bucket', limit: 4, window: '1s', burst: 1 });
  const began = Date.now();
  const replies = await many(6, (index) => edge.send('/hooks', hook(index)));
  const late = replies.filter(({ status }) => status === 202).length;
  assert.ok(late >= 1);
  await queues.drained(edge);
  assert.equal(world.origin.seen.length, 6);
  assert.ok(Date.now() - began >= 5 * 250, 'four a second, one of them at once');
  assert.deepEqual(queues.work.delays, []);
});

describe('what is refused as ever', () => {
  test('a body beyond the bound, read no further, whether its length is said or not', async () => {
    const edge = await gateway({ ...DAILY, over_limit: { queue: 'WORK', max_body: 10 } });
    await spend(edge);
    const refused = problem(await edge.send('/hooks', hook('12345678901')), 429);
    assert.deepEqual(refused['violated-policies'], ['hooks']);
    assert.equal((await inPieces(edge, ['123456', '78901'])).status, 429);
    assert.equal((await inPieces(edge, ['12345', '67890'])).status, 202);
    assert.equal((await edge.send('/hooks', hook('1234567890'))).status, 202);
    assert.equal(queues.work.depth, 2);
  });

  test('what comes while the queue is full', async () => {
    const edge = await gateway({ ...DAILY, over_limit: { queue: 'WORK', max_depth: 3 } });
    await spend(edge);
    const replies = await many(20, (index) => edge.send('/hooks', hook(index)), 1);
    const { 202: taken = 0, 429: refused = 0 } = statuses(replies);
    // Each second one more may ask.
    assert.ok(taken >= 3 && refused >= 1, `${taken} taken, ${refused} refused`);
    assert.deepEqual(
      replies
        .slice(0, 4)
        .map(({ status }) => status)
        .slice(0, 3),
      [202, 202, 202],
    );
    assert.equal(queues.work.depth, taken);
    await delivered(edge);
    await until(
      async () => (await edge.send('/hooks', hook('later'))).status === 202,
      'the queue to be heard of again',
    );
  });

  test('headers that do not fit into a message', async () => {
    const edge = await gateway(DAILY);
    await spend(edge);
    const headers = Object.fromEntries(Array.from({ length: 3 }, (_, at) => [`x-${at}`, 'h'.repeat(15_000)]));
    assert.equal((await edge.send('/hooks', hook('b'.repeat(65_536), headers))).status, 429);
    assert.equal((await edge.send('/hooks', hook('b'.repeat(65_536)))).status, 202);
    assert.equal((await edge.send('/hooks', hook('b'.repeat(65_537)))).status, 429);
  });

  test('a WebSocket, and a GET with a body', async () => {
    const edge = await gateway(DAILY);
    await spend(edge);
    assert.equal((await edge.send('/hooks', { headers: { connection: 'upgrade', upgrade: 'websocket' } })).status, 429);
    assert.equal((await edge.send('/hooks', { ...hook('body'), method: 'GET' })).status, 429);
    assert.equal((await edge.send('/hooks')).status, 202);
    const head = await edge.send('/hooks', { method: 'HEAD' });
    assert.deepEqual([head.status, head.text], [202, '']);
  });

  test('a request that another limit refuses as well', async () => {
    const edge = await gateway(DAILY, { more: [limit('flood', { limit: 6 })] });
    await spend(edge);
    assert.equal((await edge.send('/hooks', hook(1))).status, 202);
    assert.equal((await edge.check({ limits: ['flood'], subject: { ip: '192.0.2.1' } })).json().allowed, true);
    const refused = problem(await edge.send('/hooks', hook(2)), 429);
    assert.deepEqual(refused['violated-policies'].sort(), ['flood', 'hooks']);
  });

  test('everything, while the queue takes nothing; the log says so once', async () => {
    const edge = await gateway(DAILY);
    await spend(edge);
    queues.work.well = false;
    for (const reply of await many(5, (index) => edge.send('/hooks', hook(index)))) problem(reply, 429);
    assert.deepEqual(await world.client.keys('*task*'), [], 'nothing is known of what was not accepted');
    queues.work.well = true;
    await accepted(edge, 6);
    await edge.logged('queue-recovered');
    const events = edge.log().filter(({ event }) => event.startsWith('queue-'));
    assert.deepEqual(
      events.map(({ event, binding }) => [event, binding]),
      [
        ['queue-failing', 'WORK'],
        ['queue-recovered', 'WORK'],
      ],
    );
  });

  test('everything, where a queue is not bound; log and status say so', async () => {
    const edge = await gateway(DAILY, { bound: { WORK: queues.work.address } });
    await spend(edge);
    for (let at = 0; at < 2; at += 1) problem(await edge.send('/hooks', hook(1)), 429);
    assert.deepEqual(await edge.logged('no-queue'), [
      { event: 'no-queue', binding: 'WORK_DEAD', detail: 'not bound: what would wait there is refused' },
    ]);
    const [{ bound, dead_letters }] = (await numbers(edge)).queues;
    assert.deepEqual([bound, dead_letters], [false, null]);
  });
});

describe('the origin', () => {
  test('is tried again with growing waits, then gets the same key again', async () => {
    const edge = await gateway();
    await spend(edge);
    let failures = 0;
    world.origin.handlers.set('/hooks', (response) => {
      failures += 1;
      if (failures === 1) answers(500)(response);
      else if (failures === 2) answers(429, { 'retry-after': '77' })(response);
      else answers(201, { 'x-done': 'yes', 'set-cookie': 'a=1' })(response);
    });
    const id = await accepted(edge, 'event');
    await delivered(edge);
    assert.deepEqual(
      world.origin.seen.map(({ headers }) => headers['idempotency-key']),
      [id, id, id],
    );
    assert.deepEqual(bodies(), ['event', 'event', 'event']);
    const { state, failed_attempts, answer } = await task(edge, id);
    assert.deepEqual([state, failed_attempts, answer.status, answer.body], ['done', 2, 201, 'no']);
    const fields = Object.fromEntries(answer.headers);
    assert.deepEqual([fields['x-done'], fields['set-cookie'], fields.connection], ['yes', 'a=1', undefined]);
    // The first wait is drawn from ten seconds, which may come to none; the second is what the origin asked for.
    assert.ok(
      queues.work.delays.every((delay, index) => delay <= 10 || (delay === 77 && index <= 1)),
      String(queues.work.delays),
    );
    assert.ok(queues.work.delays.includes(77));
    const counted = await numbers(edge);
    assert.deepEqual([counted.delivered, counted.retried, counted.dead], [1, 2, 0]);
  });

  test('that never takes a request makes it a dead letter after its attempts, and no other', async () => {
    const edge = await gateway();
    await spend(edge);
    world.origin.handlers.set('/hooks', (response, { body }) => answers(body === 'poison' ? 500 : 404)(response));
    const [poison, fine] = [await accepted(edge, 'poison'), await accepted(edge, 'fine')];
    await delivered(edge);
    assert.equal(bodies().filter((body) => body === 'poison').length, 3);
    assert.deepEqual(
      queues.dead.ready.map(({ body }) => [body.id, body.tried, body.died.status]),
      [[poison, 3, 500]],
    );
    assert.equal(Buffer.from(queues.dead.ready[0].body.body, 'base64url').toString(), 'poison');
    const { state, failed_attempts, answer } = await task(edge, poison);
    assert.deepEqual([state, failed_attempts, answer.status], ['dead', 3, 500]);
    assert.deepEqual((await task(edge, fine)).answer.status, 404, 'an answer, whatever it says');
    const counted = await numbers(edge);
    assert.deepEqual([counted.delivered, counted.retried, counted.dead], [1, 2, 1]);
    assert.equal(counted.queues[0].dead_letters, 1);
  });

  test('that is too slow, or hangs up, has failed, too', async () => {
    const edge = await gateway(DAILY, { rest: { gateway: { origin_timeout: '100ms' } } });
    await spend(edge);
    let calls = 0;
    world.origin.handlers.set('/hooks', (response) => {
      calls += 1;
      if (calls === 2) response.destroy();
      if (calls === 3) response.end('at last');
    });
    const id = await accepted(edge, 'event');
    await delivered(edge);
    const { state, failed_attempts, answer } = await task(edge, id);
    assert.deepEqual([state, failed_attempts, answer.body], ['done', 2, 'at last']);
  });

  test('dead letters are not lost while their queue takes nothing', async () => {
    const edge = await gateway({ ...DAILY, over_limit: { queue: 'WORK', attempts: 1 } });
    await spend(edge);
    world.origin.handlers.set('/hooks', answers(500));
    queues.dead.well = false;
    const id = await accepted(edge, 'poison');
    await room(edge);
    queues.consumer = edge;
    await until(() => world.origin.seen.length >= 2, 'another attempt');
    assert.equal(queues.work.depth, 1);
    queues.dead.well = true;
    await delivered(edge);
    assert.deepEqual(
      queues.dead.ready.map(({ body }) => body.id),
      [id],
    );
  });
});

describe('a crash', () => {
  test('in the middle of a delivery loses nothing: the origin sees the same key again', async () => {
    const edge = await gateway();
    await spend(edge);
    const id = await accepted(edge, 'event');
    world.origin.handlers.set('/hooks', () => {});
    await room(edge);
    queues.consumer = edge;
    await until(() => world.origin.seen.length === 1, 'the first delivery');
    assert.equal((await task(edge, id)).state, 'running');
    await edge.stop();
    world.origin.handlers.clear();
    const next = await gateway();
    await queues.drained(next);
    assert.deepEqual(
      world.origin.seen.map(({ headers }) => headers['idempotency-key']),
      [id, id],
    );
    const { state, failed_attempts } = await task(next, id);
    assert.deepEqual([state, failed_attempts], ['done', 0], 'a crash is no failure of the origin');
  });

  test('after the answer delivers nothing again', async () => {
    const edge = await gateway();
    await spend(edge);
    const id = await accepted(edge, 'event');
    const [message] = queues.work.ready;
    await delivered(edge);
    // What the platform does where an acknowledgement is lost.
    queues.work.put(message);
    await queues.drained(edge);
    assert.equal(world.origin.seen.length, 1);
    assert.equal((await task(edge, id)).state, 'done');
  });
});

describe("the same request again, under the client's key", () => {
  const named = { 'idempotency-key': 'order-1', authorization: 'Bearer t' };
  test('is the same task where KEY_SECRET is set, and is delivered once, under that key', async () => {
    const edge = await gateway(DAILY, { vars: { KEY_SECRET: 'secret' } });
    await spend(edge);
    const first = await accepted(edge, 'event', named);
    assert.equal(await accepted(edge, 'event', named), first);
    const others = [
      await accepted(edge, 'other', named),
      await accepted(edge, 'event', { ...named, authorization: 'Bearer u' }),
      await accepted(edge, 'event', { ...named, 'idempotency-key': 'order-2' }),
    ];
    assert.equal(new Set([first, ...others]).size, 4);
    await delivered(edge);
    assert.equal(world.origin.seen.length, 4);
    assert.equal(world.origin.seen.filter(({ headers }) => headers['idempotency-key'] === 'order-1').length, 3);
    assert.equal((await edge.send('/hooks', hook('spent'))).status, 200);
    assert.equal(await accepted(edge, 'event', named), first);
    assert.equal((await task(edge, first)).state, 'done', 'what is known of it is not taken back');
    await queues.drained(edge);
    assert.deepEqual(bodies().filter((body) => body === 'event').length, 3);
  });

  test('is another task without it, since its id could be guessed', async () => {
    const edge = await gateway(DAILY);
    await spend(edge);
    assert.notEqual(await accepted(edge, 'event', named), await accepted(edge, 'event', named));
  });
});

describe('the status', () => {
  test('needs no token, is not limited, not forwarded, and says nothing of what it does not know', async () => {
    const edge = await gateway(DAILY);
    await spend(edge);
    const id = await accepted(edge, 1);
    const path = `/.sluicegate/v1/tasks/${id}`;
    assert.deepEqual(statuses(await many(10, () => edge.send(path))), { 200: 10 });
    const head = await edge.send(path, { method: 'HEAD' });
    assert.deepEqual([head.status, head.text, head.headers['cache-control']], [200, '', 'no-store']);
    problem(await edge.send(path, { method: 'POST' }), 405);
    problem(await edge.send('/.sluicegate/v1/tasks/unknown'), 404);
    problem(await edge.send('/.sluicegate/v1/tasks/no%20id'), 404);
    await world.client.flushAll();
    problem(await edge.send(path), 404);
    world.store.faults.always(FAULTS.loading);
    assert.ok(Number((await edge.send(path)).headers['retry-after']) >= 1);
    problem(await edge.send(path), 503);
    assert.equal(world.origin.seen.length, 0);
  });

  test('says what it can of an answer that is long or no text', async () => {
    const edge = await gateway();
    await spend(edge);
    world.origin.handlers.set('/hooks', (response, { body }) => {
      response.writeHead(200).end(body === 'long' ? 'x'.repeat(100_000) : Buffer.from([255, 0, 1]));
    });
    const [long, binary] = [await accepted(edge, 'long'), await accepted(edge, 'binary')];
    await delivered(edge);
    const { answer } = await task(edge, long);
    assert.deepEqual([answer.body, answer.truncated], ['x'.repeat(24_576), true]);
    const other = (await task(edge, binary)).answer;
    assert.deepEqual([other.body, other.encoding, other.truncated], ['_wAB', 'base64url', undefined]);
  });
});

describe('while the store fails', () => {
  for (const on_store_error of ['open', 'degraded']) {
    test(`a limit that is ${on_store_error} delivers what waits, as it lets others through`, async () => {
      const fields = { ...DAILY, on_store_error, limit: 50 };
      const edge = await gateway(fields);
      await edge.check({ limits: ['hooks'], subject: {}, cost: 50 });
      const ids = [await accepted(edge, 1), await accepted(edge, 2)];
      // Another isolate, which knows nothing of what was used.
      const next = await gateway(fields);
      world.store.faults.always(FAULTS.loading);
      await queues.drained(next);
      assert.deepEqual(bodies().sort(), ['1', '2']);
      world.store.faults.clear();
      assert.equal((await task(next, ids[0])).state, 'queued', 'the store was told nothing more');
    });
  }

  test('a closed limit refuses by 503, and what waits goes on waiting', async () => {
    const edge = await gateway();
    await spend(edge);
    const id = await accepted(edge, 'event');
    await room(edge);
    world.store.faults.always(FAULTS.loading);
    problem(await edge.send('/hooks', hook('no')), 503);
    queues.consumer = edge;
    await until(() => queues.work.taken.length === 1, 'the consumer to wait');
    world.store.faults.clear();
    await queues.drained(edge);
    assert.deepEqual(bodies(), ['event']);
    assert.deepEqual([(await task(edge, id)).state, (await task(edge, id)).failed_attempts], ['done', 0]);
  });

  test('without a store requests wait all the same, and nothing is known of them', async () => {
    const vars = { UPSTASH_REDIS_REST_URL: undefined };
    const edge = await gateway(DAILY, { vars });
    await spend(edge);
    const id = await accepted(edge, 'event');
    problem(await edge.send(`/.sluicegate/v1/tasks/${id}`), 404);
    await queues.drained(await gateway(DAILY, { vars }));
    assert.deepEqual(bodies(), ['event']);
  });
});

describe('another policy than the one it was accepted under', () => {
  test('that never lets it pass makes it a dead letter', async () => {
    const edge = await gateway(DAILY);
    await spend(edge);
    const id = await accepted(edge, 'event');
    const next = await gateway({ ...DAILY, limit: 'blocked' });
    await queues.drained(next);
    assert.deepEqual(
      queues.dead.ready.map(({ body }) => [body.id, body.died.status]),
      [[id, 429]],
    );
    assert.equal(world.origin.seen.length, 0);
  });

  test('that is wrong delivers nothing and loses nothing', async () => {
    const edge = await gateway(DAILY);
    await spend(edge);
    await accepted(edge, 'event');
    const wrong = await world.gateway({ version: 1 }, {}, {}, { queues: queues.bindings });
    queues.consumer = wrong;
    await until(() => queues.work.delays.length >= 2, 'it to be put back');
    assert.ok(queues.work.depth >= 1);
    assert.equal(queues.dead.depth, 0);
  });
});

test('who was counted by a token is counted so later, whatever the token is worth by then', async () => {
  const hs = { alg: 'HS256', key: 'k'.repeat(32) };
  const jwt = { algorithms: ['HS256'], secret: 'JWT_SECRET' };
  const fields = { ...DAILY, key: ['jwt:sub'] };
  const [vars, rest] = [{ JWT_SECRET: hs.key }, { jwt }];
  const edge = await gateway(fields, { vars, rest });
  const headers = { authorization: `Bearer ${token(hs, { sub: 'ada', exp: inSeconds(60) })}` };
  await spend(edge, headers);
  await accepted(edge, 'event', headers);
  const [subject] = (await world.client.keys('*:hooks:f*')).map((key) => key.split(':').at(-1));
  await world.client.flushAll();
  const next = await gateway(fields, { vars: { JWT_SECRET: 'x'.repeat(32) }, rest });
  await queues.drained(next);
  assert.deepEqual(bodies(), ['event']);
  assert.deepEqual(
    (await world.client.keys('*:hooks:f*')).map((key) => key.split(':').at(-1)),
    [subject],
  );
});
