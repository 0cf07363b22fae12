// One Fly Machine: its states, its main process, its versions, its lease.
//
// created -> starting -> started -> stopping -> stopped, suspended in between, destroyed at the end. What a machine does by itself
// comes from its main process: when that exits, the restart policy says whether it starts again; if not, auto_destroy says whether
// the machine is destroyed or stopped. Its files are gone with each stop unless rootfs.persist is "always".
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { PATH, Room } from '../support/room.mjs';

const STOP_SECONDS = 5;
const EVENTS_MAX = 20;

export class FlyError extends Error {
    constructor(status, message, more = {}) {
        super(message);
        Object.assign(this, { status, body: { error: message, ...more } });
    }
}

function ulid() {
    return `01${[...randomBytes(24)].map((byte) => '0123456789ABCDEFGHJKMNPQRSTVWXYZ'[byte % 32]).join('')}`;
}

// "10s", "1m30s". fly-go sends "0s" where nothing was chosen.
function seconds(text, otherwise) {
    if (!text) return otherwise;
    const parts = [...String(text).matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
    if (parts.length === 0) throw new FlyError(400, `invalid_argument: invalid duration "${text}"`);
    return parts.reduce((sum, [, number, unit]) => sum + number * { ms: 0.001, s: 1, m: 60, h: 3600 }[unit], 0) || otherwise;
}

export class Machine {
    id = randomBytes(7).toString('hex');
    state = 'created';
    events = [];
    lease = null;
    cordoned = false;
    #waiting = new Set();
    #starts = 0;

    constructor(app, wanted) {
        Object.assign(this, {
            app,
            cloud: app.cloud,
            name: wanted.name || `quiet-${this.id.slice(0, 4)}-${this.id.slice(4, 8)}`,
            region: wanted.region || 'ord',
        });
        this.created = this.cloud.clock.now();
        this.#configure(wanted.config);
        this.#event('launch', 'created', 'user');
    }

    #configure(config) {
        this.config = config;
        this.instance = ulid();
        this.updated = this.cloud.clock.now();
    }

    #event(type, status, source, request) {
        this.events.unshift({
            type,
            status,
            source,
            timestamp: Math.round(this.cloud.clock.now()),
            ...(request ? { request } : {}),
        });
        this.events.length = Math.min(this.events.length, EVENTS_MAX);
    }

    #become(state) {
        this.state = state;
        for (const told of this.#waiting) told();
    }

    // Resolves as true once one of the states is there, as false after so many seconds.
    wait(states, limit, instance) {
        return new Promise((done) => {
            let cancel = () => {};
            const look = () => {
                if (!states.includes(this.state) || (instance && instance !== this.instance)) return;
                this.#waiting.delete(look);
                cancel();
                done(true);
            };
            this.#waiting.add(look);
            cancel = this.cloud.clock.at(this.cloud.clock.now() + limit * 1000, () => {
                this.#waiting.delete(look);
                done(false);
            });
            look();
        });
    }

    // Needs the lease's nonce, if there is a lease.
    checkLease(nonce) {
        if (this.lease && this.lease.expires > this.cloud.clock.now() && nonce !== this.lease.nonce) {
            throw new FlyError(
                409,
                `machine ID ${this.id} lease currently held by ${this.lease.owner}, expires at ${new Date(this.lease.expires).toISOString()}`,
                {
                    status: 'error',
                    message: `machine ID ${this.id} lease currently held by ${this.lease.owner}, expires at ${new Date(this.lease.expires).toISOString()}`,
                    code: 'invalid',
                },
            );
        }
    }

    takeLease(ttl, nonce, description) {
        this.checkLease(nonce);
        const held = this.lease && this.lease.expires > this.cloud.clock.now();
        this.lease = {
            nonce: held ? this.lease.nonce : randomBytes(6).toString('hex'),
            owner: 'hello@fly.io',
            description,
            version: ulid(),
            expires: this.cloud.clock.now() + ttl * 1000,
        };
        return this.leaseTold();
    }

    leaseTold() {
        if (!this.lease || this.lease.expires <= this.cloud.clock.now())
            throw new FlyError(404, `lease not found for machine ${this.id}`);
        const { nonce, owner, description, version, expires } = this.lease;
        return { status: 'success', data: { nonce, expires_at: Math.floor(expires / 1000), owner, description, version } };
    }

    #persists() {
        return (this.config.rootfs?.persist ?? this.config.guest?.persist_rootfs) === 'always';
    }

    #booted() {
        return new Promise((done) => setTimeout(done, Number(this.cloud.options.boot)));
    }

    async start(source = 'user') {
        const previous = this.state;
        if (!['created', 'stopped', 'suspended'].includes(previous))
            throw new FlyError(412, `failed_precondition: unable to start machine from current state: '${previous}'`);
        this.#become('starting');
        this.#event('start', 'starting', source);
        this.#run(previous).catch((error) => {
            process.stderr.write(`${error.stack}\n`);
            this.#become('failed');
        });
        return { previous_state: previous, migrated: false, new_host: '' };
    }

    async #run(previous) {
        await this.#booted();
        if (this.state !== 'starting') return;
        if (previous === 'suspended') {
            await (await this.room).thaw();
        } else {
            this.room ??= Room.open(path.join(this.cloud.folder, `${this.id}-${++this.#starts}`), undefined, this.cloud.options.disk);
            const room = await this.room;
            for (const file of this.config.files ?? []) this.#putFile(room, file);
            const { exec, entrypoint = [], cmd = [] } = this.config.init ?? {};
            const argv = exec?.length
                ? exec
                : [...(entrypoint ?? []), ...(cmd?.length ? cmd : entrypoint?.length ? [] : ['/bin/bash'])]; // an image's own is a shell
            this.main = await room.spawn(argv, { env: this.#environment(), user: 'root', stdin: false });
            this.main.stdout.resume();
            this.main.stderr.resume();
            this.main.once('exit', (code, signal) => this.#mainExited(code, signal));
        }
        if (this.state !== 'starting') return;
        this.#event('start', 'started', 'flyd');
        this.#become('started');
    }

    #putFile(room, { guest_path: guestPath, raw_value: raw, mode }) {
        if (!guestPath?.startsWith('/')) throw new FlyError(400, 'invalid_argument: file guest_path must be absolute');
        fs.mkdirSync(path.dirname(room.host(guestPath)), { recursive: true });
        fs.writeFileSync(room.host(guestPath, true), Buffer.from(raw ?? '', 'base64'));
        if (mode) fs.chmodSync(room.host(guestPath, true), mode);
    }

    #environment() {
        return {
            PATH,
            HOME: '/root',
            FLY_APP_NAME: this.app.name,
            FLY_MACHINE_ID: this.id,
            FLY_REGION: this.region,
            FLY_IMAGE_REF: this.config.image,
            ...this.config.env,
        };
    }

    async #mainExited(code, signal) {
        if (['destroying', 'destroyed'].includes(this.state)) return;
        const number = signal ? ({ SIGINT: 2, SIGKILL: 9, SIGTERM: 15 }[signal] ?? -1) : 0;
        const requested = this.state === 'stopping';
        this.#event('exit', 'stopped', 'flyd', {
            exit_event: {
                exit_code: signal ? 128 + number : code,
                guest_exit_code: signal ? 0 : code,
                guest_signal: number,
                oom_killed: false,
                requested_stop: requested,
                restarting: false,
                signal: number,
                exited_at: new Date(this.cloud.clock.now()).toISOString(),
            },
        });
        await this.#closeRoom(this.#persists());
        if (['destroying', 'destroyed'].includes(this.state)) return;
        const policy = this.config.restart?.policy || 'on-failure';
        const again = !requested && (policy === 'always' || (policy === 'on-failure' && (signal || code !== 0)));
        if (again) {
            this.#become('stopped');
            await this.start('flyd');
        } else if (this.config.auto_destroy) {
            this.#end();
        } else {
            this.#become('stopped');
        }
    }

    // Ends all processes; the files stay only if they persist.
    async #closeRoom(keep) {
        const room = await this.room;
        if (!room) return;
        if (keep) {
            await room.endAll();
        } else {
            this.room = undefined;
            await room.close();
        }
    }

    async stop({ signal, timeout } = {}) {
        if (['stopped', 'stopping'].includes(this.state)) return;
        if (!['started', 'starting'].includes(this.state))
            throw new FlyError(412, `failed_precondition: unable to stop machine from current state: '${this.state}'`);
        const limit = seconds(timeout ?? this.config.stop_config?.timeout, STOP_SECONDS);
        const chosen = signal || this.config.stop_config?.signal || 'SIGINT';
        await this.room;
        this.#event('stop', 'stopping', 'user');
        this.#become('stopping');
        const { main } = this;
        main?.kill(chosen);
        setTimeout(() => main?.kill('SIGKILL'), limit * 1000).unref();
    }

    async suspend() {
        if (this.state !== 'started')
            throw new FlyError(412, `failed_precondition: unable to suspend machine from current state: '${this.state}'`);
        this.#become('suspending');
        await (await this.room).freeze();
        this.#event('suspend', 'suspended', 'user');
        this.#become('suspended');
    }

    // A new version; a machine that ran runs again.
    async update(wanted) {
        const ran = ['started', 'starting'].includes(this.state);
        if (ran) {
            await this.stop({ signal: 'SIGKILL' });
            if (!this.config.auto_destroy) await this.wait(['stopped'], 60);
        }
        this.#configure(wanted.config);
        this.#event('update', 'replacing', 'user');
        if (!wanted.skip_launch && this.state !== 'started') await this.start();
    }

    async destroy(force) {
        if (this.state === 'destroyed') throw new FlyError(404, 'machine not found');
        if (!force && !['created', 'stopped', 'suspended', 'failed'].includes(this.state)) {
            throw new FlyError(412, `failed_precondition: unable to destroy machine, not currently stopped or suspended`);
        }
        this.#become('destroying');
        await this.#closeRoom(false);
        this.#end();
    }

    #end() {
        this.#event('destroy', 'destroyed', 'flyd');
        this.#become('destroyed');
        this.cloud.totals.destroyed++;
    }

    // Buffered, as text; late answers are refused, and the command goes on.
    async exec({ command, cmd, stdin, timeout }) {
        const argv =
            Array.isArray(command) && command.length
                ? command
                : typeof cmd === 'string' && cmd
                  ? ['/bin/sh', '-c', `exec ${cmd}`]
                  : null;
        if (!argv || argv.some((one) => typeof one !== 'string'))
            throw new FlyError(400, 'invalid_argument: command is required');
        const limit = timeout || this.cloud.execSeconds;
        if (!Number.isInteger(limit) || limit < 1 || limit > this.cloud.execSeconds)
            throw new FlyError(400, `invalid_argument: timeout must be between 1 and ${this.cloud.execSeconds} seconds`);
        if (this.state !== 'started')
            throw new FlyError(412, `failed_precondition: machine is not running, its state is '${this.state}'`);
        const room = await this.room;
        const child = await room.spawn(argv, { env: { PATH, HOME: '/root' }, user: 'root', stdin: true });
        const output = { stdout: [], stderr: [] };
        for (const name of ['stdout', 'stderr']) child[name].on('data', (bytes) => output[name].push(bytes));
        child.stdin.on('error', () => {});
        child.stdin.end(stdin ?? '');
        const ended = new Promise((done) => child.once('close', (code, signal) => done({ code, signal })));
        let cancel;
        const late = new Promise((done) => {
            cancel = this.cloud.clock.at(this.cloud.clock.now() + limit * 1000, done);
        });
        const end = await Promise.race([ended, late]);
        cancel();
        if (!end) throw new FlyError(408, 'deadline_exceeded: exec timed out');
        const [stdout, stderr] = [output.stdout, output.stderr].map((bytes) => Buffer.concat(bytes).toString());
        return {
            ...(end.code ? { exit_code: end.code } : {}),
            ...(end.signal ? { exit_code: -1, exit_signal: { SIGINT: 2, SIGKILL: 9, SIGTERM: 15 }[end.signal] ?? 1 } : {}),
            ...(stdout ? { stdout } : {}),
            ...(stderr ? { stderr } : {}),
        };
    }

    async close() {
        this.#become('destroyed');
        await this.#closeRoom(false);
    }

    // What a list gives of it that is asked for summaries.
    summary() {
        const { config, events, host_status: host, nonce, ...rest } = this.told();
        return rest;
    }

    told() {
        const [, registry, repository, tag] = /^(?:([^/]+\.[^/]+)\/)?([^:@]+)(?::([^@]+))?/.exec(this.config.image);
        const leased = this.lease && this.lease.expires > this.cloud.clock.now();
        return {
            id: this.id,
            name: this.name,
            state: this.state,
            region: this.region,
            instance_id: this.instance,
            private_ip: `fdaa:0:18:a7b:196:${this.id.slice(0, 4)}:${this.id.slice(4, 8)}:2`,
            image_ref: {
                registry: registry ?? 'docker-hub-mirror.fly.io',
                repository: repository.includes('/') ? repository : `library/${repository}`,
                tag: tag ?? 'latest',
                digest: `sha256:${'0'.repeat(64)}`,
                labels: null,
            },
            created_at: new Date(this.created).toISOString(),
            updated_at: new Date(this.updated).toISOString(),
            config: this.config,
            events: this.events,
            host_status: 'ok',
            cordoned: this.cordoned,
            ...(leased ? { nonce: this.lease.nonce } : {}),
        };
    }
}
