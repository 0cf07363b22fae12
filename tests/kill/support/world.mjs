// A state directory with its servers, and all that comes from them: told from the rest of the machine by control groups of
// their own, so that several worlds, and other tests, may be there at the same time.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { defer, eventually, temporaryFolder } from '../../integration/support/machine.mjs';
import { startServer } from '../../integration/support/server.mjs';
import { Faults } from './faults.mjs';

const here = path.dirname(new URL(import.meta.url).pathname);
const SERVER = process.env.MCP_SERVER ?? path.resolve(here, '../../../build/faults/src/mcp-sandbox-computer-vm-for-ai');
const ID_RANGES = '/var/lib/mcp-sandbox-computer-vm-for-ai/id-ranges';
const ID_SLOT = 512;

function read(file) {
    try {
        return fs.readFileSync(file, 'utf8');
    } catch {
        return '';
    }
}

// Our own group in each hierarchy that computers use.
function ownGroups() {
    const own = new Map(read('/proc/self/cgroup').trim().split('\n').map((line) => {
        const [, controllers, at] = line.match(/^\d+:([^:]*):(.*)$/);
        return [controllers, at];
    }));
    const used = /(^|,)(memory|pids|cpu)(,|$)/;
    return read('/proc/self/mountinfo').trim().split('\n').flatMap((line) => {
        const [head, tail] = line.split(' - ');
        const [root, point] = head.split(' ').slice(3, 5);
        const [type, , options] = tail.split(' ');
        const isHere = (key) => key && used.test(key) && options.split(',').includes(key.split(',')[0]);
        const controllers = type === 'cgroup2' ? '' : [...own.keys()].find(isHere);
        if (!/^cgroup2?$/.test(type) || controllers === undefined || !own.has(controllers)) return [];
        return [{ unified: type === 'cgroup2', folder: path.join(point, path.relative(root, own.get(controllers))) }];
    });
}

function groupsBelow(folder) {
    try {
        return fs.readdirSync(folder, { withFileTypes: true }).filter((e) => e.isDirectory())
            .flatMap((e) => [...groupsBelow(path.join(folder, e.name)), path.join(folder, e.name)]);
    } catch {
        return [];
    }
}

// For who wants to see more than that nothing failed: KILL_TABLE names a file.
export function report(text) {
    if (process.env.KILL_TABLE) fs.appendFileSync(process.env.KILL_TABLE, `${text}\n\n`);
}

// Whether the server has options of that name at all.
export function takes(args) {
    return spawnSync(SERVER, [...args, '--print-config'], { stdio: 'ignore' }).status === 0;
}

let worlds = 0;

export class World {
    constructor(t) {
        this.t = t;
        this.stateDir = temporaryFolder(t, 'kill-');
        const name = `kill-test-${process.pid}-${worlds++}`;
        this.groups = ownGroups().map(({ unified, folder }) => ({ unified, folder: path.join(folder, name) }));
        for (const { folder } of this.groups) fs.mkdirSync(folder);
        defer(t, () => this.#raze());
        this.faults = new Faults(`${this.stateDir}.faults`);
        defer(t, () => {
            this.faults.close();
            fs.rmSync(this.faults.file);
        });
    }

    // Nothing of a world that failed may disturb the next one.
    async #raze() {
        for (const pid of this.processes()) this.kill(pid);
        await eventually('the world is empty', () => this.processes().length === 0);
        for (const { folder } of this.groups) {
            for (const group of [...groupsBelow(folder), folder]) {
                await eventually(`${group} is removed`, () => {
                    try {
                        fs.rmdirSync(group);
                    } catch (error) {
                        if (error.code !== 'EBUSY') throw error;
                        return false;
                    }
                    return true;
                });
            }
        }
    }

    async start({ args = [] } = {}) {
        const server = await startServer(this.t, {
            stateDir: this.stateDir, args: ['--no-network', ...args], binary: path.join(here, '../in-groups'),
            env: { KILL_GROUPS: this.groups.map((g) => g.folder).join(' '), KILL_SERVER: SERVER, SANDBOX_FAULTS: this.faults.file },
        });
        server.closed = once(server.child, 'close');
        return server;
    }

    // Once it has nothing to do but to wait.
    async startAndRest(how) {
        this.faults.forget();
        const server = await this.start(how);
        await this.reached('start.over');
        return server;
    }

    async reached(point) {
        await eventually(`somebody has come to ${point}`, () => this.faults.reached().includes(point));
    }

    kill(pid) {
        try {
            process.kill(pid, 'SIGKILL');
        } catch {
            // it was faster
        }
    }

    // All that runs here, zombies left out.
    processes() {
        const unified = this.groups.filter((g) => g.unified);
        const pids = (unified.length ? unified : this.groups).flatMap(({ folder }) => [folder, ...groupsBelow(folder)])
            .flatMap((group) => read(path.join(group, 'cgroup.procs')).split('\n').filter(Boolean).map(Number));
        return [...new Set(pids)].filter((pid) => pid > 0 && /^State:\s+[^ZX]/m.test(read(`/proc/${pid}/status`)));
    }

    zygoteOf(server) {
        return this.processes().find((pid) => new RegExp(`^${pid} \\(sandbox-zygote\\) \\S ${server.pid} `).test(read(`/proc/${pid}/stat`)));
    }

    // The first processes of computers, in order of their birth.
    inits() {
        return this.processes().filter((pid) => /^NSpid:.*\t1$/m.test(read(`/proc/${pid}/status`))).sort((a, b) => a - b);
    }

    // User ids of the host that computers have, by their first processes. Throws if two share any.
    checkRanges() {
        const bases = this.inits().map((pid) => Number(read(`/proc/${pid}/uid_map`).trim().split(/\s+/)[1])).filter((base) => base > 0);
        assert.equal(new Set(bases).size, bases.length, `computers share user ids: ${bases}`);
    }

    #rangesLeft(kept) {
        const slots = fs.existsSync(ID_RANGES) ? fs.readFileSync(ID_RANGES) : Buffer.alloc(0);
        const held = [];
        for (let at = 0; at < slots.length; at += ID_SLOT) {
            const folder = slots.toString('utf8', at, at + ID_SLOT).replace(/\0.*$/s, '');
            if (folder.startsWith(`${this.stateDir}/`) && fs.existsSync(folder)) held.push(path.basename(folder));
        }
        const wrong = held.filter((id, i) => !kept.includes(id) || held.indexOf(id) !== i);
        return [...wrong.map((id) => `range of ${id}`), ...kept.filter((id) => !held.includes(id)).map((id) => `no range for ${id}`)];
    }

    #filesLeft(kept) {
        const top = fs.readdirSync(this.stateDir).filter((name) => !/^(computers|reaper\.lock|machine|toolbox-[0-9a-f]+)$/.test(name));
        const computers = path.join(this.stateDir, 'computers');
        const principals = fs.existsSync(computers) ? fs.readdirSync(computers) : [];
        const entries = principals.flatMap((p) => fs.readdirSync(path.join(computers, p)).map((id) => path.join(p, id)));
        const extra = entries.filter((e) => !kept.includes(path.basename(e)));
        const inside = entries.filter((e) => kept.includes(path.basename(e)))
            .flatMap((e) => fs.readdirSync(path.join(computers, e)).map((name) => path.join(e, name)))
            .filter((e) => !/^(record\.json|native|init|init\.lock)$/.test(path.basename(e)));
        const lost = kept.filter((id) => !entries.some((e) => path.basename(e) === id));
        return [...[...top, ...extra, ...inside].map((e) => `file ${e}`), ...lost.map((id) => `${id} is lost`)];
    }

    // What is there beyond the folders of permanent computers; right when all servers have ended. A namespace that nobody is in
    // is there as a mount only.
    remains(kept) {
        const loops = fs.readdirSync('/sys/block').filter((name) => name.startsWith('loop'))
            .filter((name) => read(`/sys/block/${name}/loop/backing_file`).startsWith(this.stateDir));
        return [
            ...this.processes().map((pid) => `process ${pid} ${read(`/proc/${pid}/comm`).trim()}`),
            ...this.groups.flatMap(({ folder }) => groupsBelow(folder)).map((group) => `group ${group}`),
            ...read('/proc/self/mountinfo').split('\n').filter((line) => line.includes(this.stateDir) || line.includes(' - nsfs ')).map((line) => `mount ${line}`),
            ...loops.map((name) => `loop device ${name}`),
            ...this.#filesLeft(kept),
            ...this.#rangesLeft(kept),
        ];
    }

    // When it has removed what others left. What it has no time for at its end is the next one's, as it says by its exit code.
    async end(server) {
        await this.reached('start.over');
        const { code } = await server.stop();
        if (code !== 0) await (await this.startAndRest()).stop();
    }

    // When all servers have ended: nothing is there but the computers that are to be kept.
    async settle(kept) {
        let left = [];
        await eventually('nothing is left', () => (left = this.remains(kept)).length === 0)
            .catch((error) => {
                throw new Error(`left behind: ${left.join('; ')}`, { cause: error });
            });
    }

    // Ends what runs in permanent computers, so that nothing keeps them going when their server ends.
    async quiet(server, ids) {
        for (const id of ids) await server.run('kill -9 $(grep -lx sleep /proc/[0-9]*/comm | cut -d/ -f3) 2>/dev/null', { computer_id: id });
    }

    // As a process that is killed ends: what it wrote last may be half a line.
    async killed(server) {
        this.kill(server.pid);
        await server.closed;
        server.faults = server.faults.filter((fault) => !/no end/.test(fault));
    }
}
