// envd's process.Process: commands of a sandbox, as streams of their events. A command outlives the stream that started it; output
// that nobody listens to is lost; how it ended is kept for those who connect later.
import fs from 'node:fs';
import { PATH, USERS } from '../support/room.mjs';
import { ConnectError } from './connect.mjs';

const CHUNK = 32 << 10;
const KEEPALIVE_SECONDS = 90;

// Whose call it is: "Basic user:", the password empty, or the template's user.
export function userOf(request) {
    const basic = /^basic (.*)$/i.exec(request.headers.authorization ?? '');
    const name = basic ? Buffer.from(basic[1], 'base64').toString().split(':')[0] : 'user';
    if (!USERS[name]) throw new ConnectError('unauthenticated', `invalid username: '${name}'`);
    return name;
}

// A path as a user means it: from home, "~" too.
export function resolve(path, user) {
    const { home } = USERS[user];
    if (/^~[^/]/.test(path))
        throw new ConnectError(
            'invalid_argument',
            `failed to expand path '${path}' for user '${user}': cannot expand user-specific home dir`,
        );
    if (path.startsWith('~')) return home + path.slice(1);
    return path.startsWith('/') ? path : `${home}/${path}`;
}

// How Go's os.ProcessState tells an end.
function endOf(code, signal) {
    if (signal) {
        const words = {
            SIGKILL: 'killed',
            SIGTERM: 'terminated',
            SIGINT: 'interrupt',
            SIGHUP: 'hangup',
            SIGSEGV: 'segmentation fault',
            SIGABRT: 'aborted',
            SIGPIPE: 'broken pipe',
            SIGQUIT: 'quit',
        };
        const status = `signal: ${words[signal] ?? signal}`;
        return { exitCode: -1, status, error: status };
    }
    const status = `exit status ${code}`;
    return code === 0 ? { exited: true, status } : { exitCode: code, exited: true, status, error: status };
}

class Command {
    listeners = new Set();
    end;

    constructor(config, tag, process) {
        Object.assign(this, { config, tag, process, pid: process.pid, stdinOpen: Boolean(process.stdin) });
        for (const name of ['stdout', 'stderr']) {
            process[name].on('data', (bytes) => this.#tell(process[name], name, bytes));
        }
        process.stdin?.on('error', () => {});
        this.ended = new Promise((done) => {
            this.finish = () => {
                if (this.end) return;
                this.end = endOf(process.exitCode, process.signalCode);
                done();
            };
        });
        process.once('close', this.finish);
    }

    #tell(stream, name, bytes) {
        for (let i = 0; i < bytes.length; i += CHUNK) {
            const data = { [name]: bytes.subarray(i, i + CHUNK).toString('base64') };
            for (const listener of this.listeners) {
                if (!listener.send({ event: { data } })) {
                    stream.pause();
                    listener.reply.drained(() => stream.resume());
                }
            }
        }
    }

    // Who signals a command doesn't wait for those that still hold its output.
    signal(name) {
        if (this.process.ended) this.finish();
        else this.process.once('exit', () => setImmediate(this.finish));
        this.process.kill(name);
    }

    async listen(stream, request) {
        stream.send({ event: { start: { pid: this.pid } } });
        const seconds = Number(request.headers['keepalive-ping-interval']) || KEEPALIVE_SECONDS;
        const alive = setInterval(() => stream.send({ event: { keepalive: {} } }), seconds * 1000);
        this.listeners.add(stream);
        await Promise.race([this.ended, new Promise((gone) => stream.reply.onClose(gone))]);
        clearInterval(alive);
        this.listeners.delete(stream);
        if (this.end) stream.send({ event: { end: this.end } });
    }
}

export class Processes {
    running = new Map();
    #ended = new Map();

    constructor(sandbox) {
        this.sandbox = sandbox;
    }

    #find({ process: selector } = {}, among = this.running) {
        if (selector?.pid === undefined && selector?.tag === undefined)
            throw new ConnectError('unimplemented', 'invalid input type <nil>');
        const found =
            selector.pid !== undefined ? among.get(selector.pid) : [...among.values()].find((one) => one.tag === selector.tag);
        if (!found)
            throw new ConnectError(
                'not_found',
                selector.pid !== undefined
                    ? `process with pid ${selector.pid} not found`
                    : `process with tag ${selector.tag} not found`,
            );
        return found;
    }

    async #start(message, request, stream) {
        const { cmd = '', args = [], envs = {}, cwd = '' } = message.process ?? {};
        const user = userOf(request);
        const limit = Number(request.headers['connect-timeout-ms'] ?? 0);
        if (!Number.isInteger(limit))
            throw new ConnectError('invalid_argument', 'strconv.Atoi: parsing Connect-Timeout-Ms: invalid syntax');
        if (message.pty) throw new ConnectError('unimplemented', 'this fake has no terminals');
        const room = await this.sandbox.room();
        const folder = resolve(cwd, user);
        if (!fs.existsSync(room.host(folder, true))) throw new ConnectError('invalid_argument', `cwd '${folder}' does not exist`);
        const env = { PATH, HOME: USERS[user].home, USER: user, LOGNAME: user, ...this.sandbox.envVars, ...envs };
        const process = await room.spawn([cmd, ...args], { env, cwd: folder, user, stdin: message.stdin ?? true });
        const command = new Command(message.process, message.tag, process);
        this.#ended.delete(command.pid);
        this.running.set(command.pid, command);
        command.ended.then(() => {
            this.running.delete(command.pid);
            this.#ended.set(command.pid, command);
        });
        if (limit <= 0) return command.listen(stream, request);
        let late = false;
        const timer = setTimeout(() => {
            late = true;
            command.signal('SIGKILL');
            command.listeners.delete(stream);
            stream.end(new ConnectError('deadline_exceeded', 'context deadline exceeded'));
        }, limit);
        command.ended.then(() => clearTimeout(timer));
        await command.listen(late ? { send() {}, reply: stream.reply } : stream, request);
    }

    async #input(message) {
        const command = this.#find(message);
        if (message.input?.pty !== undefined)
            throw new ConnectError(
                'internal',
                'error writing to tty: tty not assigned to process — input should be written to the stdin, not the tty',
            );
        if (message.input?.stdin === undefined) throw new ConnectError('unimplemented', 'invalid input type <nil>');
        if (!command.stdinOpen) throw new ConnectError('internal', 'error writing to stdin: stdin not enabled or closed');
        await new Promise((done, failed) => {
            // like the original it waits until the command has taken what a pipe doesn't hold
            command.process.stdin.write(Buffer.from(message.input.stdin, 'base64'), (error) =>
                error
                    ? failed(
                          new ConnectError(
                              'internal',
                              `error writing to stdin: error writing to stdin of process '${command.pid}': write |1: broken pipe`,
                          ),
                      )
                    : done(),
            );
            command.ended.then(done);
        });
    }

    methods() {
        return {
            '/process.Process/Start': { stream: (message, request, stream) => this.#start(message, request, stream) },
            '/process.Process/Connect': {
                stream: async (message, request, stream) => {
                    let command;
                    try {
                        command = this.#find(message);
                    } catch (error) {
                        command = error.code === 'not_found' ? this.#find(message, this.#ended) : null;
                        if (!command) throw error;
                    }
                    await command.listen(stream, request);
                },
            },
            '/process.Process/List': {
                unary: () => ({ processes: [...this.running.values()].map(({ config, pid, tag }) => ({ config, pid, tag })) }),
            },
            '/process.Process/SendInput': { unary: (message) => this.#input(message) },
            '/process.Process/CloseStdin': {
                unary: (message) => {
                    const command = this.#find(message);
                    command.stdinOpen = false;
                    command.process.stdin?.end();
                },
            },
            '/process.Process/SendSignal': {
                unary: (message) => {
                    const command = this.#find(message);
                    const signal = { SIGNAL_SIGKILL: 'SIGKILL', 9: 'SIGKILL', SIGNAL_SIGTERM: 'SIGTERM', 15: 'SIGTERM' }[
                        message.signal
                    ];
                    if (!signal)
                        throw new ConnectError('unimplemented', `invalid signal: ${message.signal ?? 'SIGNAL_UNSPECIFIED'}`);
                    command.signal(signal);
                },
            },
        };
    }
}
