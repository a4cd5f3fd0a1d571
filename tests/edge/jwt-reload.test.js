// A token whose verification outlives the policy that it was begun under.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inSeconds, signer, startIssuer, token } from './support/issuer.js';
import { useNamespace } from './support/namespace.js';
import { limit, policy } from './support/policy.js';
import { until, useWorld } from './support/world.js';

const world = useWorld();
const namespace = useNamespace();

test('is verified anew, by the issuer in force', async () => {
  const [old, current] = [await startIssuer(), await startIssuer()];
  const signs = signer('RS256');
  old.signers.push(signs);
  current.signers.push(signer('RS256', 'other'));
  const by = (/** @type {string} */ jwks) => ({
    ...policy([limit('a', { key: ['jwt:sub'] })]),
    jwt: { algorithms: ['RS256'], jwks },
  });
  const kv = { namespaces: { POLICY_KV: namespace.address } };
  const edge = await world.gateway(by(old.url), { POLICY_KV_SECONDS: '1' }, {}, kv);
  /** @type {Parameters<typeof old.answer>[]} */
  const waiting = [];
  const answer = old.answer;
  old.answer = (...asked) => void waiting.push(asked);
  const authorization = `Bearer ${token(signs, { sub: 'me', exp: inSeconds(600) })}`;
  const sent = edge.send('/a', { headers: { authorization } });
  await until(() => waiting.length > 0, 'the old key set to be asked for');
  namespace.put(by(current.url));
  await until(async () => {
    await edge.send('/.sluicegate/health');
    return edge.log().some((line) => line.event === 'policy-reloaded');
  }, 'the new policy');
  answer(...waiting[0]);
  assert.equal((await sent).status, 400);
  assert.equal(world.origin.seen.length, 0);
  await Promise.all([old.close(), current.close()]);
});
