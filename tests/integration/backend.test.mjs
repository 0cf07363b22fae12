// Which backend it is: named, meant, or asked for, and what the client sees meanwhile.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import test from 'node:test';
import { absentEngine, answeringEngine, brokenEngine, hasEngine, noEngine, silentEngine } from './support/engine.mjs';
import { defer, eventually, needsRoot, temporaryFolder } from './support/machine.mjs';
import { BINARY, NEWEST_LEGACY, modernMeta, startServer } from './support/server.mjs';

const noneHere = { skip: hasEngine ? 'this machine has an engine' : needsRoot.skip };
const AUTO = ['--backend', 'auto', '--no-network', '--log-level', 'info'];

async function toolText(server) {
    const { tools } = (await server.request('tools/list')).result;
    return tools[0].description;
}

test('no engine in sight: native, said once', noneHere, async (t) => {
    const server = await startServer(t, { args: AUTO, env: noEngine(t).env });
    assert.match(await toolText(server), /this machine's programs[^]*512 MiB of memory, 512 processes, 1 CPU/);
    assert.equal((await server.run('echo here')).stdout, 'here\n');
    await server.stop();
    assert.equal(server.stderr.match(/native backend/g).length, 1);
});

test('an engine that answers: docker', async (t) => {
    const server = await startServer(t, { args: AUTO, env: (await answeringEngine(t)).env });
    assert.match(await toolText(server), /a container of the image debian:bookworm-slim[^]*half of the engine's memory, 1024 processes/);
    await eventually('the choice is said', () => /docker backend/.test(server.stderr));
});

test('one at a usual place: docker', { skip: hasEngine ? 'this machine has an engine' : false }, async (t) => {
    const server = await startServer(t, { args: AUTO, env: (await answeringEngine(t)).usual });
    assert.match(await toolText(server), /a container of the image/);
});

for (const [what, make] of [['that is not there', absentEngine], ['that closes its connections', brokenEngine]]) {
    test(`an engine ${what}: native`, needsRoot, async (t) => {
        const server = await startServer(t, { args: AUTO, env: (await make(t)).env });
        assert.match(await toolText(server), /this machine's programs/);
        await eventually('the choice is said', () => /native backend/.test(server.stderr));
    });
}

test('an engine that hangs: native after a while', needsRoot, async (t) => {
    const server = await startServer(t, { args: AUTO, env: (await silentEngine(t)).env });
    assert.match(await toolText(server), /this machine's programs/);
    assert.equal((await server.run('echo here')).stdout, 'here\n');
});

// All input is there from the beginning, in a file.
async function runOnce(t, env, messages) {
    const folder = temporaryFolder(t, 'once-');
    fs.writeFileSync(path.join(folder, 'input'), messages.map((one) => `${JSON.stringify(one)}\n`).join(''));
    const child = spawn(BINARY, ['--state-dir', path.join(folder, 'state'), ...AUTO, '--log-level', 'debug'],
        { stdio: [fs.openSync(path.join(folder, 'input')), 'pipe', 'pipe'], env: { ...process.env, ...env } });
    let stdout = '', stderr = '';
    child.stdout.on('data', (chunk) => (stdout += chunk));
    child.stderr.on('data', (chunk) => (stderr += chunk));
    await new Promise((resolve) => child.on('close', resolve));
    return { replies: stdout.trim().split('\n').map((line) => JSON.parse(line)), stderr };
}

test('an engine that hangs delays no greeting', needsRoot, async (t) => {
    const { env } = await silentEngine(t);
    const greeting = { protocolVersion: NEWEST_LEGACY, capabilities: {}, clientInfo: { name: 'raw', version: '1' } };
    const { replies, stderr } = await runOnce(t, env, [{ jsonrpc: '2.0', id: 1, method: 'initialize', params: greeting },
        { jsonrpc: '2.0', id: 2, method: 'tools/list' }, { jsonrpc: '2.0', id: 3, method: 'ping' }]);
    assert.deepEqual(replies.map((reply) => reply.id), [1, 2, 3]);
    assert.equal(replies[1].result.tools.length, 1);
    const greeted = stderr.indexOf('initialize: asked for');
    assert.ok(greeted >= 0 && greeted < stderr.indexOf('native backend'), `greeted before anything was chosen: ${stderr}`);
});

test('the same in the newest revision', needsRoot, async (t) => {
    const { env } = await silentEngine(t);
    const { replies } = await runOnce(t, env, ['server/discover', 'tools/list'].map((method, id) => (
        { jsonrpc: '2.0', id, method, params: { _meta: modernMeta() } })));
    assert.ok(replies[0].result.supportedVersions.length > 0);
    assert.equal(replies[1].result.tools.length, 1);
});

test('a server that is told to end while it asks, ends', async (t) => {
    const { env, asked } = await silentEngine(t);
    const server = await startServer(t, { args: AUTO, env, version: null });
    await asked;
    server.start('tools/list', {}, { modern: true }).reply.catch(() => {});
    assert.deepEqual(await server.kill('SIGTERM'), { code: 0, signal: null });
});

// Of a provider whose API is this; it ends with the test.
async function providerAt(t, listener) {
    await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
    defer(t, () => listener.close());
    const base = `http://127.0.0.1:${listener.address().port}`;
    const env = { FLY_API_TOKEN: 'a-token', FLY_API_BASE_URL: base, HOME: temporaryFolder(t, 'home-') }; // which root under systemd lacks
    return startServer(t, { args: ['--backend', 'fly', '--log-level', 'debug'], env });
}

test('why no computer can be made is said at the start', async (t) => {
    const server = await providerAt(t, http.createServer((request, response) => response.writeHead(401).end()));
    await eventually('it is said', () => /no computer can be made: Fly refuses the token/.test(server.stderr));
});

test('what fails when the server ends is no reason', async (t) => {
    let asked;
    const connected = new Promise((resolve) => (asked = resolve));
    const server = await providerAt(t, http.createServer((request, response) => asked(response)));
    const response = await connected;
    server.child.kill('SIGTERM');
    await eventually('it ends', () => /ending on Terminated/.test(server.stderr));
    response.writeHead(401).end();
    assert.deepEqual(await server.exited, { code: 0, signal: null });
    assert.doesNotMatch(server.stderr, /can be made/);
});

test('an option that means docker never falls back', async (t) => {
    const { env } = absentEngine(t);
    for (const [args, more] of [[['--image', 'alpine'], {}], [['--network'], {}], [[], { DOCKER_HOST: 'unix:///nonexistent/docker.sock' }]]) {
        const server = await startServer(t, { args: ['--backend', 'auto', ...args], env: { ...env, ...more } });
        assert.match(await toolText(server), /a container of the image/);
        const { isError, value } = await server.exec({ command: 'true' });
        assert.ok(isError);
        assert.equal(value.code, 'unavailable');
        await server.stop();
    }
});
