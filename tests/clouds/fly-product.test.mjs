// The server with computers of Fly, at the fake that what fly-go sends is held against as well (fly.test.mjs).
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { BINARY, startServer } from '../integration/support/server.mjs';
import { eventually, temporaryFolder } from '../integration/support/machine.mjs';
import { TOKEN, call, machines, requests, world } from './fly-world.mjs';
import { needsRooms } from './support.mjs';

test('a temporary computer lives as long as its session', needsRooms, async (t) => {
    const { fake, server } = await world(t);
    const first = await server.run('echo out; echo err >&2; pwd; id -un; exit 3');
    assert.deepEqual([first.stdout, first.stderr, first.exit_code], ['out\n/\nroot\n', 'err\n', 3]);
    await server.run('echo kept >/root/file');
    const [machine] = await machines(fake);
    const { config } = machine;
    assert.deepEqual(
        [config.auto_destroy, config.restart.policy, config.rootfs.persist, config.image, config.guest],
        [true, 'no', 'never', 'debian:bookworm-slim', { cpu_kind: 'shared', cpus: 1, memory_mb: 512 }],
    );
    for (const [name, value] of [['kilntainers', 'true'], ['kilntainers-computer-id', first.computer_id], ['kilntainers-temporary', 'true'],
        ['kilntainers-image', 'debian:bookworm-slim'], ['kilntainers.computer-id', first.computer_id], ['kilntainers.principal', 'local']])
        assert.equal(config.metadata[name], value);
    assert.ok(config.metadata['kilntainers.owner.pid']);
    assert.equal((await server.run('cat /root/file')).stdout, 'kept\n');
    await server.stop();
    assert.deepEqual(await machines(fake), []);
});

test('a permanent computer is stopped when the server ends, and comes back with its files', needsRooms, async (t) => {
    const { fake, server, start } = await world(t);
    await server.run('echo kept >/root/file; sleep 1000 >/dev/null 2>&1 &', { computer_id: 'keep-me', temporary: false });
    await server.stop();
    await eventually('it is stopped', async () => (await machines(fake))[0].state === 'stopped');
    const [stopped] = await machines(fake);
    assert.deepEqual([stopped.config.auto_destroy, stopped.config.restart.policy, stopped.config.rootfs.persist], [false, 'always', 'always']);

    const second = await start();
    assert.equal((await second.run('cat /root/file; pgrep -xfc "sleep 1000"', { computer_id: 'keep-me' })).stdout, 'kept\n0\n');
    const { computers } = await call(second, 'computer_list', {});
    assert.deepEqual(computers.map((one) => [one.computer_id, one.sandbox_id, one.backend]), [['keep-me', stopped.id, 'fly']]);
    assert.equal((await call(second, 'computer_restart', { computer_id: 'keep-me' })).sandbox_id, stopped.id);
    assert.equal((await second.run('cat /root/file', { computer_id: 'keep-me' })).stdout, 'kept\n');
    const reset = await call(second, 'computer_factory_reset', { computer_id: 'keep-me' });
    assert.notEqual(reset.sandbox_id, stopped.id);
    assert.equal((await second.run('ls /root', { computer_id: 'keep-me' })).stdout, '');
    assert.deepEqual(await call(second, 'computer_delete', { computer_id: 'keep-me' }), { ok: true, computer_id: 'keep-me', deleted: true });
    assert.deepEqual(await machines(fake), []);
});

test('a killed server leaves nothing beyond the next start', needsRooms, async (t) => {
    const { fake, server, start } = await world(t);
    await server.run('true');
    await server.run('echo kept >/root/file', { computer_id: 'keep-me', temporary: false });
    await server.kill('SIGKILL');
    assert.equal((await machines(fake)).length, 2);
    const next = await start();
    await eventually('the next server has removed the temporary one and stopped the other', async () => {
        const left = await machines(fake);
        return left.length === 1 && left[0].state === 'stopped';
    });
    assert.equal((await next.run('cat /root/file', { computer_id: 'keep-me' })).stdout, 'kept\n');
});

async function leaseIsRenewed(fake) {
    const touches = async () => (await fake.requests()).filter(({ path: where }) => /\/exec$/.test(where)).length;
    const before = await touches();
    await eventually('its lease is renewed, beyond what it began with', async () => (await touches()) >= before + 4);
}

test('a temporary machine ends by itself when no server speaks to it, and not while one does', needsRooms, async (t) => {
    const { fake, server } = await world(t, { args: ['--fly-rate', '1000', '--fly-lease', '2'] });
    await server.run('echo here >/root/file');
    await server.run('true', { computer_id: 'keep-me', temporary: false });
    await leaseIsRenewed(fake);
    assert.equal((await server.run('cat /root/file')).stdout, 'here\n');
    await server.kill('SIGKILL');
    await eventually('it is gone, and the permanent one is not', async () =>
        (await machines(fake)).map(({ config }) => config.metadata['kilntainers.temporary']).join() === 'false');
});

for (const [what, damage] of Object.entries({
    'removed with all that was mounted there': 'umount /.sandbox/work; rm -rf /.sandbox',
    'given another name': 'mv /.sandbox /elsewhere',
}))
    test(`a machine whose folder was ${what} is the same one after that`, needsRooms, async (t) => {
        const { fake, server } = await world(t, { args: ['--fly-rate', '1000', '--fly-lease', '2'] });
        await server.run(damage);
        assert.equal((await server.run('echo $FLY_APP_NAME; echo here >/root/file')).stdout, 'app\n');
        await leaseIsRenewed(fake);
        assert.equal((await server.run('cat /root/file')).stdout, 'here\n');
        await server.kill('SIGKILL');
        await eventually('it ends when nobody speaks to it', async () => (await machines(fake)).length === 0);
    });

test('our program is put back from what we run, not from what another user runs under its name', needsRooms, async (t) => {
    const { server } = await world(t);
    const posing = "setpriv --reuid=65534 --clear-groups bash -c 'case $$ in 1*) exec -a /.sandbox/guest cat main;; esac'"; // found before ours, which is 2
    await server.run(`cd /tmp && mkfifo -m 666 main && until pgrep -fx '/.sandbox/guest main'; do ${posing} >/dev/null 2>&1 & done; rm /.sandbox/guest`);
    assert.equal((await server.run('echo on')).stdout, 'on\n');
});

test('what a machine has from its image comes back when it was removed', needsRooms, async (t) => {
    const { server } = await world(t, { args: ['--fly-rate', '1000', '--fly-lease', '2'] });
    await server.run('rm -f /.sandbox/work/environment');
    await eventually('its main process keeps it anew', async () => (await server.run('echo $FLY_APP_NAME')).stdout === 'app\n');
});

test('a machine that does not answer lets no other\'s lease run out', needsRooms, async (t) => {
    const { fake, server } = await world(t, { args: ['--fly-rate', '1000', '--fly-lease', '4'] });
    await server.run('true', { computer_id: 'stuck' });
    const [{ id: stuck }] = await machines(fake);
    await server.run('echo here >/root/file', { computer_id: 'other' });
    const other = (await machines(fake)).find(({ id }) => id !== stuck).id;
    await fake.faults([{ match: `/${stuck}/exec$`, times: 0, stall: 0 }]);
    await fake.forgetRequests();
    const asked = async (id) => (await fake.requests()).filter(({ path: where }) => where.endsWith(`/${id}/exec`)).length;
    await eventually('it is asked, and the other lives on for more than a lease', async () => (await asked(stuck)) > 0 && (await asked(other)) >= 4);
    assert.equal((await server.run('cat /root/file', { computer_id: 'other' })).stdout, 'here\n');
});

test('a machine that was ended from outside is told once', needsRooms, async (t) => {
    const { fake, server, env } = await world(t);
    await server.run('true');
    await server.run('echo kept >/root/file', { computer_id: 'keep-me', temporary: false });
    for (const { id, config } of await machines(fake)) {
        const [method, verb] = config.auto_destroy ? ['DELETE', '?force=true'] : ['POST', '/stop'];
        const { status } = await fetch(`${env.FLY_FLAPS_BASE_URL}/v1/apps/app/machines/${id}${verb}`, { method, headers: { authorization: `FlyV1 ${TOKEN}` } });
        assert.equal(status, 200);
    }
    for (const given of [{}, { computer_id: 'keep-me' }]) {
        const { value } = await server.exec({ command: 'true', ...given });
        assert.equal(value.code, 'computer_gone');
        assert.match(value.error, /its machine \w+ doesn't (exist|run) any more.*ended from outside/);
    }
    assert.equal((await server.run('cat /root/file', { computer_id: 'keep-me' })).stdout, 'kept\n');
    assert.equal((await server.run('ls /root')).stdout, '');
});

test('a computer is found by its metadata where the state directory has lost its files', needsRooms, async (t) => {
    const { fake, server, start, stateDir } = await world(t);
    await server.run('echo kept >/root/file', { computer_id: 'keep-me', temporary: false });
    await server.stop();
    const elsewhere = await start([], temporaryFolder(t, 'other-'));
    assert.deepEqual((await call(elsewhere, 'computer_list', {})).computers.map((one) => one.computer_id), ['keep-me']);
    assert.ok((await elsewhere.exec({ command: 'true', computer_id: 'keep-me' })).isError, 'it is of another state directory');
    fs.rmSync(path.join(stateDir, 'computers'), { recursive: true });
    const again = await start();
    assert.equal((await again.run('cat /root/file', { computer_id: 'keep-me' })).stdout, 'kept\n');
    assert.equal((await machines(fake)).length, 1);
});

test('a machine of the Python program is a computer as well', needsRooms, async (t) => {
    const { fake, server, env } = await world(t);
    const config = {
        image: 'debian:bookworm-slim', init: { exec: ['/usr/bin/tail', '-f', '/dev/null'] }, restart: { policy: 'always' }, rootfs: { persist: 'always' },
        metadata: { kilntainers: 'true', 'kilntainers-computer-id': 'old-one', 'kilntainers-temporary': 'false', 'kilntainers-image': 'debian:bookworm-slim' },
    };
    const ask = async (where, body) => (await fetch(`${env.FLY_FLAPS_BASE_URL}/v1/apps/app/machines${where}`,
        { method: 'POST', body: JSON.stringify(body), headers: { authorization: `FlyV1 ${TOKEN}`, 'content-type': 'application/json' } })).json();
    const { id } = await ask('', { name: 'old-one', config });
    await eventually('it runs', async () => (await machines(fake))[0].state === 'started');
    await ask(`/${id}/exec`, { command: ['/bin/sh', '-c', 'echo kept >/root/file'] });
    assert.equal((await server.run('cat /root/file', { computer_id: 'old-one', temporary: false })).stdout, 'kept\n');
    const [machine] = await machines(fake);
    assert.equal(machine.id, id);
    assert.equal(machine.config.metadata['kilntainers-computer-id'], 'old-one');
});

test('two servers, one app', needsRooms, async (t) => {
    const { fake, server, start } = await world(t);
    const other = await start([], temporaryFolder(t, 'other-'));
    await Promise.all([server, other].map((one, n) => one.run(`echo ${n} >/root/file`, { computer_id: `c${n}`, temporary: false })));
    assert.equal((await machines(fake)).length, 2);
    await server.kill('SIGKILL');
    assert.equal((await other.run('cat /root/file', { computer_id: 'c1' })).stdout, '1\n');
    const again = await start();
    assert.equal((await again.run('cat /root/file', { computer_id: 'c0' })).stdout, '0\n');
    assert.equal((await other.run('cat /root/file', { computer_id: 'c1' })).stdout, '1\n');
});

test('round trips: three for a computer, one for a command', needsRooms, async (t) => {
    const { fake, server } = await world(t, { options: ['--no-rate-limits', '--tls'] });
    await server.run('true', { computer_id: 'first' });
    await requests(fake);
    await server.run('true', { computer_id: 'second' });
    assert.deepEqual(await requests(fake), ['GET /machines', 'POST /machines', 'GET /ID/wait', 'POST /ID/exec']);
    for (let n = 0; n < 3; n++) await server.run('true', { computer_id: 'second' });
    const connections = new Set((await fake.requests()).map(({ connection }) => connection));
    assert.ok(connections.size <= 2, 'connections are used again');
    assert.deepEqual(await requests(fake), Array(3).fill('POST /ID/exec'));
});

test('a machine whose creation has lost its answer is found without our program, once more, in the answer', needsRooms, async (t) => {
    const { fake, server } = await world(t);
    await server.run('true');
    await fake.faults([{ match: '^POST /v1/apps/app/machines$', drop: true, handled: true }]);
    assert.equal((await server.run('echo here', { computer_id: 'lost' })).stdout, 'here\n');
    const all = await fake.requests();
    const looks = all.slice(all.findIndex(({ fault }) => fault)).filter(({ method, path: where }) => method === 'GET' && /machines$/.test(where));
    assert.equal(looks.length, 1);
    assert.ok(looks[0].bytes > 2 && looks[0].bytes < 2000, `${looks[0].bytes} bytes`);
    assert.equal((await fake.state()).totals.created, 2);
});

test('what it is told by options, of all and of one', needsRooms, async (t) => {
    const { fake, server } = await world(t, { args: ['--fly-rate', '1000', '--fly-image', 'alpine:3', '--fly-region', 'fra', '--fly-cpu-kind', 'performance',
        '--fly-cpus', '2', '--fly-memory', '4096', '--fly-rootfs-size', '8', '--shell', '/bin/sh'] });
    await server.run('true');
    const told = await call(server, 'computer_create', { computer_id: 'own', image: 'debian:12', cpu: 4, memory: '8g', env: { A: 'b c' } });
    assert.ok(told.ok, JSON.stringify(told));
    assert.equal((await server.run('echo "$A"', { computer_id: 'own' })).stdout, 'b c\n');
    const [one, own] = await machines(fake);
    assert.deepEqual([one.region, one.config.image, one.config.guest, one.config.rootfs],
        ['fra', 'alpine:3', { cpu_kind: 'performance', cpus: 2, memory_mb: 4096 }, { persist: 'never', size_gb: 8 }]);
    assert.deepEqual([own.config.image, own.config.guest.cpus, own.config.guest.memory_mb], ['debian:12', 4, 8192]);
    for (const [args, words] of [[{ memory: '100m' }, /multiple of 256/], [{ cpu: 1.5 }, /whole CPUs: give cpu as/], [{ network: false }, /network/], [{ image: 'no-such-image' }, /no-such-image/]]) {
        const refused = await call(server, 'computer_create', { computer_id: 'refused', ...args });
        assert.match(refused.error, words);
    }
    assert.equal((await machines(fake)).length, 2);
});

test('no network is refused in words, before anything is made', async (t) => {
    const { env } = await world(t);
    const refused = spawnSync(BINARY, ['--backend', 'fly', '--no-network'], { env: { ...process.env, ...env }, encoding: 'utf8', input: '' });
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /--no-network can't be had: Fly's machines always have a network/);
});

test('a record of another app is left alone', needsRooms, async (t) => {
    const { fake, server, stateDir, env } = await world(t, { options: ['--no-rate-limits', '--app', 'other'] });
    await server.run('echo kept >/root/file', { computer_id: 'keep-me', temporary: false });
    await server.stop();
    const elsewhere = await startServer(t, { args: ['--backend', 'fly', '--fly-rate', '1000'], env: { ...env, FLY_APP_NAME: 'other' }, stateDir });
    const { isError, value } = await elsewhere.exec({ command: 'true', computer_id: 'keep-me' });
    assert.ok(isError);
    assert.match(value.error, /the app 'app'.*--fly-app/);
    await elsewhere.stop();
    const again = await startServer(t, { args: ['--backend', 'fly', '--fly-rate', '1000'], env, stateDir });
    assert.equal((await again.run('cat /root/file', { computer_id: 'keep-me' })).stdout, 'kept\n');
    assert.equal((await machines(fake)).length, 1);
});

test('the limits of Fly are kept to, and what is refused all the same is waited out', needsRooms, async (t) => {
    const { fake, server } = await world(t, { options: ['--clock-scale', '10'], args: ['--fly-rate', '9'] });
    const all = await Promise.all(Array.from({ length: 12 }, (_, n) => server.run('echo here', { computer_id: `c${n}` })));
    assert.deepEqual(all.map((one) => one.stdout), Array(12).fill('here\n'));
    const many = await Promise.all(Array.from({ length: 12 }, () => server.run('echo there', { computer_id: 'c0' })));
    assert.deepEqual(many.map((one) => one.stdout), Array(12).fill('there\n'));
    const { totals } = await fake.state();
    assert.equal(totals.created, 12);
    assert.ok(totals.refused <= 3, `${totals.refused} were refused`);
    await fake.faults([{ match: '^POST /v1/apps/app/machines', times: 4, status: 429, body: { error: 'rate limit exceeded' } }]);
    assert.equal((await server.run('echo again', { computer_id: 'late' })).stdout, 'again\n');
});
