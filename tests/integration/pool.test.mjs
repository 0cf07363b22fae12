// Computers that are made ahead: whoever gets one can't tell, and none is ever left.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { startHttp, tokenFile } from './support/http.mjs';
import { computersIn, eventually, namedComputersIn, needsRoot, temporaryFolder } from './support/machine.mjs';
import { startServer } from './support/server.mjs';

function recordOf(stateDir, name, principal = 'local') {
    return JSON.parse(fs.readFileSync(path.join(stateDir, 'computers', principal, name, 'record.json'), 'utf8'));
}

// The key of each folder's record, where there is one yet.
function keys(stateDir, principal) {
    return new Map(computersIn(stateDir).flatMap((name) => {
        try {
            return [[name, recordOf(stateDir, name, principal).key]];
        } catch {
            return [];
        }
    }));
}

// Others come and go meanwhile.
function foldersIn(folder) {
    try {
        return fs.readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map((entry) => path.join(folder, entry.name));
    } catch {
        return [];
    }
}

const isOfOneComputer = /^mcp-sandbox-[0-9a-f]{16}$/;

// None is within another computer's, of which there may be thousands.
const groupsOf = (key, within = '/sys/fs/cgroup') => foldersIn(within).flatMap((group) =>
    path.basename(group).includes(key) ? [group] : isOfOneComputer.test(path.basename(group)) ? [] : groupsOf(key, group));

// In control groups of version 2 those that are limited have their processes in a group within.
const processesOf = (key) => groupsOf(key).flatMap((group) => [group, ...foldersIn(group)])
    .flatMap((group) => fs.readFileSync(path.join(group, 'cgroup.procs'), 'utf8').match(/\d+/g) ?? []);

const begunProcess = (key) => eventually('its process is there', () => processesOf(key)[0]);

const isSpare = ([name]) => name.startsWith('.new-');

// Its keys. The record of a spare is written before the spare is made, so the last of them may not be ready.
function fullPool(server, size, principal) {
    return eventually(`${size} computers are made ahead`, () => {
        const found = [...keys(server.stateDir, principal)].filter(isSpare).map(([, key]) => key);
        return found.length === size && found;
    });
}

test('a computer of the pool is like any other', needsRoot, async (t) => {
    const server = await startServer(t, { args: ['--warm-pool', '2'] });
    const look = 'hostname; echo $HOSTNAME; cat /proc/sys/kernel/hostname; pwd; ls -A /root /tmp; id -u';
    const cold = await server.run(look, { computer_id: 'cold' });
    for (const more of [{ computer_id: 'given' }, { computer_id: 'kept', temporary: false }, { computer_id: 'passing', temporary: true }]) {
        const pool = await fullPool(server, 2);
        const warm = await server.run(look, more);
        assert.ok(pool.includes(keys(server.stateDir).get(more.computer_id)), 'it was made ahead');
        assert.equal(warm.created, true);
        assert.equal(warm.computer_id, more.computer_id);
        assert.equal(warm.temporary, more.temporary ?? true);
        assert.equal(warm.stdout, cold.stdout.replaceAll('cold', more.computer_id));
        assert.ok(!('created' in await server.run('true', { computer_id: more.computer_id })), 'once');
    }
    const pool = await fullPool(server, 2);
    const chosen = await server.run('hostname'); // the server's choice of a name
    assert.equal(chosen.created, true);
    assert.equal(chosen.stdout, `${chosen.computer_id}\n`);
    assert.ok(pool.includes(keys(server.stateDir).get(chosen.computer_id)));
});

test('who asks gets what was made ahead, whoever asked before', needsRoot, async (t) => {
    const tokens = { alice: 'first-token-of-alice', bob: 'second-token-of-bob', carol: 'third-token-of-carol' };
    const server = await startHttp(t, { args: ['--auth-token-file', tokenFile(t, tokens), '--warm-pool', '2'] });
    const asking = (token) => server.session({ headers: { authorization: `Bearer ${token}` } });
    const [alice, bob, carol] = await Promise.all(Object.values(tokens).map(asking));
    await alice.run('echo hers >/root/file', { computer_id: 'box' });
    let pool = await fullPool(server, 2, 'alice');
    for (const [name, session, temporary] of [['bob', bob, false], ['carol', carol, true]]) {
        assert.equal((await session.run('ls /root; hostname', { computer_id: 'box', temporary })).stdout, 'box\n');
        const { key, principal } = recordOf(server.stateDir, 'box', name);
        assert.ok(pool.includes(key), 'it was made ahead');
        assert.equal(principal, name);
        pool = await fullPool(server, 1, name).then((own) => [...own, ...pool]);
    }
    assert.equal((await alice.run('cat /root/file', { computer_id: 'box' })).stdout, 'hers\n');
});

test('two computers of the pool share nothing', needsRoot, async (t) => {
    const server = await startServer(t, { args: ['--warm-pool', '2'] });
    await server.run('true', { computer_id: 'cold' });
    const pool = await fullPool(server, 2);
    const [a, b] = await Promise.all(['a', 'b'].map((id) =>
        server.run('echo of-$HOSTNAME >/root/file; sleep 300 & until pgrep sleep >/dev/null; do :; done; cat /proc/self/uid_map', { computer_id: id })));
    assert.ok(['a', 'b'].some((id) => pool.includes(keys(server.stateDir).get(id))));
    assert.notEqual(a.stdout, b.stdout, 'user ids of their own');
    for (const id of ['a', 'b']) {
        const seen = await server.run('cat /root/file; pgrep -c sleep; hostname', { computer_id: id });
        assert.equal(seen.stdout, `of-${id}\n1\n${id}\n`);
    }
});

test('a permanent computer of the pool comes back', needsRoot, async (t) => {
    const stateDir = temporaryFolder(t, 'state-');
    const first = await startServer(t, { stateDir, args: ['--warm-pool', '2'] });
    await first.run('true', { computer_id: 'cold' });
    const pool = await fullPool(first, 2);
    await first.run('echo data >/root/file; chown 1000:1000 /root/file', { computer_id: 'keeper', temporary: false });
    assert.ok(pool.includes(keys(stateDir).get('keeper')));
    await first.stop();
    assert.deepEqual(computersIn(stateDir), ['keeper']);
    const second = await startServer(t, { stateDir });
    const found = await second.run('cat /root/file; stat -c %u /root/file; hostname', { computer_id: 'keeper' });
    assert.equal(found.stdout, 'data\n1000\nkeeper\n');
    assert.ok(!('created' in found));
});

test('the end of a server is the end of its pool', needsRoot, async (t) => {
    for (const end of ['SIGTERM', null]) {
        const server = await startServer(t, { args: ['--warm-pool', '3'] });
        await server.run('true', { computer_id: 'only' });
        await fullPool(server, 3);
        assert.deepEqual(await (end ? server.kill(end) : server.stop()), { code: 0, signal: null });
        assert.deepEqual(computersIn(server.stateDir), []);
    }
});

test('SIGKILL of a server with a full pool: the next start removes it', needsRoot, async (t) => {
    const stateDir = temporaryFolder(t, 'state-');
    const first = await startServer(t, { stateDir, args: ['--warm-pool', '3'] });
    await first.run('true', { computer_id: 'only' });
    const pool = await fullPool(first, 3);
    await first.kill('SIGKILL');
    assert.equal(computersIn(stateDir).length, 4);
    const second = await startServer(t, { stateDir });
    await eventually('all of it is cleared away', () => computersIn(stateDir).length === 0);
    assert.deepEqual(pool.flatMap((key) => groupsOf(key)), []);
    assert.equal((await second.run('true', { computer_id: 'only' })).created, true);
});

test('two servers on one state directory have a pool each', needsRoot, async (t) => {
    const stateDir = temporaryFolder(t, 'state-');
    const servers = [];
    for (const id of ['one', 'two']) {
        const server = await startServer(t, { stateDir, args: ['--warm-pool', '2'] });
        await server.run('true', { computer_id: id });
        servers.push(server);
    }
    await fullPool(servers[0], 4);
    await servers[0].stop();
    await eventually('the other has its own', () => [...keys(stateDir)].filter(isSpare).length === 2);
    assert.equal((await servers[1].run('hostname', { computer_id: 'three' })).stdout, 'three\n');
    assert.deepEqual(namedComputersIn(stateDir), ['three', 'two']);
});

const BEGUN = 2;

// At most a process each, which waits to be begun: none of a computer that is complete.
test('--warm-pool 0 makes none, and begins some', needsRoot, async (t) => {
    const server = await startServer(t, { args: ['--warm-pool', '0'] });
    const look = 'cat /proc/self/cgroup; cat /proc/self/uid_map; id -u; ls -A /root /tmp; pgrep -c .';
    const withoutIds = ({ stdout }) => stdout.replaceAll(/^( +\d+) +\d+ +/gm, '$1 - ').replace(/e\d+$/m, 'e');
    const only = await server.run(look, { computer_id: 'only' });
    const seen = [];
    await eventually('one that was begun is used, for each kind', async () => {
        const ahead = [...keys(server.stateDir)].filter(isSpare).map(([, key]) => key); // it may not be ready yet
        const id = `next-${seen.length}`, temporary = seen.length % 2 === 0;
        const next = await server.run(look, { computer_id: id, temporary });
        assert.equal(withoutIds(next), withoutIds(only));
        assert.equal((await server.run('hostname', { computer_id: id })).stdout, `${id}\n`);
        seen.push({ temporary, range: next.stdout.match(/^ +0 +(\d+)/m)[1], begun: ahead.includes(keys(server.stateDir).get(id)) });
        return [true, false].every((kind) => seen.some(({ temporary, begun }) => begun && temporary === kind));
    });
    assert.equal(new Set(seen.map(({ range }) => range)).size, seen.length, 'user ids of their own');
    const unused = await fullPool(server, BEGUN);
    const pids = await Promise.all(unused.map(begunProcess));
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    assert.deepEqual(unused.flatMap((key) => groupsOf(key)), []);
    assert.deepEqual(pids.filter((pid) => fs.existsSync(`/proc/${pid}`)), []);
});

test('SIGKILL of a server that has begun some: their processes go at once, the rest at the next start', needsRoot, async (t) => {
    const stateDir = temporaryFolder(t, 'state-');
    const first = await startServer(t, { stateDir, args: ['--warm-pool', '0'] });
    await first.run('true', { computer_id: 'only' });
    const ahead = await fullPool(first, BEGUN);
    const pids = await Promise.all(ahead.map(begunProcess));
    await first.kill('SIGKILL');
    await eventually('their processes are gone', () => pids.every((pid) => !fs.existsSync(`/proc/${pid}`)));
    await startServer(t, { stateDir });
    await eventually('all of it is cleared away', () => computersIn(stateDir).length === 0);
    assert.deepEqual(ahead.flatMap((key) => groupsOf(key)), []);
});

test('one that was begun and has died is not used', needsRoot, async (t) => {
    const server = await startServer(t, { args: ['--warm-pool', '0'] });
    await server.run('true', { computer_id: 'only' });
    const ahead = await fullPool(server, BEGUN);
    const pids = await Promise.all(ahead.map(begunProcess));
    pids.forEach((pid) => process.kill(pid, 'SIGKILL'));
    await eventually('they are gone', () => pids.every((pid) => !fs.existsSync(`/proc/${pid}`)));
    for (const id of ['next', 'next-but-one']) {
        assert.equal((await server.run('hostname', { computer_id: id })).stdout, `${id}\n`);
        assert.ok(!ahead.includes(keys(server.stateDir).get(id)));
    }
    await eventually('nothing of them is left', () => ahead.every((key) => groupsOf(key).length === 0));
});

// The one line of a file of a group of the computer, wherever the machine has it.
const held = (key, ...files) => groupsOf(key).flatMap((group) => files.map((file) => path.join(group, file)))
    .filter((file) => fs.existsSync(file)).map((file) => fs.readFileSync(file, 'utf8').trim());

const MIB = 1024 * 1024;
const OWN = { memory: '100m', pids: 40, cpu: 0.5, env: { OWN: 'mine' } };

async function call(server, name, more) {
    const { result } = await server.request('tools/call', { name, arguments: more });
    assert.ok(!result.isError, JSON.stringify(result));
    return result.structuredContent;
}

// What the kernel holds, and what those inside meet.
async function assertOwn(server, id) {
    const key = keys(server.stateDir).get(id);
    assert.deepEqual(held(key, 'memory.max', 'memory.limit_in_bytes'), [`${100 * MIB}`]);
    assert.deepEqual(held(key, 'pids.max').filter((text) => text !== 'max'), ['40']);
    assert.deepEqual(held(key, 'cpu.max', 'cpu.cfs_quota_us').map((text) => parseInt(text)).filter((quota) => quota > 0), [50000]);
    const hog = await server.run('head -c 300000000 /dev/zero | tail | wc -c', { computer_id: id });
    assert.equal(hog.oom_killed, true, JSON.stringify(hog));
    const modest = await server.run('head -c 30000000 /dev/zero | tail | wc -c; echo $OWN', { computer_id: id });
    assert.equal(modest.stdout, '30000000\nmine\n');
    const forks = 'i=0; while [ $i -lt 60 ]; do sleep 60 >/dev/null 2>&1 & i=$((i+1)); echo $i; done';
    const bomb = await server.exec({ args: ['/bin/sh', '-c', forks], computer_id: id });
    const begun = Number(bomb.value.stdout.trim().split('\n').at(-1));
    assert.ok(begun > 20 && begun < 40, `${begun} of 60: ${bomb.value.stderr}`);
}

for (const pool of [0, 2])
    test(`--warm-pool ${pool}: who wants other limits gets one that was made ahead, and these hold in it`, needsRoot, async (t) => {
        const server = await startServer(t, { args: ['--warm-pool', `${pool}`, '--lifecycle-tools'] });
        await server.run('true', { computer_id: 'only' });
        for (const temporary of [true, false]) {
            const id = temporary ? 'passing' : 'kept';
            const ahead = await fullPool(server, pool || BEGUN);
            await Promise.all(ahead.map(begunProcess));
            await call(server, 'computer_create', { computer_id: id, temporary, ...OWN });
            const record = JSON.parse(fs.readFileSync(path.join(server.stateDir, 'computers/local', id, 'record.json'), 'utf8'));
            assert.ok(ahead.includes(record.key), 'it was made ahead');
            const { limits } = (await call(server, 'computer_list', {})).computers.find((computer) => computer.computer_id === id);
            assert.deepEqual(['memory', 'pids', 'cpu'].map((name) => [limits[name].value, limits[name].enforced]),
                [100 * MIB, 40, 0.5].map((value) => [value, true]));
            await assertOwn(server, id);
            if (!temporary)
                assert.equal(record.data.limits.memory.bytes, 100 * MIB, 'and it says so');
        }
        for (const tool of ['computer_restart', 'computer_factory_reset']) {
            await call(server, tool, { computer_id: 'kept' });
            await assertOwn(server, 'kept');
        }
        await call(server, 'computer_delete', { computer_id: 'kept' }); // what runs in it would live on
        await fullPool(server, pool || BEGUN); // who wants none has what all have
        await server.run('true', { computer_id: 'plain' });
        assert.deepEqual(held(keys(server.stateDir).get('plain'), 'memory.max', 'memory.limit_in_bytes'), [`${512 * MIB}`]);
    });

test('what is known at birth only is made for it: those made ahead are left to others', needsRoot, async (t) => {
    const server = await startServer(t, { args: ['--warm-pool', '0', '--lifecycle-tools'] });
    await server.run('true', { computer_id: 'only' });
    const ahead = await fullPool(server, BEGUN);
    const { result } = await server.request('tools/call', { name: 'computer_create', arguments: { computer_id: 'large', disk: '64m' } });
    if (result.isError) // no images here
        return;
    assert.ok(!ahead.includes(keys(server.stateDir).get('large')));
    assert.deepEqual((await fullPool(server, BEGUN)).toSorted(), ahead.toSorted());
});
