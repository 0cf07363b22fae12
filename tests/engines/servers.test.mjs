// Servers that die, servers beside each other, and computers that others have made. The engine's labels are the truth.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { computersIn, eventually, namedComputersIn, temporaryFolder } from '../integration/support/machine.mjs';
import { BINARY } from '../integration/support/server.mjs';
import {
    BUSYBOX, computers, endsWithItsComputers, image, inspect, kind, onlyDocker, pauseContainer, record, refused, runContainer, runPythonsComputer, startProxy,
    startServer, stopContainer, watch,
} from './support/engine.mjs';

async function killedServer(t, more) {
    const server = await startServer(t, more);
    await server.run('echo data >/root/file; sleep 300 & true', { computer_id: 'keeper', temporary: false });
    await server.run('sleep 300 & true', { computer_id: 'passing' });
    assert.deepEqual(await server.kill('SIGKILL'), { code: null, signal: 'SIGKILL' });
    return server;
}

test('SIGKILL of the server: temporary computers end by themselves, permanent ones are taken up again', async (t) => {
    const first = await killedServer(t);
    await eventually('the temporary one is gone', async () => !(await inspect('passing')));
    const second = await startServer(t, { stateDir: first.stateDir });
    const again = await second.run('cat /root/file; ps | grep -c "[s]leep 300"', { computer_id: 'keeper' });
    assert.equal(again.stdout, 'data\n0\n');
    assert.ok(!('created' in again));
    assert.equal((await second.run('ls /root', { computer_id: 'passing' })).created, true);
    await second.stop();
    assert.deepEqual(await computers(), ['keeper']);
    assert.deepEqual(computersIn(first.stateDir), ['keeper']);
});

test('SIGKILL of the server under a command', async (t) => {
    const server = await startServer(t);
    const { reply } = await server.startAndReach('sleep 300');
    reply.catch(() => {});
    await server.kill('SIGKILL');
    await eventually('the computer is gone', async () => (await computers()).length === 0);
});

test('the state directory is deleted: a permanent computer is found by its labels', async (t) => {
    const first = await killedServer(t);
    fs.rmSync(first.stateDir, { recursive: true });
    const second = await startServer(t, { stateDir: first.stateDir });
    const found = await second.run('cat /root/file', { computer_id: 'keeper' });
    assert.equal(found.stdout, 'data\n');
    assert.ok(!('created' in found));
    assert.equal(found.temporary, false);
    await second.stop();
    assert.deepEqual(namedComputersIn(first.stateDir), ['keeper']);
});

test("another state directory's permanent computer is refused in words", async (t) => {
    const first = await startServer(t);
    await first.run('echo data >/root/file', { computer_id: 'keeper', temporary: false });
    const other = await startServer(t);
    const error = await refused(other, { command: 'true', computer_id: 'keeper' });
    assert.equal(error.code, 'busy');
    assert.match(error.error, /made by a server with another --state-dir/);
    await first.stop();
    assert.equal((await refused(other, { command: 'true', computer_id: 'keeper' })).code, 'busy');
    assert.deepEqual(namedComputersIn(other.stateDir), [], 'nothing of it is noted');
    assert.equal((await other.run('true', { computer_id: 'mine' })).created, true);
});

test("a dead server's rest is reaped at the next start, whatever its state directory; others' stays", async (t) => {
    const living = await startServer(t);
    await living.run('echo alive >/root/file', { computer_id: 'living' });
    const dead = await startServer(t);
    await dead.run('true', { computer_id: 'rest' });
    // A paused container can't end by itself.
    await pauseContainer('rest');
    await dead.kill('SIGKILL');
    const foreign = await runPythonsComputer('foreign', { temporary: true });
    assert.ok(await inspect('rest'));
    const next = await startServer(t);
    await next.run('true', { computer_id: 'next' });
    await eventually('the rest is reaped', async () => !(await inspect('rest')));
    assert.equal((await living.run('cat /root/file', { computer_id: 'living' })).stdout, 'alive\n');
    assert.equal((await inspect('foreign')).Id, foreign);
});

test('B22: one id, wanted by many calls at once', async (t) => {
    const server = await startServer(t);
    const results = await Promise.all(Array.from({ length: 8 }, (_, i) => server.run(`echo ${i} >>/root/all`, { computer_id: 'shared' })));
    assert.equal(results.filter((r) => r.created).length, 1);
    assert.equal((await server.run('wc -l </root/all', { computer_id: 'shared' })).stdout.trim(), '8');
    assert.deepEqual(await computers(), ['shared']);
});

for (const [what, shared] of [['on one state directory', true], ['on two state directories', false]]) {
    test(`B22: one id, wanted by two servers at once ${what}`, async (t) => {
        const stateDirs = shared ? Array(2).fill(temporaryFolder(t, 'state-')) : [undefined, undefined];
        const servers = await Promise.all(stateDirs.map((stateDir) => startServer(t, { stateDir })));
        for (let round = 0; round < 3; round++) {
            const id = `shared-${round}`;
            const results = await Promise.all(servers.map((server) => (
                server.exec({ command: 'echo x >>/root/all', computer_id: id, temporary: round === 0 }))));
            assert.equal(results.filter((r) => !r.isError && r.value.created).length, 1, `one makes it: ${results.map((r) => r.text)}`);
            for (const { isError, value } of results) {
                assert.ok(!isError || value.code === 'busy', `the other is told: ${JSON.stringify(value)}`);
            }
        }
        assert.deepEqual(await computers(), ['shared-0', 'shared-1', 'shared-2']);
    });
}

test('a computer that a Python program made is found, adopted, kept', async (t) => {
    watch(t);
    const container = await runPythonsComputer('theirs');
    const first = await startServer(t);
    const found = await first.run('echo data >/root/file; sleep 300 & true', { computer_id: 'theirs' });
    assert.ok(!('created' in found));
    assert.equal(found.temporary, false);
    assert.equal((await first.run('cat; exit 3', { computer_id: 'theirs', stdin: 'in', timeout: 20 })).exit_code, 3);
    assert.equal((await first.run('sleep 300', { computer_id: 'theirs', timeout: 0.5 })).timed_out, true);
    await first.stop();
    const second = await startServer(t, { stateDir: first.stateDir });
    assert.equal((await second.run('cat /root/file', { computer_id: 'theirs' })).stdout, 'data\n');
    assert.equal(record(second, 'theirs').data.container, container);
    await second.kill('SIGKILL');
    const third = await startServer(t);
    assert.equal((await third.run('cat /root/file', { computer_id: 'theirs' })).stdout, 'data\n', 'it has no owner that could be asked');
    await third.stop();
    assert.equal((await inspect('theirs')).Id, container);
});

test('a temporary one of theirs is adopted, and stays theirs', async (t) => {
    watch(t);
    await runPythonsComputer('theirs', { temporary: true });
    const server = await startServer(t);
    const { isError, value } = await server.exec({ command: 'echo works', computer_id: 'theirs' });
    assert.ok(!isError, JSON.stringify(value));
    assert.equal(value.stdout, 'works\n');
    assert.ok(!('created' in value));
});

test('one of theirs that is stopped is started; one of another image works as well', async (t) => {
    watch(t);
    await runPythonsComputer('theirs', { from: image('debian') });
    await stopContainer('theirs');
    const server = await startServer(t);
    assert.match((await server.run('cat /etc/os-release', { computer_id: 'theirs' })).stdout, /Debian/);
});

test('one of theirs in which our program cannot run: one exec of the engine per command', async (t) => {
    watch(t);
    await runPythonsComputer('theirs', { readOnly: true });
    const server = await startServer(t);
    const value = await server.run('cat; echo err >&2; exit 5', { computer_id: 'theirs', stdin: 'in' });
    assert.deepEqual([value.stdout, value.stderr, value.exit_code], ['in', 'err\n', 5]);
    assert.equal(record(server, 'theirs').data.commands, 'engine exec');
    assert.equal((await server.run('sleep 300', { computer_id: 'theirs', timeout: 0.5 })).timed_out, true);
    assert.equal((await server.run('ps | grep -c "[s]leep 300"', { computer_id: 'theirs' })).stdout, '0\n');
});

test('a container of that name that is no computer', async (t) => {
    watch(t);
    const container = await runContainer('kilntainer-taken', {});
    const server = await startServer(t);
    const error = await refused(server, { command: 'true', computer_id: 'taken' });
    assert.equal(error.code, 'unavailable');
    assert.match(error.error, /kilntainer-taken.*no computer/);
    assert.equal((await server.run('echo other', { computer_id: 'other' })).stdout, 'other\n');
    await server.stop();
    assert.equal((await inspect('taken')).Id, container);
});

test('the answer to a creation is lost: nothing of it stays', onlyDocker, async (t) => {
    let proxy;
    let cuts = 0;
    proxy = await startProxy(t, async (head) => {
        if (!/^POST .*\/containers\/create/.test(head) || cuts++ > 0) return;
        setImmediate(async () => {
            await eventually('it is made', () => inspect('lost'));
            proxy.cut();
        });
    });
    const server = await startServer(t, { env: proxy.env });
    const { isError, value } = await server.exec({ command: 'echo here', computer_id: 'lost' });
    if (isError) assert.equal(value.code, 'unavailable');
    assert.equal((await server.run('echo here', { computer_id: 'lost' })).stdout, 'here\n');
    await server.stop();
    assert.deepEqual(await computers(), []);
});

test('B32: SIGTERM with six temporary computers', async (t) => {
    const server = await startServer(t);
    await Promise.all(Array.from({ length: 6 }, (_, i) => server.run('sleep 300 & true', { computer_id: `box-${i}` })));
    await endsWithItsComputers(t, server, () => server.kill('SIGTERM'));
});

test('a permanent computer is stopped at the end of its server', async (t) => {
    const server = await startServer(t);
    await server.run('true', { computer_id: 'keeper', temporary: false });
    await server.stop();
    assert.equal((await inspect('keeper')).State.Running, false);
    assert.ok(fs.existsSync(path.join(server.stateDir, 'computers/local/keeper/record.json')));
});

test('a permanent computer that runs on is entered again, and no command ever has NET_ADMIN', async (t) => {
    const options = { network: true, args: ['--on-exit', 'keep'] };
    const first = await startServer(t, options);
    const capabilities = /CapEff:\s+[0-9a-f]+[02468ace][0-9a-f]{3}\n/;
    assert.match((await first.run('grep CapEff /proc/self/status; sleep 300 & true', { computer_id: 'keeper', temporary: false })).stdout, capabilities);
    await first.stop();
    assert.match(first.stderr, /can reach metadata services/, 'what can not be closed is told');
    assert.equal((await inspect('keeper')).State.Running, true);
    const second = await startServer(t, { ...options, stateDir: first.stateDir });
    const { stdout } = await second.run('grep CapEff /proc/self/status; ps', { computer_id: 'keeper' });
    assert.match(stdout, capabilities);
    assert.match(stdout, /sleep 300/);
});

test('requests from a file are answered, though a computer has to be made first', (t) => {
    watch(t);
    const folder = temporaryFolder(t, 'requests-');
    const file = path.join(folder, 'requests');
    fs.writeFileSync(file, `${[
        { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } } },
        { jsonrpc: '2.0', method: 'notifications/initialized' },
        { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'terminal_execute', arguments: { command: 'echo made' } } },
    ].map((message) => JSON.stringify(message)).join('\n')}\n`);
    const input = fs.openSync(file, 'r');
    const { status, stdout } = spawnSync(BINARY, ['--backend', kind, '--image', BUSYBOX, '--no-network', '--state-dir', folder],
        { stdio: [input, 'pipe', 'inherit'], encoding: 'utf8' });
    fs.closeSync(input);
    assert.equal(status, 0);
    const reply = stdout.trim().split('\n').map((line) => JSON.parse(line)).find(({ id }) => id === 2);
    assert.equal(reply.result.structuredContent.stdout, 'made\n');
});
