import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FAULTS } from '../../dev/store/faults.js';
import { sha1, withoutKeyLocking } from '../../dev/store/scripts.js';
import { startStore } from '../../dev/store/server.js';
import { ask, call, useStore } from './setup.js';

const context = useStore();

const SCRIPT = '#!lua flags=allow-key-locking\nreturn redis.call("INCR", KEYS[1])';
const NOSCRIPT = { error: 'NOSCRIPT No matching script. Please use EVAL.' };

test('only the flag goes, the lines stay', () => {
  for (const [sent, left] of [
    ['#!lua flags=allow-key-locking\nreturn 1', '\nreturn 1'],
    ['#!lua flags=allow-key-locking\r\nreturn 1', '\nreturn 1'],
    ['#!lua flags=no-writes,allow-key-locking\nreturn 1', '#!lua flags=no-writes\nreturn 1'],
    ['#!lua  flags=allow-key-locking,no-writes,allow-oom\n', '#!lua flags=no-writes,allow-oom\n'],
    ['#!lua name=lib flags=allow-key-locking\nreturn 1', '#!lua name=lib\nreturn 1'],
  ]) {
    assert.equal(withoutKeyLocking(sent), left);
  }
  for (const untouched of [
    'return 1',
    '#!lua\nreturn 1',
    '#!lua flags=no-writes\nreturn 1',
    '\n#!lua flags=allow-key-locking\nreturn 1',
    '#!lua flags=allow-key-lockings\nreturn 1',
    '-- allow-key-locking\nreturn 1',
    '#!lua flags=allow-key-locking',
  ]) {
    assert.equal(withoutKeyLocking(untouched), undefined);
  }
});

describe('the SHA-1 of the text sent', () => {
  test('works after EVAL, in either case, and not before', async () => {
    const { store } = context;
    assert.deepEqual(await ask(store, ['EVALSHA', sha1(SCRIPT), 1, 'k']), NOSCRIPT);
    assert.deepEqual(await ask(store, ['EVAL', SCRIPT, 1, 'k']), { result: 1 });
    assert.deepEqual(await ask(store, ['EVALSHA', sha1(SCRIPT), 1, 'k']), { result: 2 });
    assert.deepEqual(await ask(store, ['evalsha', sha1(SCRIPT).toUpperCase(), 1, 'k']), { result: 3 });
  });

  test('is the reply of SCRIPT LOAD and is known to SCRIPT EXISTS', async () => {
    const { store } = context;
    const plain = 'return 1';
    assert.deepEqual(await ask(store, ['SCRIPT', 'EXISTS', sha1(SCRIPT)]), { result: [0] });
    assert.deepEqual(await ask(store, ['SCRIPT', 'LOAD', SCRIPT]), { result: sha1(SCRIPT) });
    assert.deepEqual(await ask(store, ['script', 'load', plain]), { result: sha1(plain) });
    const exists = ['SCRIPT', 'EXISTS', sha1(SCRIPT), sha1(plain), sha1('return 2')];
    assert.deepEqual(await ask(store, exists), { result: [1, 1, 0] });
    assert.deepEqual(await ask(store, ['EVALSHA', sha1(SCRIPT), 1, 'k']), { result: 1 });
  });

  test('in its base64 form', async () => {
    const headers = { 'upstash-encoding': 'base64' };
    const { result } = await ask(context.store, ['SCRIPT', 'LOAD', SCRIPT], { headers });
    assert.equal(Buffer.from(result, 'base64').toString(), sha1(SCRIPT));
  });

  test('of the read-only variants', async () => {
    const script = '#!lua flags=no-writes,allow-key-locking\nreturn redis.call("EXISTS", KEYS[1])';
    assert.deepEqual(await ask(context.store, ['EVAL_RO', script, 1, 'k']), { result: 0 });
    assert.deepEqual(await ask(context.store, ['EVALSHA_RO', sha1(script), 1, 'k']), { result: 0 });
  });

  for (const path of ['/pipeline', '/multi-exec']) {
    test(`in ${path}`, async () => {
      const commands = [
        ['SCRIPT', 'EXISTS', sha1(SCRIPT)],
        ['SCRIPT', 'LOAD', SCRIPT],
        ['EVALSHA', sha1(SCRIPT), 1, 'k'],
        ['EVAL', SCRIPT, 1, 'k'],
      ];
      const expected = [{ result: [0] }, { result: sha1(SCRIPT) }, { result: 1 }, { result: 2 }];
      assert.deepEqual(await ask(context.store, commands, { path }), expected);
    });
  }

  test('is forgotten by SCRIPT FLUSH, even if the bare text is loaded after it', async () => {
    const { store } = context;
    await call(store, ['EVAL', SCRIPT, 1, 'k']);
    await call(store, ['SCRIPT', 'FLUSH']);
    assert.deepEqual(await ask(store, ['EVALSHA', sha1(SCRIPT), 1, 'k']), NOSCRIPT);
    await call(store, ['SCRIPT', 'LOAD', String(withoutKeyLocking(SCRIPT))]);
    assert.deepEqual(await ask(store, ['EVALSHA', sha1(SCRIPT), 1, 'k']), NOSCRIPT);
    assert.deepEqual(await ask(store, ['EVAL', SCRIPT, 1, 'k']), { result: 2 });
  });
});

test('line numbers in errors are those of the text sent', async () => {
  const { error } = await ask(context.store, ['EVAL', '#!lua flags=allow-key-locking\n\nerror("here")', 0]);
  assert.match(error, /user_script:3: here/);
});

test('a plain Redis refuses the line: for one request, or as the dialect of an endpoint', async () => {
  // A Redis before 7 takes it for Lua.
  const refused = /^ERR (Unexpected flag in script shebang: allow-key-locking|Error compiling script .*near '#')$/;
  context.store.faults.push(FAULTS.plainRedis);
  assert.match((await ask(context.store, ['EVAL', SCRIPT, 1, 'k'])).error, refused);
  assert.deepEqual(await ask(context.store, ['EVAL', SCRIPT, 1, 'k']), { result: 1 });

  const plain = await startStore({ redis: context.redis.url, dialect: 'redis' });
  try {
    assert.match((await ask(plain, ['EVAL', SCRIPT, 1, 'k'])).error, refused);
    assert.deepEqual(await ask(plain, ['EVALSHA', sha1(SCRIPT), 1, 'k']), NOSCRIPT);
  } finally {
    await plain.close();
  }
});
