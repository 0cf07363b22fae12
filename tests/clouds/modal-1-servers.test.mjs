// Servers that die at the fake of Modal, with sandboxes of the first generation, and several at once.
import { severalServers } from './servers.mjs';

severalServers('modal-1');
