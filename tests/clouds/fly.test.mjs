// The fake of Fly Machines. Its official clients are in Go, and not to be had here. So what fly-go sends was recorded once: its calls
// (flaps, of August 2026), with only tracing and the discharge of macaroons cut out, at this fake, every answer accepted. The record,
// fixtures/fly/fly-go.json, is sent again here. What the documents promise beyond that is tried by hand.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { shareFake, startFake } from '../fakes/support/start.mjs';
import { eventually, temporaryFolder } from '../integration/support/machine.mjs';
import { needsRooms } from './support.mjs';

const SLEEPER = { image: 'debian:bookworm-slim', init: { exec: ['/bin/sleep', 'inf'] }, restart: { policy: 'no' } };

// A client of one app.
class Fly {
    constructor(fake, app, token = fake.ready.token) {
        Object.assign(this, { fake, app, token });
    }

    // Status and value of the answer.
    async call(method, where, body, headers = {}) {
        const answer = await fetch(`${this.fake.ready.api}/v1${where}`, {
            method,
            body: body === undefined ? undefined : JSON.stringify(body),
            headers: {
                authorization: `Bearer ${this.token}`,
                ...(body === undefined ? {} : { 'content-type': 'application/json' }),
                ...headers,
            },
        });
        const text = await answer.text();
        return [answer.status, text ? JSON.parse(text) : undefined];
    }

    machines(method, where = '', body = undefined, headers = {}) {
        return this.call(method, `/apps/${this.app}/machines${where}`, body, headers);
    }

    async launch(config = {}, more = {}) {
        const [status, machine] = await this.machines('POST', '', { config: { ...SLEEPER, ...config }, ...more });
        assert.equal(status, 200, JSON.stringify(machine));
        assert.deepEqual(await this.machines('GET', `/${machine.id}/wait?state=started&timeout=60`), [200, { ok: true }]);
        return machine;
    }

    async run(id, command, more = {}) {
        return this.machines('POST', `/${id}/exec`, { command: ['/bin/sh', '-c', command], ...more });
    }

    // As the fake tells it, with no rate to keep to.
    async state(id) {
        const app = (await this.fake.state()).apps.find(({ name }) => name === this.app);
        return app.machines.find((machine) => machine.id === id);
    }

    reaches(id, state) {
        return eventually(`${id} is ${state}`, async () => (await this.state(id)).state === state);
    }
}

const shared = shareFake('fly', ['--no-rate-limits', '--app', 'app', '--app', 'other', '--deploy-token', 'fm2_deploy:app']);

async function flyOf(t, options) {
    const fake = await startFake(t, 'fly', ['--app', 'app', ...options]);
    return new Fly(fake, 'app');
}

test('what fly-go sends is taken as it was', needsRooms, async (t) => {
    const fake = await startFake(t, 'fly');
    const record = JSON.parse(fs.readFileSync(new URL('../fixtures/fly/fly-go.json', import.meta.url)));
    const known = { token: fake.ready.token };
    const filled = (value) => JSON.parse(JSON.stringify(value).replace(/\{(token|machine|nonce)\}/g, (_, name) => known[name]));
    const settled = async () =>
        (await fake.state()).apps
            .flatMap((app) => app.machines)
            .every(({ state }) => /^(created|started|stopped|suspended|destroyed)$/.test(state));
    for (const [n, exchange] of record.entries()) {
        const { method, path: where, headers, body, status } = filled(exchange);
        await eventually('nothing is on its way', settled);
        const answer = await fetch(fake.ready.api + where, { method, headers, body: body && JSON.stringify(body) });
        const text = await answer.text();
        assert.equal(answer.status, status, `exchange ${n}, ${method} ${where}: ${text}`);
        assert.ok(answer.headers.get('fly-request-id'));
        const told = text ? JSON.parse(text) : {};
        if (answer.ok && method === 'POST' && where.endsWith('/machines')) known.machine = told.id;
        if (told.data?.nonce) known.nonce = told.data.nonce;
    }
});

test('a temporary machine goes when its main process does', needsRooms, async () => {
    const fly = new Fly(shared(), 'app');
    const machine = await fly.launch({
        auto_destroy: true,
        init: { exec: ['/bin/sh', '-c', 'until [ -e /tmp/end ]; do sleep 0.05; done'] },
    });
    assert.deepEqual((await fly.run(machine.id, 'touch /tmp/end'))[0], 200);
    await fly.reaches(machine.id, 'destroyed');
    assert.equal(
        (await fly.machines('GET'))[1].some(({ id }) => id === machine.id),
        false,
    );
    assert.equal((await fly.machines('GET', `/${machine.id}`))[1].state, 'destroyed');
    assert.equal((await fly.machines('POST', `/${machine.id}/start`))[0], 404);
    assert.equal((await fly.machines('GET', `/${machine.id}/wait?state=destroyed`))[0], 200);
});

test('files last through a stop only if they persist', needsRooms, async () => {
    const fly = new Fly(shared(), 'app');
    const machines = [await fly.launch(), await fly.launch({ rootfs: { persist: 'always' } })];
    for (const { id, instance_id: instance } of machines) {
        await fly.run(id, 'echo kept >/root/file');
        assert.equal((await fly.machines('POST', `/${id}/stop`, { signal: 'SIGKILL' }))[0], 200);
        assert.equal((await fly.machines('GET', `/${id}/wait?state=stopped&instance_id=${instance}`))[0], 200);
        assert.equal((await fly.run(id, 'true'))[0], 412);
        assert.equal((await fly.machines('POST', `/${id}/start`))[1].previous_state, 'stopped');
        await fly.reaches(id, 'started');
    }
    assert.equal((await fly.run(machines[0].id, 'cat /root/file'))[1].exit_code, 1);
    assert.equal((await fly.run(machines[1].id, 'cat /root/file'))[1].stdout, 'kept\n');
});

test('a machine that is always to run runs again', needsRooms, async () => {
    const fly = new Fly(shared(), 'app');
    const { id } = await fly.launch({ restart: { policy: 'always' } });
    await fly.machines('POST', `/${id}/signal`, { signal: 'SIGKILL' });
    await eventually('it has exited and started again', async () => {
        const { state, events } = await fly.state(id);
        return state === 'started' && events.some(({ type }) => type === 'exit');
    });
    const exit = (await fly.state(id)).events.find(({ type }) => type === 'exit');
    assert.deepEqual([exit.request.exit_event.guest_signal, exit.request.exit_event.requested_stop], [9, false]);
});

test('exec', needsRooms, async (t) => {
    const fly = await flyOf(t, ['--no-rate-limits']);
    const { id } = await fly.launch({
        env: { SECRET: 'not for exec' },
        files: [{ guest_path: '/opt/tool', raw_value: Buffer.from('#!/bin/sh\necho tool\n').toString('base64'), mode: 0o755 }],
    });
    assert.deepEqual(await fly.run(id, 'true'), [200, {}]);
    assert.deepEqual(await fly.run(id, 'cat; echo "[$SECRET]"; id -u; echo bad >&2; exit 9', { stdin: 'in ' }), [
        200,
        { exit_code: 9, stdout: 'in []\n0\n', stderr: 'bad\n' },
    ]);
    assert.deepEqual((await fly.machines('POST', `/${id}/exec`, { cmd: '/opt/tool' }))[1], { stdout: 'tool\n' });
    assert.deepEqual((await fly.run(id, 'kill -9 $$'))[1].exit_signal, 9);
    assert.equal((await fly.run(id, 'printf "\\377\\0"'))[1].stdout, '\ufffd\0', 'output is text');
    assert.equal((await fly.run(id, 'true', { timeout: 61 }))[0], 400);
    assert.equal((await fly.run(id, 'sleep 2; echo late >/tmp/late', { timeout: 1 }))[0], 408);
    await eventually('what was given up goes on', async () => (await fly.run(id, 'cat /tmp/late'))[1].stdout === 'late\n');
    assert.equal((await fly.machines('GET', `/${id}/wait?timeout=61`))[0], 400);
    assert.equal((await fly.machines('GET', `/${id}/wait?state=destroyed&timeout=1`))[0], 408);
});

test('rates are kept for each action on each machine', needsRooms, async (t) => {
    const fly = await flyOf(t, ['--clock-scale', '0']);
    const starts = await Promise.all(
        Array.from({ length: 5 }, (_, i) => fly.machines('POST', '', { name: `m${i}`, config: SLEEPER, skip_launch: true })),
    );
    assert.deepEqual(starts.map(([status]) => status).sort(), [200, 200, 200, 429, 429]);
    const { id } = starts.find(([status]) => status === 200)[1];
    const gets = await Promise.all(Array.from({ length: 12 }, () => fly.machines('GET', `/${id}`)));
    assert.equal(gets.filter(([status]) => status === 200).length, 10);
    await fly.fake.advance(2);
    assert.equal((await fly.machines('POST', '', { config: SLEEPER, skip_launch: true }))[0], 200);
    assert.equal((await fly.fake.state()).totals.refused, 4);
});

test('leases end by themselves', async (t) => {
    const fly = await flyOf(t, ['--no-rate-limits']);
    const [, machine] = await fly.machines('POST', '', { config: SLEEPER, skip_launch: true, lease_ttl: 30 });
    assert.ok(machine.nonce);
    const [status, refused] = await fly.machines('DELETE', `/${machine.id}`);
    assert.deepEqual([status, refused.code], [409, 'invalid']);
    await fly.fake.advance(31);
    assert.equal((await fly.machines('DELETE', `/${machine.id}`))[0], 200);
});

test('who may what', async () => {
    const fly = new Fly(shared(), 'app');
    const [, machine] = await fly.machines('POST', '', { name: 'one', config: SLEEPER, skip_launch: true });
    const deploy = new Fly(fly.fake, 'app', 'fm2_deploy');
    assert.equal((await deploy.machines('GET', `/${machine.id}`))[0], 200);
    assert.equal((await deploy.machines('GET', `/${machine.id}`, undefined, { authorization: 'FlyV1 fm2_deploy' }))[0], 200);
    assert.equal((await deploy.call('POST', '/apps', { app_name: 'new', org_slug: 'personal' }))[0], 403);
    assert.equal((await deploy.call('GET', '/apps/other'))[0], 403);
    assert.deepEqual(
        (await deploy.call('GET', '/apps?org_slug=personal'))[1].apps.map(({ name }) => name),
        ['app'],
    );
    for (const authorization of ['', 'Bearer wrong', 'Basic fm2_fake', 'FlyV1 other']) {
        assert.equal((await fly.machines('GET', '', undefined, { authorization }))[0], 401);
    }
    assert.equal((await fly.machines('POST', '', { config: SLEEPER }, { 'content-type': 'text/plain' }))[0], 415);
    assert.equal((await fly.machines('POST', '', { config: {} }))[0], 400);
    assert.equal((await fly.machines('POST', '', { config: { ...SLEEPER, guest: { memory_mb: 300 } } }))[0], 422);
    assert.equal((await fly.call('POST', '/apps', { app_name: 'app', org_slug: 'personal' }))[1].status, 'name_taken');
    const organisations = await fetch(`${fly.fake.ready.api}/graphql`, {
        method: 'POST',
        headers: { authorization: 'Bearer fm2_fake', 'content-type': 'application/json' },
        body: JSON.stringify({
            query: 'query($admin:Boolean!){organizations(admin:$admin){nodes{slug}}}',
            variables: { admin: false },
        }),
    });
    assert.deepEqual(
        (await organisations.json()).data.organizations.nodes.map(({ slug }) => slug),
        ['personal', 'company'],
    );
});

test('flyctl is downloaded, and is what its sum says', async (t) => {
    const fly = new Fly(shared(), 'app');
    const url = await (await fetch(`${fly.fake.ready.api}/app/flyctl_releases/Linux/x86_64/latest`)).text();
    const archive = Buffer.from(await (await fetch(url)).arrayBuffer());
    const sums = await (await fetch(new URL('checksums.txt', url))).text();
    assert.ok(sums.includes(`${createHash('sha256').update(archive).digest('hex')}  ${path.basename(url)}\n`));
    const folder = temporaryFolder(t, 'flyctl-');
    execFileSync('tar', ['-xzf', '-', '-C', folder], { input: archive });
    assert.match(execFileSync(path.join(folder, 'flyctl')).toString(), /^flyctl v/);
});
