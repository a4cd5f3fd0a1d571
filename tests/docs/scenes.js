// What must happen for an answer, or a line of the log, to look as a page shows it: one scene for each `http` and `json`
// block of a page, in their order.
import assert from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import { FAULTS } from '../../dev/store/faults.js';
import { call } from '../edge/admin/api.js';
import { many } from '../edge/support/client.js';
import { until } from '../edge/support/world.js';
import { page } from './pages.js';

/** @typedef {import('../edge/support/client.js').Reply} Reply */
/** @typedef {import('./stage.js').Stage} Stage */

/** @typedef {{ text: string, own?: RegExp }} Seen what there is instead of a block, and which members are its own besides */

/** @param {Reply} reply as it came over the wire */
function wire({ status, headers, text }) {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  return { text: `HTTP/1.1 ${status} ${STATUS_CODES[status]}\n${fields.join('\n')}\n\n${text}` };
}

/** A request of one tenant by docs/answers.md. @param {Stage} stage */
const chat = async (stage) => (await stage.edge()).send('/v1/chat', { headers: { 'x-tenant': 't' } });

/** @type {Record<string, ((stage: Stage, shown: string) => Promise<Seen>)[]>} */
export const SCENES = {
  'README.md': [
    // The commands before it have used up the minute.
    async (stage) => ({ text: (await (await stage.edge()).send('/hello', { ip: '127.0.0.1' })).text }),
  ],

  'docs/admin.md': [
    async (stage, shown) => {
      const [request, body] = shown.split('\n');
      const [method, path] = request.split(' ');
      const tokens = await stage.start(await settling(stage));
      const asked = { limits: ['tokens'], subject: { 'header:x-tenant': 'acme' }, cost: 4000 };
      const { charge } = (await call(tokens, 'POST', 'check', asked)).json();
      const told = JSON.parse(body);
      const reply = await call(tokens, method, path.replace('/.sluicegate/v1/', ''), {
        settle: { ...told.settle, charge },
      });
      // The bucket fills meanwhile.
      return { text: `${request}\n${body}\n\n${reply.text}`, own: /^(charge|remaining)$/ };
    },
  ],

  'docs/answers.md': [
    async (stage) => wire(await chat(stage)),
    async (stage) => {
      for (let sent = 1; sent < 60; sent += 1) await chat(stage);
      const reply = await chat(stage);
      // The bucket refills while the minute is used up; how far it got is the machine's speed.
      reply.headers.ratelimit = String(reply.headers.ratelimit).replace(/("client-burst";r=)\d+/, '$199');
      return wire(reply);
    },
  ],

  'docs/failure-modes.md': [
    async (stage) => {
      const edge = await stage.edge();
      const send = () => edge.send('/v1/chat/x', { method: 'POST', headers: { 'x-tenant': 'acme' } });
      stage.world.store.faults.push(FAULTS.html502);
      await send();
      await until(async () => {
        await send();
        return edge.log().some(({ event }) => event === 'store-recovered');
      }, 'a line store-recovered');
      const lines = edge.log().filter(({ event }) => event.startsWith('store-'));
      return { text: lines.map((line) => JSON.stringify(line)).join('\n') };
    },
  ],

  'docs/observability.md': [
    async (stage) => {
      await stage.world.client.scriptFlush();
      const edge = await stage.edge();
      const send = (/** @type {number} */ cost) =>
        edge.send('/v1/chat/x', { method: 'POST', headers: { 'x-tenant': 'acme', 'x-cost': String(cost) } });
      // Nine that use up the minute, and three more: one that the store refuses, and two that are remembered.
      await many(9, (index) => send(index === 0 ? 4 : 7), 1);
      await many(3, () => send(1), 1);
      return { text: JSON.stringify((await edge.logged('refused'))[0]) };
    },
  ],

  'docs/queue.md': [
    async (stage) => {
      const edge = await queued(stage);
      const reply = await edge.send('/hooks/shop', {
        method: 'POST',
        headers: { host: 'api.example.com' },
        body: '{}',
      });
      // On Cloudflare the client has come by TLS.
      reply.text = reply.text.replace('http://', 'https://');
      return { ...wire(reply), own: /^(id|status_url)$/ };
    },
    async (stage) => {
      const { tasks } = (await call(await queued(stage), 'GET', 'status')).json();
      return {
        text: JSON.stringify(tasks),
        own: /^(accepted|delivered|retried|dead|depth|oldest_age_ms|in_hand|dead_letters)$/,
      };
    },
  ],
};

/** The policy whose costs settle. @param {Stage} stage */
function settling(stage) {
  const block = page('docs/ahead.md').blocks.find(({ text }) => text.includes('\nsettle = '));
  assert.ok(block, 'docs/ahead.md shows a limit that settles');
  return stage.parse(block.text);
}

/** A gateway by docs/queue.md whose limit is used up, for longer than it takes to look. @param {Stage} stage */
async function queued(stage) {
  const policy = await stage.policy();
  const limits = policy.limits.map((/** @type {any} */ limit) => ({ ...limit, window: '1h' }));
  const queues = { HOOKS: stage.queues.work.address, HOOKS_DEAD: stage.queues.dead.address };
  const edge = await stage.start({ ...policy, limits }, { queues });
  await call(edge, 'POST', 'check', { limits: ['intake'], subject: {}, cost: 100 });
  return edge;
}
