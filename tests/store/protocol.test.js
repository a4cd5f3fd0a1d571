import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { ask, call, useStore } from './setup.js';

const context = useStore({ maxBody: 64 * 1024 });

/** @param {string} path @param {RequestInit} [init] */
async function raw(path, init = {}) {
  const headers = { authorization: 'Bearer local', ...init.headers };
  const response = await fetch(context.store.url + path, { ...init, headers });
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() };
}

describe('command in the body', () => {
  test('each type of reply', async () => {
    const { store } = context;
    const replies = [
      [['SET', 'k', 'v'], '{"result":"OK"}'],
      [['GET', 'k'], '{"result":"v"}'],
      [['GET', 'none'], '{"result":null}'],
      [['INCR', 'n'], '{"result":1}'],
      [['MGET', 'k', 'none'], '{"result":["v",null]}'],
      [['PING'], '{"result":"PONG"}'],
      [['HSET', 'h', 'a', 1], '{"result":1}'],
      [['HGETALL', 'h'], '{"result":["a","1"]}'],
      [['EVAL', 'return {1,{"two"},3.9,false}', 0], '{"result":[1,["two"],3,null]}'],
      [['SET', 'é', 'snow ☃ "quoted"\n'], '{"result":"OK"}'],
      [['GET', 'é'], JSON.stringify({ result: 'snow ☃ "quoted"\n' })],
    ];
    for (const [command, text] of replies) {
      const reply = await call(store, command);
      assert.equal(reply.text, text);
      assert.equal(reply.status, 200);
      assert.equal(reply.headers.get('content-type'), 'application/json');
      assert.equal(reply.headers.get('content-length'), String(Buffer.byteLength(reply.text)));
    }
  });

  test('numbers and booleans are arguments; integers stay exact over 64 bits', async () => {
    await call(context.store, ['SET', 'k', true]);
    assert.deepEqual(await ask(context.store, ['GET', 'k']), { result: 'true' });
    await call(context.store, ['SET', 'big', '9223372036854775806']);
    assert.equal((await call(context.store, ['INCR', 'big'])).text, '{"result":9223372036854775807}');
  });

  test('an error reply is 400 with the text of Redis', async () => {
    await call(context.store, ['SET', 'k', 'v']);
    const wrongType = await call(context.store, ['LPUSH', 'k', 'v']);
    assert.equal(wrongType.status, 400);
    const text = 'WRONGTYPE Operation against a key holding the wrong kind of value';
    assert.deepEqual(JSON.parse(wrongType.text), { error: text });
    const arity = await call(context.store, ['GET']);
    assert.deepEqual(JSON.parse(arity.text), { error: "ERR wrong number of arguments for 'get' command" });
  });

  test('malformed bodies', async () => {
    for (const [body, error] of [
      ['', 'EOF'],
      ['["SET",', 'ERR failed to parse command'],
      ['{"a":1}', 'expected JSON array'],
      ['[]', 'ERR empty command'],
      ['["SET","k",null]', 'ERR null args are not supported'],
      ['[["SET","k","v"]]', 'ERR unsupported arg type: "[": json.Delim'],
      ['["SET","k",{}]', 'ERR unsupported arg type: "{": json.Delim'],
    ]) {
      const { status, text } = await raw('/', { method: 'POST', body });
      assert.equal(status, 400);
      assert.deepEqual(JSON.parse(text), { error });
    }
  });

  test('commands that would change the shared connection are refused', async () => {
    for (const command of [['SUBSCRIBE', 'a'], ['MULTI'], ['select', '1'], ['BLPOP', 'a', '0']]) {
      const { error } = await ask(context.store, command);
      assert.match(error, /^ERR Command is not available: '[A-Z]+'\. See https:/);
    }
  });

  test('a body over the cap is 413', async () => {
    const { status, text } = await raw('/', {
      method: 'POST',
      body: JSON.stringify(['SET', 'k', 'x'.repeat(200_000)]),
    });
    assert.equal(status, 413);
    assert.match(
      JSON.parse(text).error,
      /^ERR max request size exceeded\. Limit: 65536 bytes, Actual: \d+ bytes\. See/,
    );
    assert.deepEqual(await ask(context.store, ['EXISTS', 'k']), { result: 0 });
  });
});

describe('command in the path', () => {
  test('segments, then the body, then the query', async () => {
    assert.equal((await raw('/set/foo/bar')).text, '{"result":"OK"}');
    assert.equal((await raw('/GET/foo')).text, '{"result":"bar"}');
    await raw('/set/foo?EX=100', { method: 'POST', body: '{"json":true}' });
    assert.equal((await raw('/get/foo')).text, JSON.stringify({ result: '{"json":true}' }));
    const { result } = await ask(context.store, ['TTL', 'foo']);
    assert.ok(result > 0 && result <= 100);
    assert.equal((await raw('/set/foo/other?XX&GET')).text, JSON.stringify({ result: '{"json":true}' }));
  });

  test('percent-encoding, and bodies that are not text', async () => {
    await raw('/set/a%2Fb%20c/1+1');
    assert.equal((await raw('/get/a%2Fb%20c')).text, '{"result":"1+1"}');
    await raw('/set/bytes', { method: 'PUT', body: Buffer.of(0xff, 0x00, 0xfe) });
    const encoded = await raw('/get/bytes', { headers: { 'upstash-encoding': 'base64' } });
    assert.equal(encoded.text, JSON.stringify({ result: Buffer.of(0xff, 0x00, 0xfe).toString('base64') }));
    assert.equal((await raw('/get/bytes')).text, JSON.stringify({ result: '\ufffd\u0000\ufffd' }));
    assert.equal((await raw('/get/%zz')).status, 400);
  });
});

describe('batches', () => {
  test('a pipeline answers each command in its place', async () => {
    const commands = [['SET', 'k', 'v'], ['INCR', 'k'], ['MONITOR'], ['GET', 'k']];
    const { status, text } = await call(context.store, commands, { path: '/pipeline' });
    assert.equal(status, 200);
    const [set, incr, monitor, get] = JSON.parse(text);
    assert.deepEqual([set, get], [{ result: 'OK' }, { result: 'v' }]);
    assert.match(incr.error, /not an integer/);
    assert.match(monitor.error, /not available/);
  });

  test('a transaction runs what it can, or is discarded whole', async () => {
    const run = [
      ['SET', 'k', 'v'],
      ['INCR', 'k'],
      ['GET', 'k'],
    ];
    const [set, incr, get] = await ask(context.store, run, { path: '/multi-exec' });
    assert.deepEqual([set, get], [{ result: 'OK' }, { result: 'v' }]);
    assert.match(incr.error, /not an integer/);

    const broken = [
      ['SET', 'k', 'changed'],
      ['NOSUCH', 'k'],
    ];
    const discarded = await call(context.store, broken, { path: '/multi-exec' });
    assert.equal(discarded.status, 400);
    assert.match(JSON.parse(discarded.text).error, /^EXECABORT/);
    assert.deepEqual(await ask(context.store, ['GET', 'k']), { result: 'v' });
  });

  test('transactions sent at once do not mix', async () => {
    const increments = Array.from({ length: 20 }, () => ['INCR', 'n']);
    const sent = Array.from({ length: 20 }, () => ask(context.store, increments, { path: '/multi-exec' }));
    for (const replies of await Promise.all(sent)) {
      const [first] = replies;
      assert.deepEqual(
        replies.map((/** @type {{ result: number }} */ { result }) => result - first.result),
        increments.map((_, index) => index),
      );
    }
  });

  test('malformed batches', async () => {
    for (const path of ['/pipeline', '/multi-exec']) {
      for (const [body, error] of /** @type {[unknown, string][]} */ ([
        [[], 'ERR empty pipeline request'],
        [[[]], 'ERR empty pipeline command'],
        [['GET', 'k'], 'expected JSON array'],
        [{}, 'expected JSON array'],
      ])) {
        const { status, text } = await call(context.store, body, { path });
        assert.equal(status, 400);
        assert.deepEqual(JSON.parse(text), { error });
      }
    }
  });
});

test('base64 encodes every string but a bare OK', async () => {
  const { store } = context;
  const headers = { 'upstash-encoding': 'base64' };
  assert.equal((await call(store, ['SET', 'k', 'bar'], { headers })).text, '{"result":"OK"}');
  assert.equal((await call(store, ['GET', 'k'], { headers })).text, '{"result":"YmFy"}');
  assert.equal((await call(store, ['PING'], { headers })).text, '{"result":"UE9ORw=="}');
  assert.equal((await call(store, ['MGET', 'k', 'none'], { headers })).text, '{"result":["YmFy",null]}');
  const batch = [['GET', 'k'], ['STRLEN', 'k'], ['NOSUCH']];
  const [get, length, error] = await ask(store, batch, { headers, path: '/pipeline' });
  assert.deepEqual([get, length], [{ result: 'YmFy' }, { result: 3 }]);
  assert.match(error.error, /^ERR unknown command/);
});

describe('who may ask, and how', () => {
  test('a token in the header or in the query', async () => {
    const plain = async (/** @type {string} */ path, /** @type {HeadersInit} */ headers = {}) =>
      (await fetch(context.store.url + path, { headers })).status;
    assert.equal(await plain('/ping', { authorization: 'Bearer local' }), 200);
    assert.equal(await plain('/ping?_token=local'), 200);
    assert.equal(await plain('/set/k/v?_token=local&EX=10'), 200);
    assert.equal(await plain('/ping'), 401);
    assert.equal(await plain('/ping', { authorization: 'Bearer other' }), 401);
    assert.equal(await plain('/ping?_token=other', { authorization: 'Bearer local' }), 401);
    const { status, type, text } = await raw('/ping', { headers: { authorization: 'Bearer other' } });
    assert.deepEqual([status, type], [401, 'application/json']);
    assert.deepEqual(JSON.parse(text), { error: 'WRONGPASS invalid or missing auth token' });
  });

  test('other methods are 405, what is not HTTP is 400, in JSON both', async () => {
    const { status, text } = await raw('/ping', { method: 'DELETE' });
    assert.equal(status, 405);
    assert.ok(JSON.parse(text).error);

    const socket = connect(context.store.port, '127.0.0.1');
    socket.end('nonsense\r\n\r\n');
    let answer = '';
    socket.on('data', (data) => {
      answer += data;
    });
    await once(socket, 'close');
    assert.match(answer, /^HTTP\/1\.1 400 /);
    assert.ok(JSON.parse(answer.split('\r\n\r\n')[1]).error);
  });
});

test('stats count what came and keep the last 200 with their headers', async () => {
  const { store } = context;
  await call(store, ['eval', 'return 1', '0'], { headers: { 'x-sent': 'yes' } });
  await call(
    store,
    [
      ['GET', 'a'],
      ['GET', 'b'],
    ],
    { path: '/pipeline' },
  );
  await raw('/ping', { headers: { authorization: 'no' } });
  assert.equal(store.stats.requests, 3);
  assert.deepEqual({ ...store.stats.commands }, { EVAL: 1, GET: 2 });
  const [first, second] = store.stats.recent();
  assert.equal(first.headers['x-sent'], 'yes');
  assert.deepEqual(first.commands, [['eval', 'return 1', '0']]);
  assert.deepEqual(second.commands, [
    ['GET', 'a'],
    ['GET', 'b'],
  ]);

  for (let index = 0; index < 205; index += 1) await call(store, ['ECHO', index]);
  const kept = store.stats.recent();
  assert.equal(kept.length, 200);
  assert.deepEqual([kept[0].commands[0][1], kept[199].commands[0][1]], ['5', '204']);
  store.stats.reset();
  assert.deepEqual([store.stats.requests, store.stats.recent()], [0, []]);
});
