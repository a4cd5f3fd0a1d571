// The status page in a real browser.
import assert from 'node:assert/strict';
import { after, afterEach, describe, test } from 'node:test';
import { many } from '../edge/support/client.js';
import { useNamespace } from '../edge/support/namespace.js';
import { limit, policy, route } from '../edge/support/policy.js';
import { ADMIN_TOKEN, until, useWorld } from '../edge/support/world.js';
import { skip, useBrowser } from './browser.js';

/** @typedef {import('playwright-core').Page} Page */
/** @typedef {import('../edge/support/world.js').Edge} Edge */

const world = useWorld();
const namespace = useNamespace();
const shared = useBrowser();
/** @type {import('playwright-core').BrowserContext[]} */
const contexts = [];
/** What no page may say. @type {string[]} */
const faults = [];

afterEach(async () => {
  await Promise.all(contexts.splice(0).map((context) => context.close()));
});
after(() => assert.deepEqual(faults, []));

/** @param {Edge} edge @param {{ width?: number }} [options] */
async function open(edge, { width = 1280 } = {}) {
  const context = await shared.browser.newContext({ viewport: { width, height: 900 } });
  contexts.push(context);
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => {
    if (/Content Security Policy|TrustedHTML/.test(message.text())) faults.push(message.text());
  });
  await page.goto(`${edge.url}/.sluicegate/`);
  return page;
}

/** @param {Page} page @param {string} [token] */
async function enter(page, token = ADMIN_TOKEN) {
  await page.getByLabel('Admin token').fill(token);
  await page.getByRole('button', { name: 'Show the status' }).click();
}

/** @param {Edge} edge @param {{ width?: number }} [options] */
async function entered(edge, options) {
  const page = await open(edge, options);
  await enter(page);
  await page.getByRole('heading', { name: 'Limits' }).waitFor();
  return page;
}

/** Its text as it is laid out, cells between tabs. @param {import('playwright-core').Locator} place */
async function shown(place) {
  await place.first().waitFor({ state: 'attached' });
  return (await place.allInnerTexts())[0];
}

/** The value beside a title. @param {Page} page @param {string} title @param {string} [within] */
const figure = (page, title, within = 'main') =>
  page.locator(`${within} dl > div`, { has: page.locator(`dt:text-is("${title}")`) }).locator('dd');

/** @param {Page} page */
const texts = (page) => shown(page.locator('#notices'));

describe('the token', { skip }, () => {
  test('is asked once, kept by the tab, and forgotten on demand', async () => {
    const edge = await world.gateway(policy([limit('a')]));
    const page = await open(edge);
    assert.equal(await page.evaluate(() => document.activeElement?.id), 'token', 'the first field has the focus');
    await page.keyboard.type(ADMIN_TOKEN);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Limits' }).waitFor();
    assert.equal(await page.getByLabel('Admin token').isVisible(), false);
    await page.reload();
    await page.getByRole('heading', { name: 'Limits' }).waitFor();
    assert.equal(await page.getByLabel('Admin token').isVisible(), false);
    const other = await contexts[0].newPage();
    await other.goto(`${edge.url}/.sluicegate/`);
    assert.equal(await other.getByLabel('Admin token').isVisible(), true, 'another tab asks');
    await page.getByRole('button', { name: 'Forget the token' }).click();
    await page.getByLabel('Admin token').waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    assert.deepEqual(await page.evaluate(() => [localStorage.length, document.cookie]), [0, '']);
  });

  test('is told when it is wrong, and can be entered again', async () => {
    const page = await open(await world.gateway(policy([limit('a')])));
    await enter(page, 'not the token');
    await page.getByText('This token was not accepted.').waitFor();
    assert.equal(await page.getByLabel('Admin token').inputValue(), '');
    assert.equal(await page.getByRole('heading', { name: 'Limits' }).isVisible(), false);
    await enter(page);
    await page.getByRole('heading', { name: 'Limits' }).waitFor();
  });
});

describe('what is shown', { skip }, () => {
  const limits = [limit('a', { limit: 5 }), limit('quiet', { algorithm: 'token-bucket', burst: 9, window: '1h' })];
  const routes = [
    route('/a', ['a']),
    route('/b/{*rest}', ['a', 'quiet'], { methods: ['POST'], host: 'api.example.com' }),
  ];

  test('the plot and the tables, after traffic', async () => {
    const edge = await world.gateway(policy(limits, routes));
    const page = await entered(edge);
    await page.getByText('No decision in the last 10 minutes.').waitFor();
    await many(8, () => edge.send('/a'), 1);
    const plot = page.getByRole('img', { name: '8 decisions in the last 10 minutes, 3 of them refused' });
    await plot.waitFor();
    assert.ok((await plot.locator('rect.tier-store').count()) >= 1);
    assert.ok((await plot.locator('rect.tier-cache').count()) >= 1);
    assert.equal(await plot.locator('polyline.refused').count(), 1);
    assert.match(await shown(page.locator('#legend')), /store: 6 .*cache: 2 .*refused: 3/s);
    const row = page.getByRole('row', { name: /^a / });
    assert.deepEqual((await shown(row.first())).split('\t').slice(3), ['5', '3', '0', '0', '37.5 %']);
    assert.match(await shown(page.locator('#limits')), /3 per 1 h, 9 at once, token-bucket/);
    assert.match(await shown(page.locator('#routes')), /POST api\.example\.com\/b\/\{\*rest\}\ta, quiet/);
    assert.equal(await shown(figure(page, 'Passed')), '5 requests');
    assert.equal(await shown(figure(page, 'Breaker')), 'closed');
    assert.match(await shown(figure(page, 'Store latency, p50')), /^[\d.]+ ms$/);
    await page.getByText('As a table, by minute').click();
    assert.match(await shown(page.locator('#minutes')), /from \d\d:\d\d:\d\d\t\d+\t\d+\t\d/);
  });

  test('without a store it says that isolates count for themselves', async () => {
    const page = await entered(await world.gateway(policy(limits, routes), { UPSTASH_REDIS_REST_URL: undefined }));
    assert.match(await texts(page), /No store is configured/);
    await page.getByLabel('Limit', { exact: true }).selectOption('a');
    await page.getByLabel('ip', { exact: true }).fill('192.0.2.1');
    await page.getByRole('button', { name: 'Look up' }).click();
    await page.getByRole('button', { name: 'Reset' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Ban' }).count(), 0);
    assert.equal(await shown(figure(page, 'Override')), 'needs a store');
  });

  test('a store that fails, and a look-up that it does not answer', async () => {
    const breaker = { window: '10s', min_calls: 1, failure_rate: 0.1, open: '60s', max_open: '60s', long_open: '60s' };
    const edge = await world.gateway(policy(limits, routes, { store: { breaker, timeout: '2s' } }), {
      UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:9',
    });
    await edge.send('/a');
    const page = await entered(edge);
    assert.match(await texts(page), /The store fails: the breaker is open, and asks it again in \d+ s\./);
    await page.getByRole('img', { name: /1 decision in/ }).waitFor();
    assert.ok(await page.locator('rect.tier-closed').count());
    await page.getByLabel('ip', { exact: true }).fill('192.0.2.1');
    await page.getByRole('button', { name: 'Look up' }).click();
    await page.getByText('The store did not answer.').waitFor();
  });

  test('a gateway that does not answer, and another isolate that does', async () => {
    const edge = await world.gateway(policy(limits, routes));
    const page = await open(edge);
    await page.clock.install();
    await enter(page);
    await page.getByRole('heading', { name: 'Limits' }).waitFor();
    assert.equal(await texts(page), '');
    await page.route('**/v1/status', (call) => call.abort());
    await page.clock.runFor(5_000);
    await page.getByText('The gateway did not answer.').waitFor();
    assert.equal(await page.getByRole('heading', { name: 'Limits' }).isVisible(), true, 'the last numbers stay');
    await page.route('**/v1/status', async (call) => {
      const answer = await call.fetch();
      await call.fulfill({ json: { ...(await answer.json()), isolate: '0000beef' } });
    });
    await page.clock.runFor(5_000);
    await page.getByText('Another isolate has answered').waitFor();
    assert.match(await shown(page.locator('#about')), /isolate 0000beef/);
    assert.doesNotMatch(await texts(page), /did not answer/);
  });

  test('a wrong policy in POLICY_KV, its text as text', async () => {
    const good = policy(limits, routes);
    const options = { namespaces: { POLICY_KV: namespace.address } };
    const edge = await world.gateway(good, { POLICY_KV_SECONDS: '1' }, {}, options);
    namespace.put({ ...good, '<img src=x>': 1 });
    await until(async () => {
      await edge.send('/.sluicegate/health');
      return edge.log().some(({ event }) => event === 'bad-policy');
    }, 'the wrong policy to be read');
    const page = await entered(edge);
    assert.match(await texts(page), /POLICY_KV holds a policy that is wrong.*<img src=x>/s);
    assert.equal(await page.locator('img').count(), 0);
  });

  for (const width of [320, 390, 1280]) {
    test(`at ${width} px nothing goes over the edge, whatever the names`, async () => {
      const name = 'x'.repeat(64);
      const odd = limit(name, { key: ['header:x-a-header-of-a-rather-long-name', 'query:account', 'ip'] });
      const long = route(`/${'a/'.repeat(40)}{*rest}`, ['a', name], {
        name,
        methods: ['POST', 'PUT', 'PATCH', 'DELETE'],
      });
      const edge = await world.gateway(policy([...limits, odd], [...routes, long]));
      await many(8, () => edge.send('/a'), 1);
      const page = await entered(edge, { width });
      await page.getByText('As a table, by minute').click();
      for (const place of ['html', '#limits', '#routes', '#minutes']) {
        const sizes = await page.locator(place).evaluate((box) => [box.scrollWidth, box.clientWidth]);
        assert.equal(sizes[0], sizes[1], place);
      }
      // Where cells stand under each other, each says what it is.
      const refused = page.getByRole('row', { name: /^a / }).locator('td').nth(3);
      const title = await refused.evaluate((cell) => getComputedStyle(cell, '::before').content);
      assert.deepEqual([await refused.textContent(), title], ['3', width < 640 ? '"Refused"' : 'none']);
    });
  }
});

describe('a subject', { skip }, () => {
  const ODD = `a,b/c%2F?#"<img src=x onerror=alert(1)>&'-~..`;
  const text = policy([limit('a', { key: ['header:x-tenant', 'ip'], limit: 3 }), limit('all', { key: ['global'] })]);
  const as = (/** @type {string} */ tenant) => ({ headers: { 'x-tenant': tenant } });

  test('of odd characters is looked up, reset, banned and freed', async () => {
    const edge = await world.gateway(text, undefined);
    await many(2, () => edge.send('/a', as(ODD)), 1);
    await edge.send('/a', as('another'));
    const page = await entered(edge);
    await page.getByLabel('header:x-tenant').fill(ODD);
    await page.getByLabel('ip', { exact: true }).fill('192.0.2.1');
    await page.keyboard.press('Enter');
    const known = '#subject-known';
    await page.getByRole('button', { name: 'Reset' }).waitFor();
    assert.deepEqual(
      [await shown(figure(page, 'Used', known)), await shown(figure(page, 'Left', known))],
      ['2 units', '1 unit'],
    );
    assert.ok((await shown(page.locator(known))).startsWith(`${ODD}, 192.0.2.1`));
    assert.equal(await page.locator('img').count(), 0);

    await page.getByRole('button', { name: 'Reset' }).click();
    await page.getByRole('button', { name: 'Cancel' }).click();
    assert.equal(await shown(figure(page, 'Used', known)), '2 units', 'nothing was done');
    await page.getByRole('button', { name: 'Reset' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Reset' }).click();
    await page.getByText('What it had used is forgotten.').waitFor();
    assert.equal(await shown(figure(page, 'Used', known)), '0 units');
    assert.equal(
      (await edge.check({ limits: ['a'], subject: { 'header:x-tenant': 'another', ip: '192.0.2.1' }, cost: 0 })).json()
        .limits[0].remaining,
      2,
    );

    await page.getByRole('button', { name: 'Ban' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Ban' }).click();
    await page.getByText('It is banned.').waitFor();
    assert.equal(await shown(figure(page, 'Banned', known)), 'yes');
    assert.match(await shown(figure(page, 'Override', known)), /^ban/);
    // The global limit was used up by others; only the ban is asked about here.
    const refused = async () =>
      !(await edge.check({ limits: ['a'], subject: { 'header:x-tenant': ODD, ip: '192.0.2.1' }, cost: 1 })).json()
        .allowed;
    assert.equal(await refused(), true);

    await page.getByRole('button', { name: 'Lift the ban' }).click();
    await page.getByText('The policy’s limit holds again.').waitFor();
    assert.equal(await shown(figure(page, 'Banned', known)), 'no');
    assert.equal(await refused(), false);
  });

  test('of a concurrency limit has slots, which are not for a page to end', async () => {
    const slots = { name: 'runs', algorithm: 'concurrency', limit: 2, lease: '1m', key: ['global'] };
    const edge = await world.gateway(policy([{ ...slots, on_store_error: 'closed' }], []));
    const page = await entered(edge);
    assert.match(await shown(page.locator('#limits')), /2 at once, concurrency/);
    await page.getByRole('button', { name: 'Look up' }).click();
    await page.getByRole('button', { name: 'Ban' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Reset' }).count(), 0);
    assert.equal(await shown(figure(page, 'Left', '#subject-known')), '2 slots');
    assert.equal(await shown(figure(page, 'Limit', '#subject-known')), '2 at once');
  });

  test('of a global limit has no field, and a wrong one is told', async () => {
    const page = await entered(await world.gateway(text));
    await page.getByLabel('Limit', { exact: true }).selectOption('all');
    assert.equal(await page.locator('#subject input').count(), 0);
    await page.getByRole('button', { name: 'Look up' }).click();
    await page.getByText('all requests together').waitFor();
    await page.getByLabel('Limit', { exact: true }).selectOption('a');
    assert.equal(await page.locator('#subject-known').isVisible(), false);
    await page.getByLabel('ip', { exact: true }).fill('nowhere');
    await page.getByRole('button', { name: 'Look up' }).click();
    await page.locator('#subject-said', { hasText: 'ip' }).waitFor();
  });

  test('what is typed stays while the page looks again', async () => {
    const page = await open(await world.gateway(text));
    await page.clock.install();
    await enter(page);
    await page.getByLabel('header:x-tenant').fill('half a na');
    const again = page.waitForResponse('**/v1/status');
    await page.clock.runFor(5_000);
    await again;
    assert.equal(await page.getByLabel('header:x-tenant').inputValue(), 'half a na');
  });
});
