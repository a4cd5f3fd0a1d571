// The demo origin in a process of its own: prints its port.

import { startOrigin } from '../dev/origin.js';

const server = await startOrigin(0);
server.keepAliveTimeout = 75_000;
const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
console.log(`origin: ${port}`);
