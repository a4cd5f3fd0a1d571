// The floor for any Worker that asks a store: one fetch with a fixed EVALSHA, its reply parsed and returned.
//
// It gets the same request as the gateway and looks at nothing in it: no token is compared, no body is read. That
// favours it, and is what makes it the floor. With READ_BODY it also reads and parses the body, which no decision
// that is asked for by POST can do without: the table gives that ratio too, so that it can be told apart.

/** @type {RequestInit | undefined} */
let init;

export default {
  async fetch(request, env) {
    if (env.READ_BODY) await request.json();
    init ??= {
      method: 'POST',
      headers: { authorization: `Bearer ${env.UPSTASH_REDIS_REST_TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify(['EVALSHA', env.SCRIPT_SHA, '1', 'bench:floor']),
    };
    const response = await fetch(env.UPSTASH_REDIS_REST_URL, init);
    return Response.json(await response.json());
  },
};
