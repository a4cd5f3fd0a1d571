// The request target: what the origin gets of it, and that no spelling of it dodges a limit. Sockets on both sides.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { left, problem } from '../support/fields.js';
import { limit, policy, route } from '../support/policy.js';
import { answer, exchange, fieldsOf, requestOf, useRawOrigin } from '../support/raw.js';
import { useWorld } from '../support/world.js';

const world = useWorld();
const ALONE = { UPSTASH_REDIS_REST_URL: undefined };

const origin = useRawOrigin();

/** A gateway without a store whose every path is forwarded. @param {string} [to] */
const through = (to = origin.url) =>
  world.gateway(policy([]), { ...ALONE, ORIGIN: to }, { API: `127.0.0.1:${origin.port}` });

/**
 * The target that the origin sees of each that is sent; the status where it sees none.
 *
 * @param {number} port
 * @param {string[]} targets
 * @param {string} [host]
 */
async function seen(port, targets, host = 'api.test') {
  const pairs = [];
  for (const target of targets) {
    origin.arrived.length = 0;
    const { status } = await exchange(port, requestOf(`GET ${target}`, [`Host: ${host}`]));
    pairs.push([target, origin.arrived[0]?.target ?? status]);
  }
  return pairs;
}
const same = (/** @type {string[]} */ targets) => targets.map((target) => [target, target]);

const KEPT = [
  ...['/a%2Fb//c?x=%7B&y', '/%68ello', '//hello', '/hello//', '/hello/', '/hello?', '/?', '/%e2%82%AC', '/%zz', '/%'],
  ...["/a;b=c,d!$&'()*+:@-._~", '/a[b]|c', '/a?b=/../c/./d//e', '/a?b=c?d', '/a?{}|^`[]\\', '//127.0.0.1:1/x', '/@x'],
  ...['/a%00b', '/a%0D%0Ab', '/...', '/.a', '/a..', '/a?%2e%2E/', `/${'long/'.repeat(800)}?${'q'.repeat(4000)}`],
];
/** What a URL parser rewrites (URL standard). */
const REWRITTEN = [
  ['/./x', '/x'],
  ['/x/../y', '/y'],
  ['/..', '/'],
  ['/a%2Fb//c/./d?x=%7B&y', '/a%2Fb//c/d?x=%7B&y'],
  ['/%2e/x', '/x'],
  ['/x/.%2E/y', '/y'],
  ['/{a}', '/%7Ba%7D'],
  ['/a^"', '/a%5E%22'],
  ['/a\\b', '/a/b'],
  ["/x?'", '/x?%27'],
  ['/x#y', '/x'],
  ['/x?y#z', '/x?y'],
];
/** What is rewritten of them where the URL stays in its request. */
const DOTS = [
  ['/./x', '/x'],
  ['/x/../y', '/y'],
  ['/..', '/'],
  ['/a%2Fb//c/./d?x=%7B&y', '/a%2Fb//c/d?x=%7B&y'],
  ['/x#y', '/x'],
  ['/x?y#z', '/x?y'],
];
const KEPT_IN_REQUEST = ['/%2e/x', '/x/.%2E/y', '/{a}', '/a^"', '/a\\b', "/x?'"];

describe('the origin gets the client’s bytes', () => {
  test('at a URL: all but what a URL parser rewrites', async () => {
    const { port } = await through();
    assert.deepEqual(await seen(port, KEPT), same(KEPT));
    const rewritten = REWRITTEN.map(([sent]) => sent);
    assert.deepEqual(await seen(port, rewritten), REWRITTEN);
  });

  test('at a service binding: all but bare dot segments and a fragment', async () => {
    const { port } = await through('binding:API');
    assert.deepEqual(await seen(port, [...KEPT, ...KEPT_IN_REQUEST]), same([...KEPT, ...KEPT_IN_REQUEST]));
    const dots = DOTS.map(([sent]) => sent);
    assert.deepEqual(await seen(port, dots), DOTS);
    assert.deepEqual(fieldsOf(origin.arrived[0].head, 'host'), ['api.test']);
  });

  test('at the host that the client named: the same', async () => {
    const { port } = await through();
    const host = `127.0.0.1:${origin.port}`;
    assert.deepEqual(await seen(port, [...KEPT, ...KEPT_IN_REQUEST], host), same([...KEPT, ...KEPT_IN_REQUEST]));
    const dots = DOTS.map(([sent]) => sent);
    assert.deepEqual(await seen(port, dots, host), DOTS);
  });

  test('behind the base path of the origin, which no dots lead out of', async () => {
    const { port } = await through(`${origin.url}/base/v2`);
    assert.deepEqual(await seen(port, ['/', '/a%2F//b/?c=%7B', '/../x', '/a/%2e%2e/..\\../x?y', '/..', '/?']), [
      ['/', '/base/v2/'],
      ['/a%2F//b/?c=%7B', '/base/v2/a%2F//b/?c=%7B'],
      ['/../x', '/base/v2/x'],
      ['/a/%2e%2e/..\\../x?y', '/base/v2/x?y'],
      ['/..', '/base/v2/'],
      ['/?', '/base/v2/?'],
    ]);
  });

  test('what the platform does not take is refused by the platform', async () => {
    const { port } = await through();
    const refused = ['/a b', '/a<b', '/a>b', '/a`b', '/\xe9', '/a\x01b', '/a\x7fb', '/a?"', '/a?<', '/a?\xff', '?x=/y'];
    assert.deepEqual(
      await seen(port, refused),
      refused.map((target) => [target, 400]),
    );
  });
});

describe('methods', () => {
  const METHODS = [
    ...['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'PURGE', 'OPTIONS', 'TRACE', 'COPY', 'LOCK', 'MKCOL', 'MOVE'],
    ...['PROPFIND', 'PROPPATCH', 'SEARCH', 'UNLOCK', 'ACL', 'REPORT', 'MKACTIVITY', 'CHECKOUT', 'MERGE', 'MSEARCH'],
    ...['NOTIFY', 'SUBSCRIBE', 'UNSUBSCRIBE', 'QUERY', 'BAN'],
  ];

  test('all that the platform knows arrive', async () => {
    origin.serve = answer('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n');
    for (const to of [origin.url, 'binding:API']) {
      const { port } = await through(to);
      for (const method of METHODS) {
        origin.arrived.length = 0;
        assert.equal((await exchange(port, requestOf(`${method} /x`))).status, 204, method);
        assert.match(origin.arrived[0].head, new RegExp(`^${method} /x HTTP/1\\.1\r\n`));
      }
    }
  });

  test('others are refused by the platform', async () => {
    const { port } = await through();
    for (const method of ['LINK', 'M-SEARCH', 'get', 'X']) {
      assert.equal((await exchange(port, requestOf(`${method} /x`))).status, 501, method);
    }
    // Which no Worker sees.
    assert.ok((await exchange(port, requestOf('CONNECT example.test:443'))).status >= 400);
    assert.equal(origin.arrived.length, 0);
  });
});

describe('no spelling dodges a limit', () => {
  /** Requests under a limit on `/hello` of the host api.test, and how often it counted. @param {string[]} requests */
  async function counted(requests) {
    const text = policy([limit('a', { limit: 100, key: ['global'] })], [route('/hello', ['a'], { host: 'api.test' })]);
    const edge = await world.gateway(text, { ...ALONE, ORIGIN: origin.url });
    let expected = 100;
    for (const request of requests) {
      const { head } = await exchange(edge.port, request);
      expected -= 1;
      assert.match(head, new RegExp(`^RateLimit: "a";r=${expected};`, 'm'), request);
    }
  }

  test('of the host: upper case, a trailing dot, a port', () =>
    counted(
      ['api.test', 'API.Test', 'api.test.', 'Api.tesT.:80', 'api.test:8443', 'api.test..'].map((host) =>
        requestOf('GET /hello', [`Host: ${host}`]),
      ),
    ));

  test('of the target: the absolute form, with the Host field deciding', () =>
    counted([
      requestOf('GET http://api.test/hello'),
      requestOf('GET HTTP://API.test:80/x/../%68ello'),
      requestOf('GET https://other.test//hello?x'),
      requestOf('GET http://user:word@api.test/hello'),
    ]));

  test('a Host field that holds more than a host: 400, and the origin does not see it', async () => {
    const text = policy([limit('a')], [route('/hello', ['a'])]);
    const edge = await world.gateway(text, { ...ALONE, ORIGIN: origin.url });
    const odd = ['x?', 'x#', 'x?/y', 'u@api.test', 'u:p@api.test', 'api.test, other', '%61pi.test', 'x\\y', '*'];
    // One reader cuts off what stands behind the colon, another does not.
    odd.push('api.test:x', 'api.test:80:80', 'api.test:-80', ':80', '[api.test]', '[::1', '[::1]x', 'a[b]');
    for (const host of odd) {
      const reply = await exchange(edge.port, requestOf('GET /hello', [`Host: ${host}`]));
      assert.equal(reply.status, 400, host);
    }
    const twice = 'GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n';
    assert.equal((await exchange(edge.port, twice)).status, 400);
    const none = 'GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n';
    assert.equal((await exchange(edge.port, none)).status, 400);
    assert.equal((await exchange(edge.port, requestOf('OPTIONS *'))).status, 400);
    assert.equal(origin.arrived.length, 0);
  });

  test('that origins read in two ways: both readings count', async () => {
    const limits = [limit('strict', { key: ['global'] }), limit('loose', { limit: 9, key: ['global'] })];
    const routes = [
      route('/v1/{id}/chat', ['strict']),
      route('/secret/{*rest}', ['strict']),
      route('/v1/{*rest}', ['loose']),
    ];
    const edge = await world.gateway(policy(limits, routes), { ...ALONE, ORIGIN: origin.url });
    let reply = await edge.send('/v1/a%2Fb/chat');
    assert.deepEqual([left(reply, 'strict'), left(reply, 'loose')], [2, 8]);
    reply = await edge.send('/secret//../x');
    assert.deepEqual([origin.arrived.at(-1)?.target, left(reply, 'strict')], ['/secret/x', 1]);
    reply = await edge.send('/v1/files/a%2Fb');
    assert.match(String(reply.headers.ratelimit), /^"loose";r=7;t=\d+$/);
    const check = await edge.check({ url: 'http://api.test/v1/a%5Cb/chat' });
    const names = check.json().limits.map((/** @type {{ name: string }} */ { name }) => name);
    assert.deepEqual(names.toSorted(), ['loose', 'strict']);
    problem(await edge.send('/v1/a%2fb/chat'), 429);
    assert.match(String((await edge.send('/v1/x')).headers.ratelimit), /^"loose";r=5;/, 'a refusal charged the other');
  });

  test('that origins read in two ways: a limit by what the path holds counts for both', async () => {
    const limits = [
      limit('tenant', { key: ['param:tenant'] }),
      limit('place', { key: ['path'] }),
      limit('either', { key: ['param:id'] }),
    ];
    const routes = [
      route('/v1/tenants/{tenant}/{*rest}', ['tenant']),
      route('/v/{*rest}', ['place']),
      route('/a/{id}', ['either']),
      route('/b/{id}', ['either']),
    ];
    const edge = await world.gateway(policy(limits, routes), { ...ALONE, ORIGIN: origin.url });
    for (const [spelling, arrives] of [
      ['/v1/tenants/x//../r#%2Fb/../search', '/v1/tenants/x/search'],
      ['/v/q/r#%2Fz/..', '/v/q/'],
      ['/b/x//..//../a%2Fr#%2Fz/..', '/b/x/'],
    ]) {
      const statuses = [];
      for (let i = 0; i < 4; i += 1) statuses.push((await edge.send(spelling.replace('#', String(i)))).status);
      assert.deepEqual(statuses, [200, 200, 200, 429], arrives);
      assert.deepEqual(new Set(origin.arrived.splice(0).map(({ target }) => target)), new Set([arrives]));
    }
    const reply = await edge.send('/b/y//..//../a%2Fs%2Fz/..');
    assert.match(String(reply.headers['ratelimit-policy']), /^"either";q=3;w=\d+$/, 'each limit is named once');
  });

  /** The route `/v1/chat`, whose limit counts, and what arrives of what is sent. @type {[string, string, string][]} */
  const AMBIGUOUS = [
    ['URL', '/v1//../chat%2F', '/v1/chat%2F'],
    ['URL', '/v1//%2e%2e/chat%2f', '/v1/chat%2f'],
    ['URL', '/v1/x%2F%2F..%2F..%2Fchat', '/v1/x%2F%2F..%2F..%2Fchat'],
    ['kept', '/v1//../chat%5C', '/v1/chat%5C'],
    ['kept', '/v1/chat/%2e/..', '/v1/chat/'],
    ['kept', '/v1/chat/%2E%2e/..', '/v1/chat/'],
    ['kept', '/v1/x/.%2e/../../chat', '/v1/chat'],
    ['kept', '/v1/%2e/../chat', '/v1/chat'],
    ['kept', '/v1/%2e//../chat%2F', '/v1/%2e/chat%2F'],
  ];

  test('of dots, doubled slashes and encodings together: what arrives has its limit', async () => {
    const text = policy([limit('a', { limit: 99, key: ['global'] })], [route('/v1/chat', ['a'])]);
    for (const [how, to] of [
      ['URL', origin.url],
      ['kept', 'binding:API'],
    ]) {
      const edge = await world.gateway(text, { ...ALONE, ORIGIN: to }, { API: `127.0.0.1:${origin.port}` });
      let expected = 99;
      for (const [, sent, arrives] of AMBIGUOUS.filter(([which]) => which === how)) {
        origin.arrived.length = 0;
        const { head } = await exchange(edge.port, requestOf(`GET ${sent}`));
        assert.equal(origin.arrived[0]?.target, arrives);
        expected -= 1;
        assert.match(head, new RegExp(`^RateLimit: "a";r=${expected};`, 'm'), `${sent} is not counted`);
      }
      const { head } = await exchange(edge.port, requestOf('GET /v1/other%2F..%2Fx'));
      assert.equal(fieldsOf(head, 'ratelimit').length, 0, 'another path');
    }
  });

  test('of a backslash, which many origins take for a letter', async () => {
    const text = policy([limit('a', { limit: 99, key: ['global'] })], [route('/v1/{*rest}', ['a'])]);
    const edge = await world.gateway(text, { ...ALONE, ORIGIN: 'binding:API' }, { API: `127.0.0.1:${origin.port}` });
    let expected = 99;
    for (const sent of ['/v1/x\\..\\..\\y', '/v1/x%5C..%5C..%5Cy', '/v1/x%5c..\\..%2F..%2Fv1/y']) {
      origin.arrived.length = 0;
      const { head } = await exchange(edge.port, requestOf(`GET ${sent}`));
      assert.equal(origin.arrived[0]?.target, sent);
      expected -= 1;
      assert.match(head, new RegExp(`^RateLimit: "a";r=${expected};`, 'm'), `${sent} is not counted`);
    }
  });

  test('what only some origins read lets nothing in that is denied', async () => {
    const gateway = { unmatched: 'deny' };
    const text = policy([limit('a')], [route('/public/{*rest}', ['a'])], { gateway });
    const edge = await world.gateway(text, { ...ALONE, ORIGIN: origin.url });
    for (const path of ['/public/x\\..\\..\\admin', '/public/%2e/../../admin', '/public/../admin']) {
      assert.equal((await exchange(edge.port, requestOf(`GET ${path}`))).status, 404, path);
    }
    assert.equal(origin.arrived.length, 0);
  });

  test('that lead to our own paths in either reading never reach the origin', async () => {
    const edge = await world.gateway(policy([limit('a')], [route('/{*rest}', ['a'])]), { ORIGIN: origin.url });
    for (const path of ['/x/../.sluicegate//../a', '/.sluicegate/v1/../../a', '/.sluicegate//../a']) {
      assert.equal((await edge.send(path)).status, 401, path);
    }
    assert.equal(origin.arrived.length, 0);
  });

  test('that the platform rewrites: what the origin sees has the limit of what was sent', async () => {
    const text = policy([limit('a', { limit: 2, key: ['ip', 'path'] })], [route('/{*rest}', ['a'])]);
    const edge = await world.gateway(text, { ...ALONE, ORIGIN: origin.url });
    for (const [index, [sent, arrives]] of REWRITTEN.entries()) {
      const ask = (/** @type {string} */ target) =>
        exchange(edge.port, requestOf(`GET ${target}`, [`CF-Connecting-IP: 192.0.2.${index}`]));
      assert.equal((await ask(sent)).status, 200);
      assert.equal((await ask(arrives)).status, 200);
      assert.equal((await ask(sent)).status, 429, `${sent} and ${arrives} are counted apart`);
      assert.deepEqual(
        origin.arrived.splice(0).map(({ target }) => target),
        [arrives, arrives],
      );
    }
  });
});
