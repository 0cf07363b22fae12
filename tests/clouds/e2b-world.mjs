// A server with computers of E2B's fake, for the tests of both.
import { startServer } from '../integration/support/server.mjs';
import { temporaryFolder } from '../integration/support/machine.mjs';
import { startFake } from '../fakes/support/start.mjs';

export const KEY = 'e2b_0123456789abcdef0123456789abcdef01234567';

// A server at a fake. Others can be started at the same one.
export async function world(t, options = [], args = []) {
    const fake = await startFake(t, 'e2b', ['--api-key', KEY, ...options]);
    const stateDir = temporaryFolder(t, 'state-');
    const env = { ...fake.environment(), ...(fake.ready.ca ? { SSL_CERT_FILE: fake.ready.ca } : {}) };
    const start = (more = []) => startServer(t, { args: ['--backend', 'e2b', '--lifecycle-tools', ...args, ...more], env, stateDir });
    return { fake, start, stateDir, env, server: await start() };
}

export async function call(server, name, args) {
    const { result } = await server.request('tools/call', { name, arguments: args });
    return result.structuredContent;
}

export async function sandboxes(fake) {
    return (await fake.state()).sandboxes;
}
