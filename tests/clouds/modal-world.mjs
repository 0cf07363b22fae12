// A server with computers of Modal's fake, for the tests of both.
import { startFake } from '../fakes/support/start.mjs';
import { temporaryFolder } from '../integration/support/machine.mjs';
import { startServer } from '../integration/support/server.mjs';

export const SECRET = 'as-0123456789GEHEIM';

// A server at a fake. Others can be started at the same one.
export async function world(t, { options = [], args = [], v2 = true } = {}) {
    const fake = await startFake(t, 'modal', ['--token-secret', SECRET, ...options]);
    const stateDir = temporaryFolder(t, 'state-');
    const env = {
        ...fake.environment(),
        MODAL_CONFIG_PATH: '/nonexistent',
        MODAL_SANDBOX_V2: v2 ? '1' : '0',
        ...(fake.ready.ca ? { SSL_CERT_FILE: fake.ready.ca } : {}),
    };
    const start = () => startServer(t, { args: ['--backend', 'modal', '--lifecycle-tools', ...args], env, stateDir });
    return { fake, start, stateDir, env, server: await start() };
}

// The sandboxes that run.
export async function running(fake) {
    return (await fake.state()).sandboxes.filter(({ result }) => !result);
}
