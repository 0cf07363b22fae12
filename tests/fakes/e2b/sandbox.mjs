// A sandbox of E2B: its states and lifetime, what the control API tells of it, and its envd.
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { Room } from '../support/room.mjs';
import { refuse, serveConnect } from './connect.mjs';
import { Files } from './files.mjs';
import { Processes, userOf } from './process.mjs';

const ENVD_VERSION = '0.6.13';

export function id(prefix, letters = 20) {
    const all = 'abcdefghijklmnopqrstuvwxyz0123456789';
    return prefix + [...randomBytes(letters)].map((byte) => all[byte % all.length]).join('');
}

export class Sandbox {
    state = 'running';
    envdAccessToken = `ea_${randomBytes(16).toString('hex')}`;
    streams = new Set(); // answers under way
    processes = new Processes(this);
    files = new Files(this);
    #room;
    #putLater = [];

    constructor(cloud, wanted, layer) {
        Object.assign(this, {
            cloud,
            wanted,
            layer,
            sandboxID: id('i'),
            startedAt: cloud.clock.now(),
            envVars: wanted.envVars ?? {},
            metadata: wanted.metadata ?? {},
        });
        this.methods = { ...this.processes.methods(), ...this.files.methods() };
    }

    // Made when it is first needed: thousands that nothing runs in cost nothing.
    room() {
        this.#room ??= this.#open();
        return this.#room;
    }

    async #open() {
        const room = await Room.open(path.join(this.cloud.folder, this.sandboxID), this.layer, this.cloud.options.disk);
        for (const one of this.#putLater) this.files.put(room, one);
        return room;
    }

    // The first file of a sandbox meets no other in the home folder: it waits for the room. False: there is no way around one.
    putLater(files) {
        const alone = files.length === 1 && !this.layer && !this.#room && this.#putLater.length === 0;
        if (!alone || !/^\/home\/user\/[^/]/.test(path.posix.normalize(files[0].inside))) return false;
        this.#putLater = files;
        return true;
    }

    expireIn(seconds) {
        this.endAt = this.cloud.clock.now() + seconds * 1000;
        this.takeBack?.();
        this.takeBack = this.cloud.clock.at(this.endAt, () =>
            this.wanted.autoPause ? this.pause(this.wanted.autoPauseMemory ?? true) : this.cloud.kill(this, 'expired'),
        );
    }

    cutStreams() {
        for (const reply of this.streams) reply.reset();
    }

    async pause(memory) {
        this.takeBack();
        this.state = 'paused';
        this.memory = memory;
        this.cutStreams();
        await (await this.#room)?.[memory ? 'freeze' : 'endAll']();
    }

    async resume(memory) {
        if (this.memory) await (await this.#room)?.thaw();
        if (this.memory && !memory) await (await this.#room)?.endAll();
        this.state = 'running';
        this.startedAt = this.cloud.clock.now();
    }

    async snapshot() {
        const layer = path.join(this.cloud.folder, id('layer-'));
        (await this.room()).save(layer);
        return layer;
    }

    async close() {
        this.takeBack();
        this.cutStreams();
        await (await this.#room?.catch(() => null))?.close();
    }

    brief() {
        return {
            sandboxID: this.sandboxID,
            templateID: this.wanted.templateID,
            clientID: '6532622b',
            envdVersion: ENVD_VERSION,
            envdAccessToken: this.envdAccessToken,
            trafficAccessToken: null,
            domain: null,
        };
    }

    item() {
        const { sandboxID, templateID, clientID, envdVersion } = this.brief();
        return {
            sandboxID,
            templateID,
            clientID,
            envdVersion,
            startedAt: new Date(this.startedAt).toISOString(),
            endAt: new Date(this.endAt).toISOString(),
            state: this.state,
            cpuCount: 2,
            memoryMB: 512,
            diskSizeMB: 1024,
            metadata: this.metadata,
        };
    }

    detail() {
        const { autoPause, allow_internet_access: internet, network } = this.wanted;
        return {
            ...this.item(),
            envdAccessToken: this.envdAccessToken,
            domain: null,
            allowInternetAccess: internet ?? null,
            network,
            lifecycle: { onTimeout: autoPause ? 'pause' : 'kill', autoResume: this.wanted.autoResume?.enabled ?? false },
            volumeMounts: [],
        };
    }

    // What envd serves, behind the proxy that finds the sandbox.
    async serve(request, reply) {
        this.streams.add(reply);
        reply.onClose(() => this.streams.delete(reply));
        const { method, path: where, headers } = request;
        if (`${method} ${where}` === 'GET /health') {
            reply.head(204);
            return reply.end();
        }
        if (where === '/files') return this.files.serve(request, reply);
        if (headers['x-access-token'] !== this.envdAccessToken) {
            reply.head(401, { 'content-type': 'application/json; charset=utf-8' });
            return reply.end(
                `${JSON.stringify({ code: 401, message: 'unauthorized access, please provide a valid access token or method signing if supported' })}\n`,
            );
        }
        try {
            userOf(request);
        } catch (error) {
            return refuse(error, request, reply);
        }
        return serveConnect(this.methods, request, reply);
    }
}
