// The server under test over Streamable HTTP, spoken to in requests of our own making: any header, any body, any ending.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { once } from 'node:events';
import { LEGACY, MODERN, messageFaults } from './schemas.mjs';
import { allGone, defer, family, temporaryFolder } from './machine.mjs';
import { BINARY, modernMeta, NEWEST_LEGACY } from './server.mjs';

const BOTH = 'application/json, text/event-stream';
export const INITIALIZE = { jsonrpc: '2.0', id: 1, method: 'initialize',
    params: { protocolVersion: LEGACY.at(-1), capabilities: {}, clientInfo: { name: 'raw', version: '1' } } };

// The events of a text/event-stream, as far as they are whole: { id, data, retry, comment }.
export function parseEvents(text) {
    return text.split('\n\n').slice(0, -1).map((block) => {
        const event = {};
        for (const line of block.split('\n')) {
            const colon = line.indexOf(':');
            if (colon === 0) event.comment = line.slice(1).trim();
            else event[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, '');
        }
        return event;
    });
}

// One request, and its response as it comes.
export class Exchange {
    status = null;
    headers = {};
    text = '';
    ended = false;
    cut = false; // the connection broke before the response was whole
    #changed = [];

    constructor(request) {
        this.request = request;
        this.answered = new Promise((resolve, reject) => {
            request.on('response', (response) => {
                this.status = response.statusCode;
                this.headers = response.headers;
                response.setEncoding('utf8');
                response.on('data', (chunk) => {
                    this.text += chunk;
                    this.#wake();
                });
                response.on('error', () => {});
                response.on('close', () => {
                    this.ended = true;
                    this.cut = !response.complete;
                    this.#wake();
                });
                resolve(this);
            });
            request.on('error', (error) => {
                this.error = error;
                this.ended = this.cut = true;
                this.#wake();
                reject(error);
            });
        });
        this.answered.catch(() => {});
    }

    #wake() {
        for (const resolve of this.#changed.splice(0)) resolve();
    }

    get isStream() {
        return (this.headers['content-type'] ?? '').startsWith('text/event-stream');
    }

    get events() {
        return parseEvents(this.text);
    }

    // The JSON-RPC messages that have come.
    get messages() {
        if (this.isStream) return this.events.filter((e) => e.data).map((e) => JSON.parse(e.data));
        return this.text ? [JSON.parse(this.text)].flat() : [];
    }

    get reply() {
        return this.messages.find((m) => m.id !== undefined && !m.method);
    }

    // The next time that something comes, or the end.
    change() {
        return new Promise((resolve) => this.#changed.push(resolve));
    }

    async until(probe) {
        while (!probe(this)) {
            if (this.ended) throw new Error(`the response ended: ${this.status} ${this.text}`);
            await this.change();
        }
        return this;
    }

    async whole() {
        await this.answered;
        while (!this.ended) await this.change();
        return this;
    }

    // The client goes away.
    abort() {
        this.request.destroy();
    }
}

export class HttpServer {
    faults = [];
    stderr = '';
    #nextId = 1;

    constructor(child, stateDir) {
        this.child = child;
        this.pid = child.pid;
        this.stateDir = stateDir;
        this.exited = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal })));
        child.stderr.on('data', (chunk) => (this.stderr += chunk));
        this.agent = new http.Agent({ keepAlive: true });
    }

    // Where it says that it listens: { port } or { socketPath }.
    async listening() {
        const line = /listening on (?:http:\/\/(.+):(\d+)\/mcp|unix:(.+))\n/;
        let ended = false;
        const end = this.exited.then(() => (ended = true));
        while (!line.test(this.stderr)) {
            if (ended) throw new Error(`it has ended: ${this.stderr}`);
            await Promise.race([once(this.child.stderr, 'data'), end]);
        }
        const [, host, port, socketPath] = line.exec(this.stderr);
        this.address = socketPath ? { socketPath } : { host: host.replace(/[[\]]/g, ''), port: Number(port) };
        this.url = `http://${host}:${port}/mcp`;
        return this;
    }

    start(method, { path = '/mcp', headers = {}, body, agent = this.agent } = {}) {
        const request = http.request({ ...this.address, method, path, headers, agent });
        const exchange = new Exchange(request);
        request.end(body);
        return exchange;
    }

    fetch(method, how) {
        return this.start(method, how).whole();
    }

    // A POST of one message to /mcp.
    post(message, headers = {}) {
        const body = typeof message === 'string' || Buffer.isBuffer(message) ? message : JSON.stringify(message);
        return this.start('POST', { headers: { 'content-type': 'application/json', accept: BOTH, ...headers }, body });
    }

    nextId() {
        return this.#nextId++;
    }

    async session(options) {
        const session = new Session(this, options);
        await session.initialize();
        return session;
    }

    // A request of the modern era.
    modern(method, params = {}, headers = {}) {
        const id = this.nextId();
        const routing = { 'mcp-protocol-version': MODERN, 'mcp-method': method, ...(params.name ? { 'mcp-name': params.name } : {}) };
        return this.post({ jsonrpc: '2.0', id, method, params: { ...params, _meta: { ...modernMeta(), ...params._meta } } },
            { ...routing, ...headers });
    }

    async modernRun(args, headers) {
        const done = await this.modern('tools/call', { name: 'terminal_execute', arguments: args }, headers).whole();
        assert.equal(done.status, 200, done.text);
        this.check(done, MODERN, 'tools/call');
        return done.reply.result.structuredContent;
    }

    check(exchange, revision, method) {
        for (const message of exchange.messages) this.faults.push(...messageFaults(message, revision, method));
    }

    family() {
        return family(this.pid);
    }

    async stop(signal = 'SIGTERM') {
        const all = this.family();
        this.child.kill(signal);
        const status = await this.exited;
        await allGone(all, `all processes of server ${this.pid} are gone`);
        return status;
    }
}

// A legacy session.
export class Session {
    constructor(server, { headers = {}, version = NEWEST_LEGACY } = {}) {
        this.server = server;
        this.own = headers;
        this.version = version;
    }

    get headers() {
        return { 'mcp-session-id': this.id, 'mcp-protocol-version': this.version, ...this.own };
    }

    async initialize(headers = {}) {
        const done = await this.server.post({ jsonrpc: '2.0', id: 0, method: 'initialize',
            params: { protocolVersion: this.version, capabilities: {}, clientInfo: { name: 'raw', version: '1' } } },
        { ...this.own, ...headers }).whole();
        assert.equal(done.status, 200, done.text);
        this.server.check(done, this.version, 'initialize');
        this.id = done.headers['mcp-session-id'];
        assert.match(this.id, /^[\x21-\x7e]{16,}$/);
        const told = await this.server.post({ jsonrpc: '2.0', method: 'notifications/initialized' }, this.headers).whole();
        assert.deepEqual([told.status, told.text], [202, '']);
    }

    // A request; gives the exchange with the request's id.
    start(method, params = {}, headers = {}) {
        const id = this.server.nextId();
        const exchange = this.server.post({ jsonrpc: '2.0', id, method, params }, { ...this.headers, ...headers });
        exchange.id = id;
        return exchange;
    }

    startRun(command, more = {}) {
        const { meta, ...args } = more;
        return this.start('tools/call', { name: 'terminal_execute', arguments: { command, ...args }, ...(meta ? { _meta: meta } : {}) });
    }

    // A command that is expected to run: its structured content.
    async run(command, more) {
        const done = await this.startRun(command, more).whole();
        assert.equal(done.status, 200, done.text);
        this.server.check(done, this.version, 'tools/call');
        return done.reply.result.structuredContent;
    }

    // Starts a command and waits until it runs.
    async startAndReach(command, more) {
        const mark = `/tmp/reached-${this.server.nextId()}`;
        const exchange = this.startRun(`touch ${mark}\n${command}`, more);
        exchange.answered.catch(() => {});
        while ((await this.run(`[ -e ${mark} ]`)).exit_code !== 0);
        return exchange;
    }

    notify(method, params) {
        return this.server.post({ jsonrpc: '2.0', method, params }, this.headers).whole();
    }

    // An event stream to listen on; with lastEventId, the rest of one.
    listen(lastEventId) {
        return this.server.start('GET', { headers: { accept: 'text/event-stream', ...this.headers,
            ...(lastEventId ? { 'last-event-id': lastEventId } : {}) }, agent: false });
    }

    end() {
        return this.server.fetch('DELETE', { headers: this.headers });
    }
}

// A server that listens; the caller stops it.
export async function spawnHttp(binary, args, env = {}) {
    const child = spawn(binary, ['--transport', 'http', '--port', '0', ...args],
        { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, KILNTAINERS_AUTH_TOKEN: '', ...env } });
    return new HttpServer(child).listening();
}

// For --auth-token-file. tokens: { name: token }.
export function tokenFile(t, tokens) {
    const file = path.join(temporaryFolder(t, 'tokens-'), 'tokens');
    fs.writeFileSync(file, Object.entries(tokens).map(([name, token]) => `${name} ${token}\n`).join(''));
    return file;
}

// settings: args, env, stateDir (for several servers), address (arguments that say where to listen).
export async function startHttp(t, { args = [], env = {}, stateDir, address = ['--port', '0'] } = {}) {
    stateDir ??= temporaryFolder(t, 'state-');
    const child = spawn(BINARY, ['--backend', 'native', '--transport', 'http', '--state-dir', stateDir, ...address, ...args],
        { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, KILNTAINERS_AUTH_TOKEN: '', ...env } });
    const server = new HttpServer(child, stateDir);
    defer(t, async () => {
        server.agent.destroy();
        if (child.exitCode === null && child.signalCode === null) await server.stop();
        assert.deepEqual(server.faults, [], 'everything that the server wrote is right');
    });
    return server.listening();
}

export { LEGACY, MODERN, NEWEST_LEGACY };
