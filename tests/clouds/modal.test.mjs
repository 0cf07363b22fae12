// The server with computers of Modal, at the fake that the official client is held to as well (modal-sdk.test.mjs).
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { startFake } from '../fakes/support/start.mjs';
import { eventually, temporaryFolder } from '../integration/support/machine.mjs';
import { BINARY, startServer } from '../integration/support/server.mjs';
import { call } from './e2b-world.mjs';
import { SECRET, running, world } from './modal-world.mjs';
import { needsRooms } from './support.mjs';

async function calls(fake) {
    const all = await fake.requests();
    await fake.forgetRequests();
    return all.map(({ path: where }) => where.replace(/.*\//, ''));
}

for (const v2 of [true, false]) {
    const which = v2 ? 'second' : 'first';

    test(`a temporary computer lives as long as its session (${which} generation)`, needsRooms, async (t) => {
        const { fake, server } = await world(t, { v2 });
        const first = await server.run('echo out; echo err >&2; pwd; id -u; exit 3');
        assert.deepEqual([first.stdout, first.stderr, first.exit_code], ['out\n/\n0\n', 'err\n', 3]);
        const [box] = await running(fake);
        assert.equal(box.v2, v2);
        assert.equal(box.tags.find(({ tag_name: name }) => name === 'kilntainers.computer-id').tag_value, first.computer_id);
        await server.stop();
        assert.deepEqual(await running(fake), []);
    });

    test(`a permanent computer comes back with its files (${which} generation)`, needsRooms, async (t) => {
        const { fake, server, start } = await world(t, { v2 });
        await server.run('echo kept >file; sleep 1000 >/dev/null 2>&1 &', { computer_id: 'keep-me', temporary: false });
        await server.stop();
        assert.deepEqual(await running(fake), []);

        const second = await start();
        const { computers } = await call(second, 'computer_list', {});
        assert.deepEqual(computers.map((one) => [one.computer_id, one.status ?? one.state]).map(([id]) => id), ['keep-me']);
        assert.equal((await second.run('cat file; pgrep -xfc "sleep 1000"', { computer_id: 'keep-me' })).stdout, 'kept\n0\n');
        await call(second, 'computer_restart', { computer_id: 'keep-me' });
        assert.equal((await second.run('cat file', { computer_id: 'keep-me' })).stdout, 'kept\n');
        await call(second, 'computer_factory_reset', { computer_id: 'keep-me' });
        assert.equal((await second.run('test -e file', { computer_id: 'keep-me' })).exit_code, 1);
        assert.equal((await running(fake)).length, 1);
        assert.deepEqual(await call(second, 'computer_delete', { computer_id: 'keep-me' }), { ok: true, computer_id: 'keep-me', deleted: true });
        assert.deepEqual(await running(fake), []);
    });

    test(`what a killed server leaves is put down by the next (${which} generation)`, needsRooms, async (t) => {
        const { fake, server, start } = await world(t, { v2 });
        await server.run('true');
        await server.run('echo kept >file', { computer_id: 'keep-me', temporary: false });
        await server.kill('SIGKILL');
        assert.equal((await running(fake)).length, 2);
        const second = await start();
        await eventually('both are ended', async () => (await running(fake)).length === 0);
        assert.equal((await second.run('cat file', { computer_id: 'keep-me' })).stdout, 'kept\n');
        await second.kill('SIGKILL');
        await fake.advance(3600);
        assert.deepEqual(await running(fake), [], 'lifetimes end without a server');
    });
}

test('a computer is found by its tags where the state directory has lost its files', needsRooms, async (t) => {
    const { fake, server, start, stateDir } = await world(t);
    await server.run('echo kept >file', { computer_id: 'keep-me', temporary: false });
    await server.kill('SIGKILL');
    fs.rmSync(path.join(stateDir, 'computers'), { recursive: true });
    const again = await start();
    assert.equal((await again.run('cat file', { computer_id: 'keep-me' })).stdout, 'kept\n');
    assert.equal((await running(fake)).length, 1);
});

test('computers move before the lifetime of their sandbox is over, with their files', needsRooms, async (t) => {
    const { fake, server } = await world(t, { args: ['--sandbox-timeout', '8'] });
    await server.run('echo kept >file');
    await eventually('it moved', async () => (await fake.state()).totals.created === 2, 20);
    assert.equal((await server.run('cat file')).stdout, 'kept\n');
    await eventually('the old one is ended', async () => (await running(fake)).length === 1);
});

test('round trips: one for a command, two for a long one, one for a computer', needsRooms, async (t) => {
    const { fake, server } = await world(t, { options: ['--tls'] });
    await server.run('true', { computer_id: 'first' });
    await calls(fake);
    const command = ['TaskExecStart', 'TaskExecStdioRead']; // at once
    const sorted = (all) => [...all].sort();
    await server.run('true', { computer_id: 'second' });
    const made = (await calls(fake)).filter((name) => !/^SandboxList/.test(name)); // whether there is one already
    assert.deepEqual(sorted(made), sorted(['SandboxCreateV2', ...command]));
    for (let n = 0; n < 3; n++) await server.run('true', { computer_id: 'second' });
    const connections = new Set((await fake.requests()).map(({ connection }) => connection));
    assert.ok(connections.size <= 2, 'connections are used again');
    assert.deepEqual(sorted(await calls(fake)), sorted([...command, ...command, ...command]));
    await server.run('wc -c', { computer_id: 'second', stdin: 'x'.repeat(100000) });
    assert.deepEqual(sorted(await calls(fake)), sorted([...command, 'TaskExecStdinWrite']));
});

test('a result waits for no more than itself: its stream may end late, or never', needsRooms, async (t) => {
    const { fake, server } = await world(t, { options: ['--tls'] });
    const streams = async () => (await fake.requests()).filter(({ path: where }) => where.endsWith('/TaskExecStdioRead'));
    const open = async () => (await streams()).filter(({ status }) => status === undefined).length;
    await fake.faults([{ match: 'TaskExecStdioRead$', times: 0, open: true }]);
    await eventually('a result comes while its stream is open', async () => {
        assert.equal((await server.run('true')).exit_code, 0);
        return (await open()) > 0;
    });
    assert.ok((await streams()).every(({ grpc }) => grpc === undefined), 'none has ended');
    await fake.faults([]);
    for (const n of [1, 2]) assert.equal((await server.run(`exit ${n}`)).exit_code, n);
    await eventually('it is given up', async () => (await open()) === 0);
});

test('what it is told by options', needsRooms, async (t) => {
    const { fake, server } = await world(t, { args: ['--gpu', 'h100:2', '--region', 'eu', '--modal-cpu', '1.5', '--modal-memory', '256',
        '--no-network', '--sandbox-timeout', '120', '--modal-app-name', 'mine'], v2: false });
    await server.run('true');
    const [{ definition: d, v2 }] = await running(fake);
    assert.deepEqual([v2, d.resources.gpu_config.gpu_type, d.resources.gpu_config.count, d.resources.milli_cpu, d.resources.memory_mb,
        d.scheduler_placement.regions, d.network_access.network_access_type, d.timeout_secs], [false, 'H100', 2, 1500, 256, ['eu'], 2, 120]);
    assert.equal((await fake.state()).apps.some(({ name }) => name === 'mine'), true);
});

test('the secret is nowhere but in requests', needsRooms, async (t) => {
    const log = path.join(temporaryFolder(t, 'log-'), 'log');
    const { server, stateDir, env } = await world(t, { args: ['--log-level', 'debug', '--log-file', log] });
    const seen = await server.run('env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n"');
    await server.run('true', { computer_id: 'keep-me', temporary: false });
    const printed = spawnSync(BINARY, ['--print-config', '--backend', 'modal', '--state-dir', stateDir], { env: { ...process.env, ...env }, encoding: 'utf8' });
    const records = spawnSync('find', [stateDir, '-type', 'f', '-exec', 'cat', '{}', '+'], { encoding: 'utf8' }).stdout;
    const everything = [seen.stdout, seen.stderr, printed.stdout, printed.stderr, records, server.stderr, fs.readFileSync(log, 'utf8'),
        JSON.stringify(server.messages), fs.readFileSync(`/proc/${server.pid}/cmdline`, 'utf8')];
    everything.forEach((text, n) => assert.ok(!text.includes(SECRET), `it is in text ${n}`));
});

test('no tokens, wrong ones, no provider and a bad image are told so', async (t) => {
    const fake = await startFake(t, 'modal', ['--token-secret', SECRET]);
    const right = { ...fake.environment(), MODAL_CONFIG_PATH: '/nonexistent' };
    for (const [env, args, code, words] of [
        [{ ...right, MODAL_TOKEN_ID: '', MODAL_TOKEN_SECRET: '' }, [], 'denied', /MODAL_TOKEN_ID|modal setup/],
        [{ ...right, MODAL_TOKEN_SECRET: 'as-wrong' }, [], 'denied', /MODAL_TOKEN|modal setup/],
        [{ ...right, MODAL_SERVER_URL: 'http://127.0.0.1:1' }, [], 'unavailable', /127\.0\.0\.1|connect/i],
        [right, ['--image', 'no-such-image'], 'invalid_argument', /no-such-image|manifest unknown/],
    ]) {
        const server = await startServer(t, { args: ['--backend', 'modal', ...args], env });
        const { isError, value } = await server.exec({ command: 'true' });
        assert.ok(isError);
        assert.equal(value.code, code, JSON.stringify(value));
        assert.match(value.error, words);
    }
});
