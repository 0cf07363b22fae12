// A room that a fake's computer lives in: real processes and real files, away from the machine's own. It is a mount namespace with
// a throwaway layer above the machine's root, and a PID namespace whose first process holds everything: when that dies, all dies.
// A fake that dies takes its rooms with it. Rooms are for root of the machine alone: others can't lay anything above its files.
// The first process is ../room.c, which makes the room and starts what lives in it.
import { execFileSync, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';

const { O_RDONLY, O_WRONLY, O_NONBLOCK } = fs.constants;
const HOLDER = process.env.FAKE_ROOM ?? path.resolve(import.meta.dirname, '../../../build/tests/fakes/room');

export const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export const USERS = {
    // who there is in a room
    root: { uid: 0, home: '/root' },
    user: { uid: 1000, home: '/home/user' },
};

// The layer of a room that nothing has happened in.
function freshLayer(folder) {
    if (fs.existsSync(folder)) return folder;
    fs.mkdirSync(`${folder}/upper/etc`, { recursive: true });
    for (const [name, mode] of [
        ['root', 0o700],
        ['home/user', 0o755],
        ['tmp', 0o1777],
        ['var-tmp', 0o1777],
    ]) {
        fs.mkdirSync(`${folder}/own/${name}`, { recursive: true });
        fs.chmodSync(`${folder}/own/${name}`, mode);
    }
    fs.chownSync(`${folder}/own/home/user`, USERS.user.uid, USERS.user.uid);
    for (const [file, line] of [
        ['passwd', 'user:x:1000:1000::/home/user:/bin/bash'],
        ['group', 'user:x:1000:'],
    ]) {
        const others = fs
            .readFileSync(`/etc/${file}`, 'utf8')
            .split('\n')
            .filter((one) => one && !/^user:|:x:1000:/.test(one));
        fs.writeFileSync(`${folder}/upper/etc/${file}`, [...others, line, ''].join('\n'));
    }
    return folder;
}

// A process in a room. Emits 'exit' (code, signal) when it ends, and 'close' once its output has ended too.
class Inhabitant extends EventEmitter {
    exitCode = null;
    signalCode = null;
    ended = false;
    #room;

    constructor(room, pid, [stdin, stdout, stderr]) {
        super();
        this.#room = room;
        Object.assign(this, { pid, stdin, stdout, stderr });
        let open = 3;
        const one = () => {
            if (--open === 0) this.emit('close', this.exitCode, this.signalCode);
        };
        this.once('exit', one);
        stdout.once('close', one);
        stderr.once('close', one);
        this.once('close', () => stdin?.destroy());
    }

    kill(signal) {
        if (!this.ended) this.#room.kill(this.pid, signal);
    }

    end(code, signal) {
        this.ended = true;
        [this.exitCode, this.signalCode] = signal ? [null, signal] : [code, null];
        this.emit('exit', this.exitCode, this.signalCode);
    }
}

function signalName(wanted) {
    return Object.entries(os.constants.signals).find(([, number]) => number === wanted)?.[0];
}

export class Room {
    #inhabitants = new Map();
    #asked = []; // who waits for an answer of the holder's, in its order

    constructor(folder, layer, disk) {
        this.folder = folder;
        const options = Number(disk) > 0 ? `,size=${disk}m` : '';
        this.holder = spawn(HOLDER, [folder, layer, options], { env: { PATH }, stdio: ['ignore', 'ignore', 'pipe', 'pipe'] });
        this.line = this.holder.stdio[3];
        const ignore = () => {}; // its end tells as much
        this.line.on('error', ignore);
        createInterface({ input: this.line }).on('line', (told) => this.#told(told.split(' '))).on('error', ignore);
        this.line.on('close', () => {
            for (const { failed } of this.#asked.splice(0)) failed(new Error('the room is gone'));
            for (const pid of [...this.#inhabitants.keys()]) this.#ended(pid, 0, 'SIGKILL');
        });
    }

    // In a folder of its own; `layer`: one that save() made, to begin with; `disk`: how large it is, 0: as large as can be.
    static async open(folder, layer = freshLayer(path.join(path.dirname(folder), 'fresh-layer')), disk = 0) {
        fs.mkdirSync(path.join(folder, 'layer'), { recursive: true });
        const room = new Room(folder, layer, disk);
        const complaints = [];
        room.holder.stderr.on('data', (bytes) => complaints.push(bytes));
        await Promise.all([room.#answer(), once(room.holder, 'spawn')]).catch((error) => {
            throw new Error(`no room can be made here (make build-all builds ${HOLDER}): ${error.message}: ${Buffer.concat(complaints)}`);
        });
        room.init = Number(fs.readFileSync(`/proc/${room.holder.pid}/task/${room.holder.pid}/children`, 'utf8'));
        return room;
    }

    // `then` is called at once with what was told, before anything else is.
    #answer(then = () => {}) {
        return new Promise((done, failed) => {
            const answered = (told) => {
                try {
                    done(then(told));
                } catch (error) {
                    failed(error); // what was told of is gone by now
                }
            };
            if (this.line.destroyed) failed(new Error('the room is gone'));
            else this.#asked.push({ done: answered, failed });
        });
    }

    #tell(...words) {
        if (words.some((word) => String(word).includes('\0'))) throw new Error('no argument of a program holds a NUL');
        const body = Buffer.from(words.map((word) => `${word}\0`).join(''));
        const head = Buffer.alloc(4);
        head[os.endianness() === 'LE' ? 'writeUInt32LE' : 'writeUInt32BE'](body.length);
        this.line.write(Buffer.concat([head, body]));
    }

    #told([what, ...words]) {
        if (what === 'ended') this.#ended(Number(words[0]), Number(words[1]), signalName(Number(words[2])));
        else if (what === 'failed') this.#asked.shift().failed(new Error(words.join(' ')));
        else this.#asked.shift().done(words.map(Number));
    }

    // It is told once those who have waited for the process to be there have it.
    #ended(pid, code, signal) {
        const inhabitant = this.#inhabitants.get(pid);
        this.#inhabitants.delete(pid);
        if (inhabitant) setImmediate(() => inhabitant.end(code, signal));
    }

    // A path of the room without symbolic links but, unless `last`, one that is its last part. What can't be followed stays.
    follow(inside, last = true, depth = 40) {
        let done = '/';
        const parts = inside.split('/').filter(Boolean);
        for (let i = 0; i < parts.length; i++) {
            const next = path.posix.join(done, parts[i]);
            const host = `/proc/${this.init}/root${next}`;
            const link =
                (last || i < parts.length - 1) && depth > 0 && fs.lstatSync(host, { throwIfNoEntry: false })?.isSymbolicLink();
            if (link) return this.follow(path.posix.resolve(done, fs.readlinkSync(host), ...parts.slice(i + 1)), last, depth - 1);
            done = next;
        }
        return done;
    }

    // Where the fake itself finds a path of the room. `last`: through a symbolic link as its last part.
    host(inside, last = false) {
        return `/proc/${this.init}/root${this.follow(inside, last)}`;
    }

    // Starts a command. stdin: false for none.
    spawn(argv, { env = {}, cwd = '/', user = 'user', stdin = true } = {}) {
        const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
        this.#tell('start', USERS[user].uid, cwd, Number(stdin), argv.length, ...argv, ...variables);
        return this.#answer(([pid, ...ends]) => {
            const inhabitant = new Inhabitant(this, pid, this.#open(ends));
            this.#inhabitants.set(pid, inhabitant);
            return inhabitant;
        });
    }

    // Real pipes, as a provider gives, not the socket pairs of node:child_process: /dev/stderr can be opened on them. Where the holder has
    // our ends of them, the others having none.
    #open(ends) {
        const streams = ends.map((end, i) => {
            if (end < 0) return undefined;
            const fd = fs.openSync(`/proc/${this.init}/fd/${end}`, (i === 0 ? O_WRONLY : O_RDONLY) | O_NONBLOCK);
            return new net.Socket({ fd, readable: i !== 0, writable: i === 0 });
        });
        this.#tell('taken', ...ends.filter((end) => end >= 0));
        return streams;
    }

    kill(pid, signal) {
        const number = os.constants.signals[signal];
        if (!number) throw new Error(`there is no signal ${signal}`);
        this.#tell('kill', pid, number);
    }

    // In a room that has gone meanwhile there is nobody.
    #signalAll(signal) {
        this.#tell('all', os.constants.signals[signal]);
        return this.#answer().catch(() => {});
    }

    freeze() {
        return this.#signalAll('SIGSTOP');
    }

    thaw() {
        return this.#signalAll('SIGCONT');
    }

    // Ends every process but the first, and waits until they are gone.
    endAll() {
        return this.#signalAll('SIGKILL');
    }

    // Copies the files' layer away, to begin another room with.
    save(layer) {
        const enter = ['--target', String(this.init), '--mount', '--'];
        execFileSync('/usr/bin/nsenter', [...enter, 'cp', '-a', `${this.folder}/layer/saved`, layer], { stdio: 'ignore' });
    }

    async close() {
        if (this.holder.exitCode === null && this.holder.signalCode === null) {
            const gone = once(this.holder, 'exit');
            process.kill(this.init, 'SIGKILL');
            await gone;
        }
        fs.rmSync(this.folder, { recursive: true, force: true });
    }
}
