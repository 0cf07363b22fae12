// A sandbox of Modal: its entrypoint, what the command router runs in it, its lifetimes, its result.
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { PATH, Room } from '../support/room.mjs';
import { Exec } from './exec.mjs';
import { GrpcError } from './grpc.mjs';

export const STATUS = {
    SUCCESS: 1,
    FAILURE: 2,
    TERMINATED: 3,
    TIMEOUT: 4,
    INIT_FAILURE: 5,
    INTERNAL_FAILURE: 6,
    IDLE_TIMEOUT: 7,
};

export function id(prefix, letters = 22) {
    const all = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
    return `${prefix}-${[...randomBytes(letters)].map((byte) => all[byte % all.length]).join('')}`;
}

export class Sandbox {
    execs = new Map();
    result = null;
    #room;

    constructor(cloud, app, definition, { v2, environment, tags, layer, env }) {
        Object.assign(this, {
            cloud,
            app,
            definition,
            v2,
            environment,
            tags,
            layer,
            env,
            name: definition.name,
            id: v2 ? id('sb', 26) : id('sb'),
            task: id('ta', v2 ? 26 : 22),
            created: cloud.clock.now(),
        });
        this.ended = new Promise((done) => {
            this.#done = done;
        });
        const seconds = definition.timeout_secs || 300;
        this.takeBack = cloud.clock.at(this.created + seconds * 1000, () => this.finish({ status: STATUS.TIMEOUT }));
        this.touch();
        if (definition.entrypoint_args.length)
            this.#runEntrypoint().catch((error) => this.finish({ status: STATUS.INIT_FAILURE, exception: error.message }));
    }

    #done;

    // Nothing runs in it from now on: its idle time begins.
    touch() {
        this.stopIdling?.();
        const seconds = this.definition.idle_timeout_secs;
        if (!seconds || this.result) return;
        this.stopIdling = this.cloud.clock.at(this.cloud.clock.now() + seconds * 1000, () => {
            if ([...this.execs.values()].every((one) => one.exit)) this.finish({ status: STATUS.IDLE_TIMEOUT });
        });
    }

    room() {
        this.#room ??= Room.open(path.join(this.cloud.folder, this.id), this.layer, this.cloud.options.disk);
        return this.#room;
    }

    async #spawn(argv, env, workdir) {
        const room = await this.room();
        const started = room.spawn(argv, {
            env: { PATH, HOME: '/root', ...this.env, ...env },
            cwd: workdir || this.definition.workdir || '/',
            user: 'root',
        });
        return started.catch((error) => {
            throw this.result ? new GrpcError('NOT_FOUND', `task ${this.task} has finished`) : error;
        });
    }

    async #runEntrypoint() {
        this.entrypoint = this.#spawn(this.definition.entrypoint_args, {}).then(
            (process) => new Exec(process, { stdout_config: 1, stderr_config: 1 }, this.cloud.clock),
        );
        const { code, signal } = await (await this.entrypoint).ended;
        await this.finish(
            signal ? { status: STATUS.FAILURE, exitcode: 137 } : { status: code === 0 ? STATUS.SUCCESS : STATUS.FAILURE, exitcode: code },
        );
    }

    async start(wanted) {
        if (this.execs.has(wanted.exec_id)) return; // sent once more
        if (!/^[0-9a-f-]{36}$/.test(wanted.exec_id)) throw new GrpcError('INVALID_ARGUMENT', 'exec_id is no UUID');
        if (wanted.command_args.length === 0) throw new GrpcError('INVALID_ARGUMENT', 'command_args is empty');
        if (wanted.workdir && !wanted.workdir.startsWith('/')) throw new GrpcError('INVALID_ARGUMENT', 'workdir is not absolute');
        const env = { ...this.cloud.envOf(wanted.secret_ids, wanted.secret_sources), ...wanted.env };
        const made = this.#spawn(wanted.command_args, env, wanted.workdir).then(
            (process) => new Exec(process, wanted, this.cloud.clock),
        );
        this.execs.set(wanted.exec_id, { starting: made });
        const exec = await made;
        this.execs.set(wanted.exec_id, exec);
        exec.ended.then(() => this.touch());
    }

    async exec({ exec_id: name }) {
        const exec = this.execs.get(name);
        if (!exec) throw new GrpcError('NOT_FOUND', `exec ${name} not found`);
        return exec.starting ?? exec;
    }

    async snapshot() {
        const image = id('im');
        const layer = path.join(this.cloud.folder, image);
        (await this.room()).save(layer);
        this.cloud.images.set(image, { layer, result: { status: STATUS.SUCCESS } });
        return image;
    }

    async finish(result) {
        if (this.result) return;
        this.result = { exception: '', exitcode: 0, ...result };
        this.finished = this.cloud.clock.now();
        this.cloud.totals[
            Object.keys(STATUS)
                .find((key) => STATUS[key] === result.status)
                .toLowerCase()
        ]++;
        this.takeBack();
        this.stopIdling?.();
        this.#done();
        await (await this.#room?.catch(() => null))?.close();
    }

    info() {
        return {
            id: this.id,
            created_at: this.created / 1000,
            app_id: this.app.id,
            tags: this.tags,
            name: this.name,
            image_id: this.definition.image_id,
            regions: this.definition.scheduler_placement?.regions ?? [],
            timeout_secs: this.definition.timeout_secs,
            task_info: {
                id: this.task,
                started_at: this.created / 1000,
                finished_at: (this.finished ?? 0) / 1000,
                result: this.result ?? undefined,
            },
        };
    }
}
