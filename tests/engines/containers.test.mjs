// What happens to a computer's container from outside: the call that meets it says so, others and the server live on.
import assert from 'node:assert/strict';
import test from 'node:test';
import {
    api, computers, endsWithItsComputers, image, inspect, killContainer, pauseContainer, refused, removeContainer, startServer, stopContainer, unpauseContainer,
} from './support/engine.mjs';

const killFirstProcess = async (id) => process.kill((await inspect(id)).State.Pid, 'SIGKILL');

async function otherIsUnharmed(server) {
    const value = await server.run('cat /root/file', { computer_id: 'other' });
    assert.equal(value.stdout, 'other\n');
    assert.ok(!('created' in value));
}

async function withTwo(t, how = {}) {
    const server = await startServer(t, how.settings);
    await Promise.all([
        server.run('echo data >/root/file', { computer_id: 'victim', temporary: how.temporary ?? true }),
        server.run('echo other >/root/file', { computer_id: 'other' }),
    ]);
    return server;
}

// Told once, with the reason; then the id is free.
async function goneOnce(server, id, error, reason) {
    assert.equal(error.code, 'computer_gone', error.error);
    assert.match(error.error, reason);
    assert.doesNotMatch(error.error, /files are kept/);
    const fresh = await server.run('ls /root', { computer_id: id });
    assert.equal(fresh.created, true);
    assert.equal(fresh.stdout, '');
}

const harms = {
    removed: [removeContainer, /removed|stopped/],
    stopped: [stopContainer, /removed|stopped/],
    killed: [killContainer, /removed|stopped/],
    'without its first process': [killFirstProcess, /removed|stopped/],
};
for (const [what, [harm, reason]] of Object.entries(harms)) {
    test(`B20: temporary computers whose containers are ${what}, between commands and under one`, async (t) => {
        const server = await withTwo(t);
        const { reply } = await server.startAndReach('sleep 300', { computer_id: 'busy' });
        await Promise.all([harm('victim'), harm('busy')]);
        const { result } = await reply;
        assert.equal(result.isError, true);
        await goneOnce(server, 'busy', result.structuredContent, reason);
        await goneOnce(server, 'victim', await refused(server, { command: 'cat /root/file', computer_id: 'victim' }), reason);
        await otherIsUnharmed(server);
    });
}

for (const [what, [harm]] of Object.entries(harms).slice(1)) {
    test(`a permanent computer whose container is ${what} keeps its files`, async (t) => {
        const server = await withTwo(t, { temporary: false });
        const { reply } = await server.startAndReach('sleep 300', { computer_id: 'victim' });
        await harm('victim');
        const { structuredContent: error } = (await reply).result;
        assert.equal(error.code, 'computer_gone');
        assert.match(error.error, /files are kept/);
        const again = await server.run('cat /root/file', { computer_id: 'victim' });
        assert.equal(again.stdout, 'data\n');
        assert.ok(!('created' in again));
        await otherIsUnharmed(server);
    });
}

test('B20: a permanent computer whose container is removed', async (t) => {
    const server = await withTwo(t, { temporary: false });
    await removeContainer('victim');
    await goneOnce(server, 'victim', await refused(server, { command: 'true', computer_id: 'victim' }), /removed from outside/);
    await otherIsUnharmed(server);
});

test('B20: the default computer', async (t) => {
    const server = await startServer(t);
    const { computer_id: id } = await server.run('echo data >/root/file');
    await removeContainer(id);
    assert.equal((await refused(server, { command: 'true' })).code, 'computer_gone');
    const fresh = await server.run('ls /root');
    assert.equal(fresh.created, true);
    assert.equal(fresh.stdout, '');
});

test('a permanent computer that is removed while no server has it', async (t) => {
    const first = await startServer(t);
    await first.run('true', { computer_id: 'victim', temporary: false });
    await first.stop();
    await removeContainer('victim');
    const second = await startServer(t, { stateDir: first.stateDir });
    await goneOnce(second, 'victim', await refused(second, { command: 'true', computer_id: 'victim' }), /removed/);
});

test('computers whose containers are paused work again afterwards', async (t) => {
    const server = await withTwo(t, { temporary: false });
    await server.run('echo data >/root/file; mkfifo /tmp/gate', { computer_id: 'passing' });
    const running = await server.startAndReach('read -r word </tmp/gate; echo $word', { computer_id: 'passing' });
    const ids = ['victim', 'passing'];
    await Promise.all(ids.map(pauseContainer));
    const values = ids.map((id) => server.run('true', { computer_id: id, timeout: 0.5 }));
    await otherIsUnharmed(server);
    for (const { timed_out: timedOut, note } of await Promise.all(values)) {
        assert.equal(timedOut, true);
        assert.match(note, /isn't known whether.*paused.*unpause/);
    }
    await Promise.all(ids.map(unpauseContainer));
    for (const id of ids) {
        const again = await server.run('cat /root/file', { computer_id: id });
        assert.equal(again.stdout, 'data\n');
        assert.ok(!('created' in again));
    }
    await server.run('echo survived >/tmp/gate', { computer_id: 'passing' });
    assert.equal((await running.reply).result.structuredContent.stdout, 'survived\n');
});

test('a server ends, and its paused computer with it', async (t) => {
    const server = await withTwo(t);
    await pauseContainer('victim');
    await endsWithItsComputers(t, server, () => server.stop());
});

test('B49: a command beyond the memory limit', async (t) => {
    const server = await withTwo(t, { settings: { args: ['--memory', '64m'] } });
    const value = await server.run('tail /dev/zero', { computer_id: 'victim' });
    assert.equal(value.oom_killed, true);
    assert.equal(value.exit_code, 137);
    assert.equal((await server.run('cat /root/file', { computer_id: 'victim' })).stdout, 'data\n');
    await otherIsUnharmed(server);
});

test('disk full', async (t) => {
    const server = await startServer(t, { args: ['--docker-run-flag=--tmpfs=/tmp:size=1m,mode=1777'] });
    const value = await server.run('dd if=/dev/zero of=/tmp/file bs=1M count=8', {});
    assert.notEqual(value.exit_code, 0);
    assert.match(value.stderr, /No space left/);
    // Output that is cut has nowhere to go, and is cut all the same.
    const flood = await server.run('seq 1 1000000', { output_limit: 4096 });
    assert.equal(flood.exit_code, 0);
    assert.ok(flood.stdout.startsWith('1\n2\n') && flood.stdout.endsWith('\n1000000\n'));
    assert.ok(flood.truncated.stdout_bytes > 6_000_000);
    assert.equal((await server.run('rm /tmp/file; echo usable')).stdout, 'usable\n');
});

test('a computer that is renamed is the same', async (t) => {
    const server = await withTwo(t);
    await api('POST', '/containers/kilntainer-victim/rename?name=elsewhere');
    assert.equal((await server.run('cat /root/file', { computer_id: 'victim' })).stdout, 'data\n');
});
