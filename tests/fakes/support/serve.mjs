// The listener that every fake stands on: HTTP/1.1 in the clear, or TLS with HTTP/1.1 and HTTP/2 as the client prefers, or HTTP/2
// in the clear. It counts requests, lets faults strike (faults.mjs), adds latency, and has a second listener to be driven by:
//
//   GET    /state      what the provider has, from the fake
//   GET    /requests   what came in: [{n, connection, http, method, path, status, bytes, fault, grpc (its status)}]; DELETE forgets it
//   GET    /faults     the table with counts; PUT sets it
//   PUT    /options    changes some of the fake's options, such as {"latency": 20}
//   POST   /clock      {"advance": seconds}
//   POST   /goaway     GOAWAY on each HTTP/2 connection; HTTP/1.1 connections that idle are closed
//
// A fake prints one line of JSON when it is ready, and ends at SIGTERM, SIGINT or when its stdin, a pipe, ends.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { Clock } from './clock.mjs';
import { Faults } from './faults.mjs';

const BODY_MAX = 256 << 20;

// One answer on its way out. It may be spoilt: see faults.mjs. What is asked of it after its end is ignored.
class Reply {
    status = 0;
    grpc; // the status of gRPC, if it has one
    bytes = 0;
    closed = false;
    #res;
    #fault;
    #left;
    #onClose = [];

    constructor(res, fault = {}) {
        this.#res = res;
        this.#fault = fault;
        this.#left = fault.cut ?? fault.truncate ?? fault.stall ?? Infinity;
        res.on('close', () => {
            this.closed = true;
            for (const told of this.#onClose) told();
        });
        res.on('error', () => {});
    }

    // Runs once the client has gone or the answer is complete.
    onClose(told) {
        if (this.closed) told();
        else this.#onClose.push(told);
    }

    head(status, headers = {}) {
        if (this.closed || this.status) return;
        this.status = status;
        if (this.#fault.goaway && !this.#res.stream) headers.connection = 'close';
        this.#res.writeHead(status, headers);
        if (this.#res.flushHeaders && this.#left > 0) this.#res.flushHeaders();
        if (this.#left === 0) this.#spoil();
    }

    // A whole answer of headers alone: of HTTP/2, one frame that ends the stream.
    headOnly(status, headers) {
        if (!this.#res.stream) {
            this.head(status, headers);
            return this.end();
        }
        if (this.closed || this.status) return undefined;
        this.status = status;
        this.grpc = Number(headers['grpc-status']);
        return this.#res.stream.respond({ ':status': status, ...headers }, { endStream: true });
    }

    // False if the client is slow to take it; then wait for drained().
    write(chunk) {
        chunk = Buffer.from(chunk);
        if (this.closed || this.#left <= 0) return true;
        const piece = chunk.subarray(0, this.#left);
        this.#left -= piece.length;
        this.bytes += piece.length;
        const more = this.#fault.trickle ? this.#trickle(piece) : this.#res.write(piece);
        if (this.#left === 0) this.#spoil();
        return more;
    }

    drained(then) {
        if (this.closed) then();
        else this.#res.once('drain', then);
    }

    end(chunk = '', trailers) {
        if (chunk.length) this.write(chunk);
        if (this.closed || this.#left <= 0 || this.#fault.open) return;
        if (trailers && !this.#fault.bare) {
            this.grpc = Number(trailers['grpc-status']);
            this.#res.addTrailers(trailers);
        }
        if (this.#trickling) this.#trickling = this.#trickling.then(() => this.#res.end());
        else this.#res.end();
    }

    reset() {
        if (this.#fault.hangup) (this.#res.stream?.session ?? this.#res.socket)?.destroy();
        else if (this.#res.stream) this.#res.stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
        else this.#res.socket?.destroy();
    }

    goaway() {
        this.#res.stream?.session.goaway();
    }

    #trickling;

    #trickle(bytes) {
        this.#trickling ??= Promise.resolve();
        for (let i = 0; i < bytes.length; i += this.#fault.trickle) {
            this.#trickling = this.#trickling.then(
                () =>
                    new Promise((next) => {
                        this.#res.write(bytes.subarray(i, i + this.#fault.trickle));
                        setTimeout(next, this.#fault.pause ?? 10);
                    }),
            );
        }
        return true;
    }

    #spoil() {
        if (this.#fault.truncate !== undefined) this.#res.end();
        else if (this.#fault.cut !== undefined) setImmediate(() => this.reset()); // what went before is sent first
    }
}

// The answer of a request whose work is done but whose answer is lost.
const LOST = {
    head() {},
    headOnly() {},
    write: () => true,
    drained: (then) => then(),
    end() {},
    reset() {},
    onClose: (told) => told(),
    closed: true,
};

// The whole body, however it is framed.
async function bodyOf(req) {
    const chunks = [];
    let size = 0;
    for await (const chunk of req) {
        size += chunk.length;
        if (size > BODY_MAX) throw new Error('the body is too large');
        chunks.push(chunk);
    }
    return Buffer.concat(chunks);
}

// As a provider has one: some clients take no authority's own certificate for a server's.
function certificate(folder, names) {
    const [ca, caKey, cert, key] = ['ca', 'ca-key', 'cert', 'key'].map((one) => path.join(folder, `${one}.pem`));
    const make = (subject, extensions, ...more) =>
        execFileSync(
            'openssl',
            [
                ...'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2'.split(' '),
                ...['-subj', subject],
                ...extensions.flatMap((one) => ['-addext', one]),
                ...more,
            ],
            { stdio: 'ignore' },
        );
    make('/CN=authority of a fake', ['keyUsage=critical,keyCertSign'], '-keyout', caKey, '-out', ca);
    const own = ['basicConstraints=critical,CA:FALSE', 'extendedKeyUsage=serverAuth', `subjectAltName=${names.join(',')}`];
    make('/CN=localhost', own, '-CA', ca, '-CAkey', caKey, '-keyout', key, '-out', cert);
    return { key: fs.readFileSync(key), cert: fs.readFileSync(cert), ca };
}

function listen(server, port, host) {
    return new Promise((ready, failed) => server.once('error', failed).listen(port, host, () => ready(server.address().port)));
}

export class Listener {
    requests = [];
    faults = new Faults();
    #connections = 0;
    #sessions = new Set();

    // options: {port, tls, latency, ...}; fake: {handle(request, reply), state(), close()}
    constructor(options, folder, clock) {
        Object.assign(this, { options, folder, clock });
    }

    async open(fake, { http2Only = false, names = [] } = {}) {
        this.fake = fake;
        const onRequest = (req, res) =>
            this.#serve(req, res).catch((error) => {
                process.stderr.write(`${req.method} ${req.url}: ${error.stack}\n`);
                res.stream ? res.stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR) : res.socket?.destroy();
            });
        let made = {};
        if (this.options.tls) {
            made = certificate(this.folder, ['DNS:localhost', `IP:${this.options.host}`, ...names.map((name) => `DNS:${name}`)]);
            this.server = http2.createSecureServer({ key: made.key, cert: made.cert, allowHTTP1: !http2Only }, onRequest);
        } else {
            this.server = http2Only ? http2.createServer(onRequest) : http.createServer({ keepAliveTimeout: 60000 }, onRequest);
        }
        const numbered = (socket) => {
            socket.number ??= ++this.#connections;
            socket.setNoDelay(true); // no provider holds back the rest of an answer until its head is acknowledged
            if (http2Only) socket.alpnProtocol ||= 'h2'; // a client that leaves it unsaid, as gRPC's may
        };
        this.server.prependListener(this.options.tls ? 'secureConnection' : 'connection', numbered);
        this.server.on('session', (session) => {
            this.#sessions.add(session);
            session.on('close', () => this.#sessions.delete(session)).on('error', () => {});
        });
        const port = await listen(this.server, Number(this.options.port), this.options.host);
        this.admin = http.createServer({ keepAliveTimeout: 60000 }, (req, res) =>
            this.#administer(req, res).catch((error) => {
                res.writeHead(400).end(JSON.stringify({ error: error.message }));
            }),
        );
        const adminPort = await listen(this.admin, 0, '127.0.0.1');
        return {
            port,
            url: `${this.options.tls ? 'https' : 'http'}://${this.options.host}:${port}`,
            admin: `http://127.0.0.1:${adminPort}`,
            ...(made.ca ? { ca: made.ca } : {}),
        };
    }

    async #serve(req, res) {
        const [where, query = ''] = req.url.split(/\?(.*)/s);
        const line = {
            n: this.requests.length + 1,
            connection: (req.stream?.session.socket ?? req.socket).number,
            http: req.httpVersion,
            method: req.method,
            path: where,
        };
        this.requests.push(line);
        const fault = this.faults.strike(req.method, where);
        if (fault)
            line.fault = Object.keys(fault)
                .filter((key) => !['match', 'at', 'times', 'seen', 'hit', 'matches'].includes(key))
                .join('+');
        const reply = new Reply(res, fault);
        reply.onClose(() => Object.assign(line, { status: reply.status, bytes: reply.bytes, grpc: reply.grpc }));
        const request = {
            method: req.method,
            path: where,
            query: new URLSearchParams(query),
            headers: req.headers,
            host: req.headers[':authority'] ?? req.headers.host ?? '',
            body: () => bodyOf(req),
            stream: req,
        };

        if (fault?.goaway) reply.goaway();
        const wait = Number(this.options.latency) + (fault?.delay ?? 0);
        if (wait) await new Promise((then) => setTimeout(then, wait));
        const dropped = fault?.drop || (fault?.hangup && fault.cut === undefined);
        const replaced = dropped || fault?.status || fault?.grpc !== undefined;
        if (!replaced) return this.fake.handle(request, reply);
        if (fault.handled) await this.fake.handle(request, LOST);
        else await request.body();
        if (dropped) return reply.reset();
        if (fault.grpc !== undefined) {
            return reply.headOnly(200, {
                'content-type': 'application/grpc',
                'grpc-status': String(fault.grpc),
                'grpc-message': encodeURIComponent(fault.message ?? ''),
                ...(fault.details ? { 'grpc-status-details-bin': fault.details } : {}),
            });
        }
        const text =
            typeof fault.body === 'string'
                ? fault.body
                : JSON.stringify(fault.body ?? { code: fault.status, message: 'the fake was told to fail' });
        reply.head(fault.status, {
            'content-type': typeof fault.body === 'string' ? 'text/html' : 'application/json',
            ...fault.headers,
        });
        reply.end(fault.base64 === undefined ? text : Buffer.from(fault.base64, 'base64'));
    }

    async #administer(req, res) {
        const sent = await bodyOf(req);
        const value = sent.length ? JSON.parse(sent) : {};
        const routes = {
            'GET /state': () => this.fake.state(),
            'GET /requests': () => this.requests,
            'DELETE /requests': () => {
                this.requests = [];
            },
            'GET /faults': () => this.faults.list(),
            'PUT /faults': () => this.faults.set(value),
            'PUT /options': () => {
                Object.assign(this.options, value);
            },
            'POST /clock': () => this.clock.advance(value.advance * 1000),
            'POST /goaway': () => {
                for (const session of this.#sessions) session.goaway();
                this.server.closeIdleConnections?.();
            },
        };
        const route = routes[`${req.method} ${req.url}`];
        if (!route) throw new Error(`there is no ${req.method} ${req.url}; there are: ${Object.keys(routes).join(', ')}`);
        const told = JSON.stringify((await route()) ?? {});
        res.writeHead(200, { 'content-type': 'application/json' }).end(told);
    }
}

const COMMON = {
    port: { type: 'string', default: '0' },
    host: { type: 'string', default: '127.0.0.1' }, // another address of loopback is none that a client takes for a test
    tls: { type: 'boolean', default: false },
    latency: { type: 'string', default: '0' }, // milliseconds before each answer
    'clock-scale': { type: 'string', default: '1' },
    faults: { type: 'string', default: '[]' }, // the table to begin with, as JSON
    disk: { type: 'string', default: '0' }, // of each computer, in MiB; 0: as large as can be
};

// Runs a fake as a program: its options, its folder, its one line of output, its end.
export async function runFake(name, options, make) {
    const chosen = parseArgs({ options: { ...COMMON, ...options } }).values;
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), `fake-${name}-`));
    const clock = new Clock(Number(chosen['clock-scale']));
    const listener = new Listener(chosen, folder, clock);
    listener.faults.set(JSON.parse(chosen.faults));
    const fake = await make(chosen, folder, clock, listener);
    let ending = false;
    const endWith = async (code) => {
        if (ending) return;
        ending = true;
        await fake.close();
        fs.rmSync(folder, { recursive: true, force: true });
        process.exit(code);
    };
    const end = () => endWith(0);
    process
        .on('SIGTERM', end)
        .on('SIGINT', end)
        .on('uncaughtException', (error) => {
            process.stderr.write(`${error.stack}\n`);
            endWith(1);
        });
    const stdin = fs.fstatSync(0);
    if (stdin.isFIFO() || stdin.isSocket()) process.stdin.on('end', end).on('error', end).resume();
    const opened = await listener.open(fake, fake.listening);
    process.stdout.write(`${JSON.stringify(fake.ready(opened))}\n`);
}
