// The demo origin in a process of its own: answers after the milliseconds that it was told, and prints its port.

import { startOrigin } from '../dev/origin.js';

const server = await startOrigin(0, Number(process.argv[2] ?? 0));
server.keepAliveTimeout = 75_000;
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
console.log(`origin: ${port}`);
