// Streamable HTTP: servers and computers that die, restarts under load, and what many requests leave behind.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import test from 'node:test';
import { INITIALIZE, startHttp } from './support/http.mjs';
import { allGone, defer, eventually, family, memoryKiB, namedComputersIn, needsRoot, untilReaped } from './support/machine.mjs';

const SOAK_REQUESTS = Number(process.env.SOAK_REQUESTS ?? 3000);
const AT_ONCE = 8;

// The first process of the only computer there is.
async function onlyComputer(server, session) {
    const { stdout } = await session.run('readlink /proc/self/ns/pid');
    return family(server.pid).find(({ pid }) => {
        try {
            return fs.readlinkSync(`/proc/${pid}/ns/pid`) === stdout.trim();
        } catch {
            return false;
        }
    });
}

test('B20: a computer that is killed from outside, between commands and under one', needsRoot, async (t) => {
    const server = await startHttp(t, { args: ['--warm-pool', '0'] });
    const session = await server.session();
    const call = await session.startAndReach('sleep 300');
    process.kill((await onlyComputer(server, session)).pid, 'SIGKILL');
    const under = (await call.whole()).reply.result;
    assert.equal(under.isError, true);
    assert.equal(under.structuredContent.code, 'computer_gone');
    const fresh = await session.run('echo alive');
    assert.deepEqual([fresh.stdout, fresh.created], ['alive\n', true]);
    process.kill((await onlyComputer(server, session)).pid, 'SIGKILL');
    const gone = await session.run('true');
    assert.equal(gone.code, 'computer_gone');
    assert.equal((await session.run('echo again')).created, true);
});

test('B37: two clients of one principal use equal ids at the same time', async (t) => {
    const server = await startHttp(t);
    const body = (n) => ({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'terminal_execute', arguments: { command: `sleep 0.3; echo ${n}` },
        _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientCapabilities': {} } } });
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'terminal_execute' };
    const done = await Promise.all([1, 2, 3].map((n) => server.post(body(n), headers).whole()));
    assert.deepEqual(done.map((d) => d.reply.result.structuredContent.stdout), ['1\n', '2\n', '3\n']);
});

test('B37: a restart: the old session is unknown, initialize takes its id, a permanent computer is there', async (t) => {
    const first = await startHttp(t);
    const old = await first.session();
    await old.run('echo kept >/root/file', { computer_id: 'box', temporary: false });
    assert.deepEqual(await first.stop(), { code: 0, signal: null });
    const second = await startHttp(t, { stateDir: first.stateDir, args: ['--lifecycle-tools'] });
    const lost = await second.post({ jsonrpc: '2.0', id: 7, method: 'tools/list' }, old.headers).whole();
    assert.equal(lost.status, 404);
    assert.match(lost.messages[0].error.message, /initialize/);
    const again = await second.post(INITIALIZE, { 'mcp-session-id': old.id }).whole();
    assert.equal(again.status, 200);
    assert.notEqual(again.headers['mcp-session-id'], old.id);
    const session = await second.session();
    const kept = await session.run('cat /root/file', { computer_id: 'box' });
    assert.deepEqual([kept.stdout, kept.created], ['kept\n', undefined]);
    // Its files may be of users that only the server can be.
    const { reply } = await session.start('tools/call', { name: 'computer_delete', arguments: { computer_id: 'box' } }).whole();
    assert.equal(reply.result.structuredContent.deleted, true);
});

// Calls until its connection breaks; never waits for ever.
async function work(server) {
    try {
        const session = await server.session();
        for (let i = 0; ; i++) await session.run(`echo ${i}; sleep 0.05`);
    } catch (error) {
        return error;
    }
}

test('kill -9 while 50 clients work: they get errors, and the next start leaves nothing', needsRoot, async (t) => {
    const server = await startHttp(t);
    const clients = Array.from({ length: 50 }, () => work(server));
    await eventually('all have computers', () => namedComputersIn(server.stateDir).length === 50, 120);
    const all = server.family();
    server.child.kill('SIGKILL');
    for (const error of await Promise.all(clients)) assert.ok(error instanceof Error);
    await allGone(all);
    const next = await startHttp(t, { stateDir: server.stateDir });
    assert.equal((await (await next.session()).run('echo clean')).stdout, 'clean\n');
    await eventually('what the dead one left is removed', () => namedComputersIn(server.stateDir).length === 1, 120);
    await untilReaped(server.stateDir);
});

const count = (pid, what) => fs.readdirSync(`/proc/${pid}/${what}`).length;

async function ask(session, n) {
    const methods = ['ping', 'tools/list', 'no/such/method'];
    for (let i = 0; i < n; i++) {
        if (i % 50 === 0) assert.equal((await session.run('echo hello')).stdout, 'hello\n');
        else await session.start(methods[i % methods.length]).whole();
    }
}

test(`${SOAK_REQUESTS} requests leave no descriptor, no thread, no memory`, needsRoot, async (t) => {
    const server = await startHttp(t, { args: ['--warm-pool', '0'] });
    const sessions = await Promise.all(Array.from({ length: AT_ONCE }, () => server.session()));
    const all = (n) => Promise.all(sessions.map((session) => ask(session, n)));
    defer(t, () => Promise.all(sessions.map((session) => session.end())));
    await all(100);
    const before = { fds: count(server.pid, 'fd'), threads: count(server.pid, 'task'), rss: memoryKiB(server.pid, 'VmRSS') };
    await all(SOAK_REQUESTS / AT_ONCE);
    await eventually('threads are as before', () => count(server.pid, 'task') <= before.threads);
    assert.ok(count(server.pid, 'fd') <= before.fds, `${count(server.pid, 'fd')} descriptors, ${before.fds} before`);
    const grown = memoryKiB(server.pid, 'VmRSS') - before.rss;
    assert.ok(grown < 1024, `${grown} KiB more than after the first requests`);
});
