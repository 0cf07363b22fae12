// A host and a server in one, for the dashboard alone: a page with the dashboard in a frame that may do as little as any host
// lets it (scripts, and nothing else: no forms, no origin), the host's side of MCP Apps 2026-01-26, and tools that answer from a
// world that a test makes as it likes.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { defer, eventually, temporaryFolder } from '../integration/support/machine.mjs';

const root = path.resolve(import.meta.dirname, '../..');

// The page as the build makes it.
export function dashboardPage(t) {
    const output = path.join(temporaryFolder(t, 'page-'), 'dashboard.html');
    execFileSync(path.join(root, 'tools/join-page'), [path.join(root, 'web/dashboard/dashboard.html'), output]);
    return fs.readFileSync(output, 'utf8');
}

class Refusal extends Error {
    constructor(message, code) {
        super(message);
        this.code = code;
    }
}

const notFound = (id) => new Refusal(`Computer '${id}' was not found. computer_list shows those there are.`, 'computer_not_found');
const MIB = 1024 * 1024;
const HISTORY_S = 300;

// What the tools answer from. Time is the world's own: advance() makes minutes of history in an instant.
export class World {
    computers = new Map();
    calls = []; // { name, args }, as they came
    dead = false; // nobody answers
    options = ['image', 'cpu', 'memory', 'pids', 'disk', 'network', 'env'];
    refusals = new Map(); // by tool: the error that its next calls end with
    run = async ({ command }) => ({ stdout: `${command}\n` }); // what a command comes to
    #shift = 0;
    #commands = 0;
    #cpu = new Map();

    get now() {
        return Date.now() + this.#shift;
    }

    advance(seconds) {
        this.#shift += seconds * 1000;
    }

    add(id, more = {}) {
        const computer = {
            computer_id: id, sandbox_id: '', backend: 'native', state: 'running', temporary: true, image: '',
            created_at: new Date(this.now - 1000 * HISTORY_S).toISOString(), last_used: new Date(this.now - 20000).toISOString(),
            sessions: 1, commands_running: 0, network: false,
            limits: { memory: { value: 512 * MIB, enforced: true }, pids: { value: 256, enforced: true }, cpu: { value: 1, enforced: true } },
            metrics: { cpu_ns: 0, memory_bytes: 20 * MIB, pids: 1, disk_bytes: 3 * MIB }, ...more,
        };
        if (computer.state !== 'running') {
            delete computer.metrics;
            delete computer.limits;
            delete computer.network;
        }
        this.computers.set(id, computer);
        return computer;
    }

    // A running command, as computer_status tells of it.
    addCommand(id, text) {
        const computer = this.computers.get(id);
        const running = { command: ++this.#commands, text, started_at: new Date(this.now).toISOString() };
        computer.running = [...(computer.running ?? []), running];
        computer.commands_running = computer.running.length;
        return running;
    }

    endCommand(id, number, exitCode, ms) {
        const computer = this.computers.get(id);
        if (!computer) return;
        const ended = computer.running.find((r) => r.command === number);
        computer.running = computer.running.filter((r) => r !== ended);
        computer.commands_running = computer.running.length;
        if (computer.running.length === 0) delete computer.running;
        computer.last_command = { text: ended.text, exit_code: exitCode, duration_ms: ms, ended_at: new Date(this.now).toISOString() };
    }

    status() {
        const computers = [...this.computers.values()].sort((a, b) => (a.computer_id < b.computer_id ? -1 : 1));
        return { computers, count: computers.length, now: new Date(this.now).toISOString(), backend: 'native', options: this.options,
            server: '0.1.0' };
    }

    need(id) {
        if (!this.computers.has(id)) throw notFound(id);
        return this.computers.get(id);
    }

    changed(id, more = {}) {
        const c = this.need(id);
        return { ok: true, computer_id: id, sandbox_id: c.sandbox_id, temporary: c.temporary, state: c.state, ...more };
    }

    #cancels = new Map();

    tools = {
        computer_status: () => this.status(),
        computer_create: ({ computer_id: id = `calm-tiger-${this.computers.size}`, temporary = true, description }) => {
            const created = !this.computers.has(id);
            if (created) this.add(id, { temporary, description });
            return this.changed(id, { created });
        },
        computer_restart: ({ computer_id: id }) => this.changed(id),
        computer_factory_reset: ({ computer_id: id }) => this.changed(id),
        computer_delete: ({ computer_id: id }) => ({ ok: true, computer_id: id, deleted: this.computers.delete(id) }),
        computer_cancel: ({ command }) => {
            this.#cancels.get(command)?.();
            return { ok: true, cancelled: this.#cancels.has(command) };
        },
        terminal_execute: async ({ computer_id: id, command }) => {
            const { temporary } = this.need(id);
            const running = this.addCommand(id, command.slice(0, 255));
            const cancelled = new Promise((resolve, reject) => {
                this.#cancels.set(running.command, () => reject(new Refusal('The command was cancelled.', 'cancelled')));
            });
            cancelled.catch(() => {});
            try {
                const r = await Promise.race([this.run({ id, command }), cancelled]);
                const result = { computer_id: id, temporary, stdout: '', stderr: '', exit_code: 0, exec_duration_ms: 12, ...r };
                this.endCommand(id, running.command, result.exit_code, result.exec_duration_ms);
                return result;
            } catch (error) {
                this.endCommand(id, running.command, 137, 12);
                throw error;
            } finally {
                this.#cancels.delete(running.command);
            }
        },
    };

    // A JSON-RPC result, or an error as a host gives it when its server is gone.
    async call(name, args) {
        this.calls.push({ name, args });
        if (this.dead) return { error: { code: -32603, message: 'fetch failed' } };
        try {
            if (this.refusals.has(name)) throw this.refusals.get(name);
            const value = structuredClone(await this.tools[name](args));
            if (this.dead) return { error: { code: -32603, message: 'fetch failed' } };
            return { result: { content: [{ type: 'text', text: JSON.stringify(value) }], structuredContent: value } };
        } catch (error) {
            if (!(error instanceof Refusal)) throw error;
            const value = { error: error.message, code: error.code };
            return { result: { isError: true, content: [{ type: 'text', text: JSON.stringify(value) }], structuredContent: value } };
        }
    }

    refuse(name, message, code) {
        this.refusals.set(name, new Refusal(message, code));
    }

    countOf(name) {
        return this.calls.filter((call) => call.name === name).length;
    }
}

// Runs in the host's page.
function hostSide({ page, context, capabilities, result }) {
    document.body.style.margin = '0';
    const frame = document.createElement('iframe');
    frame.sandbox = 'allow-scripts';
    frame.style = 'border:0;display:block;width:100vw;height:100vh';
    window.received = [];
    window.post = (message) => frame.contentWindow.postMessage({ jsonrpc: '2.0', ...message }, '*');
    window.addEventListener('message', async ({ source, data }) => {
        if (source !== frame.contentWindow) return;
        window.received.push(data);
        if (data.method === 'ui/initialize') {
            window.post({ id: data.id, result: { protocolVersion: '2026-01-26', hostInfo: { name: 'mock', version: '1' },
                hostCapabilities: capabilities, hostContext: context } });
        } else if (data.method === 'ui/notifications/initialized') {
            if (result) window.post({ method: 'ui/notifications/tool-result', params: result });
        } else if (data.method === 'tools/call') {
            window.post({ id: data.id, ...(await window.callTool(data.params.name, data.params.arguments)) });
        } else if (data.id !== undefined && data.method) {
            window.post({ id: data.id, error: { code: -32601, message: 'unknown method' } });
        }
    });
    frame.srcdoc = page;
    document.body.append(frame);
}

// Opens the dashboard in a page of its own. settings: width, height, theme, locale, context, capabilities, result (of the call
// that opened it, a CallToolResult), complaint (an expected one). Gives { page, frame, world }; whatever else the page complains
// of fails the test.
export async function openDashboard(t, browser, world, settings = {}) {
    const { width = 1000, height = 720, theme = 'light', locale = 'en-GB', capabilities = { serverTools: {} }, result } = settings;
    const page = await browser.newPage();
    const faults = [];
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('console', (message) => ['error', 'warn'].includes(message.type()) && faults.push(message.text()));
    page.on('dialog', (dialog) => {
        faults.push(`a dialog: ${dialog.message()}`);
        dialog.dismiss();
    });
    defer(t, async () => {
        await page.close();
        const unexpected = faults.filter((fault) => !settings.complaint?.test(fault));
        if (unexpected.length) throw new Error(`the page complained: ${unexpected.join('; ')}`);
    });
    await page.setViewport({ width, height });
    await page.exposeFunction('callTool', (name, args) => world.call(name, args));
    const context = { theme, locale, displayMode: 'inline', containerDimensions: { width, height }, ...settings.context };
    await page.evaluate(hostSide, { page: dashboardPage(t), context, capabilities, result });
    const frame = await eventually('the dashboard is there', async () => {
        const found = page.frames().find((f) => f !== page.mainFrame());
        return (await found?.$('#app')) && found;
    });
    return { page, frame, world };
}
