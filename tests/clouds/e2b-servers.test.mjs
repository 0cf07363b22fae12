// Servers that die at the fake of E2B, and several at once.
import { severalServers } from './servers.mjs';

severalServers('e2b');
