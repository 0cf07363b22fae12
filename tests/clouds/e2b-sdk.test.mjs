// The official client of E2B, npm e2b, at the fake: what it can do with the provider it can do here. What the client can't be made
// to do is sent by hand.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http2 from 'node:http2';
import test from 'node:test';
import { CommandExitError, Sandbox } from 'e2b';
import { eventually } from '../integration/support/machine.mjs';
import { shareFake, startFake } from '../fakes/support/start.mjs';
import { failure, needsRooms, printedOverTls } from './support.mjs';

function at(fake) {
    return { apiKey: fake.ready.apiKey, apiUrl: fake.ready.api, sandboxUrl: fake.ready.sandbox };
}

const shared = shareFake('e2b', ['--template', 'own']);

async function sandboxOf(fake, wanted = {}) {
    return { fake, box: await Sandbox.create('base', { ...at(fake), ...wanted }) };
}

test('a sandbox is made, found by its metadata, told of, and ended', async () => {
    const fake = shared();
    const metadata = { owner: 'a b&c=d/é', id: '1' };
    const box = await Sandbox.create('own', { ...at(fake), metadata, timeoutMs: 60000 });
    await Sandbox.create('base', { ...at(fake), metadata: { owner: 'other' } });

    const info = await box.getInfo();
    assert.deepEqual([info.templateId, info.state, info.metadata], ['own', 'running', metadata]);
    assert.equal(Math.round((info.endAt - info.startedAt) / 1000), 60);
    const found = await Sandbox.list({ ...at(fake), query: { metadata: { owner: metadata.owner } } }).nextItems();
    assert.deepEqual(
        found.map((one) => one.sandboxId),
        [box.sandboxId],
    );
    assert.equal((await Sandbox.list({ ...at(fake), query: { metadata: { owner: 'nobody' } } }).nextItems()).length, 0);

    assert.equal(await box.isRunning(), true);
    assert.equal(await box.kill(), true);
    assert.equal(await box.kill(), false);
    assert.equal(await box.isRunning(), false);
    assert.match(String(await failure(box.getInfo())), /NotFound/);
    assert.match(String(await failure(box.commands.run('true'))), /sandbox/i);
});

test('what was wanted of a sandbox arrives', async () => {
    const fake = shared();
    const wanted = {
        allowInternetAccess: false,
        envs: { A: 'b' },
        lifecycle: { onTimeout: { action: 'pause', keepMemory: false } },
        network: { denyOut: ['10.0.0.0/8'] },
    };
    const box = await Sandbox.create('base', { ...at(fake), ...wanted });
    const told = (await fake.state()).sandboxes.find(({ sandboxID }) => sandboxID === box.sandboxId);
    assert.deepEqual(told.wanted, {
        templateID: 'base',
        envVars: { A: 'b' },
        allow_internet_access: false,
        network: { denyOut: ['10.0.0.0/8'] },
        autoPause: true,
        autoPauseMemory: false,
    });
    const info = await box.getInfo();
    assert.deepEqual([info.allowInternetAccess, info.lifecycle.onTimeout], [false, 'pause']);
});

test('lists come in pages', async () => {
    const fake = shared();
    const metadata = { of: 'pages' };
    const made = await Promise.all(Array.from({ length: 7 }, () => Sandbox.create('base', { ...at(fake), metadata })));
    const pages = Sandbox.list({ ...at(fake), limit: 3, query: { metadata } });
    const sizes = [];
    const seen = new Set();
    while (pages.hasNext) {
        const page = await pages.nextItems();
        sizes.push(page.length);
        for (const one of page) seen.add(one.sandboxId);
    }
    assert.deepEqual(sizes, [3, 3, 1]);
    assert.deepEqual([...seen].sort(), made.map((one) => one.sandboxId).sort());
});

test('commands', needsRooms, async (t) => {
    const { box } = await sandboxOf(shared(), { envs: { FROM: 'create', BOTH: 'create' } });

    await t.test('output, exit code, environment, folder, user', async () => {
        const ran = await box.commands.run('echo $FROM $BOTH $MORE; pwd; id -un; echo bad >&2', {
            envs: { BOTH: 'run', MORE: 'more' },
            cwd: '/tmp',
        });
        assert.deepEqual([ran.stdout, ran.stderr, ran.exitCode], ['create run more\n/tmp\nuser\n', 'bad\n', 0]);
        assert.equal((await box.commands.run('id -un; pwd', { user: 'root' })).stdout, 'root\n/root\n');
        const failed = await failure(box.commands.run('exit 7'));
        assert.ok(failed instanceof CommandExitError);
        assert.equal(failed.exitCode, 7);
        assert.equal((await failure(box.commands.run('no-such-command'))).exitCode, 127);
    });

    await t.test('stdin in pieces, and its end', async () => {
        const cat = await box.commands.run('cat; echo end', { background: true, stdin: true });
        await cat.sendStdin('one ');
        await cat.sendStdin('two ');
        await cat.closeStdin();
        assert.equal((await cat.wait()).stdout, 'one two end\n');
    });

    await t.test('the end of a command that is killed, or too slow', async () => {
        const sleeper = await box.commands.run('sleep 1000', { background: true });
        assert.deepEqual(
            (await box.commands.list()).map((one) => one.pid),
            [sleeper.pid],
        );
        assert.equal(await sleeper.kill(), true);
        assert.equal((await failure(sleeper.wait())).message, 'signal: killed');
        assert.equal(await box.commands.kill(sleeper.pid), false);
        assert.match(String(await failure(box.commands.run('sleep 1000', { timeoutMs: 200 }))), /TimeoutError/);
        await eventually('it is gone', async () => (await box.commands.list()).length === 0);
    });

    await t.test('a command goes on without its stream, which can be had again', async () => {
        const lost = await box.commands.run('cat; exit 3', { background: true, stdin: true });
        await lost.disconnect();
        const again = await box.commands.connect(lost.pid);
        await again.sendStdin('still here');
        await again.closeStdin();
        const ended = await failure(again.wait());
        assert.deepEqual([ended.exitCode, ended.stdout], [3, 'still here']);
        assert.equal((await failure((await box.commands.connect(lost.pid)).wait())).exitCode, 3, 'how it ended is kept');
    });

    await t.test('a user that there is not, a folder that there is not', async () => {
        assert.match(String(await failure(box.commands.run('true', { user: 'nobody-knows' }))), /invalid username/);
        assert.match(String(await failure(box.commands.run('true', { cwd: '/none' }))), /cwd '\/none' does not exist/);
    });

    await t.test('what waits for nobody holds the output open; the kill of its command ends it', async () => {
        const started = await box.commands.run('sleep 1000 & echo started', { background: true });
        await eventually('it said so', () => started.stdout === 'started\n');
        assert.equal((await box.commands.list()).length, 1);
        await started.kill();
        await started.wait();
    });

    await t.test('4 MiB of output', async () => {
        const { stdout } = await box.commands.run('head -c 4194304 /dev/zero | tr "\\0" x');
        assert.equal(stdout.length, 4 << 20);
    });
});

test('files', needsRooms, async () => {
    const { box } = await sandboxOf(shared());
    const bytes = new Uint8Array(70000).map((_, i) => (i * 7) % 256);
    assert.equal((await box.files.write('deep/er/data', bytes.buffer)).path, '/home/user/deep/er/data');
    assert.ok(Buffer.from(await box.files.read('/home/user/deep/er/data', { format: 'bytes' })).equals(Buffer.from(bytes)));
    assert.equal((await box.commands.run('stat -c %U:%s deep/er/data')).stdout, 'user:70000\n');
    await box.commands.run('ln -s data deep/er/link; echo from inside >deep/text');
    assert.deepEqual(
        (await box.files.list('deep', { depth: 2 })).map((one) => `${one.type} ${one.path}`),
        ['dir /home/user/deep/er', 'file /home/user/deep/er/data', 'file /home/user/deep/er/link', 'file /home/user/deep/text'],
    );
    assert.equal(await box.files.read('deep/text'), 'from inside\n');
    assert.equal(await box.files.makeDir('new'), true);
    assert.equal(await box.files.makeDir('new'), false);
    assert.equal((await box.files.rename('deep/text', 'new/text')).path, '/home/user/new/text');
    assert.equal((await box.files.getInfo('new/text')).size, 12);
    await box.files.remove('new');
    assert.equal(await box.files.exists('new/text'), false);
    assert.match(String(await failure(box.files.read('none'))), /does not exist/);
    assert.match(String(await failure(box.files.read('deep'))), /is a directory/);

    const get = (url) => fetch(url, { headers: { 'e2b-sandbox-id': box.sandboxId, 'e2b-sandbox-port': '49983' } }); // the host's name tells that else
    const url = await box.downloadUrl('deep/er/link');
    assert.ok(Buffer.from(await (await get(url)).arrayBuffer()).equals(Buffer.from(bytes)));
    assert.equal((await get(url.replace('signature=', 'signature=x'))).status, 401);
});

test('a paused sandbox goes on where it was, or begins again from its files', needsRooms, async () => {
    const { fake, box } = await sandboxOf(shared(), { metadata: { of: 'pause' } });
    const counter = await box.commands.run('echo kept >file; exec sleep 1000', { background: true });
    await eventually('the file is there', () => box.files.exists('file'));
    assert.equal(await box.pause(), true);
    assert.equal(await box.pause(), false);
    await failure(counter.wait()); // its stream is gone
    assert.equal(await box.isRunning(), false);
    assert.equal((await box.getInfo()).state, 'paused');
    assert.deepEqual(
        (await Sandbox.list({ ...at(fake), query: { state: ['running'], metadata: { of: 'pause' } } }).nextItems()).length,
        0,
    );

    const again = await Sandbox.connect(box.sandboxId, at(fake));
    assert.deepEqual(
        (await again.commands.list()).map((one) => one.pid),
        [counter.pid],
    );
    assert.equal(await again.files.read('file'), 'kept\n');
    await again.pause({ keepMemory: false });
    await again.connect();
    assert.deepEqual(await again.commands.list(), []);
    assert.equal(await again.files.read('file'), 'kept\n');
});

test('a snapshot is a template', needsRooms, async () => {
    const { fake, box } = await sandboxOf(shared());
    await box.commands.run('echo saved >~/file; rm /etc/shadow; echo own >/opt/own', { user: 'root' });
    const { snapshotId } = await box.createSnapshot();
    await box.kill();
    const second = await Sandbox.create(snapshotId, at(fake));
    assert.equal(
        (await second.commands.run('cat ~/file /opt/own; ls /etc/shadow || true', { user: 'root' })).stdout,
        'saved\nown\n',
    );
});

test('lifetimes', needsRooms, async (t) => {
    const { fake, box } = await sandboxOf(await startFake(t, 'e2b'), { timeoutMs: 60000 });
    const sleeper = await box.commands.run('sleep 1000', { background: true });
    const pausing = await Sandbox.create('base', { ...at(fake), timeoutMs: 60000, lifecycle: { onTimeout: 'pause' } });
    await box.setTimeout(120000);
    await fake.advance(90);
    await eventually(
        'one has paused',
        async () => (await fake.state()).totals.paused + (await pausing.getInfo()).state === '0paused',
    );
    assert.equal(await box.isRunning(), true);
    await fake.advance(40);
    await eventually('the other has ended', async () => (await fake.state()).totals.expired === 1);
    await failure(sleeper.wait());
    assert.equal(await box.isRunning(), false);
    assert.match(String(await failure(box.setTimeout(1000))), /NotFound/);
    assert.match(
        String(await failure(Sandbox.create('base', { ...at(fake), timeoutMs: 25 * 3600e3 }))),
        /400: Timeout cannot be greater than 24 hours/,
    );
});

test('refusals of the control API', async (t) => {
    const fake = await startFake(t, 'e2b', ['--max-sandboxes', '2']);
    const wrong = { ...at(fake), apiKey: 'e2b_ffff' };
    assert.match(String(await failure(Sandbox.create('base', wrong))), /AuthenticationError/);
    assert.match(String(await failure(Sandbox.create('no-such', at(fake)))), /404: template 'no-such' not found/);
    await Promise.all([Sandbox.create('base', at(fake)), Sandbox.create('base', at(fake))]);
    assert.match(
        String(await failure(Sandbox.create('base', { ...at(fake), retries: 0 }))),
        /RateLimitError.*maximum number of concurrent/s,
    );
    const post = (headers, body) =>
        fetch(`${fake.ready.api}/v2/sandboxes`, {
            method: 'POST',
            headers: { 'x-api-key': fake.ready.apiKey, ...headers },
            body,
        });
    assert.equal((await post({ 'content-type': 'text/plain' }, '{}')).status, 415);
    assert.equal((await post({ 'content-type': 'application/json' }, '{')).status, 400);
    assert.equal((await post({ 'content-type': 'application/json' }, '{"templateID":"base","metadata":{"a":1}}')).status, 400);
    assert.equal((await fetch(`${fake.ready.api}/v2/sandboxes`)).status, 401);
});

test('refusals of envd', needsRooms, async () => {
    const { fake, box } = await sandboxOf(shared());
    const { envdAccessToken } = (await fake.state()).sandboxes.find(({ sandboxID }) => sandboxID === box.sandboxId);
    const post = (path, headers, body = '{}') =>
        fetch(`${fake.ready.sandbox}${path}`, {
            method: 'POST',
            body,
            headers: {
                'e2b-sandbox-id': box.sandboxId,
                'e2b-sandbox-port': '49983',
                'x-access-token': envdAccessToken,
                'content-type': 'application/json',
                ...headers,
            },
        });
    assert.equal((await post('/process.Process/List', {})).status, 200);
    assert.equal((await post('/process.Process/List', { 'x-access-token': 'wrong' })).status, 401);
    assert.equal((await post('/process.Process/List', { 'content-type': 'text/plain' })).status, 415);
    assert.equal((await post('/process.Process/Start', {})).status, 415, 'a stream is asked for by its own type');
    assert.equal((await post('/process.Process/Nothing', {})).status, 404);
    assert.equal((await post('/process.Process/List', {}, '{')).status, 400);
    assert.equal((await post('/process.Process/List', { 'e2b-sandbox-port': '80' })).status, 502);
    const noEnvelope = await post('/process.Process/Start', { 'content-type': 'application/connect+json' });
    assert.match(await noEnvelope.text(), /"error":\{"code":"invalid_argument"/);
    assert.equal(noEnvelope.status, 200);
});

test('faults strike where they are to', needsRooms, async (t) => {
    const { fake, box } = await sandboxOf(await startFake(t, 'e2b'));
    const create = () => Sandbox.create('base', { ...at(fake), retries: 0 });

    await fake.faults([
        { match: '^POST /v2/sandboxes$', at: 2, drop: true, handled: true },
        { match: '^POST /v2/sandboxes$', at: 3, status: 503 },
    ]);
    await create();
    await failure(create());
    assert.match(String(await failure(create())), /ServiceBusy|503/i);
    await create();
    assert.deepEqual(
        (await fake.faults()).map((fault) => fault.hit),
        [1, 1],
    );
    assert.equal((await fake.state()).totals.created, 4, 'the answer of one was lost, another was not made');

    await fake.faults([{ match: '^POST /v2/sandboxes$', status: 429, headers: { 'retry-after': '0' }, times: 2 }]);
    await Sandbox.create('base', { ...at(fake), retries: 3 });

    for (const fault of [{ cut: 60 }, { truncate: 60 }, { cut: 0 }, { status: 502, body: '<html>' }]) {
        await fake.faults([{ match: 'Process/Start$', ...fault }]);
        await failure(box.commands.run('echo lost'));
    }
    await fake.faults([{ match: 'Process/Start$', stall: 40 }]);
    assert.match(
        String(await failure(box.commands.run('echo stalled', { requestTimeoutMs: 300, timeoutMs: 300 }))),
        /TimeoutError/,
    );
    await fake.faults([{ match: 'Process/Start$', trickle: 5, pause: 1 }]);
    assert.equal((await box.commands.run('echo slow')).stdout, 'slow\n');
    await fake.faults([{ match: 'Process/Start$', delay: 50 }]);
    assert.equal((await box.commands.run('echo late')).stdout, 'late\n');
});

test('over TLS it speaks HTTP/2 too, and sends GOAWAY', needsRooms, async (t) => {
    const fake = await startFake(t, 'e2b', ['--tls']);
    assert.equal(
        await printedOverTls(
            fake,
            `import { Sandbox } from 'e2b';
        const box = await Sandbox.create('base');
        process.stdout.write((await box.commands.run('echo by TLS')).stdout);
        process.exit(0);`,
        ),
        'by TLS\n',
    );
    assert.deepEqual([...new Set((await fake.requests()).map(({ http }) => http))], ['2.0']);
    const session = http2.connect(fake.ready.api, { ca: fs.readFileSync(fake.ready.ca) });
    t.after(() => session.destroy());
    const get = () =>
        new Promise((done, failed) => {
            const stream = session.request({ ':path': '/v2/sandboxes', 'x-api-key': fake.ready.apiKey });
            stream
                .on('response', (headers) => done(headers[':status']))
                .on('error', failed)
                .resume();
        });
    assert.equal(await get(), 200);
    const told = new Promise((done) => session.once('goaway', done));
    await fake.faults([{ goaway: true }]);
    assert.equal(await get(), 200, 'what came before the GOAWAY is still answered');
    assert.equal(await told, 0);

    const second = http2.connect(fake.ready.api, { ca: fs.readFileSync(fake.ready.ca) });
    t.after(() => second.destroy());
    const ended = new Promise((done) => second.once('close', done));
    await fake.faults([{ hangup: true }]);
    second.request({ ':path': '/v2/sandboxes' }).on('error', () => {});
    await ended;
});
