// A server with computers of a provider's fake, for what holds for every provider: one row for each.
import fs from 'node:fs';
import path from 'node:path';
import { messages } from '../fakes/modal/messages.mjs';
import { startFake } from '../fakes/support/start.mjs';
import { temporaryFolder } from '../integration/support/machine.mjs';
import { BINARY, startServer } from '../integration/support/server.mjs';

const E2B_CREATE = '^POST /v2/sandboxes$';
const FLY_CREATE = '^POST /v1/apps/app/machines$';
const MODAL_CREATE = '/SandboxCreate(V2)?$';

// How a provider says that it takes no more, and after how many seconds it will, as a text; null: it has no way to say such a thing.
const http429 = (after) => ({
    status: 429,
    headers: after === undefined ? {} : { 'retry-after': after },
    body: { code: 429, error: 'slow down', message: 'slow down' },
});

function grpc429(after) {
    const refused = { grpc: 8, message: 'slow down' };
    if (after === undefined) return refused;
    if (!/^-?[\d.]{1,20}$|^NaN$/.test(after)) return null;
    const value = messages.encode('RPCRetryPolicy', { retry_after_secs: Number(after) });
    const policy = { type_url: 'type.googleapis.com/modal.client.RPCRetryPolicy', value };
    return { ...refused, details: messages.encode('RPCStatus', { code: 8, message: 'slow down', details: [policy] }).toString('base64') };
}

// Some are refused however slow the machine is that it all runs on.
const refusals = (match, refused) => ['--faults', JSON.stringify([{ match, ...refused, at: 5, times: 3 }])];

const running = ({ sandboxes }) => sandboxes.filter(({ result }) => !result);

// A computer of Modal in one of its two generations: they differ in how one is made and found, not in what it does.
const modal = (generation, more) => ({
    is: 'modal',
    grpc: true,
    file: 'file',
    secret: 'as-0123456789GEHEIMabcdef0123456789',
    fake: (secret) => ['--token-secret', secret],
    freely: {},
    env: (home) => ({ HOME: home, MODAL_CONFIG_PATH: path.join(home, 'none.toml'), MODAL_SANDBOX_V2: generation }),
    wrong: { MODAL_TOKEN_SECRET: 'as-fedcba9876543210GEHEIMfedcba9876' },
    none: { MODAL_TOKEN_SECRET: '' },
    given: ' /modal.client.ModalClient/',
    tokens: /eyJ[\w-]{10,}/, // of the account and of its sandboxes' routers
    create: MODAL_CREATE,
    tooMuch: grpc429,
    rates: {
        'told when to come again': { options: ['--create-rate', '20'] },
        'without a word when to come again': { options: ['--create-rate', '10', '--clock-scale', '10', '--no-retry-after'] },
    },
    created: ({ totals }) => totals.created,
    live: running,
    images: ({ images }) => images,
    alone: { args: ['--sandbox-timeout', '8'], done: (_, before, now) => running(now).length === 2 && running(now).every(({ id }) => !running(before).some((one) => one.id === id)) },
    ...more,
});

export const PROVIDERS = {
    e2b: {
        secret: 'e2b_0123456789abcdef0123456789abcdef01234567',
        fake: (secret) => ['--api-key', secret],
        freely: {},
        env: (home) => ({ HOME: home }),
        wrong: { E2B_API_KEY: 'e2b_fedcba9876543210fedcba9876543210fedcba98' },
        none: { E2B_API_KEY: '' },
        given: ' /(v2/)?sandboxes', // requests that have the secret
        tokens: /ea_[0-9a-f]{32}/, // of its sandboxes
        create: E2B_CREATE,
        tooMuch: http429,
        many: 200, // at once, in a test of every day
        patience: 1, // with nonsense: of so many answers one is tried in a test of every day
        rates: {
            'told when to come again': { options: ['--create-rate', '75', ...refusals(E2B_CREATE, http429('1'))] },
            'without a word when to come again': {
                options: ['--create-rate', '10', '--clock-scale', '10', '--no-retry-after', ...refusals(E2B_CREATE, http429())],
            },
        },
        created: ({ totals }) => totals.created,
        live: ({ sandboxes }) => sandboxes,
        images: () => [], // and what else is kept at the provider for a computer
        file: 'file', // that who runs in a computer may write, and that lasts as long
        // What makes a server look after computers soon, and when it has, whatever failed once: a permanent one and a temporary one.
        alone: { args: ['--e2b-sandbox-timeout', '4'], done: (requests, { sandboxes }) => sandboxes.every(({ sandboxID }) => requests.filter((one) => one.path.endsWith(`/${sandboxID}/timeout`)).length >= 3) },
    },
    fly: {
        secret: 'fm2_0123456789abcdefGEHEIM0123456789abcdef',
        fake: (secret) => ['--token', secret, '--app', 'app'],
        freely: { options: ['--no-rate-limits'], args: ['--fly-rate', '1000'] },
        env: (home) => ({ HOME: home, KILNTAINERS_FLY_STATE_FILE: path.join(home, 'fly.json'), FLY_APP_NAME: 'app' }),
        wrong: { FLY_API_TOKEN: 'fm2_fedcba9876543210GEHEIMfedcba9876543210' },
        none: { FLY_API_TOKEN: '', FLY_ACCESS_TOKEN: '', FLY_TOKEN: '', AUTO_INSTALL_FLYCTL: 'false' },
        given: '',
        tokens: /no such thing/,
        create: FLY_CREATE,
        tooMuch: http429,
        many: 24,
        patience: 4,
        rates: {
            'as fast as its limits are said to be': { options: ['--clock-scale', '10'], args: ['--fly-rate', '10'], within: true },
            'without a word when to come again': {
                options: ['--clock-scale', '10', ...refusals(FLY_CREATE, http429())],
                args: ['--fly-rate', '40'],
            },
        },
        created: ({ totals }) => totals.created,
        live: ({ apps }) => apps.flatMap(({ machines }) => machines).filter(({ state }) => state !== 'destroyed'),
        images: () => [],
        file: '/root/file',
        alone: { args: ['--fly-lease', '12'], done: (requests) => requests.filter((one) => /\/exec$/.test(one.path)).length >= 3 },
    },
    modal: modal('1', { many: 100, patience: 1 }),
    'modal-1': modal('0', { many: 40, patience: 3 }), // the first generation
};

const providerOf = (name) => PROVIDERS[name].is ?? name;

export const NAMES = Object.keys(PROVIDERS).filter((name) => [undefined, name, providerOf(name)].includes(process.env.CLOUD));

// The server as another user runs it, from a folder that this one can read.
function asUser(t, user) {
    const folder = temporaryFolder(t, 'as-user-');
    fs.copyFileSync(BINARY, path.join(folder, 'server'));
    const wrapper = path.join(folder, 'as-user');
    fs.writeFileSync(wrapper, `#!/bin/sh\nexec setpriv --reuid=${user} --regid=${user} --clear-groups ${folder}/server "$@"\n`, { mode: 0o755 });
    fs.chmodSync(folder, 0o755);
    return wrapper;
}

// A server at a fake. Others can be started at the same one. at: the fake's options and the server's for its limits, which are off
// unless told; args: more of the server's; as: a user's number.
export async function world(t, name, { at, options = [], args = [], as } = {}) {
    const row = PROVIDERS[name];
    const limits = { options: [], args: [], ...(at ?? row.freely) };
    const fake = await startFake(t, providerOf(name), [...row.fake(row.secret), ...limits.options, ...options]);
    const stateDir = temporaryFolder(t, 'state-');
    const home = temporaryFolder(t, 'home-');
    for (const folder of as ? [stateDir, home] : []) fs.chownSync(folder, as, as);
    const env = { ...fake.environment(), ...row.env(home), ...(fake.ready.ca ? { SSL_CERT_FILE: fake.ready.ca } : {}) };
    const all = ['--backend', providerOf(name), '--lifecycle-tools', ...limits.args, ...args];
    const start = (more = {}) =>
        startServer(t, {
            args: all,
            env: { ...env, ...more.env },
            stateDir: more.stateDir ?? stateDir,
            binary: as ? asUser(t, as) : undefined,
        });
    const live = async () => row.live(await fake.state());
    return { row, fake, start, stateDir, env, args: all, live, server: await start() };
}

// A call of a tool that is no command: its structured content.
export async function call(server, name, args = {}) {
    const { result } = await server.request('tools/call', { name, arguments: args });
    return result.structuredContent;
}
