// Fly.io as a client sees it: the Machines API, what GraphQL is needed for (organisations), and where flyctl is downloaded from.
//
//   node tests/fakes/fly.mjs [--port N] [--tls] [--token TOKEN] [--deploy-token TOKEN:APP]... [--app NAME]... [--latency MS]
//                            [--clock-scale N] [--boot MS] [--no-rate-limits]
//
// prints {"api", "admin", "token", "environment", "ca"?} when ready. The same address serves FLY_FLAPS_BASE_URL and FLY_API_BASE_URL.
//
// Where its facts are from: the published documents of the Machines API (states, example bodies, statuses, rate limits, leases) and
// the structs and calls of fly-go, August 2026, whose client was built once and run against this fake (tests/fixtures/fly has what
// went over the wire, and tests/clouds/fly.test.mjs holds the fake to it); what a list with summary=true lacks is from the published
// OpenAPI file. From users' reports only: exec ends with 408 and its time
// is at most 60 s, wait takes 1 to 60 s, the text for a name that is taken. Not known, and chosen so that nobody can lean on it: a
// command that exec gave up on goes on; exec gives no environment of the machine; 429 says nothing of when to come again; the texts
// of 412. Not here: volumes, services, checks, containers, secrets, certificates.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { FlyError, Machine } from './fly/machine.mjs';
import { runFake } from './support/serve.mjs';

const LIMITS = { default: { rate: 1, burst: 3 }, get: { rate: 5, burst: 10 }, 'delete app': { rate: 100 / 60, burst: 100 } };
const STDIN_MAX = 16 << 20;
const FLYCTL_VERSION = '0.3.200';

// So many a second, and so many at once.
class Bucket {
    constructor(clock, { rate, burst }) {
        Object.assign(this, { clock, rate, burst, left: burst, at: clock.now() });
    }

    take() {
        const now = this.clock.now();
        this.left = Math.min(this.burst, this.left + ((now - this.at) / 1000) * this.rate);
        this.at = now;
        if (this.left < 1) return false;
        this.left -= 1;
        return true;
    }
}

class App {
    machines = new Map();

    constructor(cloud, name, organisation, network) {
        Object.assign(this, { cloud, name, organisation, network: network || 'default', id: `app_${name}` });
    }

    told() {
        const { name, slug } = this.organisation;
        const active = [...this.machines.values()].filter(({ state }) => state !== 'destroyed');
        return {
            id: this.id,
            name: this.name,
            status: active.length ? 'deployed' : 'pending',
            organization: { name, slug },
            network: this.network,
            machine_count: active.length,
            volume_count: 0,
        };
    }
}

// What its tokens say: macaroons by FlyV1, others by Bearer; macaroons are taken by Bearer as well.
function tokensOf(header = '') {
    const [, scheme, value] = /^(Bearer|FlyV1) (.+)$/.exec(header) ?? [];
    const tokens = (value ?? '')
        .split(',')
        .map((one) => one.trim())
        .filter(Boolean);
    return scheme === 'FlyV1' ? tokens.filter((one) => /^fm(1r|1a|2)_/.test(one)) : tokens;
}

class Cloud {
    apps = new Map();
    totals = { apps: 0, created: 0, destroyed: 0, refused: 0 };
    execSeconds = 60;
    #buckets = new Map();
    #organisations = [
        { id: 'org-1', name: 'Me', slug: 'personal', type: 'PERSONAL' },
        { id: 'org-2', name: 'Company', slug: 'company', type: 'SHARED' },
    ];

    constructor(options, folder, clock) {
        Object.assign(this, { options, folder, clock });
        for (const name of options.app) this.apps.set(name, new App(this, name, this.#organisations[0]));
        this.deployTokens = new Map(
            options['deploy-token'].map((one) => [one.slice(0, one.lastIndexOf(':')), one.slice(one.lastIndexOf(':') + 1)]),
        );
    }

    ready({ url, admin, ca }) {
        this.url = url;
        const token = this.options.token;
        return {
            api: url,
            admin,
            token,
            ...(ca ? { ca } : {}),
            environment: { FLY_FLAPS_BASE_URL: url, FLY_API_BASE_URL: url, FLY_API_TOKEN: token },
        };
    }

    state() {
        return {
            now: this.clock.now(),
            totals: this.totals,
            apps: [...this.apps.values()].map((app) => ({
                ...app.told(),
                machines: [...app.machines.values()].map((one) => one.told()),
            })),
        };
    }

    async close() {
        await Promise.all([...this.apps.values()].flatMap((app) => [...app.machines.values()]).map((one) => one.close()));
    }

    async handle(request, reply) {
        let status, value, headers;
        try {
            [status, value, headers] = await this.#route(request);
        } catch (error) {
            [status, value] = [error.status ?? 500, error.body ?? { error: String(error.stack) }];
        }
        const raw = typeof value === 'string' || Buffer.isBuffer(value);
        reply.head(status, {
            'content-type': raw ? 'application/octet-stream' : 'application/json; charset=utf-8',
            'fly-request-id': `01FAKE${String(Date.now())}-ord`,
            ...headers,
        });
        reply.end(value === undefined ? '' : raw ? value : JSON.stringify(value));
    }

    async #route(request) {
        if (request.path.startsWith('/app/flyctl_releases/') || request.path.startsWith('/releases/'))
            return this.#release(request);
        const [token] = tokensOf(request.headers.authorization).filter(
            (one) => one === this.options.token || this.deployTokens.has(one),
        );
        if (!token)
            throw new FlyError(
                401,
                request.headers.authorization ? 'unauthorized' : 'authenticate: missing authorization header',
            );
        const onlyApp = this.deployTokens.get(token);
        const bytes = await request.body();
        let body = {};
        if (bytes.length) {
            if (!/^application\/json\b/.test(request.headers['content-type'] ?? ''))
                throw new FlyError(415, 'unsupported media type');
            try {
                body = JSON.parse(bytes);
            } catch {
                throw new FlyError(400, 'invalid_argument: body is not JSON');
            }
        }
        if (request.path === '/graphql' && request.method === 'POST') return this.#graphql(body, onlyApp);
        for (const [method, pattern, run] of this.#routes) {
            const match = request.method === method && pattern.exec(request.path);
            if (match)
                return run({
                    ...match.groups,
                    body,
                    query: request.query,
                    nonce: request.headers['fly-machine-lease-nonce'],
                    onlyApp,
                });
        }
        throw new FlyError(404, 'page not found');
    }

    #limit(action, identifier) {
        if (this.options['no-rate-limits']) return;
        const key = `${action} ${identifier}`;
        if (!this.#buckets.has(key)) this.#buckets.set(key, new Bucket(this.clock, LIMITS[action] ?? LIMITS.default));
        if (this.#buckets.get(key).take()) return;
        this.totals.refused++;
        throw new FlyError(429, 'rate limit exceeded');
    }

    #app({ app, onlyApp }) {
        if (onlyApp && onlyApp !== app) throw new FlyError(this.apps.has(app) ? 403 : 404, 'unauthorized');
        const found = this.apps.get(app);
        if (!found) throw new FlyError(404, 'Could not find App');
        return found;
    }

    #machine(at) {
        const machine = this.#app(at).machines.get(at.id);
        if (!machine) throw new FlyError(404, 'machine not found');
        return machine;
    }

    // An action on a machine that its lease guards, within its rate.
    #action(action, run, limited = action) {
        return async (at) => {
            const machine = this.#machine(at);
            this.#limit(limited, at.id);
            machine.checkLease(at.nonce);
            if (machine.state === 'destroyed') throw new FlyError(404, 'machine not found');
            return [200, (await run(machine, at)) ?? { ok: true }];
        };
    }

    #routes = [
        ['POST', /^\/v1\/apps$/, (at) => this.#createApp(at)],
        [
            'GET',
            /^\/v1\/apps$/,
            ({ query, onlyApp }) => {
                const found = [...this.apps.values()].filter(
                    (app) => app.organisation.slug === query.get('org_slug') && (!onlyApp || onlyApp === app.name),
                );
                return [200, { total_apps: found.length, apps: found.map((app) => app.told()) }];
            },
        ],
        ['GET', /^\/v1\/apps\/(?<app>[^/]+)$/, (at) => [200, this.#app(at).told()]],
        [
            'DELETE',
            /^\/v1\/apps\/(?<app>[^/]+)$/,
            async (at) => {
                const app = this.#app(at);
                if (at.onlyApp) throw new FlyError(403, 'unauthorized');
                this.#limit('delete app', 'all');
                await Promise.all([...app.machines.values()].map((one) => one.close()));
                this.apps.delete(app.name);
                return [202];
            },
        ],
        ['POST', /^\/v1\/apps\/(?<app>[^/]+)\/machines$/, (at) => this.#create(at)],
        ['GET', /^\/v1\/apps\/(?<app>[^/]+)\/machines$/, (at) => this.#list(at)],
        [
            'GET',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)$/,
            (at) => {
                const machine = this.#machine(at);
                this.#limit('get', at.id);
                return [200, machine.told()];
            },
        ],
        [
            'POST',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)$/,
            this.#action('update', async (machine, { body }) => {
                this.#checkConfig(body.config);
                await machine.update(body);
                return machine.told();
            }),
        ],
        [
            'DELETE',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)$/,
            this.#action('destroy', (machine, { query }) =>
                machine.destroy([query.get('force'), query.get('kill')].includes('true')),
            ),
        ],
        [
            'POST',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/start$/,
            this.#action('start', (machine) => machine.start()),
        ],
        [
            'POST',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/stop$/,
            this.#action('stop', (machine, { body }) => machine.stop(body)),
        ],
        [
            'POST',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/suspend$/,
            this.#action('suspend', (machine) => machine.suspend()),
        ],
        [
            'POST',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/restart$/,
            this.#action('restart', async (machine, { query }) => {
                await machine.stop({
                    timeout: query.get('timeout') ?? undefined,
                    signal: query.get('force_stop') === 'true' ? 'SIGKILL' : (query.get('signal') ?? undefined),
                });
                if (await machine.wait(['stopped'], 60)) await machine.start();
            }),
        ],
        [
            'POST',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/exec$/,
            this.#action('exec', (machine, { body }) => {
                if ((body.stdin?.length ?? 0) > STDIN_MAX) throw new FlyError(400, 'invalid_argument: stdin is too large');
                return machine.exec(body);
            }),
        ],
        [
            'POST',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/signal$/,
            this.#action('signal', (machine, { body }) => {
                if (machine.state !== 'started')
                    throw new FlyError(412, `failed_precondition: machine is not running, its state is '${machine.state}'`);
                machine.main.kill(body.signal);
            }),
        ],
        [
            'POST',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/(?<which>cordon|uncordon)$/,
            this.#action('cordon', (machine, { which }) => {
                machine.cordoned = which === 'cordon';
            }),
        ],
        ['GET', /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/wait$/, (at) => this.#wait(at)],
        [
            'GET',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/metadata$/,
            (at) => [200, this.#machine(at).config.metadata ?? {}],
        ],
        [
            'POST',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/metadata\/(?<key>[^/]+)$/,
            (at) => {
                const machine = this.#machine(at);
                this.#limit('set metadata', at.id);
                machine.config = {
                    ...machine.config,
                    metadata: { ...machine.config.metadata, [decodeURIComponent(at.key)]: String(at.body.value ?? '') },
                };
                return [204];
            },
        ],
        [
            'DELETE',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/metadata\/(?<key>[^/]+)$/,
            (at) => {
                const machine = this.#machine(at);
                const { [decodeURIComponent(at.key)]: gone, ...rest } = machine.config.metadata ?? {};
                machine.config = { ...machine.config, metadata: rest };
                return [204];
            },
        ],
        [
            'POST',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/lease$/,
            (at) => {
                const machine = this.#machine(at);
                this.#limit('lease', at.id);
                return [201, machine.takeLease(Number(at.query.get('ttl') ?? at.body.ttl ?? 60), at.nonce, at.body.description)];
            },
        ],
        ['GET', /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/lease$/, (at) => [200, this.#machine(at).leaseTold()]],
        [
            'DELETE',
            /^\/v1\/apps\/(?<app>[^/]+)\/machines\/(?<id>[^/]+)\/lease$/,
            (at) => {
                const machine = this.#machine(at);
                machine.checkLease(at.nonce);
                machine.lease = null;
                return [200, { ok: true }];
            },
        ],
    ];

    #createApp({ body, onlyApp }) {
        const name = body.app_name || body.name;
        if (onlyApp) throw new FlyError(403, 'unauthorized');
        if (typeof name !== 'string' || !/^[a-z0-9][a-z0-9-]{0,62}$/.test(name))
            throw new FlyError(422, 'Validation failed: Name may only contain numbers, lowercase letters and dashes');
        const organisation = this.#organisations.find(({ slug }) => slug === body.org_slug);
        if (!organisation) throw new FlyError(404, 'Could not find Organization');
        if (this.apps.has(name))
            throw new FlyError(422, 'Validation failed: Name has already been taken', { status: 'name_taken' });
        const app = new App(this, name, organisation, body.network);
        this.apps.set(name, app);
        this.totals.apps++;
        return [201, { id: app.id, created_at: Date.now() }];
    }

    #checkConfig(config) {
        if (typeof config?.image !== 'string' || !config.image)
            throw new FlyError(400, 'invalid_argument: config.image is required');
        const strings = (value) =>
            value === undefined ||
            value === null ||
            (typeof value === 'object' && Object.values(value).every((one) => typeof one === 'string'));
        if (!strings(config.metadata) || !strings(config.env))
            throw new FlyError(400, 'invalid_argument: config.metadata and config.env hold strings');
        const { memory_mb: memory = 256, cpus = 1, cpu_kind: kind = 'shared' } = config.guest ?? {};
        const [least, most] = kind === 'shared' ? [256 * cpus, 2048 * cpus] : [2048 * cpus, 8192 * cpus];
        if (memory % 256 !== 0 || memory < Math.min(least, 256) || memory > most)
            throw new FlyError(422, `invalid_argument: memory_mb ${memory} is not possible with ${cpus} ${kind} cpus`);
    }

    async #create(at) {
        const app = this.#app(at);
        this.#limit('create', app.name);
        this.#checkConfig(at.body.config);
        if (/no-such-image/.test(at.body.config.image))
            throw new FlyError(400, `invalid_argument: failed to get manifest ${at.body.config.image}: manifest unknown`);
        const same =
            at.body.name && [...app.machines.values()].find((one) => one.name === at.body.name && one.state !== 'destroyed');
        if (same)
            throw new FlyError(
                409,
                `already_exists: unique machine name violation, machine ID ${same.id} already exists with name "${same.name}"`,
            );
        const machine = new Machine(app, at.body);
        app.machines.set(machine.id, machine);
        this.totals.created++;
        if (at.body.lease_ttl) machine.takeLease(at.body.lease_ttl);
        const told = machine.told();
        if (!at.body.skip_launch) await machine.start();
        return [200, told];
    }

    #list(at) {
        const app = this.#app(at);
        this.#limit('list', app.name);
        const metadata = [...at.query]
            .filter(([key]) => key.startsWith('metadata.'))
            .map(([key, value]) => [key.slice(9), value]);
        const states = at.query.getAll('state').flatMap((one) => one.split(','));
        return [
            200,
            [...app.machines.values()]
                .filter(
                    (one) =>
                        (one.state !== 'destroyed' || at.query.get('include_deleted') === 'true') &&
                        (!at.query.get('region') || one.region === at.query.get('region')) &&
                        (!states.length || states.includes(one.state)) &&
                        metadata.every(([key, value]) => one.config.metadata?.[key] === value),
                )
                .map((one) => (at.query.get('summary') === 'true' ? one.summary() : one.told())),
        ];
    }

    async #wait(at) {
        const machine = this.#machine(at);
        this.#limit('wait', at.id);
        const states = at.query.getAll('state').length ? at.query.getAll('state') : ['started'];
        const limit = Number(at.query.get('timeout') || 60);
        const instance = at.query.get('instance_id') ?? at.query.get('version');
        if (!states.every((one) => ['started', 'stopped', 'suspended', 'destroyed', 'created', 'settled'].includes(one)))
            throw new FlyError(400, `invalid_argument: unknown state ${states}`);
        if (!Number.isInteger(limit) || limit < 1 || limit > 60)
            throw new FlyError(400, 'invalid_argument: timeout must be between 1s and 60s');
        if (states.includes('stopped') && !instance)
            throw new FlyError(400, 'invalid_argument: instance_id is required to wait for a stopped machine');
        if (!(await machine.wait(states, limit, instance)))
            throw new FlyError(
                408,
                `deadline_exceeded: machine failed to reach desired state, ${states}, currently ${machine.state}`,
            );
        return [200, { ok: true }];
    }

    #graphql({ query = '' }, onlyApp) {
        if (!/\borganizations\b/.test(query)) return [200, { errors: [{ message: 'the fake knows no such query' }] }];
        const seen = onlyApp ? [this.apps.get(onlyApp)?.organisation ?? this.#organisations[0]] : this.#organisations;
        return [
            200,
            { data: { organizations: { nodes: seen.map((one) => ({ ...one, rawSlug: one.slug, viewerRole: 'admin' })) } } },
        ];
    }

    // A flyctl that says which it is, as an archive with its sums beside it.
    #release({ path: where }) {
        const latest = /^\/app\/flyctl_releases\/(\w+)\/(\w+)\/latest$/.exec(where);
        const folder = `/releases/v${FLYCTL_VERSION}`;
        if (latest) return [200, `${this.url}${folder}/flyctl_${FLYCTL_VERSION}_${latest[1]}_${latest[2]}.tar.gz`];
        const archive = this.#flyctl();
        const names = ['Linux_x86_64', 'Linux_arm64', 'macOS_arm64'].map((one) => `flyctl_${FLYCTL_VERSION}_${one}.tar.gz`);
        if (where === `${folder}/checksums.txt`)
            return [200, names.map((name) => `${createHash('sha256').update(archive).digest('hex')}  ${name}\n`).join('')];
        if (names.includes(path.basename(where))) return [200, archive];
        throw new FlyError(404, 'page not found');
    }

    #flyctl() {
        const [folder, packed] = [path.join(this.folder, 'flyctl'), path.join(this.folder, 'flyctl.tar.gz')];
        if (!fs.existsSync(packed)) {
            fs.mkdirSync(folder);
            fs.writeFileSync(path.join(folder, 'flyctl'), `#!/bin/sh\necho "flyctl v${FLYCTL_VERSION} fake"\n`, { mode: 0o755 });
            execFileSync('tar', ['-czf', packed, '-C', folder, 'flyctl']);
        }
        return fs.readFileSync(packed);
    }
}

await runFake(
    'fly',
    {
        token: { type: 'string', default: 'fm2_fake' },
        'deploy-token': { type: 'string', multiple: true, default: [] },
        app: { type: 'string', multiple: true, default: [] }, // those that are there from the start
        boot: { type: 'string', default: '20' }, // milliseconds until a machine has started
        'no-rate-limits': { type: 'boolean', default: false },
    },
    async (options, folder, clock) => new Cloud(options, folder, clock),
);
