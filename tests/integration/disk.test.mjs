// --disk: what a computer may write. Runs where the machine has what a cap is enforced by; loop devices of our own are told by
// the state directory that their files are in.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { defer, eventually, isRoot, needsRoot, temporaryFolder, untilReaped } from './support/machine.mjs';
import { BINARY, startServer } from './support/server.mjs';

const enforced = isRoot && fs.existsSync('/dev/loop-control') && fs.existsSync('/usr/sbin/mkfs.ext4');
const needsImages = { skip: enforced ? false : 'needs root, loop devices and mkfs.ext4' };
const CAPPED = ['--disk', '64m', '--lifecycle-tools'];
const FILL = 'head -c 1G /dev/zero >/root/big';

// The files of the state directory that are mounted by loop devices.
function loopFiles(stateDir) {
    const files = fs.readdirSync('/sys/block').filter((name) => name.startsWith('loop')).map((name) => {
        try {
            return fs.readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8').trim();
        } catch {
            return ''; // it has none, or not any more
        }
    });
    return files.filter((file) => file.startsWith(stateDir));
}

async function stateFolder(t) {
    const folder = temporaryFolder(t, 'state-');
    defer(t, () => eventually('no loop device is left', () => loopFiles(folder).length === 0));
    return folder;
}

async function description(server) {
    const reply = await server.request('tools/list');
    return reply.result.tools[0].description;
}

async function manage(server, what, args) {
    return (await server.request('tools/call', { name: `computer_${what}`, arguments: args })).result.structuredContent;
}

// A computer that has filled its own disk gets a fresh one.
async function resetsThoughFull(server) {
    const full = { computer_id: 'full' };
    assert.equal((await server.exec({ command: `exec ${FILL}`, temporary: false, ...full })).value.disk_full, true);
    assert.equal((await manage(server, 'factory_reset', full)).ok, true);
    assert.equal((await server.run('ls /root/big 2>&1 || head -c 1M /dev/zero >/root/file', full)).disk_full, undefined);
    assert.equal((await manage(server, 'delete', full)).deleted, true);
}

test('a full disk is said, with what would help, and concerns one computer', needsImages, async (t) => {
    const server = await startServer(t, { stateDir: await stateFolder(t), args: CAPPED });
    const { value } = await server.exec({ command: FILL, computer_id: 'greedy' });
    assert.equal(value.exit_code, 1);
    assert.match(value.stderr, /No space left on device/);
    assert.equal(value.disk_full, true);
    assert.match(value.note, /the computer's disk is full \(limit 64 MiB and 8192 files\)/);
    assert.match(await description(server), /64 MiB of disk/);

    const other = await server.run('head -c 1M /dev/zero >/root/file && df -m --output=size / | tail -1', { computer_id: 'modest' });
    assert.ok(Number(other.stdout) <= 64);
    assert.equal(other.disk_full, undefined);
    const after = await server.run('rm /root/big && echo room >/root/file', { computer_id: 'greedy' });
    assert.equal(after.disk_full, undefined);
    await resetsThoughFull(server);
});

// The server in a mount namespace of its own, with something mounted there.
function withMount(t, mount) {
    const wrapper = path.join(temporaryFolder(t, 'bin-'), 'server');
    fs.writeFileSync(wrapper, `#!/bin/sh\nexec unshare -m sh -c 'mount ${mount} && exec "$0" "$@"' ${BINARY} "$@"\n`, { mode: 0o755 });
    return { binary: wrapper };
}

// In which one thing of the machine is useless.
const without = (t, thing) => withMount(t, `--bind /dev/null ${thing}`);

for (const thing of ['/dev/loop-control', '/usr/sbin/mke2fs']) {
    test(`without ${thing} the cap is watched`, needsImages, async (t) => {
        const server = await startServer(t, { ...without(t, thing), args: CAPPED });
        if (thing.startsWith('/usr')) {
            assert.match(await description(server), /64 MiB of disk \(watched while commands run, not enforced: mkfs.ext4 was not found: install e2fsprogs\)/);
        }
        const one = await server.exec({ command: `exec ${FILL}` });
        assert.equal(one.value.signal, 'SIGXFSZ');
        assert.equal(one.value.disk_full, true);
        await server.run('rm /root/big');
        const many = await server.exec({ command: 'for i in 1 2 3 4; do head -c 30M /dev/zero >/root/$i; done; exec sleep 300' });
        assert.equal(many.value.signal, 'SIGKILL');
        assert.match(many.value.note, /^the command was ended, since the computer's disk is full \(limit 64 MiB/);
        assert.equal((await server.run('rm /root/?; sleep 0.5')).disk_full, undefined);
        await resetsThoughFull(server);
    });
}

test('SIGKILL of the server: no device is left, and a permanent computer keeps files and cap', needsImages, async (t) => {
    const stateDir = await stateFolder(t);
    const first = await startServer(t, { stateDir, args: CAPPED });
    await first.run('echo data >/root/file', { computer_id: 'keeper', temporary: false });
    await first.run('sleep 300 & true', { computer_id: 'passing' });
    assert.ok(loopFiles(stateDir).length >= 2);
    await first.kill('SIGKILL');
    await eventually('the devices are free', () => loopFiles(stateDir).length === 0);

    const second = await startServer(t, { stateDir }); // without a cap of its own
    assert.equal((await second.run('cat /root/file', { computer_id: 'keeper' })).stdout, 'data\n');
    assert.equal((await second.exec({ command: FILL, computer_id: 'keeper' })).value.disk_full, true);
    await second.run('true', { computer_id: 'new' });
    assert.deepEqual(loopFiles(stateDir).map((file) => path.basename(path.resolve(file, '../..'))), ['keeper']);
});

test('SIGKILL of the server at any moment of making computers leaves no device', needsImages, async (t) => {
    const stateDir = await stateFolder(t);
    for (let round = 0; round < 10; round++) {
        const server = await startServer(t, { stateDir, args: CAPPED });
        const made = Array.from({ length: 4 }, (_, i) => server.start('tools/call',
            { name: 'terminal_execute', arguments: { command: 'true', computer_id: `box-${i}`, temporary: i % 2 === 0 } }));
        made.forEach(({ reply }) => reply.catch(() => {}));
        await Promise.any([...made.slice(0, round % 5).map(({ reply }) => reply), new Promise((done) => setImmediate(done))]);
        await server.kill('SIGKILL');
        await eventually('the devices are free', () => loopFiles(stateDir).length === 0);
    }
    const last = await startServer(t, { stateDir, args: CAPPED });
    for (let i = 0; i < 4; i++) await last.run('true', { computer_id: `box-${i}` });
    await untilReaped(stateDir);
});

test('a state directory without room for what the first computer needs', needsRoot, async (t) => {
    const folder = temporaryFolder(t, 'state-');
    const server = await startServer(t, { ...withMount(t, `-t tmpfs -o size=64k none ${folder}`), stateDir: folder });
    const { value } = await server.exec({ command: 'true' });
    assert.equal(value.code, 'limit', JSON.stringify(value));
    assert.match(value.error, /the disk with the server's state directory is full: free space there/);
});

// However little room is left: a reset that comes to no end leaves the old computer as it was, with all that runs in it.
for (const cap of [[], ['--disk', '16m']]) {
    test(`a full state directory: what is refused says what to do, and harms nothing ${cap}`, needsImages, async (t) => {
        const folder = temporaryFolder(t, 'state-'), image = path.join(temporaryFolder(t, 'disk-'), 'image');
        execFileSync('/usr/sbin/mkfs.ext4', ['-qF', '-b1024', '-m0', '-O^has_journal', '-N4096', image, '24M']);
        const server = await startServer(t, { ...withMount(t, `-o loop ${image} ${folder}`), stateDir: folder,
            args: ['--lifecycle-tools', '--warm-pool', '0', ...cap] });
        const keeper = { computer_id: 'keeper' };
        await server.run('echo kept >/root/file; sleep 300 >/dev/null 2>&1 & true', { ...keeper, temporary: false });
        const inside = path.join(`/proc/${server.pid}/root`, folder);
        const filler = fs.openSync(path.join(inside, 'filler'), 'w');
        defer(t, () => fs.closeSync(filler));
        let size = 0;
        for (const step of [65536, 1024]) {
            assert.throws(() => {
                for (;; size += step) if (fs.writeSync(filler, Buffer.alloc(step), 0, step, size) < step) throw new Error('ENOSPC');
            }, /ENOSPC/);
        }
        const refused = (value) => {
            assert.equal(value.code, 'limit', JSON.stringify(value));
            assert.match(value.error, /disk.*is full: free space there, or delete computers/);
        };
        refused(await manage(server, 'create', { computer_id: 'other', temporary: false }));
        for (let step = 1024; ; step *= 1.3) {
            const value = await manage(server, 'factory_reset', keeper);
            if (value.ok) break;
            refused(value);
            assert.equal((await server.run('cat /root/file; pgrep -c sleep', keeper)).stdout, 'kept\n1\n');
            size -= 1024 * Math.floor(step / 1024);
            fs.ftruncateSync(filler, size);
        }
        fs.ftruncateSync(filler, 0);
        assert.equal((await server.run('ls /root; pgrep -c sleep', keeper)).stdout, '0\n');
        assert.equal((await manage(server, 'delete', keeper)).deleted, true);
        const names = fs.readdirSync(path.join(inside, 'computers/local'));
        assert.ok(names.length <= 2 && names.every((name) => name.startsWith('.new-')), `nothing but what is made ahead: ${names}`);
    });
}
