// What all fakes have in common: their end, their faults, their time.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import http2 from 'node:http2';
import path from 'node:path';
import test from 'node:test';
import tls from 'node:tls';
import { RunningFake, startFake } from '../fakes/support/start.mjs';
import { allGone, family, temporaryFolder } from '../integration/support/machine.mjs';
import { needsRooms } from './support.mjs';

const WITH_FAKE = path.resolve(import.meta.dirname, '../fakes/with-fake.mjs');

function post(url, headers, value) {
    return fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(value),
    });
}

// A machine of the fake of Fly that runs a shell in the background.
async function machineOf(fake) {
    const headers = { authorization: `Bearer ${fake.ready.token}` };
    const machines = `${fake.ready.api}/v1/apps/app/machines`;
    const { id } = await (
        await post(machines, headers, { config: { image: 'debian', init: { exec: ['/bin/sleep', '1000'] } } })
    ).json();
    await fetch(`${machines}/${id}/wait?state=started`, { headers });
    await post(`${machines}/${id}/exec`, headers, {
        command: ['/bin/sh', '-c', 'setsid sleep 1000 >/dev/null 2>&1 </dev/null &'],
    });
    return family(fake.child.pid);
}

for (const signal of ['SIGTERM', 'SIGKILL', 'the end of its stdin']) {
    test(`nothing outlives a fake: ${signal}`, needsRooms, async (t) => {
        const folder = temporaryFolder(t, 'fake-');
        process.env.TMPDIR = folder;
        t.after(() => {
            delete process.env.TMPDIR;
        });
        const fake = await RunningFake.start('fly', ['--app', 'app']);
        const started = await machineOf(fake);
        assert.ok(started.length >= 5, 'the fake, a room, what runs in it');
        if (signal.startsWith('SIG')) fake.child.kill(signal);
        else fake.child.stdin.end();
        await fake.gone;
        await allGone(started);
        if (signal !== 'SIGKILL') assert.deepEqual(fs.readdirSync(folder), []);
    });
}

test('a table of faults strikes by number, and says how often', async (t) => {
    const table = [
        { match: '^GET /v2/sandboxes$', at: 2, times: 2, status: 503 },
        { match: '^GET', at: 5, times: 0, delay: 1, status: 429, headers: { 'retry-after': '7' } },
    ];
    const fake = await startFake(t, 'e2b', ['--faults', JSON.stringify(table)]);
    const get = async () => {
        const answer = await fetch(`${fake.ready.api}/v2/sandboxes`, { headers: { 'x-api-key': fake.ready.apiKey } });
        await answer.text();
        return [answer.status, answer.headers.get('retry-after')];
    };
    const seen = [];
    for (let i = 0; i < 6; i++) seen.push(await get());
    assert.deepEqual(seen, [
        [200, null],
        [503, null],
        [503, null],
        [200, null],
        [429, '7'],
        [429, '7'],
    ]);
    assert.deepEqual(
        (await fake.faults()).map(({ hit }) => hit),
        [2, 2],
    );
    const requests = await fake.requests();
    assert.deepEqual(
        requests.map(({ n, status, fault }) => [n, status, fault]),
        [
            [1, 200, undefined],
            [2, 503, 'status'],
            [3, 503, 'status'],
            [4, 200, undefined],
            [5, 429, 'delay+status+headers'],
            [6, 429, 'delay+status+headers'],
        ],
    );
    await assert.rejects(fake.faults([{ mtach: 'x' }]), /no fault has a "mtach"/);
});

test('so many creates a second, on a clock that moves when it is told to', async (t) => {
    const fake = await startFake(t, 'e2b', ['--create-rate', '50', '--clock-scale', '0']);
    for (let second = 1; second <= 3; second++) {
        const answers = await Promise.all(
            Array.from({ length: 60 }, () =>
                post(`${fake.ready.api}/v2/sandboxes`, { 'x-api-key': fake.ready.apiKey }, { templateID: 'base' }),
            ),
        );
        await Promise.all(answers.map((one) => one.text()));
        const refused = answers.filter(({ status }) => status === 429);
        assert.equal(refused.length, 10);
        assert.equal(refused[0].headers.get('retry-after'), '1');
        assert.equal((await fake.state()).totals.created, second * 50);
        await fake.advance(1);
    }
});

// As the official clients in Python need it: one trusts nobody's own certificate, another's channel doesn't say which HTTP it is.
test('over TLS: an authority, a certificate of it for the server, and HTTP/2 where a client leaves that unsaid', async (t) => {
    const fake = await startFake(t, 'modal', ['--tls']);
    const { hostname, port } = new URL(fake.ready.api);
    const socket = tls.connect({ host: hostname, port, ca: fs.readFileSync(fake.ready.ca) });
    await once(socket, 'secureConnect');
    const { ca, issuerCertificate } = socket.getPeerCertificate(true);
    assert.equal(ca, false);
    assert.equal(issuerCertificate?.ca, true);
    const session = http2.connect(fake.ready.api, { createConnection: () => socket });
    t.after(() => session.close());
    const call = session.request({
        ':method': 'POST',
        ':path': '/modal.client.ModalClient/AppGetOrCreate', 'content-type': 'application/grpc',
    });
    call.end();
    const [headers] = await once(call, 'response');
    assert.equal(headers[':status'], 200);
});

test('a program runs beside a fake, with what its client needs', () => {
    const program = `const { FLY_FLAPS_BASE_URL: url, FLY_API_TOKEN: token } = process.env;
        console.log(await (await fetch(url + '/v1/apps/app', { headers: { authorization: 'Bearer ' + token } })).text());`;
    const printed = execFileSync(process.execPath, [
        WITH_FAKE,
        'fly',
        '--app',
        'app',
        '--',
        process.execPath,
        '--input-type=module',
        '-e',
        program,
    ]);
    assert.match(printed.toString(), /^\{"id":"app_app"/);
    assert.equal(spawnSync(process.execPath, [WITH_FAKE, 'fly', '--', 'sh', '-c', 'exit 9']).status, 9);
    assert.equal(spawnSync(process.execPath, [WITH_FAKE, 'fly']).status, 2);
});
