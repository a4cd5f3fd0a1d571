// The floor for any proxy: the request goes on to the origin as it came, the answer back as it came.

export default {
  fetch(request, env) {
    const { pathname, search } = new URL(request.url);
    return fetch(new Request(env.ORIGIN + pathname + search, request));
  },
};
