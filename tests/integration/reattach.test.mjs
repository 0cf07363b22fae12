// Permanent computers outlive their server: what runs in them goes on, and the next server of the state directory goes on with it.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { allGone, defer, eventually, family, needsRoot, survivors, temporaryFolder, untilReaped } from './support/machine.mjs';
import { startServer } from './support/server.mjs';

const keeper = { computer_id: 'keeper', temporary: false };
const HEARTBEAT = 'echo one >/root/file; (while :; do echo x >>/root/beats; sleep 0.05; done) >/dev/null 2>&1 & echo $!';
const endings = {
    'the end of input': (server) => server.child.stdin.end(),
    SIGTERM: (server) => server.child.kill('SIGTERM'),
    SIGKILL: (server) => server.child.kill('SIGKILL'),
};

// Ends the server alone. What of it and of its computers still runs, is ended at the test's end at the latest, by a server that keeps nothing.
async function leave(server, end = endings.SIGKILL) {
    const all = server.family().filter((p) => p.pid !== server.pid);
    end(server);
    await server.exited;
    return all;
}

function state(t) {
    const stateDir = temporaryFolder(t, 'state-');
    defer(t, async () => {
        const left = running(stateDir);
        const last = await startServer(t, { stateDir, args: ['--on-exit', 'stop'] });
        await eventually('what ran on has been ended', () => survivors(left).length === 0);
        await untilReaped(stateDir);
        await last.stop();
        assert.deepEqual(groups(stateDir), [], 'no control group is left');
    });
    return stateDir;
}

function record(stateDir, id = 'keeper') {
    return JSON.parse(fs.readFileSync(path.join(stateDir, 'computers/local', id, 'record.json')));
}

function records(stateDir) {
    const top = path.join(stateDir, 'computers/local');
    return fs.existsSync(top) ? fs.readdirSync(top).filter((name) => !name.startsWith('.')).map((name) => record(stateDir, name)) : [];
}

function running(stateDir) {
    return records(stateDir).flatMap(({ data }) => family(data.pid)).filter((p) => survivors([p]).length);
}

function groups(stateDir) {
    return records(stateDir).flatMap(({ data }) => data.groups).filter((group) => fs.existsSync(group));
}

function mountNamespace({ pid }) {
    try {
        return fs.readlinkSync(`/proc/${pid}/ns/mnt`);
    } catch {
        return undefined; // it is gone
    }
}

async function beats(server) {
    const before = Number((await server.run('wc -l </root/beats', { computer_id: 'keeper' })).stdout);
    await eventually('the process goes on', async () => Number((await server.run('wc -l </root/beats', { computer_id: 'keeper' })).stdout) > before);
}

const CONNECT = `
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try: s.connect(sys.argv[1])
except OSError as e: print(type(e).__name__); sys.exit()
print("connected", flush=True)
sys.stdin.read()
`;

// Side by side: most of it is waiting.
describe('permanent computers outlive their server', { concurrency: 4 }, () => {
    // Each way to end it, of computers made ahead, made on demand, and with a disk of their own.
    const kinds = { 'the end of input': [['--disk', '256m']], SIGTERM: [['--warm-pool', '0']], SIGKILL: [['--warm-pool', '1'], ['--disk', '256m']] };
    for (const [what, variants] of Object.entries(kinds)) {
        for (const args of variants) {
            test(`${what}: a process goes on in the same computer (${args.join(' ')})`, needsRoot, async (t) => {
                const end = endings[what];
                const stateDir = state(t);
                const first = await startServer(t, { stateDir, args });
                const made = await first.run(HEARTBEAT, keeper);
                const pid = Number(made.stdout);
                assert.ok(made.background.includes(pid));
                await leave(first, end);
                const init = record(stateDir).data.pid;
                assert.equal(running(stateDir)[0]?.pid, init);
                for (let round = 0; round < 2; round++) {
                    const next = await startServer(t, { stateDir, args });
                    const seen = await next.run(`cat /root/file; kill -0 ${pid} && echo alive`, { computer_id: 'keeper' });
                    assert.equal(seen.stdout, 'one\nalive\n');
                    assert.ok(!('created' in seen) && seen.temporary === false);
                    await beats(next);
                    assert.equal(record(stateDir).data.pid, init, 'it is the same computer');
                    // Commands work as ever: background, output, deadline.
                    const more = await next.run('sleep 300 & echo $!', { computer_id: 'keeper' });
                    assert.deepEqual(more.background, [Number(more.stdout)]);
                    const late = await next.run('sleep 300', { computer_id: 'keeper', timeout: 0.2 });
                    assert.equal(late.timed_out, true);
                    await leave(next, end);
                }
            });
        }
    }

    test('what somebody waited for ends with a killed server, what ran in the background does not', needsRoot, async (t) => {
        const stateDir = state(t);
        const first = await startServer(t, { stateDir });
        await first.run(HEARTBEAT, keeper);
        const { reply } = await first.startAndReach('sleep 301 & sleep 302; echo never >/root/never', { computer_id: 'keeper' });
        reply.catch(() => {});
        await leave(first);
        const next = await startServer(t, { stateDir });
        await beats(next);
        await eventually('both are gone', async () =>
            (await next.run('cat /proc/[0-9]*/cmdline | tr "\\0" " "', { computer_id: 'keeper' })).stdout.match(/sleep 30[12]/) === null);
        assert.notEqual((await next.run('cat /root/never', { computer_id: 'keeper' })).exit_code, 0);
    });

    test('a computer without processes ends with its server, and one whose last process ends goes by itself', needsRoot, async (t) => {
        const stateDir = state(t);
        for (const [what, end] of Object.entries(endings)) {
            const server = await startServer(t, { stateDir });
            await server.run('true', { ...keeper, computer_id: 'idle' });
            await server.run('sleep 300 & true', keeper);
            const inits = ['idle', 'keeper'].map((id) => record(stateDir, id).data.pid);
            await leave(server, end);
            await eventually(`${what} ends the one without`, () => survivors(family(inits[0])).length === 0);
            const left = running(stateDir);
            // The numbers of namespaces are given again to others: so it is these processes that are looked for later.
            const mounts = new Set(left.map(mountNamespace));
            const holders = family(1).filter((p) => mounts.has(mountNamespace(p)));
            assert.deepEqual(left.map((p) => p.parent === inits[1] || p.pid === inits[1]), [true, true], 'init and the process');
            process.kill(left.find((p) => p.pid !== inits[1]).pid);
            await allGone(left);
            await eventually('the groups are gone', () => groups(stateDir).length === 0);
            const lock = path.join(stateDir, 'computers/local/keeper/init.lock');
            await eventually('the lock is free', () => spawnSync('flock', ['-n', lock, 'true']).status === 0);
            await allGone(holders, 'nobody has its mounts');
        }
    });

    test('--on-exit stop ends what runs, with the server, and what others have left', needsRoot, async (t) => {
        const stateDir = state(t);
        const args = ['--on-exit', 'stop'];
        for (const end of Object.values(endings)) {
            const stopping = await startServer(t, { stateDir, args });
            await stopping.run('echo one >/root/file; sleep 300 & true', keeper);
            await stopping.stop(() => end(stopping));
            assert.deepEqual(running(stateDir), []);
        }
        const keeping = await startServer(t, { stateDir });
        await keeping.run('sleep 300 & true', keeper);
        const left = (await leave(keeping)).length && running(stateDir);
        assert.equal(left.length, 2);
        const stopping = await startServer(t, { stateDir, args });
        await allGone(left, 'it ends what the other has left');
        assert.equal((await stopping.run('cat /root/file', { computer_id: 'keeper' })).stdout, 'one\n');
    });

    test('a computer that is taken up by a server that keeps nothing ends with that', needsRoot, async (t) => {
        const stateDir = state(t);
        const keeping = await startServer(t, { stateDir });
        await keeping.run(HEARTBEAT, keeper);
        await leave(keeping);
        // Its reaper may be first: then there is nothing to take up, which is as good.
        const stopping = await startServer(t, { stateDir, args: ['--on-exit', 'stop'] });
        await stopping.run('true', { computer_id: 'keeper' });
        const left = running(stateDir);
        stopping.child.kill('SIGKILL');
        await allGone(left);
    });

    test('while one server has it, another is told that it is busy; of two that want it next, one has it', needsRoot, async (t) => {
        const stateDir = state(t);
        const first = await startServer(t, { stateDir });
        await first.run(HEARTBEAT, keeper);
        const others = await Promise.all([startServer(t, { stateDir }), startServer(t, { stateDir })]);
        assert.equal((await others[0].exec({ command: 'true', computer_id: 'keeper' })).value.code, 'busy');
        await leave(first);
        const results = await Promise.all(others.map((server) => server.exec({ command: 'true', computer_id: 'keeper' })));
        assert.deepEqual(results.map((r) => r.value.code ?? r.value.exit_code).sort(), [0, 'busy']);
        await beats(others[results.findIndex((r) => !r.isError)]);
    });

    test('the zygote is killed with its server: computers go on, and the next server cleans up', needsRoot, async (t) => {
        const stateDir = state(t);
        const first = await startServer(t, { stateDir, args: ['--warm-pool', '0'] });
        await first.run(HEARTBEAT, keeper);
        const zygote = first.family().find((p) => p.parent === first.pid);
        process.kill(zygote.pid, 'SIGKILL');
        await leave(first);
        await allGone([zygote]);
        const second = await startServer(t, { stateDir });
        await beats(second);
        await leave(second);
        const left = running(stateDir);
        process.kill(left.find((p) => p.parent === left[0].pid).pid, 'SIGKILL');
        await allGone(left);
        const third = await startServer(t, { stateDir });
        await eventually('the groups are gone', () => groups(stateDir).length === 0);
        assert.equal((await third.run('cat /root/file', { computer_id: 'keeper' })).stdout, 'one\n');
    });

    test('a record of another process, start or boot is neither followed nor is that process ended', needsRoot, async (t) => {
        const stateDir = state(t);
        const file = path.join(stateDir, 'computers/local/keeper/record.json');
        const stranger = spawn('sleep', ['300']);
        defer(t, () => stranger.kill());
        await once(stranger, 'spawn');
        const forgeries = [
            (data) => ({ pid: stranger.pid }),
            (data) => ({ start: data.start + 1 }),
            (data) => (data.serial ? { serial: data.serial + 1 } : { pid: stranger.pid }), // older kernels give none
            (data) => ({ boot_id: '00000000-0000-0000-0000-000000000000' }),
            (data) => ({ id_base: data.id_base + 65536 * 7 }),
        ];
        for (const [number, forge] of forgeries.entries()) {
            const first = await startServer(t, { stateDir });
            await first.run(HEARTBEAT, keeper);
            await leave(first);
            const left = running(stateDir);
            const original = record(stateDir);
            fs.writeFileSync(file, JSON.stringify({ ...original, data: { ...original.data, ...forge(original.data) } }));
            const next = await startServer(t, { stateDir });
            const { isError, value } = await next.exec({ command: 'cat /root/file; cat /proc/[0-9]*/cmdline', computer_id: 'keeper' });
            if (!isError) assert.ok(!value.stdout.includes('sleep 0.05'), `forgery ${number} is not followed`);
            await next.stop();
            assert.equal(survivors([{ pid: stranger.pid, start: family(stranger.pid)[0]?.start }]).length, 1, 'the stranger lives');
            await allGone(left, 'the real one was found by its socket, and ended');
            fs.writeFileSync(file, JSON.stringify({ ...record(stateDir), data: { ...record(stateDir).data, id_base: original.data.id_base } }));
        }
    });

    test('a copy of the state directory has no say over the computers of the original', needsRoot, async (t) => {
        const stateDir = state(t);
        const first = await startServer(t, { stateDir });
        await first.run(HEARTBEAT, keeper);
        await leave(first);
        const copy = temporaryFolder(t, 'copy-');
        assert.equal(spawnSync('cp', ['-a', `${stateDir}/.`, copy]).status, 0);
        for (const args of [[], ['--on-exit', 'stop']]) {
            const other = await startServer(t, { stateDir: copy, args });
            const { isError, value } = await other.exec({ command: 'true', computer_id: 'keeper' });
            assert.ok(isError && ['busy', 'unavailable'].includes(value.code), JSON.stringify(value));
            await other.stop();
        }
        const next = await startServer(t, { stateDir });
        await beats(next);
    });

    test('another user is refused at the socket, who may connect but says nothing keeps nobody out, and nobody inside sees it', needsRoot, async (t) => {
        const stateDir = state(t);
        fs.chmodSync(stateDir, 0o711);
        const first = await startServer(t, { stateDir });
        await first.run(HEARTBEAT, keeper);
        assert.equal((await first.run('find / -xdev -name "init*" -type s', { computer_id: 'keeper' })).stdout, '');
        await leave(first);
        const socket = path.join(stateDir, 'computers/local/keeper/init');
        assert.equal(fs.statSync(socket).mode & 0o777, 0o600);
        const ids = [65534, record(stateDir).data.id_base];
        for (const id of ids) {
            const refused = spawnSync('python3', ['-c', CONNECT, socket, String(id)], { input: '' });
            assert.equal(refused.stdout.toString(), 'PermissionError\n', refused.stderr.toString());
        }
        const silent = spawn('python3', ['-c', CONNECT, socket, '0'], { stdio: ['pipe', 'pipe', 'inherit'] });
        defer(t, () => silent.kill());
        await once(silent.stdout, 'data');
        const next = await startServer(t, { stateDir });
        await beats(next);
    });
});
