// Makes a server over HTTP look like one over stdio: lines that are written become POSTs, what comes back becomes lines. So the
// tests of one are tests of the other.
import { EventEmitter } from 'node:events';
import { PassThrough } from 'node:stream';
import { MODERN } from './schemas.mjs';

function isModern(message) {
    return Boolean(message?.params?._meta?.['io.modelcontextprotocol/protocolVersion']) || message?.method === 'server/discover';
}

// `http`: an HttpServer that listens.
export class Bridge extends EventEmitter {
    stdout = new PassThrough();
    #partial = Buffer.alloc(0);
    #session;
    #opening = Promise.resolve(); // until a session's id is known

    constructor(http) {
        super();
        this.http = http;
        this.stderr = http.child.stderr;
        this.pid = http.pid;
        http.child.on('close', (code, signal) => {
            this.emit('exit', code, signal);
            this.stdout.end(() => this.emit('close', code, signal));
        });
        this.stdin = { on: () => {}, write: (bytes, done) => this.#write(bytes, done), end: () => http.child.kill('SIGTERM') };
    }

    get exitCode() {
        return this.http.child.exitCode;
    }

    get signalCode() {
        return this.http.child.signalCode;
    }

    kill(signal) {
        return this.http.child.kill(signal);
    }

    #write(bytes, done) {
        this.#partial = Buffer.concat([this.#partial, Buffer.from(bytes)]);
        for (let end; (end = this.#partial.indexOf(10)) >= 0;) {
            const line = this.#partial.subarray(0, end);
            this.#partial = this.#partial.subarray(end + 1);
            if (line.toString().trim()) this.#post(line);
        }
        done?.();
    }

    async #post(line) {
        let message;
        try {
            message = JSON.parse(line);
        } catch {
            message = null;
        }
        await this.#opening;
        const exchange = this.http.post(line, this.#headers(message));
        if (message?.method === 'initialize') this.#opening = exchange.answered.then(() => this.#opened(exchange), () => {});
        await this.#relay(exchange);
    }

    #headers(message) {
        if (isModern(message)) {
            const name = message.params?.name ?? message.params?.uri;
            return { 'mcp-protocol-version': MODERN, 'mcp-method': message.method,
                ...(name ? { 'mcp-name': `=?base64?${Buffer.from(name).toString('base64')}?=` } : {}) };
        }
        return this.#session ? { 'mcp-session-id': this.#session } : {};
    }

    #opened(exchange) {
        this.#session = exchange.headers['mcp-session-id'] ?? this.#session;
    }

    // Whole lines, in the order in which messages come.
    async #relay(exchange) {
        let sent = 0;
        const forward = () => {
            const texts = exchange.isStream ? exchange.events.filter((e) => e.data).map((e) => e.data)
                : exchange.ended && exchange.text ? [exchange.text] : [];
            for (; sent < texts.length; sent++) this.stdout.write(`${texts[sent]}\n`);
        };
        try {
            await exchange.answered;
            while (!exchange.ended) {
                forward();
                await exchange.change();
            }
        } catch {
            // a server that ended is seen by its exit
        }
        forward();
    }
}
