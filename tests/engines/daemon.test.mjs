// The engine's own faults: it is killed, restarted, gone, slow. The server lives, and permanent computers keep their files.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { eventually } from '../integration/support/machine.mjs';
import { inspect, kind, killEngine, refused, restartEngine, signalEngine, socketPath, startProxy, startServer } from './support/engine.mjs';

// Whatever the engine's restart did to it: perhaps one answer that tells, and then its files.
async function backAgain(server, id) {
    const { isError, value } = await server.exec({ command: 'cat /root/file', computer_id: id });
    if (isError) {
        assert.equal(value.code, 'computer_gone');
        assert.match(value.error, /files are kept/);
    }
    const again = isError ? await server.run('cat /root/file', { computer_id: id }) : value;
    assert.equal(again.stdout, 'data\n');
    assert.ok(!('created' in again));
    assert.equal(again.temporary, false);
}

test('the engine is killed and restarted between two commands', async (t) => {
    const server = await startServer(t);
    await server.run('echo data >/root/file', { computer_id: 'keeper', temporary: false });
    await server.run('true', { computer_id: 'passing' });
    killEngine();
    await restartEngine();
    await backAgain(server, 'keeper');
    // A temporary one ends with the stream to its engine: told once, then new.
    const error = await refused(server, { command: 'true', computer_id: 'passing' });
    assert.equal(error.code, 'computer_gone');
    assert.match(error.error, /files are lost/);
    assert.equal((await server.run('true', { computer_id: 'passing' })).created, true);
});

test('the engine is killed under a command, is away for a while, and comes back', async (t) => {
    const server = await startServer(t);
    await server.run('echo data >/root/file', { computer_id: 'keeper', temporary: false });
    const { reply } = await server.startAndReach('sleep 300', { computer_id: 'keeper' });
    killEngine();
    const { result } = await reply;
    assert.equal(result.isError, true);
    assert.equal(result.structuredContent.code, 'unavailable');
    assert.match(result.structuredContent.error, /engine doesn't answer/);
    for (const id of ['keeper', 'new']) {
        const error = await refused(server, { command: 'true', computer_id: id });
        assert.equal(error.code, 'unavailable');
        assert.match(error.error, new RegExp(socketPath));
    }
    await restartEngine();
    await backAgain(server, 'keeper');
    assert.equal((await server.run('true', { computer_id: 'new' })).created, true);
});

test('the engine is killed while computers are made', async (t) => {
    const server = await startServer(t);
    await server.run('true', { computer_id: 'first' });
    const making = Array.from({ length: 4 }, (_, i) => server.exec({ command: 'true', computer_id: `new-${i}` }));
    await eventually('one is being made', async () => (await Promise.all([0, 1, 2, 3].map((i) => inspect(`new-${i}`)))).some(Boolean));
    killEngine();
    const results = await Promise.all(making);
    for (const { isError, value } of results) {
        assert.ok(!isError || ['unavailable', 'computer_gone'].includes(value.code), JSON.stringify(value));
    }
    await restartEngine();
    for (let i = 0; i < 4; i++) {
        const again = await server.exec({ command: 'true', computer_id: `new-${i}` });
        assert.ok(!again.isError || again.value.code === 'computer_gone', JSON.stringify(again.value));
    }
});

test('the engine is gone for good, and the server ends', async (t) => {
    const server = await startServer(t);
    await server.run('echo data >/root/file', { computer_id: 'keeper', temporary: false });
    await server.run('true', { computer_id: 'passing' });
    killEngine();
    assert.equal((await refused(server, { command: 'true', computer_id: 'passing' })).code, 'unavailable');
    const status = await server.stop();
    assert.equal(status.signal, null);
    assert.match(server.stderr, /passing/, 'says what it could not remove');
    await restartEngine();
    const second = await startServer(t, { stateDir: server.stateDir });
    await backAgain(second, 'keeper');
    await eventually('the rest is reaped', async () => !(await inspect('passing')));
});

test('the socket is gone, and there again', async (t) => {
    const server = await startServer(t);
    await server.run('echo data >/root/file', { computer_id: 'keeper', temporary: false });
    await server.run('true', { computer_id: 'passing' });
    fs.renameSync(socketPath, `${socketPath}.away`);
    try {
        // What has a stream works on; what needs the engine says what is missing.
        assert.equal((await server.run('cat /root/file', { computer_id: 'keeper' })).stdout, 'data\n');
        const error = await refused(server, { command: 'true', computer_id: 'new' });
        assert.equal(error.code, 'unavailable');
        assert.match(error.error, new RegExp(socketPath));
    } finally {
        fs.renameSync(`${socketPath}.away`, socketPath);
    }
    assert.equal((await server.run('true', { computer_id: 'new' })).created, true);
});

test('no engine at the start: the tool is listed, a call says why, and works once it is there', async (t) => {
    killEngine();
    const server = await startServer(t);
    assert.equal((await server.request('tools/list')).result.tools.length, 1);
    const error = await refused(server, { command: 'true' });
    assert.equal(error.code, 'unavailable');
    assert.match(error.error, new RegExp(socketPath));
    await restartEngine();
    assert.equal((await server.run('true')).created, true);
});

test('the engine stands still: a call ends at its time, with the output so far, and all goes on afterwards', async (t) => {
    const server = await startServer(t);
    await server.run('echo data >/root/file', { computer_id: 'keeper', temporary: false });
    const { reply } = await server.startAndReach('echo so far; sleep 300', { computer_id: 'keeper', timeout: 6 });
    signalEngine('SIGSTOP');
    try {
        const value = (await reply).result.structuredContent;
        assert.equal(value.timed_out, true);
        assert.equal(value.stdout, 'so far\n');
        assert.match(value.note, /isn't known whether the command has ended.*engine doesn't answer/);
    } finally {
        signalEngine('SIGCONT');
    }
    assert.equal((await server.run('cat /root/file', { computer_id: 'keeper' })).stdout, 'data\n');
    await eventually('the command has ended', async () => (
        (await server.run('ps | grep -c "[s]leep 300"', { computer_id: 'keeper' })).stdout === '0\n'));
});

test('an engine that takes 10 s to create: others are not held up', async (t) => {
    const proxy = await startProxy(t, async (head) => {
        if (/^POST .*\/containers\/create/.test(head) && /slow/.test(head)) await new Promise((resolve) => setTimeout(resolve, 10000));
    });
    const server = await startServer(t, { env: proxy.env });
    await server.run('echo data >/root/file', { computer_id: 'steady' });
    let made = false;
    const slow = server.run('true', { computer_id: 'slow' }).then((value) => {
        made = true;
        return value;
    });
    assert.equal((await server.run('true', { computer_id: 'fast' })).created, true);
    assert.equal((await server.run('cat /root/file', { computer_id: 'steady' })).stdout, 'data\n');
    assert.equal(made, false);
    assert.equal((await slow).created, true);
});

test('an engine that never answers a creation: it can be cancelled, and the server ends', async (t) => {
    let asked;
    const reached = new Promise((resolve) => (asked = resolve));
    const proxy = await startProxy(t, (head) => {
        if (!/^POST .*\/containers\/create/.test(head)) return null;
        asked();
        return new Promise(() => {});
    });
    const server = await startServer(t, { env: proxy.env });
    const { id, reply } = server.startExec({ command: 'true', computer_id: 'never' });
    reply.catch(() => {});
    await reached;
    await server.notify('notifications/cancelled', { requestId: id });
    const second = server.startExec({ command: 'true', computer_id: 'never' });
    second.reply.catch(() => {});
    assert.deepEqual((await server.request('ping')).result, {});
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    assert.equal(await inspect('never'), null, `${kind} made none`);
});

test('the way to the engine is cut, not the engine: computers live on and are found again', async (t) => {
    const proxy = await startProxy(t, () => null);
    const server = await startServer(t, { env: proxy.env });
    await server.run('echo data >/root/file', { computer_id: 'keeper', temporary: false });
    const { reply } = await server.startAndReach('sleep 300', { computer_id: 'keeper' });
    proxy.cut();
    const { result } = await reply;
    assert.equal(result.structuredContent.code, 'unavailable');
    assert.match(result.structuredContent.error, /try again/);
    const again = await server.run('cat /root/file; ps | grep -c "[s]leep 300"', { computer_id: 'keeper' });
    assert.equal(again.stdout, 'data\n0\n', 'the command went with its stream');
});

test('the same, with a network that is closed in part: nothing that could open it again is ever started inside', async (t) => {
    const proxy = await startProxy(t, () => null);
    const server = await startServer(t, { env: proxy.env, network: true });
    await server.run('echo data >/root/file', { computer_id: 'keeper', temporary: false });
    const { reply } = await server.startAndReach('sleep 300', { computer_id: 'keeper' });
    proxy.cut();
    const { result } = await reply;
    assert.equal(result.structuredContent.code, 'computer_gone');
    assert.match(result.structuredContent.error, /files are kept/);
    const again = await server.run('cat /root/file; grep CapEff /proc/self/status', { computer_id: 'keeper' });
    assert.match(again.stdout, /^data\nCapEff:\s+[0-9a-f]+[02468ace][0-9a-f]{3}\n$/, 'no NET_ADMIN');
});
