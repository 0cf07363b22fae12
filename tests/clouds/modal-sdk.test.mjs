// The official client of Modal, npm modal, at the fake, with both generations of sandboxes. What the client can't be made to do is
// sent by hand.
import assert from 'node:assert/strict';
import http2 from 'node:http2';
import test from 'node:test';
import { AlreadyExistsError, ModalClient, NotFoundError } from 'modal';
import { shareFake, startFake } from '../fakes/support/start.mjs';
import { eventually } from '../integration/support/machine.mjs';
import { failure, needsRooms, printedOverTls } from './support.mjs';

process.env.MODAL_CONFIG_PATH = '/nonexistent';

const shared = shareFake('modal', ['--page', '2']);

class Modal {
    static #apps = 0;

    static async at(fake, { v2 = true } = {}) {
        Object.assign(process.env, fake.ready.environment, { MODAL_SANDBOX_V2: v2 ? '1' : '0' }); // read when a client is made
        const modal = new Modal();
        Object.assign(modal, { fake, client: new ModalClient({ logLevel: 'error' }) });
        modal.name = `app-${++Modal.#apps}`;
        modal.app = await modal.client.apps.fromName(modal.name, { createIfMissing: true });
        modal.image = modal.client.images.fromRegistry('debian:bookworm-slim');
        return modal;
    }

    create(params = {}, image = this.image) {
        return this.client.sandboxes.create(this.app, image, params);
    }

    async list(params = {}) {
        const found = [];
        for await (const one of this.client.sandboxes.list({ appId: this.app.appId, ...params })) found.push(one.sandboxId);
        return found;
    }
}

// How a command went.
async function run(box, command, params) {
    const process = await box.exec(['/bin/sh', '-c', command], params);
    const [out, err, code] = await Promise.all([process.stdout.readText(), process.stderr.readText(), process.wait()]);
    return [code, out, err];
}

for (const v2 of [true, false]) {
    test(`sandboxes of ${v2 ? 'the second' : 'the first'} generation`, needsRooms, async () => {
        const modal = await Modal.at(shared(), { v2 });
        const secret = await modal.client.secrets.fromObject({ SECRET: 'hidden', BOTH: 'secret' });
        const box = await modal.create({ name: 'one', tags: { owner: 'me', n: '1' }, secrets: [secret], workdir: '/tmp' });
        assert.equal(/^sb-[0-9A-Za-z]{22}$/.test(box.sandboxId), !v2);

        assert.deepEqual(
            await run(box, 'echo $SECRET $BOTH $MORE; pwd; id -u; echo bad >&2; exit 3', { env: { BOTH: 'exec', MORE: 'more' } }),
            [3, 'hidden exec more\n/tmp\n0\n', 'bad\n'],
        );
        assert.deepEqual(await run(box, 'pwd; kill -9 $$', { workdir: '/opt' }), [137, '/opt\n', '']);
        const cat = await box.exec(['/bin/sh', '-c', 'md5sum; echo end']);
        await cat.stdin.writeBytes(new Uint8Array(2 << 20));
        await cat.stdin
            .getWriter()
            .close()
            .catch(() => {});
        assert.equal(await cat.stdout.readText(), 'b2d1236c286a3c0704224fe4105eca49  -\nend\n');
        assert.equal(await cat.wait(), 0);
        await run(box, 'echo $$ >/tmp/slow; exec sleep 1000', { timeoutMs: 1000 }).catch(() => {}); // the client may be the first to give up
        await eventually('it was killed', async () => (await run(box, 'kill -0 $(cat /tmp/slow)'))[0] === 1);

        assert.ok((await failure(modal.create({ name: 'one' }))) instanceof AlreadyExistsError);
        const others = [
            await modal.create({ tags: { owner: 'me', n: '2' } }),
            await modal.create({ tags: { owner: 'me', n: '3' } }),
            await modal.create({ tags: { owner: 'you' } }),
        ];
        assert.deepEqual(
            (await modal.list({ tags: { owner: 'me' } })).sort(),
            [box, others[0], others[1]].map((one) => one.sandboxId).sort(),
            'over two pages',
        );
        await others[2].setTags({ owner: 'me', n: '2' });
        assert.equal((await modal.list({ tags: { owner: 'me', n: '2' } })).length, 2);
        if (v2) assert.deepEqual(await others[2].getTags(), { owner: 'me', n: '2' });

        assert.equal((await modal.client.sandboxes.fromName(modal.name, 'one')).sandboxId, box.sandboxId);
        const again = await modal.client.sandboxes.fromId(box.sandboxId);
        assert.deepEqual(await run(again, 'echo again'), [0, 'again\n', '']);
        assert.equal(await again.poll(), null);

        await box.terminate();
        assert.equal(await again.wait(), 137);
        assert.equal(await again.poll(), 137);
        assert.equal((await modal.list()).includes(box.sandboxId), false);
        await failure(box.exec(['true']));
        assert.ok((await failure(modal.client.sandboxes.fromName(modal.name, 'one'))) instanceof NotFoundError);
        assert.equal((await modal.fake.state()).sandboxes.find(({ id }) => id === box.sandboxId).result.status, 3);
    });

    test(`files go into ${v2 ? 'the second' : 'the first'} generation's next sandbox by a snapshot`, needsRooms, async () => {
        const modal = await Modal.at(shared(), { v2 });
        const box = await modal.create();
        await run(box, 'echo kept >/root/file; echo own >/opt/own; rm /etc/shadow');
        const image = await box.snapshotFilesystem();
        await box.terminate();
        const next = await modal.create({}, await modal.client.images.fromId(image.imageId));
        assert.deepEqual(await run(next, 'cat /root/file /opt/own; ls /etc/shadow 2>/dev/null || echo gone'), [
            0,
            'kept\nown\ngone\n',
            '',
        ]);
        assert.deepEqual(await run(await modal.create(), 'ls /root'), [0, '', '']);

        await next.terminate({ wait: true });
        await modal.client.images.delete(image.imageId);
        for (const gone of [modal.client.images.fromId(image.imageId), modal.client.images.delete(image.imageId)])
            assert.ok((await failure(gone)) instanceof NotFoundError);
    });
}

test('what was wanted of a sandbox arrives', async () => {
    const modal = await Modal.at(shared());
    const definition = async (params) => {
        const { sandboxId } = await modal.create(params);
        return (await modal.fake.state()).sandboxes.find(({ id }) => id === sandboxId);
    };
    const plain = await definition({
        cpu: 1.5,
        memoryMiB: 512,
        regions: ['eu'],
        blockNetwork: true,
        env: { A: 'b' },
        idleTimeoutMs: 60000,
    });
    assert.deepEqual(
        [
            plain.v2,
            plain.definition.resources.milli_cpu,
            plain.definition.resources.memory_mb,
            plain.definition.scheduler_placement.regions,
            plain.definition.network_access.network_access_type,
            plain.env,
            plain.definition.timeout_secs,
            plain.definition.idle_timeout_secs,
        ],
        [true, 1500, 512, ['eu'], 2, { A: 'b' }, 300, 60],
    );
    const gpu = await definition({ gpu: 'h100:2', env: { A: 'b' } });
    assert.deepEqual(
        [gpu.v2, gpu.definition.resources.gpu_config.gpu_type, gpu.definition.resources.gpu_config.count, gpu.env],
        [false, 'H100', 2, { A: 'b' }],
    );
});

test('an entrypoint is talked with', needsRooms, async () => {
    const modal = await Modal.at(shared());
    const box = await modal.create({
        command: ['/bin/sh', '-c', 'read line; echo "got $line"; echo bad >&2; read line; exit 6'],
    });
    const reader = box.stdout.getReader();
    await box.stdin.writeText('one\n');
    assert.equal((await reader.read()).value, 'got one\n');
    await box.stdin.writeText('two\n');
    assert.equal(await box.wait(), 6);
});

test('images are built once, from steps; one that fails says why', needsRooms, async () => {
    const modal = await Modal.at(shared());
    const built = await modal.image.dockerfileCommands(['RUN echo step >/opt/step']).build(modal.app);
    assert.deepEqual(await run(await modal.create({}, built), 'cat /opt/step'), [0, 'step\n', '']);
    await modal.fake.forgetRequests();
    await modal.image.dockerfileCommands(['RUN echo step >/opt/step']).build(modal.app);
    assert.equal(
        (await modal.fake.requests()).some(({ path }) => path.endsWith('ImageJoinStreaming')),
        false,
    );
    assert.match(String(await failure(modal.image.dockerfileCommands(['RUN exit 4']).build(modal.app))), /exited with 4/);
    assert.match(String(await failure(modal.client.images.fromRegistry('no-such-image').build(modal.app))), /manifest unknown/);
    assert.ok((await failure(modal.client.images.fromId('im-0000000000000000000000'))) instanceof NotFoundError);
});

test('lifetimes', needsRooms, async (t) => {
    const modal = await Modal.at(await startFake(t, 'modal'));
    const [box, idle, busy, quick] = [
        await modal.create({ timeoutMs: 1000000 }),
        await modal.create({ idleTimeoutMs: 100000, timeoutMs: 3600000 }),
        await modal.create({ idleTimeoutMs: 100000, timeoutMs: 3600000 }),
        await modal.create({ command: ['/bin/sh', '-c', 'exit 5'] }),
    ];
    assert.equal(await quick.wait(), 5);
    const sleeper = await busy.exec(['sleep', '1000']);
    await modal.fake.advance(200);
    await eventually('one was idle', async () => (await modal.fake.state()).totals.idle_timeout === 1);
    assert.notEqual(await idle.poll(), null);
    assert.equal(await busy.poll(), null);
    await modal.fake.advance(1000);
    assert.equal(await box.wait(), 124);
    await busy.terminate();
    await failure(sleeper.wait());
    assert.match(String(await failure(modal.create({ timeoutMs: 86401000 }))), /86400/);
});

test('what is lost on the way is sent again, and done once', needsRooms, async (t) => {
    const modal = await Modal.at(await startFake(t, 'modal', ['--create-rate', '2', '--clock-scale', '5']));
    const create = '^POST /modal.client.ModalClient/SandboxCreateV2$';
    await modal.fake.faults([
        { match: create, drop: true, handled: true },
        { match: create, at: 2, grpc: 14, message: 'try again' },
    ]);
    const box = await modal.create({ timeoutMs: 3600000 });
    assert.deepEqual(
        (await modal.fake.faults()).map(({ hit }) => hit),
        [1, 1],
    );
    assert.equal((await modal.fake.state()).totals.created, 1);
    await Promise.all([modal.create(), modal.create(), modal.create()]);
    assert.equal((await modal.fake.state()).totals.created, 4, 'past the rate it waits for as long as it is told');

    await modal.fake.faults([
        { match: 'TaskExecStart$', drop: true, handled: true },
        { match: 'TaskExecStdioRead$', cut: 10000, times: 3 },
        { match: 'TaskExecWait$', grpc: 14 },
    ]);
    const [code, out] = await run(box, 'echo run >>/tmp/runs; seq 20000');
    assert.deepEqual([code, out], [0, Array.from({ length: 20000 }, (_, i) => `${i + 1}\n`).join('')]);
    assert.deepEqual(await run(box, 'cat /tmp/runs'), [0, 'run\n', '']);
    assert.deepEqual(
        (await modal.fake.faults()).map(({ hit }) => hit),
        [1, 3, 1],
    );
    await modal.fake.goaway();
    assert.deepEqual(await run(box, 'echo on'), [0, 'on\n', '']);
});

test('over TLS, as to the provider', needsRooms, async (t) => {
    const fake = await startFake(t, 'modal', ['--tls', '--host', '127.0.0.2']); // to 127.0.0.1 the client speaks in the clear
    assert.equal(
        await printedOverTls(
            fake,
            `import { ModalClient } from 'modal';
        const modal = new ModalClient({ logLevel: 'error' });
        const app = await modal.apps.fromName('app', { createIfMissing: true });
        const box = await modal.sandboxes.create(app, modal.images.fromRegistry('debian'));
        process.stdout.write(await (await box.exec(['echo', 'by TLS'])).stdout.readText());
        process.exit(0);`,
        ),
        'by TLS\n',
    );
});

test('refusals', async (t) => {
    const modal = await Modal.at(await startFake(t, 'modal', ['--max-sandboxes', '1']));
    await modal.create();
    assert.match(String(await failure(modal.create())), /RESOURCE_EXHAUSTED|limit of 1/);
    assert.ok((await failure(modal.client.apps.fromName('none'))) instanceof NotFoundError);
    process.env.MODAL_TOKEN_SECRET = 'as-wrong';
    assert.match(String(await failure(new ModalClient({ logLevel: 'error' }).apps.fromName('app'))), /UNAUTHENTICATED/);

    const session = http2.connect(modal.fake.ready.api);
    t.after(() => session.destroy());
    const post = (path, headers, body = Buffer.alloc(5)) =>
        new Promise((done, failed) => {
            const stream = session.request({
                ':method': 'POST',
                ':path': path,
                'content-type': 'application/grpc',
                te: 'trailers',
                ...headers,
            });
            let told = {};
            stream
                .on('response', (all) => {
                    told = all;
                })
                .on('trailers', (all) => Object.assign(told, all))
                .on('error', failed)
                .on('end', () => done([told[':status'], Number(told['grpc-status'])]))
                .resume()
                .end(body);
        });
    const client = {
        'x-modal-client-type': '8',
        'x-modal-client-version': '1.0.0',
        'x-modal-token-id': 'ak-fake',
        'x-modal-token-secret': 'as-fake',
    };
    const control = '/modal.client.ModalClient/';
    assert.deepEqual(await post(`${control}AuthTokenGet`, client), [200, 0]);
    assert.deepEqual(await post(`${control}AuthTokenGet`, {}), [200, 3]);
    assert.deepEqual(await post(`${control}AuthTokenGet`, { ...client, 'x-modal-token-id': 'ak-other' }), [200, 16]);
    assert.deepEqual(await post(`${control}AppGetOrCreate`, client), [200, 16], 'no auth token');
    assert.deepEqual(await post(`${control}Nothing`, client), [200, 12]);
    assert.deepEqual(await post(`${control}AuthTokenGet`, client, Buffer.from([1, 0, 0, 0, 0])), [200, 12], 'compressed');
    assert.deepEqual(await post(`${control}AuthTokenGet`, client, Buffer.from([0, 0, 0, 0, 9])), [200, 13], 'cut short');
    assert.equal((await post(`${control}AuthTokenGet`, { ...client, 'content-type': 'application/json' }))[0], 415);
    assert.deepEqual(
        await post('/modal.task_command_router.TaskCommandRouter/TaskExecStart', { authorization: 'Bearer a.e30.c' }),
        [200, 16],
    );
});
