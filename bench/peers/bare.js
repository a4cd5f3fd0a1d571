// A script call of the gateway's size with no decision in it: the same keys and arguments for each limit, and whatever
// script SCRIPT_SHA names. What it takes in Redis is what the keys, arguments and commands cost by themselves.

const OVERRIDE = 'override-instead-of-the-policy-s-limit';

export default {
  async fetch(request, env) {
    const { subject } = await request.json();
    const tenant = subject['header:x-tenant'];
    const names = Array.from({ length: env.LIMITS }, (_, index) => `tenant-number-${index}`);
    const keys = names.flatMap((name) => [`bare:1:${name}:s1h:${tenant}`, `bare:1:${name}:${OVERRIDE}:${tenant}`]);
    const values = names.flatMap(() => ['s', '100000', '3600000', '100000', '7202000', '1']);
    const response = await fetch(env.UPSTASH_REDIS_REST_URL, {
      method: 'POST',
      headers: { authorization: `Bearer ${env.UPSTASH_REDIS_REST_TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify(['EVALSHA', env.SCRIPT_SHA, String(keys.length), ...keys, String(Date.now()), ...values]),
    });
    return Response.json(await response.json());
  },
};
