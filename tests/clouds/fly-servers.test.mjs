// Servers that die at the fake of Fly, and several at once.
import { severalServers } from './servers.mjs';

severalServers('fly');
