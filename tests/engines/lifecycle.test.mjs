// The computer_* tools on an engine: what is listed is what the engine has, whoever made it; a restart ends everything and keeps
// the files, of temporary ones, too; and many calls of two servers on one state directory at once leave nothing half done.
import assert from 'node:assert/strict';
import test from 'node:test';
import { eventually, namedComputersIn } from '../integration/support/machine.mjs';
import {
    BUSYBOX, DEBIAN, callTool, computers, inspect, killContainer, kind, pauseContainer, removeContainer, runPythonsComputer, startServer, states,
    stopContainer, unpauseContainer, watch,
} from './support/engine.mjs';

const ON = { env: { ENABLE_LIFECYCLE_TOOLS: 'true' } };
const box = { computer_id: 'box' };
const SLEEPERS = 'echo kept >/root/file; sleep 301 >/dev/null 2>&1 & setsid sleep 302 >/dev/null 2>&1 & true';
const LOOK = 'cat /root/file; ps | grep -c "[s]leep 30"';

test('what is listed is what the engine has, whoever made it', async (t) => {
    watch(t);
    await runPythonsComputer('theirs');
    await runPythonsComputer('theirs-resting');
    await killContainer('theirs-resting');
    const first = await startServer(t, ON);
    for (const id of ['halted', 'keeper', 'lost']) await first.run('echo kept >/root/file', { computer_id: id, temporary: false });
    for (const id of ['killed', 'passing']) await first.run('true', { computer_id: id });
    await Promise.all([removeContainer('lost'), stopContainer('halted'), killContainer('killed')]);
    const second = await startServer(t, { ...ON, stateDir: first.stateDir });
    const truth = ['halted stopped', 'keeper running', 'lost missing', 'passing running', 'theirs running', 'theirs-resting stopped'];
    const ofKilled = (one) => one.startsWith('killed ');
    assert.deepEqual((await states(first)).filter((one) => !ofKilled(one)), truth);
    assert.deepEqual((await states(first)).filter(ofKilled), ['killed missing']);
    assert.deepEqual((await states(second)).filter((one) => !ofKilled(one)), truth);

    const seen = (await callTool(second, 'computer_list', { prefix: 'theirs' })).computers[0];
    const container = await inspect('theirs');
    assert.equal(seen.sandbox_id, container.Id.slice(0, 12));
    assert.equal(seen.image, BUSYBOX);
    assert.equal(Math.floor(Date.parse(seen.created_at) / 1000), Math.floor(Date.parse(container.Created) / 1000));
    assert.equal((await callTool(second, 'computer_list', { prefix: 'keeper' })).computers[0].elsewhere, true);

    const gone = await first.exec({ command: 'true', computer_id: 'halted' });
    assert.equal(gone.value.code, 'computer_gone');
    assert.equal((await first.run('cat /root/file', { computer_id: 'halted' })).stdout, 'kept\n');
    assert.deepEqual(await states(first, { prefix: 'halted' }), ['halted running']);
    const stranger = await startServer(t, ON);
    assert.deepEqual(await states(stranger, { prefix: 'keeper' }), ['keeper running']);
    const { elsewhere, reason } = (await callTool(stranger, 'computer_list', { prefix: 'keeper' })).computers[0];
    assert.deepEqual([elsewhere, /--state-dir/.test(reason)], [true, true]);
    await first.stop();
    assert.deepEqual(await states(second), ['halted stopped', 'keeper stopped', 'lost missing', 'theirs running', 'theirs-resting stopped']);
    await callTool(second, 'computer_delete', { computer_id: 'lost' });
    assert.deepEqual(await states(second, { prefix: 'lost' }), []);
});

test('a temporary computer is restarted where it is', async (t) => {
    const server = await startServer(t, ON);
    await server.run(SLEEPERS, box);
    const before = await inspect('box');
    const running = await server.startAndReach('sleep 303', box);
    assert.equal((await callTool(server, 'computer_restart', box)).ok, true);
    const { code, error } = (await running.reply).result.structuredContent;
    assert.equal(code, 'computer_gone');
    assert.match(error, /was restarted/);
    assert.equal((await server.run(LOOK, box)).stdout, 'kept\n0\n');
    const after = await inspect('box');
    assert.deepEqual([after.Id, after.State.StartedAt], [before.Id, before.State.StartedAt]);

    await pauseContainer('box');
    const refused = await callTool(server, 'computer_restart', box);
    assert.equal(refused.code, 'unavailable');
    assert.match(refused.error, /paused.*unpause/);
    await unpauseContainer('box');
    assert.equal((await callTool(server, 'computer_restart', box)).ok, true);
    assert.equal((await server.run(LOOK, box)).stdout, 'kept\n0\n');
});

test('what is in memory outlasts the restart of a temporary computer only', async (t) => {
    const server = await startServer(t, { ...ON, from: DEBIAN });
    for (const [temporary, left] of [[true, '1\nkept\n'], [false, '0\n']]) {
        const where = { computer_id: temporary ? 'passing' : 'lasting' };
        await server.run('ipcmk -Q >/dev/null && echo kept >/dev/shm/file', { ...where, temporary });
        assert.equal((await callTool(server, 'computer_restart', where)).ok, true);
        assert.equal((await server.run('ipcs -q | grep -c ^0x; cat /dev/shm/file 2>/dev/null; true', where)).stdout, left, where.computer_id);
    }
});

for (const [what, how] of [['temporary', { temporary: true }], ['read-only', { readOnly: true }]]) {
    test(`one of the Python programs', ${what}, is restarted`, async (t) => {
        watch(t);
        await runPythonsComputer('box', how);
        const server = await startServer(t, ON);
        await server.run('echo kept >/root/file; sleep 301 >/dev/null 2>&1 & true', box);
        const running = server.startExec({ command: 'sleep 303', ...box });
        await eventually('both run', async () => (await server.run('ps | grep -c "[s]leep 30"', box)).stdout === '2\n');
        assert.equal((await callTool(server, 'computer_restart', box)).ok, true);
        assert.equal((await running.reply).result.structuredContent.code, 'computer_gone');
        assert.equal((await server.run('ps | grep -c "[s]leep 30"', box)).stdout, '0\n');
        if (!how.readOnly) assert.equal((await server.run('cat /root/file', box)).stdout, 'kept\n');
    });
}

test('a paused computer says so, and isn\'t idle; when it goes on, its time begins anew', async (t) => {
    const server = await startServer(t, ON);
    const create = (id) => callTool(server, 'computer_create', { computer_id: id, temporary: false, idle_timeout: 4 });
    const seen = async (id) => (await callTool(server, 'computer_list', { prefix: id })).computers[0];
    await create('held');
    await pauseContainer('held');
    await create('lazy');
    await eventually('one that isn\'t paused is stopped', async () => (await seen('lazy')).state === 'stopped');
    const { state, paused, reason } = await seen('held');
    assert.deepEqual([state, paused], ['running', true]);
    assert.match(reason, new RegExp(`paused.*: ${kind} unpause ${(await inspect('held')).Id.slice(0, 12)}$`));
    await unpauseContainer('held');
    assert.equal((await seen('held')).paused, undefined);
    await eventually('it is idle in the end', async () => (await seen('held')).state === 'stopped');
});

// What somebody is told who comes at the wrong moment.
const TIMELY = ['busy', 'computer_gone', 'computer_deleted', 'computer_not_found', 'cancelled'];

test('two servers on one state directory, and all operations on one id at once', async (t) => {
    const first = await startServer(t, ON);
    const second = await startServer(t, { ...ON, stateDir: first.stateDir });
    const servers = [first, second];
    for (const temporary of [true, false]) {
        await first.run('echo kept >/root/file', { ...box, temporary });
        const calls = servers.flatMap((server) => [
            ...['restart', 'factory_reset', 'delete', 'restart', 'delete'].map((name) => callTool(server, `computer_${name}`, box)),
            server.exec({ command: 'echo used', ...box }).then(({ value }) => value),
            callTool(server, 'computer_list'),
        ]);
        for (const value of await Promise.all(calls)) {
            assert.ok(!value.error || TIMELY.includes(value.code), JSON.stringify(value));
        }
        const left = await computers();
        assert.ok(left.length <= 1, `one container at most: ${left}`);
        const deleted = await Promise.all(servers.map((server) => callTool(server, 'computer_delete', box)));
        assert.ok(deleted.some(({ ok }) => ok), JSON.stringify(deleted));
        assert.deepEqual(await computers(), []);
        assert.deepEqual(namedComputersIn(first.stateDir), []);
        assert.equal((await second.run('ls /root', { ...box, temporary })).created, true, 'the id is free at once');
        assert.equal((await callTool(second, 'computer_delete', box)).deleted, true);
    }
});

test('B37: the next server lists the permanent ones, and each may be managed there', async (t) => {
    const first = await startServer(t, ON);
    for (const id of ['a', 'b', 'c']) await first.run(SLEEPERS, { computer_id: id, temporary: false });
    await first.kill('SIGKILL');
    const second = await startServer(t, { ...ON, stateDir: first.stateDir });
    assert.equal((await callTool(second, 'computer_restart', { computer_id: 'a' })).ok, true);
    assert.equal((await second.run(LOOK, { computer_id: 'a' })).stdout, 'kept\n0\n');
    assert.equal((await callTool(second, 'computer_factory_reset', { computer_id: 'b' })).ok, true);
    assert.notEqual((await second.run('cat /root/file', { computer_id: 'b' })).exit_code, 0);
    assert.equal((await callTool(second, 'computer_delete', { computer_id: 'c' })).deleted, true);
    assert.deepEqual(await states(second), ['a running', 'b running']);
    assert.deepEqual(await computers(), ['a', 'b']);
});
