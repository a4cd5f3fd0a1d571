// Heads and encodings: what passes byte for byte, what is changed, and what the platform does not pass. Sockets on both
// sides.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { policy, route } from '../support/policy.js';
import { answer, exchange, fieldsOf, OK, requestOf, useRawOrigin } from '../support/raw.js';
import { useWorld } from '../support/world.js';

const world = useWorld();

const origin = useRawOrigin();

/** `/bound/…` goes to a service binding, all else to a URL; both are the same origin. */
async function gateway() {
  const text = policy([], [route('/bound/{*rest}', [], { origin: 'binding:API' })]);
  const vars = { UPSTASH_REDIS_REST_URL: undefined, ORIGIN: origin.url };
  return world.gateway(text, vars, { API: `127.0.0.1:${origin.port}` });
}
const PATHS = ['/', '/bound/'];

/** Answers when the whole body has come. @param {string} end @param {string} [bytes] */
const onceCome = (end, bytes = OK) =>
  /** @type {import('../support/raw.js').Serve} */ (
    (arrived) => {
      const look = () => {
        if (!Buffer.concat(arrived.body).toString('latin1').endsWith(end)) return;
        arrived.socket.off('data', look);
        arrived.socket.end(Buffer.from(bytes, 'latin1'));
      };
      arrived.socket.on('data', look);
      look();
    }
  );
const bodyOf = (/** @type {import('../support/raw.js').Arrived} */ { body }) => Buffer.concat(body).toString('latin1');

describe('fields', () => {
  const FIELDS = [
    'X-Bytes: caf\xc3\xa9 \xe9\xff',
    'x-MiXed: y',
    'X-Empty:',
    'X-Two: 1',
    'X-Two: 2, 3',
    'X-In: a  "b,c"',
  ];

  test('of the request: their bytes, their names as written, several of one name', async () => {
    const { port } = await gateway();
    for (const path of PATHS) {
      origin.arrived.length = 0;
      await exchange(port, requestOf(`GET ${path}`, FIELDS));
      const lines = origin.arrived[0].head.split('\r\n').slice(1);
      const own = lines.filter((line) => /^x-(?!forwarded)/i.test(line)).toSorted();
      assert.deepEqual(own, FIELDS.toSorted());
    }
  });

  test('of the answer: the same, and the reason', async () => {
    const { port } = await gateway();
    origin.serve = answer(
      `HTTP/1.1 418 Short Stout\r\n${FIELDS.join('\r\n')}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
    );
    for (const path of PATHS) {
      const { head } = await exchange(port, requestOf(`GET ${path}`));
      const [status, ...lines] = head.split('\r\n');
      assert.equal(status, 'HTTP/1.1 418 Short Stout');
      const own = lines.filter((line) => line.startsWith('X-') || line.startsWith('x-')).map((line) => line.trimEnd());
      assert.deepEqual(own.toSorted(), FIELDS.toSorted());
    }
  });

  test('several Set-Cookie and an Expires in one stay as they are; Date and Server are the origin’s', async () => {
    const { port } = await gateway();
    const cookies = ['a=1; Expires=Thu, 01 Jan 2099 00:00:00 GMT', 'b="2, 3"', 'a=4'];
    const lines = [...cookies.map((cookie) => `Set-Cookie: ${cookie}`), 'Server: mine', 'Date: long ago'];
    origin.serve = answer(`HTTP/1.1 200 OK\r\n${lines.join('\r\n')}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
    const { head } = await exchange(port, requestOf('GET /'));
    assert.deepEqual(fieldsOf(head, 'set-cookie'), cookies);
    assert.deepEqual([...fieldsOf(head, 'server'), ...fieldsOf(head, 'date')], ['mine', 'long ago']);
  });

  test('that the platform knows are joined with a comma where there are several', async () => {
    const { port } = await gateway();
    origin.serve = answer(
      'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n',
    );
    const { head } = await exchange(port, requestOf('GET /', ['Accept: a', 'Accept: b']));
    assert.deepEqual(fieldsOf(origin.arrived[0].head, 'accept'), ['a, b']);
    assert.deepEqual(fieldsOf(head, 'www-authenticate'), ['Basic, Bearer']);
  });

  test('of the hop go no further, in either direction', async () => {
    const { port } = await gateway();
    const hop = [
      'Keep-Alive: timeout=5',
      'TE: trailers',
      'Trailer: X-T',
      'Proxy-Authorization: Basic eA==',
      'X-Hop: 1',
    ];
    const response = ['Keep-Alive: timeout=9', 'Proxy-Authenticate: Basic', 'Trailer: X-T', 'X-Hop: 1'];
    origin.serve = answer(
      `HTTP/1.1 200 OK\r\n${response.join('\r\n')}\r\nConnection: close, x-hop\r\nContent-Length: 0\r\n\r\n`,
    );
    for (const path of PATHS) {
      origin.arrived.length = 0;
      const { head } = await exchange(port, requestOf(`GET ${path}`, [...hop, 'Connection: close, X-Hop , ,']));
      for (const field of [...hop, 'Connection: ']) {
        assert.deepEqual(fieldsOf(origin.arrived[0].head, field.slice(0, field.indexOf(':'))), [], field);
      }
      for (const field of response) assert.deepEqual(fieldsOf(head, field.slice(0, field.indexOf(':'))), [], field);
    }
  });

  test('that Connection names, though other things in it are no names, in either direction', async () => {
    const { port } = await gateway();
    const named = 'Connection: close, a b, "c", x(y), \xe9, X-Hop';
    origin.serve = answer(`HTTP/1.1 200 OK\r\nX-Hop: 1\r\n${named}\r\nContent-Length: 2\r\n\r\nok`);
    for (const path of PATHS) {
      origin.arrived.length = 0;
      const reply = await exchange(port, requestOf(`GET ${path}`, ['X-Hop: 1', named, 'Connection: close']));
      assert.deepEqual([reply.status, reply.body.toString()], [200, 'ok']);
      assert.deepEqual([fieldsOf(reply.head, 'x-hop'), fieldsOf(origin.arrived[0].head, 'x-hop')], [[], []]);
    }
  });

  test('that are set: Via, X-Forwarded-Host, X-Forwarded-Proto; Host at a URL', async () => {
    const { port } = await gateway();
    const forged = [
      'Host: Api.test:99',
      'Via: 1.0 a',
      'X-Forwarded-Host: b',
      'X-Forwarded-Proto: c',
      'X-Forwarded-For: d',
    ];
    for (const [path, host] of [
      ['/', `127.0.0.1:${origin.port}`],
      ['/bound/', 'api.test:99'],
    ]) {
      origin.arrived.length = 0;
      await exchange(port, requestOf(`GET ${path}`, forged));
      const [{ head }] = origin.arrived;
      assert.deepEqual(fieldsOf(head, 'host'), [host]);
      assert.deepEqual(fieldsOf(head, 'via').join(', '), '1.0 a, 1.1 sluicegate');
      assert.deepEqual(fieldsOf(head, 'x-forwarded-host'), ['Api.test:99']);
      assert.deepEqual(fieldsOf(head, 'x-forwarded-proto'), ['http']);
      assert.deepEqual(fieldsOf(head, 'x-forwarded-for'), ['d']);
    }
  });
});

describe('encodings', () => {
  const text = 'packed '.repeat(200);
  /** @type {[string, Buffer][]} */
  const encoded = [
    ['Content-Encoding: gzip', gzipSync(text)],
    ['Content-Encoding: br', brotliCompressSync(text)],
    // github.com/cloudflare/vinext pull 2986.
    ['Content-Encoding: gzip, gzip', gzipSync(gzipSync(text))],
    ['Content-Encoding: GZip', gzipSync(text)],
    ['Content-Encoding: zstd', Buffer.from('not looked at')],
    ['Content-Encoding: gzip', Buffer.from('no gzip at all')],
    ['Content-Encoding: gzip', Buffer.alloc(0)],
  ];
  const head = (/** @type {string} */ field, /** @type {string} */ length) =>
    Buffer.from(`HTTP/1.1 200 OK\r\n${field}\r\n${length}Connection: close\r\n\r\n`);

  test('pass byte for byte, with Content-Encoding and Content-Length', async () => {
    const { port } = await gateway();
    for (const path of PATHS) {
      for (const [field, body] of encoded) {
        origin.serve = answer(Buffer.concat([head(field, `Content-Length: ${body.length}\r\n`), body]));
        const reply = await exchange(port, requestOf(`GET ${path}`, ['Accept-Encoding: gzip']));
        assert.deepEqual(reply.body, body, field);
        assert.deepEqual(fieldsOf(reply.head, 'content-encoding'), [field.slice(18)]);
        assert.deepEqual(fieldsOf(reply.head, 'content-length'), [String(body.length)]);
        const chunk = body.length ? `${body.length.toString(16)}\r\n${body.toString('latin1')}\r\n` : '';
        origin.serve = answer(`${head(field, 'Transfer-Encoding: chunked\r\n')}${chunk}0\r\n\r\n`);
        const unsaid = await exchange(port, requestOf(`GET ${path}`, ['Accept-Encoding: gzip']));
        assert.deepEqual([unsaid.body, unsaid.whole], [body, true], `${field}, chunked`);
        assert.deepEqual(fieldsOf(unsaid.head, 'content-encoding'), [field.slice(18)]);
      }
    }
  });

  test('Accept-Encoding reaches the origin as it was sent, or not at all', async () => {
    const { port } = await gateway();
    for (const path of PATHS) {
      for (const sent of ['gzip;q=0.1, x-own', 'identity', '*;q=0']) {
        origin.arrived.length = 0;
        await exchange(port, requestOf(`GET ${path}`, [`Accept-Encoding: ${sent}`]));
        assert.deepEqual(fieldsOf(origin.arrived[0].head, 'accept-encoding'), [sent]);
      }
      origin.arrived.length = 0;
      await exchange(port, requestOf(`GET ${path}`));
      assert.deepEqual(fieldsOf(origin.arrived[0].head, 'accept-encoding'), []);
    }
  });

  test('of a request pass too', async () => {
    const { port } = await gateway();
    const body = gzipSync('up').toString('latin1');
    origin.serve = onceCome(body);
    const fields = ['Content-Encoding: gzip', `Content-Length: ${body.length}`];
    await exchange(port, requestOf('POST /', fields) + body);
    assert.equal(bodyOf(origin.arrived[0]), body);
    assert.deepEqual(fieldsOf(origin.arrived[0].head, 'content-encoding'), ['gzip']);
  });
});

describe('statuses and lengths', () => {
  const rows = /** @type {const} */ ([
    ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 12345', ['12345']],
    ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 12345', ['12345']],
    ['HEAD', 'HTTP/1.1 404 Not Found\r\nContent-Length: 9', ['9']],
    ['GET', 'HTTP/1.1 204 No Content', []],
    ['GET', 'HTTP/1.1 304 Not Modified\r\nETag: "e"', []],
    // The platform drops this one's length.
    ['GET', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 500', []],
    ['GET', 'HTTP/1.1 205 Reset Content\r\nContent-Length: 0', ['0']],
    ['GET', 'HTTP/1.1 301 Moved\r\nLocation: ../x?{a}#f\r\nContent-Length: 0', ['0']],
    ['GET', 'HTTP/1.1 308 Moved\r\nLocation: http://u@H:1/\xe9\r\nContent-Length: 0', ['0']],
    ['GET', 'HTTP/1.1 416 No\r\nContent-Range: bytes */10\r\nContent-Length: 0', ['0']],
    ['GET', 'HTTP/1.1 599 Odd\r\nContent-Length: 0', ['0']],
  ]);

  test('without a body', async () => {
    const { port } = await gateway();
    for (const path of PATHS) {
      for (const [method, head, length] of rows) {
        origin.serve = answer(`${head}\r\nConnection: close\r\n\r\n`);
        const reply = await exchange(port, requestOf(`${method} ${path}`));
        const lines = head.split('\r\n');
        const kept = lines.filter((line) => !line.startsWith('Content-Length'));
        for (const line of kept) assert.ok(reply.head.includes(line), `${line} is not in ${reply.head}`);
        assert.deepEqual([fieldsOf(reply.head, 'content-length'), reply.body.length], [length, 0], head);
      }
    }
  });

  test('of a range', async () => {
    const { port } = await gateway();
    for (const encoding of ['', 'Content-Encoding: gzip\r\n']) {
      origin.serve = answer(
        `HTTP/1.1 206 Partial Content\r\n${encoding}Content-Range: bytes 2-4/10\r\nContent-Length: 3\r\nConnection: close\r\n\r\n234`,
      );
      const reply = await exchange(port, requestOf('GET /', ['Range: bytes=2-4', 'If-Range: "e"']));
      const [{ head }] = origin.arrived.splice(0);
      assert.deepEqual([...fieldsOf(head, 'range'), ...fieldsOf(head, 'if-range')], ['bytes=2-4', '"e"']);
      assert.deepEqual([reply.status, reply.body.toString()], [206, '234']);
      assert.deepEqual(fieldsOf(reply.head, 'content-range'), ['bytes 2-4/10']);
      assert.deepEqual(fieldsOf(reply.head, 'content-length'), ['3']);
    }
  });

  test('of an upload: its Content-Length, or chunked; one byte; none is a length of 0', async () => {
    const { port } = await gateway();
    for (const path of PATHS) {
      /** @param {string} request @param {string} body @param {string} arrives */
      const upload = async (request, body, arrives) => {
        origin.arrived.length = 0;
        origin.serve = onceCome(arrives);
        assert.equal((await exchange(port, request + body)).status, 200);
        assert.equal(bodyOf(origin.arrived[0]), arrives);
        const { head } = origin.arrived[0];
        return [...fieldsOf(head, 'content-length'), ...fieldsOf(head, 'transfer-encoding')];
      };
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'GET']) {
        const line = `${method} ${path}`;
        assert.deepEqual(await upload(requestOf(line, ['Content-Length: 1']), 'x', 'x'), ['1'], method);
        const chunked = '1\r\nx\r\n0\r\n\r\n';
        // The platform passes no chunked body of a GET.
        const [arrives, coding] = method === 'GET' ? ['', []] : [chunked, ['chunked']];
        assert.deepEqual(await upload(requestOf(line, ['Transfer-Encoding: chunked']), chunked, arrives), coding);
        assert.deepEqual(await upload(requestOf(line), '', ''), method === 'GET' ? [] : ['0'], method);
      }
    }
  });
});

describe('what the platform does not pass', () => {
  test('informational answers', async () => {
    const { port } = await gateway();
    for (const early of ['100 Continue', '102 Processing', '103 Early Hints\r\nLink: </a>']) {
      origin.serve = answer(`HTTP/1.1 ${early}\r\n\r\n${OK}`);
      const reply = await exchange(port, requestOf('GET /'));
      assert.deepEqual([reply.status, reply.body.toString(), fieldsOf(reply.head, 'link')], [200, 'ok', []]);
    }
  });

  test('trailers, in either direction', async () => {
    const { port } = await gateway();
    origin.serve = onceCome(
      '0\r\n\r\n',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n',
    );
    const reply = await exchange(
      port,
      `${requestOf('POST /', ['Transfer-Encoding: chunked'])}2\r\nup\r\n0\r\nX-T: 1\r\n\r\n`,
    );
    assert.deepEqual([reply.status, reply.body.toString(), reply.whole], [200, 'ok', true]);
    assert.equal(bodyOf(origin.arrived[0]), '2\r\nup\r\n0\r\n\r\n');
  });

  test('Expect is answered by the platform when the body is wanted, and told to the origin', async () => {
    const { port } = await gateway();
    origin.serve = onceCome('up');
    const request = requestOf('POST /', ['Expect: 100-continue', 'Content-Length: 2']);
    const reply = await exchange(port, `${request}up`);
    assert.equal(reply.head, 'HTTP/1.1 100 Continue');
    assert.match(reply.body.toString('latin1'), /^HTTP\/1\.1 200 OK\r\n/);
    assert.deepEqual(fieldsOf(origin.arrived[0].head, 'expect'), ['100-continue']);
  });

  test('a reason in other bytes than ASCII', async () => {
    const { port } = await gateway();
    origin.serve = answer('HTTP/1.1 418 caf\xe9\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok');
    const reply = await exchange(port, requestOf('GET /'));
    assert.match(reply.head, /^HTTP\/1\.1 418 \r\n/);
    assert.equal(reply.body.toString(), 'ok');
  });

  test('an answer of status 600 and above: 502', async () => {
    const { port } = await gateway();
    origin.serve = answer('HTTP/1.1 600 Odd\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
    assert.equal((await exchange(port, requestOf('GET /'))).status, 502);
  });
});
