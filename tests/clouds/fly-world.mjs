// A server with computers of Fly's fake, for the tests of both.
import path from 'node:path';
import { startServer } from '../integration/support/server.mjs';
import { temporaryFolder } from '../integration/support/machine.mjs';
import { startFake } from '../fakes/support/start.mjs';

export const TOKEN = 'fm2_0123456789abcdefGEHEIM';
const FREELY = ['--fly-rate', '1000']; // beside a fake that has no limits either

// A server at a fake. Others can be started at the same one.
export async function world(t, { options = ['--no-rate-limits'], args = FREELY, app = 'app' } = {}) {
    const fake = await startFake(t, 'fly', ['--token', TOKEN, '--app', 'app', ...options]);
    const stateDir = temporaryFolder(t, 'state-');
    const home = temporaryFolder(t, 'home-');
    const env = {
        ...fake.environment(),
        HOME: home,
        KILNTAINERS_FLY_STATE_FILE: path.join(home, 'fly.json'),
        ...(app ? { FLY_APP_NAME: app } : {}),
        ...(fake.ready.ca ? { SSL_CERT_FILE: fake.ready.ca } : {}),
    };
    const start = (more = [], where = stateDir) =>
        startServer(t, { args: ['--backend', 'fly', '--lifecycle-tools', ...args, ...more], env, stateDir: where });
    return { fake, start, stateDir, env, server: await start() };
}

export async function call(server, name, args) {
    const { result } = await server.request('tools/call', { name, arguments: args });
    return result.structuredContent;
}

// Those that are not destroyed.
export async function machines(fake) {
    const { apps } = await fake.state();
    return apps.flatMap((app) => app.machines).filter(({ state }) => state !== 'destroyed');
}

// What came in since the last look, as "METHOD /path" without the app and ids.
export async function requests(fake) {
    const all = await fake.requests();
    await fake.forgetRequests();
    return all.map(({ method, path: where }) =>
        `${method} ${where.replace(/\?.*/, '').replace(/^\/v1\/apps\/[^/]+/, '').replace(/\/machines\/[0-9a-f]{14}/, '/ID')}`);
}
