// How servers and computers begin and end: nothing of a temporary computer stays, everything of a permanent one's files does.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { allGone, computersIn, defer, eventually, family, isRoot, namedComputersIn, needsRoot, procFile, temporaryFolder, untilReaped } from './support/machine.mjs';
import { BINARY, startServer } from './support/server.mjs';

const endings = {
    'the end of input': (server) => server.child.stdin.end(),
    'a closed stdout': (server) => server.child.stdout.destroy(),
    SIGTERM: (server) => server.child.kill('SIGTERM'),
    SIGINT: (server) => server.child.kill('SIGINT'),
    SIGHUP: (server) => server.child.kill('SIGHUP'),
};
for (const [what, end] of Object.entries(endings)) {
    test(`${what} ends an idle server`, async (t) => {
        const server = await startServer(t);
        assert.deepEqual(await server.stop(() => end(server)), { code: 0, signal: null });
    });

    test(`${what} ends a server with a command running`, needsRoot, async (t) => {
        const server = await startServer(t);
        const call = await server.startAndReach('sleep 300 & setsid -f sleep 300; sleep 300');
        call.reply.catch(() => {}); // the answer may or may not come
        assert.ok(server.family().length > 4, 'there is something to end');
        assert.deepEqual(await server.stop(() => end(server)), { code: 0, signal: null });
        assert.deepEqual(computersIn(server.stateDir), []);
    });
}

test('B30: no input at all', async (t) => {
    const child = spawn(BINARY, ['--backend', 'native', '--state-dir', temporaryFolder(t, 'state-')], { stdio: ['ignore', 'pipe', 'pipe'] });
    assert.deepEqual(await once(child, 'exit'), [0, null]);
});

test('B30: the parent is killed while input stays open', needsRoot, async (t) => {
    const folder = temporaryFolder(t, 'state-');
    const fifo = path.join(folder, 'input');
    await once(spawn('mkfifo', [fifo]), 'exit');
    const parent = spawn('sh', ['-c', '"$0" --backend native --state-dir "$1" <"$2" & wait', BINARY, path.join(folder, 'state'), fifo],
        { stdio: ['ignore', 'pipe', 'pipe'] });
    const input = fs.openSync(fifo, 'r+'); // both ends, so that the server never sees the end
    defer(t, () => fs.closeSync(input));
    const call = (id, method, params) => fs.writeSync(input, `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    let output = '';
    parent.stdout.on('data', (chunk) => (output += chunk));
    call(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } });
    call(2, 'tools/call', { name: 'terminal_execute', arguments: { command: 'sleep 300 & echo made' } });
    await eventually('the computer is made', () => output.includes('made'));
    const descendants = family(parent.pid).filter((p) => p.pid !== parent.pid);
    parent.kill('SIGKILL');
    await allGone(descendants);
    assert.deepEqual(computersIn(path.join(folder, 'state')), []);
});

test('B32: SIGTERM with ten temporary computers', needsRoot, async (t) => {
    const server = await startServer(t);
    const names = Array.from({ length: 10 }, (_, i) => `box-${i}`);
    await Promise.all(names.map((name) => server.run('sleep 300 & true', { computer_id: name })));
    assert.deepEqual(namedComputersIn(server.stateDir), names);
    assert.deepEqual(await server.kill('SIGTERM'), { code: 0, signal: null });
    assert.deepEqual(computersIn(server.stateDir), []);
});

// What is frozen there takes no signal, not even SIGKILL, until it is thawed: as where the kernel is too busy to let it die.
const FREEZER = '/sys/fs/cgroup/freezer';
const needsFreezer = { skip: isRoot && fs.existsSync(`${FREEZER}/cgroup.procs`) ? false : 'needs root and a freezer of version 1' };

function freeze(t, processes) {
    const group = fs.mkdtempSync(`${FREEZER}/test-`);
    for (const { pid } of processes) fs.writeFileSync(`${group}/cgroup.procs`, String(pid));
    fs.writeFileSync(`${group}/freezer.state`, 'FROZEN');
    let frozen = true;
    const thaw = async () => {
        if (!frozen) return;
        frozen = false;
        fs.writeFileSync(`${group}/freezer.state`, 'THAWED');
        await allGone(processes);
        await eventually('the group is empty', () => fs.readFileSync(`${group}/cgroup.procs`, 'utf8') === '');
        fs.rmdirSync(group);
    };
    defer(t, thaw);
    return thaw;
}

const DEAF = {
    computer_restart: { begin: (server, where) => server.start('tools/call', { name: 'computer_restart', arguments: where }),
        words: /has ended while it was restarted: the computer's processes are not gone/ },
    terminal_execute: { begin: (server, where) => server.start('tools/call', { name: 'terminal_execute',
        arguments: { command: 'true', timeout: 0.1, ...where } }), words: /a command in it was still there 10 seconds after it was killed/ },
};
for (const [name, { begin, words }] of Object.entries(DEAF)) {
    test(`${name} on a computer that can't be ended: that is said, and later it can be used again`, needsFreezer, async (t) => {
        const server = await startServer(t, { args: ['--lifecycle-tools'] });
        const where = { computer_id: 'deaf' };
        await server.run('echo kept >/root/file', { ...where, temporary: false });
        const { data } = JSON.parse(fs.readFileSync(path.join(server.stateDir, 'computers/local/deaf/record.json')));
        const thaw = freeze(t, family(data.pid));
        const value = (await begin(server, where).reply).result.structuredContent;
        assert.equal(value.code, 'computer_gone', JSON.stringify(value));
        assert.match(value.error, words);
        assert.match(value.error, /its files are kept, and the next call starts it again/);
        await thaw();
        assert.equal((await server.run('cat /root/file', where)).stdout, 'kept\n');
    });
}

test('SIGKILL of the server: its computers end, and the next start clears up', needsRoot, async (t) => {
    const stateDir = temporaryFolder(t, 'state-');
    const first = await startServer(t, { stateDir });
    await first.run('echo data >/root/file', { computer_id: 'passing' });
    await first.run('echo data >/root/file', { computer_id: 'keeper', temporary: false });
    await first.run('sleep 300 & true', { computer_id: 'passing' });
    assert.deepEqual(await first.kill('SIGKILL'), { code: null, signal: 'SIGKILL' });

    const second = await startServer(t, { stateDir });
    await eventually('the temporary one is cleared away', () => computersIn(stateDir).join() === 'keeper');
    assert.equal((await second.run('cat /root/file', { computer_id: 'keeper' })).stdout, 'data\n');
    const fresh = await second.exec({ command: 'cat /root/file', computer_id: 'passing' });
    assert.notEqual(fresh.value.stdout, 'data\n', 'nothing of it is left');
});

test('what a computer is made of stays while it runs, though its server was killed', needsRoot, async (t) => {
    const stateDir = temporaryFolder(t, 'state-');
    const first = await startServer(t, { stateDir });
    await first.run('sleep 300 >/dev/null 2>&1 &', { computer_id: 'keeper', temporary: false });
    const toolbox = path.join(stateDir, fs.readdirSync(stateDir).find((name) => name.startsWith('toolbox-')));
    const isHeld = () => spawnSync('flock', ['--exclusive', '--nonblock', toolbox, 'true']).status !== 0;
    first.child.kill('SIGKILL');
    await first.exited;
    assert.ok(isHeld(), 'a later server, on a host that was upgraded, may not remove it');

    const second = await startServer(t, { stateDir });
    await second.run('kill -9 $(grep -lx sleep /proc/[0-9]*/comm | cut -d/ -f3)', { computer_id: 'keeper' });
    await untilReaped(stateDir);
    await second.stop();
    await eventually('nobody holds it', () => !isHeld());
});

test('a permanent computer keeps its files from server to server', needsRoot, async (t) => {
    const stateDir = temporaryFolder(t, 'state-');
    const first = await startServer(t, { stateDir, args: ['--on-exit', 'stop'] });
    const made = await first.run('echo one >/root/file; mkdir -p /opt/x; ln -s file /root/link; chmod 640 /root/file; sleep 300 & true',
        { computer_id: 'keeper', temporary: false });
    assert.equal(made.temporary, false);
    assert.equal(made.created, true);
    await first.stop();
    assert.deepEqual(computersIn(stateDir), ['keeper']);

    const second = await startServer(t, { stateDir });
    const found = await second.run('cat /root/link; stat -c %a /root/file; ls -d /opt/x', { computer_id: 'keeper' });
    assert.equal(found.stdout, 'one\n640\n/opt/x\n');
    assert.ok(!('created' in found));
    assert.equal(found.temporary, false);
});

test('B22: one id, wanted twice at once', needsRoot, async (t) => {
    const server = await startServer(t);
    const results = await Promise.all(Array.from({ length: 8 }, (_, i) => server.run(`echo ${i} >>/root/all`, { computer_id: 'shared' })));
    assert.equal(results.filter((r) => r.created).length, 1);
    assert.equal((await server.run('wc -l </root/all', { computer_id: 'shared' })).stdout.trim(), '8');
    assert.deepEqual(namedComputersIn(server.stateDir), ['shared']);
});

test('B22: one id, wanted by two servers at once', needsRoot, async (t) => {
    const stateDir = temporaryFolder(t, 'state-');
    const servers = await Promise.all([startServer(t, { stateDir }), startServer(t, { stateDir })]);
    const results = await Promise.all(servers.map((server) => server.exec({ command: 'echo x >>/root/all', computer_id: 'shared', temporary: false })));
    const made = results.filter((r) => !r.isError && r.value.created);
    assert.equal(made.length, 1, 'one makes it');
    for (const { isError, value } of results) {
        assert.ok(!isError || value.code === 'busy', `the other attaches or is told so: ${JSON.stringify(value)}`);
    }
    assert.deepEqual(namedComputersIn(stateDir), ['shared']);
});

test('two servers on one state directory leave each other alone', needsRoot, async (t) => {
    const stateDir = temporaryFolder(t, 'state-');
    const one = await startServer(t, { stateDir });
    const two = await startServer(t, { stateDir });
    await one.run('echo one >/root/file', { computer_id: 'first' });
    await two.run('echo two >/root/file', { computer_id: 'second' });
    await one.stop();
    assert.equal((await two.run('cat /root/file', { computer_id: 'second' })).stdout, 'two\n');
    assert.deepEqual(namedComputersIn(stateDir), ['second']);
});

test('a probing sibling that is killed at once disturbs nothing', async (t) => {
    const stateDir = temporaryFolder(t, 'state-');
    const real = await startServer(t, { stateDir });
    for (const signal of ['SIGTERM', 'SIGKILL']) {
        const probe = await startServer(t, { stateDir, version: null });
        probe.modern = true;
        await probe.request('server/discover');
        await probe.kill(signal);
    }
    assert.deepEqual((await real.request('ping')).result, {});
});

test('starting and listing leaves no trace on disk', async (t) => {
    const server = await startServer(t);
    await server.request('tools/list');
    await server.stop();
    assert.deepEqual(computersIn(server.stateDir), []);
});

test('B23: a computer is not held up by others being made, nor by a creation that fails', needsRoot, async (t) => {
    const server = await startServer(t);
    await server.run('true', { computer_id: 'steady' });
    const making = Array.from({ length: 16 }, (_, i) => server.run('true', { computer_id: `new-${i}` }));
    const failing = server.exec({ command: 'true', computer_id: 'steady', temporary: false });
    for (let i = 0; i < 5; i++) {
        assert.equal((await server.run(`echo ${i}`, { computer_id: 'steady' })).stdout, `${i}\n`);
    }
    assert.equal((await failing).isError, true);
    assert.ok((await Promise.all(making)).every((r) => r.created && r.exit_code === 0));
});

test('a computer whose first process is killed is reported once as gone', needsRoot, async (t) => {
    const server = await startServer(t);
    const { reply } = await server.startAndReach('exec sleep 300', { computer_id: 'victim' });
    const init = await eventually('it sleeps', () => {
        const sleeping = server.family().find((p) => procFile(p.pid, 'cmdline') === 'sleep\x00300\x00');
        return sleeping && server.family().find((p) => p.pid === sleeping.parent);
    });
    assert.match(procFile(init.pid, 'status'), /^NSpid:.*\t1$/m, 'it is the first in its computer');
    process.kill(init.pid, 'SIGKILL');
    const { result } = await reply;
    assert.equal(result.isError, true);
    assert.equal(result.structuredContent.code, 'computer_gone');
    const after = await server.exec({ command: 'echo new', computer_id: 'victim' });
    if (after.isError) {
        assert.equal(after.value.code, 'computer_gone');
        assert.equal((await server.run('echo new', { computer_id: 'victim' })).created, true, 'told once, then the id is free');
    } else {
        assert.equal(after.value.created, true);
    }
});
