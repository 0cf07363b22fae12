// E2B as a client sees it: the control API (v2) and each sandbox's envd, with processes and files that are real (support/room.mjs).
//
//   node tests/fakes/e2b.mjs [--port N] [--tls] [--api-key KEY] [--latency MS] [--clock-scale N] [--max-sandboxes N]
//                            [--create-rate N] [--no-retry-after] [--template NAME]...
//
// prints {"api", "sandbox", "admin", "apiKey", "environment", "ca"?} when ready: two addresses for the client, one to drive the fake by
// (support/serve.mjs), the same as the variables of the official client, and with --tls the file of the certificate to trust.
//
// Where its facts are from: what npm e2b@2.51.0 sends and accepts (tests/clouds/e2b-sdk.test.mjs drives the fake with it); texts, statuses
// and the order of events from the published source of the API and of envd (github.com/e2b-dev/infra, August 2026). Not taken from
// there, since it can't be read: the figures of rate limits. Not here: terminals, folder watches, forks, volumes, egress rules (they
// are kept and told, but nothing enforces them).
import { id, Sandbox } from './e2b/sandbox.mjs';
import { runFake } from './support/serve.mjs';

const ENVD_PORT = 49983;
const MAX_SECONDS = 24 * 3600;
const PAGE = 100;

class ApiError extends Error {
    constructor(code, message, headers = {}) {
        super(message);
        Object.assign(this, { code, headers });
    }
}

function notFound(id) {
    return new ApiError(404, `Sandbox "${id}" doesn't exist or you don't have access to it`);
}

function checkStrings(what, value = {}) {
    const wrong =
        typeof value !== 'object' ||
        value === null ||
        Array.isArray(value) ||
        Object.values(value).some((one) => typeof one !== 'string');
    if (wrong) throw new ApiError(400, `Error when parsing request: json: cannot unmarshal ${what}`);
    return value;
}

// The provider's undoing of its filter's three encodings is done by query, form and value in turn.
function metadataFilter(text) {
    return [...new URLSearchParams(text)].map(([key, value]) => [decodeURIComponent(key), decodeURIComponent(value)]);
}

class Cloud {
    sandboxes = new Map();
    snapshots = new Map(); // id of a snapshot => {layer, names}
    totals = { created: 0, killed: 0, expired: 0, paused: 0, resumed: 0 };
    listening = { names: ['*.e2b.test'] };
    #creates = [];

    constructor(options, folder, clock) {
        Object.assign(this, { options, folder, clock });
    }

    ready({ url, admin, ca }) {
        const apiKey = this.options['api-key'];
        return {
            api: url,
            sandbox: url,
            admin,
            apiKey,
            ...(ca ? { ca } : {}),
            environment: { E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_API_KEY: apiKey },
        };
    }

    state() {
        return {
            now: this.clock.now(),
            totals: this.totals,
            sandboxes: [...this.sandboxes.values()].map((one) => ({
                ...one.detail(),
                envVars: one.envVars,
                wanted: one.wanted,
                processes: [...one.processes.running.values()].map(({ pid, config }) => ({ pid, config })),
            })),
            snapshots: [...this.snapshots.keys()],
        };
    }

    async close() {
        await Promise.all([...this.sandboxes.values()].map((one) => one.close()));
    }

    async kill(sandbox, how) {
        this.sandboxes.delete(sandbox.sandboxID);
        this.totals[how]++;
        await sandbox.close();
    }

    async handle(request, reply) {
        const direct = /^(\d+)-([a-z0-9]+)\./.exec(request.host);
        const sandboxId = request.headers['e2b-sandbox-id'] ?? direct?.[2];
        if (sandboxId !== undefined)
            return this.#proxy(sandboxId, Number(request.headers['e2b-sandbox-port'] ?? direct?.[1]), request, reply);
        let status, value, headers;
        try {
            [status, value, headers] = await this.#control(request);
        } catch (error) {
            [status, value, headers] = [
                error.code ?? 500,
                { code: error.code ?? 500, message: error.code ? error.message : String(error.stack) },
                error.headers,
            ];
        }
        reply.head(status, { ...(value === undefined ? {} : { 'content-type': 'application/json; charset=utf-8' }), ...headers });
        reply.end(value === undefined ? '' : JSON.stringify(value));
    }

    #proxy(sandboxId, port, request, reply) {
        const sandbox = this.sandboxes.get(sandboxId);
        const running = sandbox?.state === 'running';
        if (running && port === ENVD_PORT) return sandbox.serve(request, reply);
        reply.head(502, { 'content-type': 'application/json; charset=utf-8' });
        reply.end(
            JSON.stringify(
                running
                    ? { sandboxId, message: 'The sandbox is running but port is not open', port, code: 502 }
                    : { sandboxId, message: 'The sandbox was not found', code: 502 },
            ),
        );
    }

    async #control(request) {
        const key = request.headers['x-api-key'];
        if (key === undefined)
            throw new ApiError(
                401,
                'Invalid API key, please visit https://e2b.dev/docs/api-key for more information. authorization header is missing',
            );
        if (key !== this.options['api-key']) throw new ApiError(401, 'Invalid API key format');
        const bytes = await request.body();
        let body = {};
        if (bytes.length) {
            if (!/^application\/json\b/.test(request.headers['content-type'] ?? ''))
                throw new ApiError(415, 'header Content-Type has unexpected value');
            try {
                body = JSON.parse(bytes);
            } catch (error) {
                throw new ApiError(400, `Error when parsing request: ${error.message}`);
            }
        }
        for (const [method, pattern, run] of this.#routes) {
            const match = request.method === method && pattern.exec(request.path);
            if (match) return run(body, match[1], request.query);
        }
        throw new ApiError(404, 'no matching operation was found');
    }

    #routes = [
        ['POST', /^\/v2\/sandboxes$/, (body) => this.#create(body, 300)],
        ['POST', /^\/sandboxes$/, (body) => this.#create(body, 15)],
        ['GET', /^\/v2\/sandboxes$/, (body, _, query) => this.#list(query)],
        ['GET', /^\/sandboxes\/([^/]+)$/, (body, name) => [200, this.#find(name).detail()]],
        [
            'DELETE',
            /^\/sandboxes\/([^/]+)$/,
            async (body, name) => {
                await this.kill(this.#find(name), 'killed');
                return [204];
            },
        ],
        ['POST', /^\/(?:v2\/)?sandboxes\/([^/]+)\/connect$/, (body, name) => this.#connect(body, name)],
        [
            'POST',
            /^\/sandboxes\/([^/]+)\/pause$/,
            async (body, name) => {
                const sandbox = this.#find(name);
                if (sandbox.state === 'paused')
                    throw new ApiError(409, `Error pausing sandbox - sandbox '${name}' is already paused`);
                await sandbox.pause(body.memory ?? true);
                this.totals.paused++;
                return [204];
            },
        ],
        [
            'POST',
            /^\/sandboxes\/([^/]+)\/timeout$/,
            (body, name) => {
                const seconds = this.#seconds(body.timeout, undefined);
                this.#findRunning(name).expireIn(seconds);
                return [204];
            },
        ],
        [
            'POST',
            /^\/sandboxes\/([^/]+)\/refreshes$/,
            (body, name) => {
                const sandbox = this.#findRunning(name);
                const seconds = this.#seconds(body.duration, 15);
                if (this.clock.now() + seconds * 1000 > sandbox.endAt) sandbox.expireIn(seconds);
                return [204];
            },
        ],
        [
            'PUT',
            /^\/sandboxes\/([^/]+)\/network$/,
            (body, name) => {
                this.#findRunning(name).wanted.network = body;
                return [204];
            },
        ],
        [
            'POST',
            /^\/sandboxes\/([^/]+)\/snapshots$/,
            async (body, name) => {
                const snapshotID = id('s');
                const names = body.name ? [body.name] : [];
                this.snapshots.set(snapshotID, { layer: await this.#findRunning(name).snapshot(), names });
                return [201, { snapshotID, names }];
            },
        ],
        [
            'DELETE',
            /^\/templates\/([^/]+)$/,
            (body, name) => {
                if (!this.snapshots.delete(name)) throw new ApiError(404, `template '${name}' not found`);
                return [204];
            },
        ],
    ];

    #find(name) {
        const sandbox = this.sandboxes.get(name);
        if (!sandbox) throw notFound(name);
        return sandbox;
    }

    #findRunning(name) {
        const sandbox = this.#find(name);
        if (sandbox.state !== 'running') throw notFound(name);
        return sandbox;
    }

    #seconds(given, otherwise) {
        const seconds = given ?? otherwise;
        if (!Number.isInteger(seconds) || seconds < 0)
            throw new ApiError(400, 'Error when parsing request: timeout: must be an integer that is not negative');
        if (seconds > MAX_SECONDS) throw new ApiError(400, `Timeout cannot be greater than ${MAX_SECONDS / 3600} hours`);
        return seconds;
    }

    #mayCreate() {
        const running = [...this.sandboxes.values()].filter(({ state }) => state === 'running').length;
        const most = Number(this.options['max-sandboxes']);
        if (running >= most)
            throw new ApiError(
                429,
                `you have reached the maximum number of concurrent E2B sandboxes (${most}). If you need more, please contact us at 'https://e2b.dev/docs/getting-help'`,
            );
        const rate = Number(this.options['create-rate']);
        if (!rate) return;
        const now = this.clock.now();
        this.#creates = this.#creates.filter((time) => time > now - 1000);
        if (this.#creates.length >= rate)
            throw new ApiError(
                429,
                'Rate limit exceeded, please try again later.',
                this.options['no-retry-after'] ? {} : { 'retry-after': '1' },
            );
        this.#creates.push(now);
    }

    #create(body, seconds) {
        if (typeof body.templateID !== 'string')
            throw new ApiError(400, 'Error when parsing request: property "templateID" is missing');
        checkStrings('metadata', body.metadata);
        checkStrings('envVars', body.envVars);
        if (body.autoPauseMemory === false && !body.autoPause)
            throw new ApiError(400, 'autoPauseMemory=false only applies when autoPause is true.');
        const lifetime = this.#seconds(body.timeout, seconds);
        const snapshot = this.snapshots.get(body.templateID);
        if (!snapshot && !['base', ...this.options.template].includes(body.templateID))
            throw new ApiError(404, `template '${body.templateID}' not found`);
        this.#mayCreate();
        const sandbox = new Sandbox(this, body, snapshot?.layer);
        sandbox.expireIn(lifetime);
        this.sandboxes.set(sandbox.sandboxID, sandbox);
        this.totals.created++;
        return [201, sandbox.brief()];
    }

    async #connect(body, name) {
        const sandbox = this.#find(name);
        const seconds = this.#seconds(body.timeout, 300);
        if (sandbox.state === 'running') {
            if (this.clock.now() + seconds * 1000 > sandbox.endAt) sandbox.expireIn(seconds);
            return [200, sandbox.brief()];
        }
        this.#mayCreate();
        await sandbox.resume(body.memory ?? true);
        sandbox.expireIn(seconds);
        this.totals.resumed++;
        return [201, sandbox.brief()];
    }

    #list(query) {
        const limit = Number(query.get('limit') ?? PAGE);
        if (!Number.isInteger(limit) || limit < 1 || limit > PAGE)
            throw new ApiError(400, 'parameter "limit" in query has an error: number must be at most 100');
        const states = query.get('state')?.split(',') ?? ['running', 'paused'];
        const filter = metadataFilter(query.get('metadata') ?? '');
        const found = [...this.sandboxes.values()].filter(
            (one) =>
                states.includes(one.state) &&
                filter.every(([key, value]) => one.metadata[key] === value) &&
                (!query.get('template') || one.wanted.templateID === query.get('template')) &&
                one.startedAt > Date.parse(query.get('startedAfter') ?? '1970-01-01T00:00:00Z'),
        );
        found.sort(
            (a, b) =>
                (b.startedAt - a.startedAt || (a.sandboxID < b.sandboxID ? -1 : 1)) * (query.get('order') === 'asc' ? -1 : 1),
        );
        const from = query.get('nextToken') ? Number(Buffer.from(query.get('nextToken'), 'base64url')) : 0;
        if (!Number.isInteger(from)) throw new ApiError(400, 'Invalid next token');
        const more = from + limit < found.length;
        return [
            200,
            found.slice(from, from + limit).map((one) => one.item()),
            {
                'x-total-running': String(found.filter(({ state }) => state === 'running').length),
                ...(more ? { 'x-next-token': Buffer.from(String(from + limit)).toString('base64url') } : {}),
            },
        ];
    }
}

await runFake(
    'e2b',
    {
        'api-key': { type: 'string', default: `e2b_${'0'.repeat(40)}` },
        'max-sandboxes': { type: 'string', default: '100000' },
        'create-rate': { type: 'string', default: '0' }, // a second; 0: as many as come
        'no-retry-after': { type: 'boolean', default: false }, // who comes too early isn't told when to come again
        template: { type: 'string', multiple: true, default: [] },
    },
    async (options, folder, clock) => new Cloud(options, folder, clock),
);
