// The server with computers of E2B, at the fake that the official client is held to as well (e2b-sdk.test.mjs).
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { BINARY, startServer } from '../integration/support/server.mjs';
import { eventually, temporaryFolder } from '../integration/support/machine.mjs';
import { startFake } from '../fakes/support/start.mjs';
import { KEY, call, sandboxes, world } from './e2b-world.mjs';
import { needsRooms } from './support.mjs';

// What came in since the last look, as "METHOD /path" without ids.
async function requests(fake) {
    const all = await fake.requests();
    await fake.forgetRequests();
    return all.map(({ method, path: where }) => `${method} ${where.replace(/\?.*/, '').replace(/\/i[a-z0-9]{20}/, '/ID')}`);
}

test('a temporary computer lives as long as its session', needsRooms, async (t) => {
    const { fake, server } = await world(t);
    const first = await server.run('echo out; echo err >&2; pwd; id -un; exit 3');
    assert.deepEqual([first.stdout, first.stderr, first.exit_code], ['out\n/home/user\nuser\n', 'err\n', 3]);
    await server.run('echo kept >file');
    assert.equal((await server.run('rm -rf ~/.sandbox; cat file')).stdout, 'kept\n');
    assert.equal((await server.run('seq 300000 | tail -c 1000000; ls ~/.sandbox', { output_limit: 1000 })).exit_code, 0);
    const [box] = await sandboxes(fake);
    assert.equal(box.metadata['kilntainers.computer-id'], first.computer_id);
    assert.equal(box.lifecycle.onTimeout, 'kill');
    await server.stop();
    assert.deepEqual(await sandboxes(fake), []);
});

test('our program can be put where the disk is full', needsRooms, async (t) => {
    const { server } = await world(t, ['--disk', '48']);
    const filler = await server.run('rm -r ~/.sandbox; (while :; do cat /dev/zero >>big; sleep 0.1; done) >/dev/null 2>&1 & cat /dev/zero >more; echo $!');
    assert.equal((await server.run('echo here')).stdout, 'here\n');
    assert.equal((await server.run(`kill ${filler.stdout.trim()} && rm big more && echo removed`)).stdout, 'removed\n');
});

test('a permanent computer is paused when the server ends, and comes back with its files', needsRooms, async (t) => {
    const { fake, server, start } = await world(t);
    await server.run('echo kept >file; sleep 1000 >/dev/null 2>&1 &', { computer_id: 'keep-me', temporary: false });
    await server.stop();
    const [paused] = await sandboxes(fake);
    assert.deepEqual([paused.state, paused.processes], ['paused', []]);

    const second = await start();
    assert.equal((await second.run('cat file; pgrep -xfc "sleep 1000"', { computer_id: 'keep-me' })).stdout, 'kept\n0\n');
    const { computers } = await call(second, 'computer_list', {});
    assert.deepEqual(computers.map((one) => [one.computer_id, one.sandbox_id, one.backend]), [['keep-me', paused.sandboxID, 'e2b']]);
    assert.equal((await call(second, 'computer_restart', { computer_id: 'keep-me' })).sandbox_id, paused.sandboxID);
    assert.equal((await second.run('cat file', { computer_id: 'keep-me' })).stdout, 'kept\n');
    const reset = await call(second, 'computer_factory_reset', { computer_id: 'keep-me' });
    assert.notEqual(reset.sandbox_id, paused.sandboxID);
    assert.equal((await second.run('ls', { computer_id: 'keep-me' })).stdout, '');
    assert.deepEqual(await call(second, 'computer_delete', { computer_id: 'keep-me' }), { ok: true, computer_id: 'keep-me', deleted: true });
    assert.deepEqual(await sandboxes(fake), []);
});

test('a killed server leaves nothing that costs beyond its lifetime, nor beyond the next start', needsRooms, async (t) => {
    const { fake, server, start } = await world(t);
    await server.run('true');
    await server.run('echo kept >file', { computer_id: 'keep-me', temporary: false });
    await server.kill('SIGKILL');
    assert.equal((await sandboxes(fake)).length, 2);
    await start();
    await eventually('the next server has removed the temporary one and paused the other', async () => {
        const left = await sandboxes(fake);
        return left.length === 1 && left[0].state === 'paused';
    });

    const third = await start();
    await third.run('true');
    await third.kill('SIGKILL');
    await fake.advance(3600);
    assert.deepEqual((await sandboxes(fake)).map((one) => one.state), ['paused']);
});

test('a computer is found by its metadata where the state directory has lost its files', needsRooms, async (t) => {
    const { fake, server, start, stateDir, env } = await world(t);
    await server.run('echo kept >file', { computer_id: 'keep-me', temporary: false });
    await server.stop();
    const elsewhere = await startServer(t, { args: ['--backend', 'e2b', '--lifecycle-tools'], env });
    assert.deepEqual((await call(elsewhere, 'computer_list', {})).computers.map((one) => one.computer_id), ['keep-me']);
    assert.ok((await elsewhere.exec({ command: 'true', computer_id: 'keep-me' })).isError, 'it is of another state directory');
    fs.rmSync(path.join(stateDir, 'computers'), { recursive: true });
    const again = await start();
    assert.equal((await again.run('cat file', { computer_id: 'keep-me' })).stdout, 'kept\n');
    assert.equal((await sandboxes(fake)).length, 1);
});

test('a lifetime that is over is told once', needsRooms, async (t) => {
    const { fake, server } = await world(t);
    await server.run('true');
    await server.run('echo kept >file', { computer_id: 'keep-me', temporary: false });
    await fake.advance(3601);
    const { value } = await server.exec({ command: 'true' });
    assert.equal(value.code, 'computer_gone');
    assert.equal((await server.exec({ command: 'true', computer_id: 'keep-me' })).value.code, 'computer_gone');
    assert.equal((await server.run('cat file', { computer_id: 'keep-me' })).stdout, 'kept\n');
    assert.equal((await server.run('ls')).stdout, '');
});

test('lifetimes are renewed while a server uses them', needsRooms, async (t) => {
    const { fake, server } = await world(t, [], ['--e2b-sandbox-timeout', '2']);
    await server.run('true');
    await eventually('it is renewed', async () => (await fake.requests()).filter(({ path: where }) => /\/timeout$/.test(where)).length >= 3);
    assert.equal((await server.run('echo still')).stdout, 'still\n');
    assert.doesNotMatch(server.stderr, /not limited/, 'its template is what limits it');
});

test('round trips: one for a command, two for a long one, three for a computer', needsRooms, async (t) => {
    const { fake, server } = await world(t, ['--tls']);
    await server.run('true', { computer_id: 'first' });
    await requests(fake);
    const command = ['POST /process.Process/Start'];
    await server.run('true', { computer_id: 'second' });
    assert.deepEqual(await requests(fake), ['GET /v2/sandboxes', 'POST /v2/sandboxes', 'POST /files', ...command]);
    for (let n = 0; n < 3; n++) await server.run('true', { computer_id: 'second' });
    const connections = new Set((await fake.requests()).map(({ connection }) => connection));
    assert.ok(connections.size <= 2, 'connections are used again');
    assert.deepEqual(await requests(fake), [...command, ...command, ...command]);
    await server.run('wc -c', { computer_id: 'second', stdin: 'x'.repeat(100000) });
    assert.deepEqual(await requests(fake), [...command, 'POST /process.Process/SendInput']);
});

test('what it is told by options', needsRooms, async (t) => {
    const { fake, server } = await world(t, ['--template', 'own'], ['--e2b-template', 'own', '--e2b-env', 'A=b c', '--e2b-metadata', 'team=x=y',
        '--no-network', '--e2b-sandbox-timeout', '120', '--shell', '/bin/sh']);
    assert.equal((await server.run('echo "$A"')).stdout, 'b c\n');
    const [box] = await sandboxes(fake);
    assert.deepEqual([box.templateID, box.metadata.team, box.wanted.allow_internet_access, box.wanted.timeout], ['own', 'x=y', false, 120]);
});

test('no key, a wrong key and no provider are told so', async (t) => {
    const fake = await startFake(t, 'e2b', ['--api-key', KEY]);
    for (const [env, code, words] of [
        [{ ...fake.environment(), E2B_API_KEY: '' }, 'denied', /E2B_API_KEY/],
        [{ ...fake.environment(), E2B_API_KEY: 'e2b_00' }, 'denied', /refuses the API key/],
        [{ ...fake.environment(), E2B_API_URL: 'http://127.0.0.1:1' }, 'unavailable', /127\.0\.0\.1:1/],
    ]) {
        const server = await startServer(t, { args: ['--backend', 'e2b'], env });
        const { isError, value } = await server.exec({ command: 'true' });
        assert.ok(isError);
        assert.equal(value.code, code);
        assert.match(value.error, words);
    }
    const refused = spawnSync(BINARY, ['--backend', 'e2b'], { env: { ...process.env, E2B_API_URL: 'http://example.com' }, encoding: 'utf8', input: '' });
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /E2B_API_URL.*https/);
});

test('too many are made one after the other, as the provider says', needsRooms, async (t) => {
    const { fake, server } = await world(t);
    await fake.faults([{ match: '^POST /v2/sandboxes$', times: 2, status: 429, headers: { 'retry-after': '1' }, body: { code: 429, message: 'slow down' } }]);
    const all = await Promise.all(Array.from({ length: 4 }, (_, n) => server.run('echo here', { computer_id: `c${n}` })));
    assert.deepEqual(all.map((one) => one.stdout), Array(4).fill('here\n'));
    assert.equal((await fake.state()).totals.created, 4);
});

// Who has root in a sandbox may answer in its envd's place.
test('a sandbox that wants to be left alone is, and holds up no other', needsRooms, async (t) => {
    const { fake, server } = await world(t);
    for (const id of ['tired', 'other']) await server.run('true', { computer_id: id });
    await fake.forgetRequests();
    await fake.faults([{ match: '/process.Process/Start$', status: 429, headers: { 'retry-after': '3600' }, body: { code: 'resource_exhausted', message: 'slow down' } }]);
    const { isError, value } = await server.exec({ command: 'true', computer_id: 'tired' });
    assert.ok(isError && /slow down; try again in 3600 s/.test(value.error), JSON.stringify(value));
    assert.equal((await fake.requests()).filter(({ path }) => path === '/process.Process/Start').length, 1, 'it is not asked again');
    assert.equal((await server.run('echo on', { computer_id: 'other' })).stdout, 'on\n');
    const still = await server.exec({ command: 'true', computer_id: 'tired', timeout: 1 });
    assert.ok(still.value.timed_out, JSON.stringify(still.value));
    assert.equal((await fake.requests()).filter(({ path }) => path === '/process.Process/Start').length, 2, 'nor by the next command');
});
