// What a deadline of 150 ms is worth in this workerd on this machine: waits for a timer of that long and answers.

export default {
  async fetch() {
    await new Promise((resolve) => setTimeout(resolve, 150));
    return new Response('{}');
  },
};
