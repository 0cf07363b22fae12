// Servers that die at the fake of Modal, and several at once.
import { severalServers } from './servers.mjs';

severalServers('modal');
