// Under a service manager such as systemd: sockets that it has opened, and what it wants to be told.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import http from 'node:http';
import path from 'node:path';
import readline from 'node:readline';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { defer, eventually, temporaryFolder } from './support/machine.mjs';
import { BINARY } from './support/server.mjs';

const MANAGER = fileURLToPath(new URL('support/service-manager', import.meta.url));
const TOKEN = 'a-token-for-tests';

class Manager {
    stderr = '';
    sockets = [];
    #lines;

    constructor(t, addresses, { args = [], env = {} } = {}) {
        const state = temporaryFolder(t, 'state-');
        this.child = spawn(MANAGER, [...addresses, '--', BINARY, '--backend', 'native', '--transport', 'http', '--state-dir', state, ...args],
            { env: { ...process.env, KILNTAINERS_AUTH_TOKEN: '', ...env } });
        this.child.stderr.on('data', (chunk) => (this.stderr += chunk));
        this.#lines = readline.createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
        const ended = new Promise((resolve) => this.child.on('close', resolve));
        defer(t, () => (this.child.stdin.end(), ended));
    }

    // Reads what happens until it is this; gives the rest of that line.
    async until(what) {
        for (;;) {
            const { value, done } = await this.#lines.next();
            assert.ok(!done, `the manager has ended: ${this.stderr}`);
            if (value.startsWith('socket ')) this.sockets.push(value.slice('socket '.length));
            if (value.startsWith(what)) return value.slice(what.length).trim();
            if (value.startsWith('exit ')) throw new Error(`${value}: ${this.stderr}`);
        }
    }

    async start() {
        this.child.stdin.write('start\n');
        await this.until('notify READY=1');
    }

    async kill(signal) {
        this.child.stdin.write(`kill ${signal}\n`);
        await this.until('notify STOPPING=1');
        return this.until('exit ');
    }

    // The status of an answer.
    get(number, urlPath = '/healthz', headers = {}) {
        const address = this.sockets[number];
        const [host, port] = address.split(':');
        const where = address.startsWith('/') ? { socketPath: address } : { host: host === '0.0.0.0' ? '127.0.0.1' : host, port };
        return new Promise((resolve, reject) => {
            http.get({ ...where, path: urlPath, headers, agent: false }, (response) => response.resume().on('end', () => resolve(response.statusCode)))
                .on('error', reject);
        });
    }
}

test('sockets are passed on, and a restart loses no client', async (t) => {
    const manager = new Manager(t, ['127.0.0.1:0', path.join(temporaryFolder(t, 'run-'), 'socket')]);
    await manager.start();
    assert.equal(await manager.get(0), 200);
    assert.equal(await manager.get(1), 200);
    assert.equal(await manager.get(0, '/', { host: 'evil.example' }), 403);
    assert.equal(await manager.kill('SIGTERM'), '0');
    const between = [manager.get(0), manager.get(1)];
    await manager.start();
    assert.deepEqual(await Promise.all(between), [200, 200]);
});

test('the watchdog hears of us again and again', async (t) => {
    const manager = new Manager(t, ['127.0.0.1:0']);
    await manager.start();
    for (let i = 0; i < 3; i++) await manager.until('notify WATCHDOG=1');
});

test('sockets that other machines get to need a token', async (t) => {
    const open = new Manager(t, ['0.0.0.0:0']);
    open.child.stdin.write('start\n');
    assert.equal(await open.until('exit '), '1');
    await eventually('it is said why', () => /let other machines in without a token; give --auth-token-file/.test(open.stderr));

    const guarded = new Manager(t, ['0.0.0.0:0'], { env: { KILNTAINERS_AUTH_TOKEN: TOKEN } });
    await guarded.start();
    assert.equal(await guarded.get(0, '/', { host: 'box.example' }), 200);
    assert.equal(await guarded.get(0, '/mcp', { host: 'box.example' }), 401);

    const allowed = new Manager(t, ['0.0.0.0:0'], { args: ['--allow-unauthenticated-http'] });
    await allowed.start();
    assert.equal(await allowed.get(0, '/', { host: 'box.example' }), 403);
    assert.equal(await allowed.get(0, '/'), 200);
});
