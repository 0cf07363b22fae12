// How the official clients reach the server, by each transport: a process of their own, or a listener.
import { startHttp } from '../integration/support/http.mjs';
import { temporaryFolder } from '../integration/support/machine.mjs';
import { BINARY } from '../integration/support/server.mjs';

// { Stdio, Http }: an SDK's two transport classes. Gives a transport for one client.
export const transports = {
    stdio: async (t, { Stdio }) => new Stdio({ command: BINARY, args: ['--backend', 'native', '--state-dir', temporaryFolder(t, 'state-')], stderr: 'pipe' }),
    http: async (t, { Http }) => new Http(new URL((await startHttp(t)).url)),
};
