// A command that the command router runs: its output is kept, so that who lost a stream goes on from where it was; its input says
// where each piece belongs, so that a piece sent twice counts once.
import { GrpcError } from './grpc.mjs';

const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGABRT: 6, SIGKILL: 9, SIGSEGV: 11, SIGPIPE: 13, SIGTERM: 15 };
const CHUNK = 64 << 10;

class Kept {
    #chunks = [];
    #waiting = new Set();
    size = 0;
    ended = false;

    #wake() {
        for (const told of this.#waiting) told();
        this.#waiting.clear();
    }

    add(bytes) {
        this.#chunks.push(bytes);
        this.size += bytes.length;
        this.#wake();
    }

    end() {
        this.ended = true;
        this.#wake();
    }

    // All from an offset on, as it comes, until the end or until `gone` resolves.
    async *from(offset, gone) {
        if (offset > this.size)
            throw new GrpcError('OUT_OF_RANGE', `offset ${offset} is beyond the ${this.size} bytes there are`);
        let begin = 0;
        let left = false;
        gone.then(() => {
            left = true;
            this.#wake();
        });
        for (let i = 0; !left;) {
            if (i === this.#chunks.length) {
                if (this.ended) return;
                await new Promise((told) => this.#waiting.add(told));
                continue;
            }
            const chunk = this.#chunks[i++];
            const skip = Math.max(0, offset - begin);
            begin += chunk.length;
            for (let at = skip; at < chunk.length && !left; at += CHUNK) yield chunk.subarray(at, at + CHUNK);
        }
    }
}

export class Exec {
    written = 0;
    stdinClosed = false;
    #pending = Promise.resolve();

    // wanted: stdout 0 for nowhere, 1 kept; stderr the same, 2 into stdout
    constructor(process, { stdout_config: out, stderr_config: err, timeout_secs: limit }, clock) {
        this.process = process;
        this.output = [new Kept(), new Kept()];
        process.stdin.on('error', () => {});
        const wire = (stream, kept) => {
            stream.on('data', (bytes) => kept?.add(bytes));
            stream.on('close', () => kept?.end());
        };
        wire(process.stdout, out === 1 ? this.output[0] : null);
        wire(process.stderr, err === 1 ? this.output[1] : err === 2 ? this.output[0] : null);
        if (out !== 1) this.output[0].end();
        if (err !== 1) this.output[1].end();
        this.ended = new Promise((done) => {
            const over = (code, signal) => {
                this.exit = signal ? { signal: SIGNALS[signal] ?? 1 } : { code };
                done(this.exit);
            };
            if (process.ended) over(process.exitCode, process.signalCode); // it was quick
            else process.once('exit', over);
        });
        if (limit) this.cancel = clock.at(clock.now() + limit * 1000, () => process.kill('SIGKILL'));
        this.ended.then(() => this.cancel?.());
    }

    read({ offset, file_descriptor: which }, call) {
        if (which > 1) throw new GrpcError('INVALID_ARGUMENT', `there is no output ${which}`);
        return this.output[which].from(offset, call.closed);
    }

    // One piece after the other, each once the command has room for it.
    write(offset, data, eof) {
        const done = this.#pending.then(() => this.#write(offset, data, eof));
        this.#pending = done.catch(() => {});
        return done;
    }

    async #write(offset, data, eof) {
        if (offset > this.written)
            throw new GrpcError('OUT_OF_RANGE', `offset ${offset} leaves a gap after the ${this.written} bytes written`);
        const fresh = data.subarray(this.written - offset);
        if (fresh.length) {
            if (this.stdinClosed) throw new GrpcError('FAILED_PRECONDITION', 'stdin is closed');
            this.written += fresh.length;
            await Promise.race([this.ended, new Promise((then) => this.process.stdin.write(fresh, () => then()))]);
        }
        if (eof && !this.stdinClosed) {
            this.stdinClosed = true;
            this.process.stdin.end();
        }
    }
}
