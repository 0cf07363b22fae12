// The server under test over stdio, spoken to in raw lines. Everything that it writes is recorded and checked: each line of
// stdout is one JSON message in valid UTF-8 that satisfies the official schema of its revision, structured content satisfies
// the tool's own output schema, and text and structured content say the same. What was wrong fails the test at its end.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import path from 'node:path';
import { LEGACY, MODERN, messageFaults, structuredFaults } from './schemas.mjs';
import { Bridge } from './bridge.mjs';
import { spawnHttp } from './http.mjs';
import { allGone, defer, family, temporaryFolder } from './machine.mjs';

const here = path.dirname(new URL(import.meta.url).pathname);
export const BINARY = process.env.MCP_SERVER ?? path.resolve(here, '../../../build/mcp-sandbox-computer-vm-for-ai');
export const NEWEST_LEGACY = LEGACY.at(-1);

const CODES = ['invalid_argument', 'cwd_not_found', 'shell_not_found', 'computer_not_found', 'computer_gone', 'computer_deleted',
    'busy', 'limit', 'timeout', 'cancelled', 'unavailable', 'unsupported', 'denied', 'internal'];

// What a modern request carries in its params.
export function modernMeta(extra = {}) {
    return {
        'io.modelcontextprotocol/protocolVersion': MODERN,
        'io.modelcontextprotocol/clientCapabilities': {},
        'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
        ...extra,
    };
}

function utf8(bytes) {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
}

export class Server {
    messages = []; // as received: { message, line }
    faults = [];
    stderr = '';
    #nextId = 1;
    #requests = new Map(); // by JSON text of the id: { method, revision }
    #waiting = []; // { match, resolve, reject }
    #partial = [];
    #outputSchemas = new Map();
    #exit = null;

    constructor(child, stateDir, settings) {
        this.child = child;
        this.pid = child.pid;
        this.stateDir = stateDir;
        this.revision = settings.version ?? MODERN;
        this.modern = settings.version === MODERN;
        this.tool = settings.tool;
        // What it said last may come after its exit: so that is waited for, too.
        this.exited = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal })));
        child.on('close', () => this.#ended());
        child.stdin.on('error', () => {}); // a server that ended is seen by its exit
        child.stdout.on('data', (chunk) => this.#read(chunk));
        if (settings.readStderr) child.stderr.on('data', (chunk) => (this.stderr += chunk));
    }

    #ended() {
        if (this.#partial.length) this.faults.push('the last line of stdout has no end');
        this.#exit = new Error(`the server has ended; stderr: ${this.stderr}`);
        for (const { reject } of this.#waiting.splice(0)) reject(this.#exit);
    }

    #read(chunk) {
        for (let end; (end = chunk.indexOf(10)) >= 0; chunk = chunk.subarray(end + 1)) {
            const line = Buffer.concat([...this.#partial, chunk.subarray(0, end)]);
            this.#partial = [];
            this.#take(line);
        }
        if (chunk.length) this.#partial.push(chunk);
    }

    #take(bytes) {
        let line, message;
        try {
            line = utf8(bytes);
            message = JSON.parse(line);
        } catch (error) {
            this.faults.push(`not a JSON line: ${error.message}: ${bytes.subarray(0, 200)}`);
            return;
        }
        for (const one of [message].flat()) this.#check(one);
        if (Array.isArray(message)) this.faults.push(...messageFaults(message, this.revision));
        const record = { message, line };
        this.messages.push(record);
        const index = this.#waiting.findIndex(({ match }) => match(message));
        if (index >= 0) this.#waiting.splice(index, 1)[0].resolve(record);
    }

    #check(message) {
        const request = this.#requests.get(JSON.stringify(message.id));
        const revision = message.result?.protocolVersion ?? request?.revision ?? this.revision;
        this.faults.push(...messageFaults(message, revision, request?.method));
        for (const tool of message.result?.tools ?? []) this.#outputSchemas.set(tool.name, tool.outputSchema);
        if (request?.method === 'tools/call' && message.result) this.#checkCall(message.result, request.tool);
    }

    #checkCall(result, tool) {
        const structured = result.structuredContent;
        if (!structured || result.content.length === 0) {
            this.faults.push('a tool result lacks structured or text content');
            return;
        }
        const schema = this.#outputSchemas.get(tool);
        if (schema) this.faults.push(...structuredFaults(schema, structured));
        if (result.isError && !(structured.error && CODES.includes(structured.code))) {
            this.faults.push(`an error of no known kind: ${JSON.stringify(structured)}`);
        }
        const text = result.content.map((block) => block.text).join('\n');
        if (JSON.stringify(JSON.parse(text)) !== JSON.stringify(structured)) {
            this.faults.push('text and structured content differ');
        }
    }

    // The next message that matches, or one that has come already.
    async next(match) {
        const found = this.messages.find(({ message }) => match(message));
        if (found) return found;
        if (this.#exit) throw this.#exit;
        return new Promise((resolve, reject) => this.#waiting.push({ match, resolve, reject }));
    }

    // Bytes as they are; the line's end is the caller's business.
    write(bytes) {
        return new Promise((resolve) => this.child.stdin.write(bytes, resolve));
    }

    send(message) {
        return this.write(`${JSON.stringify(message)}\n`);
    }

    // What the checks need to know of a request that a test writes by itself.
    expect(id, method, { revision = this.revision, tool } = {}) {
        this.#requests.set(JSON.stringify(id), { method, revision, tool });
    }

    // Sends a request; `modern` and `id` override what this connection does by default. Gives the id and a promise of the reply.
    start(method, params = {}, { modern = this.modern, id = this.#nextId++, meta } = {}) {
        const _meta = { ...(modern ? modernMeta() : {}), ...meta };
        const all = Object.keys(_meta).length ? { ...params, _meta } : params;
        this.expect(id, method, { revision: modern ? MODERN : this.revision, tool: params.name });
        this.send({ jsonrpc: '2.0', id, method, params: all });
        return { id, reply: this.next((m) => m.id === id && !m.method).then(({ message }) => message) };
    }

    request(method, params, how) {
        return this.start(method, params, how).reply;
    }

    notify(method, params) {
        return this.send({ jsonrpc: '2.0', method, params });
    }

    async initialize(version = NEWEST_LEGACY) {
        const reply = await this.request('initialize',
            { protocolVersion: version, capabilities: {}, clientInfo: { name: 'raw', version: '1' } }, { modern: false });
        this.revision = reply.result.protocolVersion;
        this.modern = false;
        await this.notify('notifications/initialized');
        return reply.result;
    }

    startExec(args, how) {
        return this.start('tools/call', { name: this.tool, arguments: args }, how);
    }

    // One call of the exec tool: its result object, `value` being the structured content.
    async exec(args, how) {
        const reply = await this.startExec(args, how).reply;
        assert.ok(reply.result, `a JSON-RPC error instead of a result: ${JSON.stringify(reply.error)}`);
        return { ...reply.result, value: reply.result.structuredContent, text: reply.result.content[0]?.text };
    }

    // A command that is expected to run: its structured content.
    async run(command, more = {}) {
        const { isError, value } = await this.exec({ command, ...more });
        assert.ok(!isError, `refused: ${JSON.stringify(value)}`);
        return value;
    }

    // Starts a command, and waits until it runs: another one sees the file that it makes first.
    async startAndReach(command, more = {}, how) {
        const mark = `/tmp/reached-${this.#nextId}`;
        const started = this.startExec({ command: `touch ${mark}\n${command}`, ...more }, how);
        const where = more.computer_id ? { computer_id: more.computer_id } : {};
        while ((await this.run(`[ -e ${mark} ]`, where)).exit_code !== 0);
        return started;
    }

    family() {
        return family(this.pid);
    }

    // Ends it in the given way; everything that descends from it has to go too.
    async stop(end = () => this.child.stdin.end()) {
        const all = this.family();
        end();
        const status = await this.exited;
        await allGone(all, `all processes of server ${this.pid} are gone`);
        return status;
    }

    kill(signal) {
        return this.stop(() => this.child.kill(signal));
    }
}

// A process that speaks lines; with MCP_TRANSPORT=http, one behind a bridge that makes it look so.
async function startChild(binary, args, env) {
    if (process.env.MCP_TRANSPORT === 'http') return new Bridge(await spawnHttp(binary, args, env));
    const child = spawn(binary, args, { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, ...env } });
    await new Promise((resolve, reject) => child.on('spawn', resolve).on('error', reject));
    return child;
}

// Starts a server for the test `t`, native unless `args` says otherwise. settings: args, env, binary, stateDir (for several servers), version (null: nothing is sent yet;
// a legacy one: initialized; the modern one: nothing to initialize, but tools/list was asked), tool, readStderr.
export async function startServer(t, { args = [], env = {}, binary = BINARY, stateDir, version = NEWEST_LEGACY,
    tool = 'terminal_execute', readStderr = true } = {}) {
    stateDir ??= temporaryFolder(t, 'state-');
    const child = await startChild(binary, ['--backend', 'native', '--state-dir', stateDir, ...args], env);
    const server = new Server(child, stateDir, { version, tool, readStderr });
    defer(t, async () => {
        if (child.exitCode === null && child.signalCode === null) {
            child.stdout.resume();
            await server.stop();
        }
        assert.deepEqual(server.faults, [], 'everything that the server wrote is right');
    });
    if (version && version !== MODERN) await server.initialize(version);
    if (version) await server.request('tools/list');
    return server;
}
