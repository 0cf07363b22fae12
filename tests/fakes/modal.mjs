// Modal as a client sees it: the control plane (both generations of sandboxes) and the command router, in gRPC on one port.
//
//   node tests/fakes/modal.mjs [--port N] [--tls] [--token-id ID] [--token-secret SECRET] [--latency MS] [--clock-scale N]
//                              [--max-sandboxes N] [--create-rate N] [--no-retry-after] [--page N] [--skip STEPS]
//
// prints {"api", "router", "admin", "environment", "ca"?} when ready. Without --tls it is HTTP/2 in the clear, which Modal's client
// speaks to a server on loopback; the router's address reads https:// all the same, as the client demands.
//
// Where its facts are from: what npm modal@0.11.1 sends and accepts (tests/clouds/modal-sdk.test.mjs drives the fake with it), what
// modal 1.6.4 of Python does (the bench's peer), and the names and numbers of the public interface of August 2026
// (modal-labs/modal-client). Not known, and chosen strictly: what the router
// answers after a sandbox's end (NOT_FOUND), that an idempotency key is honoured (for good), how long output is kept (to the
// end of the sandbox), that an image can't be deleted while a sandbox runs that was made of it. Image steps other than RUN and COPY of a context file are not carried out, every FROM gives the machine's own files. Not here: volumes,
// tunnels, probes, memory snapshots, functions, and the input and output of a first generation's entrypoint.
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { GrpcError, serveGrpc } from './modal/grpc.mjs';
import { messages } from './modal/messages.mjs';
import { id, Sandbox, STATUS } from './modal/sandbox.mjs';
import { PATH, Room } from './support/room.mjs';
import { runFake } from './support/serve.mjs';

const CREATE_IF_MISSING = 1;
const CLIENT_PYTHON = '1';
const MAX_SECONDS = 86400;
const JWT_SECONDS = 1200;

// Tags that contain those wanted.
function tagged(tags, wanted) {
    return wanted.every((one) => tags.some((tag) => tag.tag_name === one.tag_name && tag.tag_value === one.tag_value));
}

// Modal's clients in JavaScript and Go (and ours) have the token with each call, the one in Python with those of the second generation alone.
function needsToken(method, { headers }) {
    return headers['x-modal-client-type'] === CLIENT_PYTHON ? method.endsWith('V2') : method !== 'AuthTokenGet';
}

class Cloud {
    apps = new Map();
    secrets = new Map();
    images = new Map();
    sandboxes = new Map();
    totals = {
        created: 0,
        terminated: 0,
        timeout: 0,
        idle_timeout: 0,
        success: 0,
        failure: 0,
        init_failure: 0,
        internal_failure: 0,
    };
    listening = { http2Only: true };
    #secret = randomBytes(16);
    #answers = new Map(); // what idempotent calls were answered, by their keys
    #creates = [];

    constructor(options, folder, clock) {
        Object.assign(this, { options, folder, clock });
        this.methods = { ...this.#controlPlane(), ...this.#router() };
    }

    ready({ url, admin, ca }) {
        this.router = url.replace('http:', 'https:');
        return {
            api: url,
            router: this.router,
            admin,
            ...(ca ? { ca } : {}),
            environment: {
                MODAL_SERVER_URL: url,
                MODAL_TOKEN_ID: this.options['token-id'],
                MODAL_TOKEN_SECRET: this.options['token-secret'],
            },
        };
    }

    state() {
        return {
            now: this.clock.now(),
            totals: this.totals,
            images: [...this.images.keys()],
            apps: [...this.apps.values()].map(({ name, id: app }) => ({ name, id: app })),
            sandboxes: [...this.sandboxes.values()].map((one) => ({
                ...one.info(),
                v2: one.v2,
                result: one.result,
                env: one.env,
                definition: one.definition,
                execs: [...one.execs.keys()].length,
            })),
        };
    }

    async close() {
        await Promise.all([...this.sandboxes.values()].map((one) => one.finish({ status: STATUS.TERMINATED })));
    }

    handle(request, reply) {
        return serveGrpc(this.methods, messages, request, reply);
    }

    #jwt(claims) {
        const part = (value) => Buffer.from(value).toString('base64url');
        const signed = `${part('{"alg":"HS256","typ":"JWT"}')}.${part(JSON.stringify({ exp: Math.floor(Date.now() / 1000) + JWT_SECONDS, ...claims }))}`;
        return `${signed}.${createHash('sha256').update(this.#secret).update(signed).digest('base64url')}`;
    }

    #claims(jwt) {
        const [head, body, signature] = (jwt ?? '').split('.');
        const right = createHash('sha256').update(this.#secret).update(`${head}.${body}`).digest('base64url');
        if (signature !== right) throw new GrpcError('UNAUTHENTICATED', 'invalid token');
        const claims = JSON.parse(Buffer.from(body, 'base64url'));
        if (claims.exp < Date.now() / 1000) throw new GrpcError('UNAUTHENTICATED', 'token has expired');
        return claims;
    }

    #mayUse({ headers }, needsToken) {
        if (!headers['x-modal-client-type'] || !headers['x-modal-client-version'])
            throw new GrpcError('INVALID_ARGUMENT', 'missing client type or version');
        if (
            headers['x-modal-token-id'] !== this.options['token-id'] ||
            headers['x-modal-token-secret'] !== this.options['token-secret']
        ) {
            throw new GrpcError(
                'UNAUTHENTICATED',
                'Token missing. Could not authenticate client. If you have token credentials, see modal.com/docs/reference/modal.config for setup help.',
            );
        }
        if (needsToken && this.#claims(headers['x-modal-auth-token']).kind !== 'input')
            throw new GrpcError('UNAUTHENTICATED', 'invalid auth token');
    }

    // A call's answer is given again to the same call sent once more.
    #control(methods) {
        const table = {};
        for (const [name, [input, output, run]] of Object.entries(methods)) {
            const stream = name === 'ImageJoinStreaming';
            table[`/modal.client.ModalClient/${name}`] = {
                in: input,
                out: output,
                [stream ? 'stream' : 'unary']: (message, call) => {
                    this.#mayUse(call, needsToken(name, call));
                    const key = name.startsWith('SandboxCreate') && call.headers['x-idempotency-key'];
                    if (!key) return Promise.resolve().then(() => run(message, call));
                    if (!this.#answers.has(key)) {
                        const answer = Promise.resolve().then(() => run(message, call));
                        answer.catch(() => this.#answers.delete(key)); // what failed is tried again
                        this.#answers.set(key, answer);
                    }
                    return this.#answers.get(key);
                },
            };
        }
        return table;
    }

    #controlPlane() {
        const twins = (name, input, output, run) => ({
            [name]: [input, output, (message) => run(message, false)],
            [`${name}V2`]: [input, output, (message) => run(message, true)],
        });
        return this.#control({
            AuthTokenGet: ['AuthTokenGetRequest', 'AuthTokenGetResponse', () => ({ token: this.#jwt({ kind: 'input' }) })],
            TokenInfoGet: [
                'Empty',
                'TokenInfoGetResponse',
                () => ({ token_id: this.options['token-id'], workspace_id: 'ac-1', workspace_name: 'workspace' }),
            ],
            AppGetOrCreate: [
                'AppGetOrCreateRequest',
                'AppGetOrCreateResponse',
                (message) => {
                    const known = this.apps.get(message.app_name);
                    if (!known && message.object_creation_type !== CREATE_IF_MISSING)
                        throw new GrpcError('NOT_FOUND', `App '${message.app_name}' not found`);
                    const app = known ?? { id: id('ap'), name: message.app_name };
                    this.apps.set(app.name, app);
                    return { app_id: app.id };
                },
            ],
            EnvironmentGetOrCreate: [
                'EnvironmentGetOrCreateRequest',
                'EnvironmentGetOrCreateResponse',
                () => ({
                    environment_id: 'en-1',
                    metadata: { name: 'main', settings: { image_builder_version: '2025.06', webhook_suffix: '' } },
                }),
            ],
            SecretGetOrCreate: [
                'SecretGetOrCreateRequest',
                'SecretGetOrCreateResponse',
                (message) => {
                    const secret = id('st');
                    this.secrets.set(secret, message.env_dict);
                    return { secret_id: secret };
                },
            ],
            ImageGetOrCreate: ['ImageGetOrCreateRequest', 'ImageGetOrCreateResponse', (message) => this.#image(message)],
            ImageJoinStreaming: [
                'ImageJoinStreamingRequest',
                'ImageJoinStreamingResponse',
                (message, call) => this.#joinImage(message, call),
            ],
            ImageFromId: [
                'ImageFromIdRequest',
                'ImageFromIdResponse',
                ({ image_id: image }) => {
                    if (!this.images.has(image)) throw new GrpcError('NOT_FOUND', `Image '${image}' not found`);
                    return { image_id: image };
                },
            ],
            ImageDelete: [
                'ImageDeleteRequest',
                'Empty',
                ({ image_id: image }) => this.#deleteImage(image),
            ],
            SandboxCreate: [
                'SandboxCreateRequest',
                'SandboxCreateResponse',
                (message) => ({ sandbox_id: this.#create(message, false).id }),
            ],
            SandboxCreateV2: [
                'SandboxCreateV2Request',
                'SandboxCreateV2Response',
                (message) => {
                    const sandbox = this.#create(message, true);
                    return {
                        sandbox_id: sandbox.id,
                        task_id: sandbox.task,
                        metadata: { app_id: sandbox.app.id },
                        command_router_access: this.#access(sandbox),
                        sandbox_token: randomUUID(),
                    };
                },
            ],
            ...twins('SandboxGetTaskId', 'SandboxGetTaskIdRequest', 'SandboxGetTaskIdResponse', (message, v2) => {
                const sandbox = this.#find(message.sandbox_id, v2);
                return sandbox.result ? { task_id: sandbox.task, task_result: sandbox.result } : { task_id: sandbox.task };
            }),
            TaskGetCommandRouterAccess: [
                'TaskGetCommandRouterAccessRequest',
                'RouterAccess',
                ({ task_id: task }) => this.#access(this.#byTask(task)),
            ],
            SandboxGetCommandRouterAccess: [
                'SandboxGetCommandRouterAccessRequest',
                'RouterAccess',
                (message) =>
                    this.#access(message.sandbox_id ? this.#find(message.sandbox_id, true) : this.#byTask(message.task_id)),
            ],
            ...twins('SandboxWait', 'SandboxWaitRequest', 'SandboxWaitResponse', async (message, v2) => {
                const sandbox = this.#find(message.sandbox_id, v2);
                let timer;
                await Promise.race([
                    sandbox.ended,
                    new Promise((done) => {
                        timer = setTimeout(done, message.timeout * 1000);
                    }),
                ]);
                clearTimeout(timer);
                return {
                    result: sandbox.result ?? undefined,
                    metadata: { app_id: sandbox.app.id, result: sandbox.result ?? undefined },
                };
            }),
            ...twins('SandboxTerminate', 'SandboxTerminateRequest', 'SandboxTerminateResponse', async (message, v2) => {
                const sandbox = this.#find(message.sandbox_id, v2);
                const existing = sandbox.result;
                await sandbox.finish({ status: STATUS.TERMINATED });
                return { existing_result: existing ?? undefined };
            }),
            ...twins('SandboxList', 'SandboxListRequest', 'SandboxListResponse', (message, v2) => ({
                sandboxes: this.#list(message, v2),
            })),
            ...twins('SandboxTagsSet', 'SandboxTagsSetRequest', 'Empty', (message, v2) => {
                this.#find(message.sandbox_id, v2).tags = message.tags;
            }),
            ...twins('SandboxTagsGet', 'SandboxTagsGetRequest', 'SandboxTagsGetResponse', (message, v2) => ({
                tags: this.#find(message.sandbox_id, v2).tags,
            })),
            ...twins('SandboxGetFromName', 'SandboxGetFromNameRequest', 'SandboxGetFromNameResponse', (message, v2) => {
                const found = [...this.sandboxes.values()].find(
                    (one) =>
                        one.v2 === v2 &&
                        one.name === message.sandbox_name &&
                        one.app.name === message.app_name &&
                        (!one.result || message.include_terminated),
                );
                if (!found)
                    throw new GrpcError(
                        'NOT_FOUND',
                        `Sandbox with name '${message.sandbox_name}' not found in App '${message.app_name}'`,
                    );
                return { sandbox_id: found.id, metadata: { app_id: found.app.id } };
            }),
            SandboxSetName: [
                'SandboxSetNameRequest',
                'Empty',
                ({ sandbox_id: sandbox, name }) => {
                    this.#find(sandbox, true).name = name;
                },
            ],
            SandboxSnapshotFs: [
                'SandboxSnapshotFsRequest',
                'SandboxSnapshotFsResponse',
                async (message) => ({
                    image_id: await this.#running(this.#find(message.sandbox_id, false)).snapshot(),
                    result: { status: STATUS.SUCCESS },
                }),
            ],
        });
    }

    #router() {
        const table = {};
        const add = (name, input, output, kind, run) => {
            table[`/modal.task_command_router.TaskCommandRouter/${name}`] = {
                in: input,
                out: output,
                [kind]: async (message, call) => {
                    const claims = this.#claims(/^Bearer (.*)$/.exec(call.headers.authorization ?? '')?.[1]);
                    const task = Array.isArray(message) ? message[0]?.start?.task_id : message.task_id;
                    if (claims.task !== task) throw new GrpcError('PERMISSION_DENIED', `the token is not for task ${task}`);
                    return run(this.#running(this.#byTask(task)), message, call);
                },
            };
        };
        add('TaskExecStart', 'TaskExecStartRequest', 'Empty', 'unary', (sandbox, message) => sandbox.start(message));
        add(
            'TaskExecStdioRead',
            'TaskExecStdioReadRequest',
            'TaskExecStdioReadResponse',
            'stream',
            async (sandbox, message, call) => {
                for await (const data of (await sandbox.exec(message)).read(message, call)) await call.send({ data });
            },
        );
        add('TaskExecStdinWrite', 'TaskExecStdinWriteRequest', 'Empty', 'unary', async (sandbox, message) =>
            (await sandbox.exec(message)).write(message.offset, message.data, message.eof),
        );
        add(
            'TaskExecStdinWriteStream',
            'TaskExecStdinWriteStreamRequest',
            'Empty',
            'collect',
            async (sandbox, [first, ...rest]) => {
                const exec = await sandbox.exec(first.start);
                let { offset } = first.start;
                for (const { data, end } of rest) {
                    await exec.write(offset, data, end !== undefined);
                    offset += data.length;
                }
            },
        );
        add('TaskExecStdinStatus', 'TaskExecRequest', 'TaskExecStdinStatusResponse', 'unary', async (sandbox, message) => {
            const exec = await sandbox.exec(message);
            return { num_bytes_written: exec.written, closed: exec.stdinClosed };
        });
        add(
            'TaskExecPoll',
            'TaskExecRequest',
            'TaskExecExit',
            'unary',
            async (sandbox, message) => (await sandbox.exec(message)).exit,
        );
        add('TaskExecWait', 'TaskExecRequest', 'TaskExecExit', 'unary', async (sandbox, message) => {
            const exec = await sandbox.exec(message);
            await Promise.race([exec.ended, sandbox.ended]);
            if (!exec.exit) this.#running(sandbox);
            return exec.exit;
        });
        const entrypointOf = (sandbox) =>
            sandbox.entrypoint ?? Promise.reject(new GrpcError('FAILED_PRECONDITION', 'the sandbox has no entrypoint'));
        add(
            'SandboxStdioReadV2',
            'SandboxStdioReadV2Request',
            'SandboxStdioReadV2Response',
            'stream',
            async (sandbox, message, call) => {
                let { offset } = message;
                for await (const data of (await entrypointOf(sandbox)).read(message, call)) {
                    await call.send({ data, starting_offset: offset });
                    offset += data.length;
                }
            },
        );
        add('SandboxStdinWriteV2', 'SandboxStdinWriteV2Request', 'Empty', 'unary', async (sandbox, message) =>
            (await entrypointOf(sandbox)).write(message.offset, message.data, message.eof),
        );
        add(
            'TaskSnapshotFilesystem',
            'TaskSnapshotFilesystemRequest',
            'TaskSnapshotFilesystemResponse',
            'unary',
            async (sandbox, message) => {
                if (message.has.has('ttl_seconds') && message.ttl_seconds !== -1 && message.ttl_seconds <= 0)
                    throw new GrpcError('INVALID_ARGUMENT', 'ttl_seconds must be positive or -1');
                sandbox.snapshots ??= new Map();
                if (!sandbox.snapshots.has(message.snapshot_id)) sandbox.snapshots.set(message.snapshot_id, sandbox.snapshot());
                return { image_id: await sandbox.snapshots.get(message.snapshot_id) };
            },
        );
        return table;
    }

    #access(sandbox) {
        return { jwt: this.#jwt({ task: this.#running(sandbox).task }), url: this.router };
    }

    #find(name, v2) {
        const sandbox = this.sandboxes.get(name);
        if (!sandbox || sandbox.v2 !== v2) throw new GrpcError('NOT_FOUND', `Sandbox '${name}' not found`);
        return sandbox;
    }

    #byTask(task) {
        const sandbox = [...this.sandboxes.values()].find((one) => one.task === task);
        if (!sandbox) throw new GrpcError('NOT_FOUND', `task ${task} not found`);
        return sandbox;
    }

    #running(sandbox) {
        if (sandbox.result) throw new GrpcError('NOT_FOUND', `task ${sandbox.task} has finished`);
        return sandbox;
    }

    envOf(ids, sources) {
        const env = {};
        for (const secret of [...ids, ...sources.map((one) => one.secret_id).filter(Boolean)]) {
            if (!this.secrets.has(secret)) throw new GrpcError('NOT_FOUND', `Secret '${secret}' not found`);
            Object.assign(env, this.secrets.get(secret));
        }
        return Object.assign(env, ...sources.map((one) => one.env?.contents ?? {}));
    }

    #throttle(message, seconds) {
        if (this.options['no-retry-after']) throw new GrpcError('RESOURCE_EXHAUSTED', message);
        const value = messages.encode('RPCRetryPolicy', { retry_after_secs: seconds });
        const details = messages.encode('RPCStatus', {
            code: 8,
            message,
            details: [{ type_url: 'type.googleapis.com/modal.client.RPCRetryPolicy', value }],
        });
        throw new GrpcError('RESOURCE_EXHAUSTED', message, details);
    }

    #mayCreate() {
        const now = this.clock.now();
        const [most, rate] = [Number(this.options['max-sandboxes']), Number(this.options['create-rate'])];
        if ([...this.sandboxes.values()].filter((one) => !one.result).length >= most)
            throw new GrpcError('RESOURCE_EXHAUSTED', `Sandbox limit of ${most} reached`);
        if (!rate) return;
        this.#creates = this.#creates.filter((time) => time > now - 1000);
        if (this.#creates.length >= rate) this.#throttle('Sandbox creation is rate limited', 0.2);
        this.#creates.push(now);
    }

    #create(message, v2) {
        const { definition } = message;
        const app = [...this.apps.values()].find((one) => one.id === message.app_id);
        if (!app) throw new GrpcError('NOT_FOUND', `App '${message.app_id}' not found`);
        const image = this.images.get(definition?.image_id);
        if (!image) throw new GrpcError('NOT_FOUND', `Image '${definition?.image_id}' not found`);
        if (image.result?.status !== STATUS.SUCCESS)
            throw new GrpcError('FAILED_PRECONDITION', `Image '${definition.image_id}' is not built`);
        if (definition.timeout_secs > MAX_SECONDS)
            throw new GrpcError('INVALID_ARGUMENT', `timeout must be at most ${MAX_SECONDS} seconds`);
        if (definition.workdir && !definition.workdir.startsWith('/'))
            throw new GrpcError('INVALID_ARGUMENT', 'workdir must be absolute');
        if (v2 && definition.resources?.gpu_config?.gpu_type)
            throw new GrpcError('INVALID_ARGUMENT', 'GPUs are not available to these sandboxes');
        const same =
            definition.name &&
            [...this.sandboxes.values()].some((one) => one.name === definition.name && one.app === app && !one.result);
        if (same)
            throw new GrpcError('ALREADY_EXISTS', `Sandbox with name '${definition.name}' already exists in App '${app.name}'`);
        this.#mayCreate();
        const env = {
            ...definition.environment_variables?.contents,
            ...this.envOf(definition.secret_ids, message.secret_sources ?? []),
        };
        const sandbox = new Sandbox(this, app, definition, {
            v2,
            environment: message.environment_name ?? '',
            tags: message.tags,
            layer: image.layer,
            env,
        });
        this.sandboxes.set(sandbox.id, sandbox);
        this.totals.created++;
        return sandbox;
    }

    #list(message, v2) {
        const before = message.before_timestamp || Infinity;
        return [...this.sandboxes.values()]
            .filter(
                (one) =>
                    one.v2 === v2 &&
                    (!message.app_id || one.app.id === message.app_id) &&
                    (!one.result || message.include_finished) &&
                    one.created / 1000 < before &&
                    tagged(one.tags, message.tags),
            )
            .sort((a, b) => b.created - a.created)
            .slice(0, Number(this.options.page))
            .map((one) => one.info());
    }

    // An image is what its steps and those below it are; the first to ask has to wait for it.
    #image({ image }) {
        if (!image || image.dockerfile_commands.length === 0)
            throw new GrpcError('INVALID_ARGUMENT', 'the image has no commands');
        const base = image.base_images[0]?.image_id;
        if (base && !this.images.has(base)) throw new GrpcError('NOT_FOUND', `Image '${base}' not found`);
        const digest = createHash('sha256')
            .update(JSON.stringify([base ?? '', image.dockerfile_commands]))
            .update(Buffer.concat(image.context_files.flatMap(({ filename, data }) => [Buffer.from(`\0${filename}\0`), data])))
            .digest('hex');
        const name = `im-${digest.slice(0, 22)}`;
        const known = this.images.get(name);
        if (known) return { image_id: name, ...(known.result ? { result: known.result } : {}) };
        const made = { logs: [], result: null };
        this.images.set(name, made);
        made.built = this.#build(name, made, this.images.get(base)?.layer, image).catch((error) => {
            made.result = { status: STATUS.INTERNAL_FAILURE, exception: error.message };
        });
        return { image_id: name };
    }

    async #build(name, made, layer, { dockerfile_commands: commands, context_files: files }) {
        made.layer = layer;
        const fail = (why) => {
            made.result = { status: STATUS.FAILURE, exception: why };
        };
        for (const command of commands) made.logs.push(`Step: ${command}\n`);
        if (commands.some((one) => /^FROM .*no-such-image/.test(one))) return fail('Image build failed: manifest unknown');
        const { skip } = this.options;
        const steps = commands.filter((one) => /^(RUN|COPY) /.test(one) && !(skip && new RegExp(skip).test(one)));
        if (steps.length) {
            const room = await Room.open(path.join(this.folder, `build-${name}`), layer);
            try {
                for (const step of steps) {
                    const [, source, target] = /^COPY (\S+) (\S+)$/.exec(step) ?? [];
                    if (source) {
                        const file = files.find((one) => one.filename === source);
                        if (!file) return fail(`Image build failed: ${step}: no such context file`);
                        fs.mkdirSync(room.host(path.posix.dirname(target), true), { recursive: true });
                        fs.writeFileSync(room.host(target, true), file.data);
                        continue;
                    }
                    const process = await room.spawn(['/bin/sh', '-c', step.slice(4)], {
                        env: { PATH, HOME: '/root' },
                        user: 'root',
                        stdin: false,
                    });
                    for (const stream of [process.stdout, process.stderr])
                        stream.on('data', (bytes) => made.logs.push(bytes.toString()));
                    const code = await new Promise((done) => process.once('close', done));
                    if (code !== 0) return fail(`Image build failed: ${step} exited with ${code}`);
                }
                made.layer = path.join(this.folder, name);
                room.save(made.layer);
            } finally {
                await room.close();
            }
        }
        made.result = { status: STATUS.SUCCESS };
    }

    // Its files are gone with it, unless another image has the same.
    #deleteImage(name) {
        const image = this.images.get(name);
        if (!image) throw new GrpcError('NOT_FOUND', `Image '${name}' not found`);
        if ([...this.sandboxes.values()].some((one) => !one.result && one.definition.image_id === name))
            throw new GrpcError('FAILED_PRECONDITION', `Image '${name}' is in use`);
        this.images.delete(name);
        if (image.layer && [...this.images.values()].every(({ layer }) => layer !== image.layer))
            fs.rmSync(image.layer, { recursive: true, force: true });
    }

    async #joinImage({ image_id: name, timeout }, call) {
        const image = this.images.get(name);
        if (!image) throw new GrpcError('NOT_FOUND', `Image '${name}' not found`);
        let timer;
        await Promise.race([
            image.built,
            call.closed,
            new Promise((done) => {
                timer = setTimeout(done, timeout * 1000);
            }),
        ]);
        clearTimeout(timer);
        await call.send({ task_logs: image.logs.map((data) => ({ data })), entry_id: '1' });
        if (image.result) await call.send({ result: image.result, entry_id: '2', eof: true });
    }
}

await runFake(
    'modal',
    {
        'token-id': { type: 'string', default: 'ak-fake' },
        'token-secret': { type: 'string', default: 'as-fake' },
        'max-sandboxes': { type: 'string', default: '100000' },
        'create-rate': { type: 'string', default: '0' }, // a second; 0: as many as come
        skip: { type: 'string', default: '' }, // steps of images that are taken for done, as a regular expression
        'no-retry-after': { type: 'boolean', default: false }, // past that rate it doesn't say when to come again
        page: { type: 'string', default: '100' }, // sandboxes in one answer to a list
    },
    async (options, folder, clock) => new Cloud(options, folder, clock),
);
