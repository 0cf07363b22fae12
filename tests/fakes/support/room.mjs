// A room that a fake's computer lives in: real processes and real files, away from the machine's own. It is a mount namespace with
// a throwaway layer above the machine's root, and a PID namespace whose first process holds everything: when that dies, all dies.
// A fake that dies takes its rooms with it. Rooms are for root of the machine alone: others can't lay anything above its files.
import { execFileSync, spawn } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';

const { O_RDONLY, O_WRONLY, O_RDWR, O_NONBLOCK } = fs.constants;

export const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

export const USERS = {
    // who there is in a room
    root: { uid: 0, home: '/root' },
    user: { uid: 1000, home: '/home/user' },
};

// $1: a folder to mount the layer on; $2: what the layer begins as; $3: options of its disk. In a layer, "upper" has the files that differ from the machine's,
// and "own" the folders in which nothing of the machine's is seen.
const SETUP = `
set -e
mount -t tmpfs -o "mode=755$3" room "$1"
cp -a "$2" "$1/saved"
mkdir "$1/work" "$1/root"
mount -t overlay room -o "lowerdir=/,upperdir=$1/saved/upper,workdir=$1/work" "$1/root"
mount --rbind /dev "$1/root/dev"
mount -t tmpfs -o mode=1777 room "$1/root/dev/shm"
mount -t proc proc "$1/root/proc"
mount --bind "$1/saved/own/root" "$1/root/root"
mount --bind "$1/saved/own/home" "$1/root/home"
mount --bind "$1/saved/own/var-tmp" "$1/root/var/tmp"
mount --bind "$1/saved/own/tmp" "$1/root/tmp"
exec chroot "$1/root" /bin/bash -c 'cd /; echo ready; exec >/dev/null; while :; do sleep 1000000 & wait $!; done'
`;

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

// Tells its id in the room, then becomes the command. $0: folder, $1: setpriv's options or nothing, the rest: the command.
const START = `
echo $$ >&3
cd -- "$0" || exit 126
become=$1
shift
[ -z "$become" ] || set -- /usr/bin/setpriv $become -- "$@"
exec "$@" 3>&-
`;

// A process in a room. Emits 'exit' (code, signal) when it ends, and 'close' once its output has ended too.
class Inhabitant extends EventEmitter {
    constructor(child, streams) {
        super();
        this.child = child;
        Object.assign(this, streams);
        child.once('exit', (code, signal) => {
            this.ended = true;
            this.emit('exit', code, signal);
        });
        let open = 3;
        const one = () => {
            if (--open === 0) this.emit('close', child.exitCode, child.signalCode);
        };
        child.once('exit', one);
        this.stdout.once('close', one);
        this.stderr.once('close', one);
    }

    kill(signal) {
        if (!this.ended) process.kill(this.outerPid, signal);
    }
}

export class Room {
    #fifos = [];
    #fifosMade = 0;
    #children = new Set();

    constructor(folder) {
        this.folder = folder;
    }

    // In a folder of its own; `layer`: one that save() made, to begin with; `disk`: how large it is, 0: as large as can be.
    static async open(folder, layer = freshLayer(path.join(path.dirname(folder), 'fresh-layer')), disk = 0) {
        fs.mkdirSync(path.join(folder, 'layer'), { recursive: true });
        const room = new Room(folder);
        room.holder = spawn(
            '/usr/bin/setpriv',
            [
                '--pdeathsig',
                'KILL',
                'unshare',
                '--mount',
                '--pid',
                '--fork',
                '--kill-child',
                '--mount-proc',
                '/bin/sh',
                '-c',
                SETUP,
                'room',
                path.join(folder, 'layer'),
                layer,
                Number(disk) > 0 ? `,size=${disk}m` : '',
            ],
            { stdio: ['ignore', 'pipe', 'pipe'] },
        );
        const complaints = [];
        room.holder.stderr.on('data', (bytes) => complaints.push(bytes));
        const [said] = await Promise.race([once(room.holder.stdout, 'data'), once(room.holder, 'exit').then(() => [''])]);
        if (String(said) !== 'ready\n') throw new Error(`no room can be made here: ${Buffer.concat(complaints)}`);
        room.holder.stdout.destroy();
        room.holder.stderr.destroy();
        room.init = Number(fs.readFileSync(`/proc/${room.holder.pid}/task/${room.holder.pid}/children`, 'utf8'));
        return room;
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

    #enter() {
        return ['--target', String(this.init), '--mount', '--pid', '--root', '--wdns=/'];
    }

    // Starts a command. stdin: false for none.
    async spawn(argv, { env = {}, cwd = '/', user = 'user', stdin = true } = {}) {
        const { uid } = USERS[user];
        const become = uid !== 0 ? `--reuid=${uid} --regid=${uid} --clear-groups` : '';
        const [input, output, errors] = [stdin ? this.#pipeIn() : null, this.#pipeOut(), this.#pipeOut()];
        const child = spawn('/usr/bin/nsenter', [...this.#enter(), '--', '/bin/sh', '-c', START, cwd, become, ...argv], {
            env,
            cwd: '/',
            stdio: [input ? input.theirs : 'ignore', output.theirs, errors.theirs, 'pipe'],
        });
        for (const pipe of [input, output, errors]) if (pipe) fs.closeSync(pipe.theirs);
        const inhabitant = new Inhabitant(child, { stdin: input?.stream, stdout: output.stream, stderr: errors.stream });
        this.#children.add(inhabitant);
        inhabitant.once('exit', () => this.#children.delete(inhabitant));
        inhabitant.once('close', () => {
            input?.stream.destroy();
            this.#fifos.push(...[input, output, errors].filter(Boolean).map((pipe) => pipe.name));
        });
        // What was told is read also where the command has ended before that.
        const [told] = await Promise.race([once(child.stdio[3], 'data'), once(child.stdio[3], 'close').then(() => [''])]);
        child.stdio[3].destroy();
        inhabitant.pid = Number(told);
        if (!inhabitant.ended)
            inhabitant.outerPid = Number(fs.readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')) || child.pid;
        return inhabitant;
    }

    // Real pipes, as a provider gives, not the socket pairs of node:child_process: /dev/stderr can be opened on them.
    #fifo() {
        if (this.#fifos.length === 0) {
            const names = Array.from({ length: 6 }, () => path.join(this.folder, `fifo-${++this.#fifosMade}`));
            execFileSync('mkfifo', names);
            this.#fifos.push(...names);
        }
        return this.#fifos.pop();
    }

    #pipeOut() {
        const name = this.#fifo();
        const ours = fs.openSync(name, O_RDONLY | O_NONBLOCK);
        const theirs = fs.openSync(name, O_WRONLY);
        return { name, theirs, stream: new net.Socket({ fd: ours, readable: true, writable: false }) };
    }

    #pipeIn() {
        const name = this.#fifo();
        const holds = fs.openSync(name, O_RDWR | O_NONBLOCK);
        const theirs = fs.openSync(name, O_RDONLY);
        const ours = fs.openSync(name, O_WRONLY | O_NONBLOCK);
        fs.closeSync(holds);
        return { name, theirs, stream: new net.Socket({ fd: ours, readable: false, writable: true }) };
    }

    // A shell's command in the room; `$*` are the folders in /proc of all processes but the first.
    #run(command) {
        const all = 'set -- /proc/[2-9]* /proc/1?*';
        execFileSync('/usr/bin/nsenter', [...this.#enter(), '--', '/bin/sh', '-c', `${all}; ${command}`], { stdio: 'ignore', env: {} });
    }

    freeze() {
        this.#run('kill -STOP -1');
    }

    thaw() {
        this.#run('kill -CONT -1');
        for (const { child } of this.#children) child.kill('SIGCONT'); // nsenter stops with its child
    }

    // Ends every process but the first. One that is killed is there until it is its turn to run: its program is waited for. Not for
    // those that come later: the first begins another `sleep` at once. A pattern that nothing matches stays, and is to match nothing then.
    endAll() {
        this.#run('kill -KILL -1; for one; do while [ "$one" != /proc/$$ ] && [ -e "$one/exe" ]; do :; done; done');
        for (const { child } of this.#children) child.kill('SIGCONT');
    }

    // Copies the files' layer away, to begin another room with.
    save(layer) {
        const enter = this.#enter().filter((option) => !['--root', '--wdns=/'].includes(option));
        execFileSync('/usr/bin/nsenter', [...enter, '--', 'cp', '-a', `${this.folder}/layer/saved`, layer], { stdio: 'ignore' });
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
