// The calls of src/backends/modal at Modal's fake, by modal_calls.c: each of them, in both generations, in the clear and over TLS,
// and with what goes wrong on the way.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { suite, test } from 'node:test';
import { startFake } from '../fakes/support/start.mjs';
import { needsRooms } from './support.mjs';

const PROGRAM = process.env.MODAL_CALLS ?? path.resolve(import.meta.dirname, '../../build/tests/clouds/modal_calls');
const IMAGE = 'debian:bookworm-slim';

class Calls {
    static async at(t, { options = [], env = {}, fake } = {}) {
        const calls = new Calls();
        calls.fake = fake ?? (await startFake(t, 'modal', options));
        calls.child = spawn(PROGRAM, [], {
            stdio: ['pipe', 'pipe', 'inherit'],
            env: { PATH: process.env.PATH, MODAL_CONFIG_PATH: '/nonexistent', ...calls.fake.environment(), ...env },
        });
        calls.gone = once(calls.child, 'exit');
        calls.lines = createInterface({ input: calls.child.stdout })[Symbol.asyncIterator]();
        t.after(async () => {
            calls.child.stdin.end();
            const [code, signal] = await calls.gone;
            assert.deepEqual([code, signal], [0, null], 'it ended well');
        });
        return calls;
    }

    async #send(task) {
        this.child.stdin.write(`${JSON.stringify(task)}\n`);
        const { value, done } = await this.lines.next();
        if (done) throw new Error('the program has ended');
        return JSON.parse(value);
    }

    do(what, task = {}) {
        return this.#send({ do: what, ...task });
    }

    async together(tasks) {
        return (await this.#send({ together: tasks })).together;
    }

    async image(reference = IMAGE) {
        const { image, ...rest } = await this.do('image', { reference });
        assert.ok(image, JSON.stringify(rest));
        return image;
    }

    async create(task = {}) {
        const made = await this.do('create', { image: await this.image(), ...task });
        assert.ok(made.id, JSON.stringify(made));
        return made.id;
    }

    sh(id, command, task = {}) {
        return this.do('run', { id, argv: ['/bin/sh', '-c', command], ...task });
    }

    // What came in since, as names of calls.
    async requests() {
        const all = (await this.fake.requests()).map((one) => one.path.split('/').pop());
        await this.fake.forgetRequests();
        return all;
    }

    async box(id) {
        return (await this.fake.state()).sandboxes.find((one) => one.id === id);
    }
}

// What a fault leads to: the answer of the call, and how often each fault has struck.
async function struck(calls, table, act) {
    await calls.fake.faults(table);
    const answer = await act();
    const hits = (await calls.fake.faults()).map(({ hit }) => hit);
    await calls.fake.faults([]);
    await calls.requests();
    return [answer, hits];
}

suite('calls of Modal', { concurrency: 4 }, () => {
    for (const tls of [false, true]) {
        for (const v2 of [true, false]) {
            const how = `${v2 ? 'second' : 'first'} generation, ${tls ? 'TLS' : 'in the clear'}`;
            test(`a sandbox from its beginning to its end: ${how}`, needsRooms, async (t) => {
                const options = ['--page', '2', ...(tls ? ['--tls', '--host', '127.0.0.2'] : [])];
                const calls = await Calls.at(t, { options, env: { MODAL_SANDBOX_V2: v2 ? '1' : '0' } });
                assert.deepEqual(await calls.do('check'), {});
                const { image, program, progress } = await calls.do('image', { reference: IMAGE });
                assert.ok(progress.length > 0 && progress.every((line) => line.includes(IMAGE)));
                await calls.requests();

                const id = await calls.create({
                    env: ['A=b', 'EQUALS=x=y'],
                    tags: [['owner', 'me'], ['n', '1']],
                    lifetime: 1234,
                    cpus: 1.5,
                    memory: 512,
                    region: 'eu, us-east',
                });
                assert.deepEqual(
                    await calls.requests(),
                    v2 ? ['SandboxCreateV2'] : ['SecretGetOrCreate', 'SandboxCreate', 'SandboxGetTaskId', 'TaskGetCommandRouterAccess'],
                    'no round trip more than it takes',
                );
                const { definition, env, tags } = await calls.box(id);
                const { resources, scheduler_placement: placement, network_access: network } = definition;
                assert.deepEqual(
                    [definition.timeout_secs, resources.milli_cpu, resources.memory_mb, placement.regions, network.network_access_type],
                    [1234, 1500, 512, ['eu', 'us-east'], 2],
                );
                assert.deepEqual([definition.image_id, env, tags.length], [image, { A: 'b', EQUALS: 'x=y' }, 2]);

                const first = await calls.sh(id, 'echo $A $MORE; pwd; echo bad >&2; exit 3', { env: ['MORE=more'], workdir: '/opt' });
                assert.deepEqual(first, { code: 3, out: 'b more\n/opt\n', err: 'bad\n' });
                assert.deepEqual(await calls.sh(id, 'kill -9 $$'), { code: 137, out: '', err: '' });
                assert.deepEqual(await calls.sh(id, 'tr a-z A-Z', { stdin: 'in and out' }), { code: 0, out: 'IN AND OUT', err: '' });
                assert.equal((await calls.sh(id, 'md5sum', { zeros: 2 << 20 })).out, 'b2d1236c286a3c0704224fe4105eca49  -\n');
                assert.equal((await calls.sh(id, 'head -c 20971520 /dev/zero')).out.size, 20 << 20);
                assert.equal((await calls.sh(id, `test -x ${program}`)).code, 0, 'our program is in it');
                assert.deepEqual(await calls.sh(id, 'exec sleep 1000', { limit: 1 }), { code: 137, out: '', err: '' });
                const cut = await calls.do('cut', { id, argv: ['/bin/sh', '-c', 'echo; exec sleep 1000'] });
                assert.equal(cut.error, 'computer_gone');
                const late = await calls.sh(id, 'exec sleep 1000', { timeout: 0.3 });
                assert.equal(late.error, 'timeout', JSON.stringify(late));
                const stopped = await calls.sh(id, 'exec sleep 1000', { cancel_ms: 100 });
                assert.equal(stopped.error, 'cancelled', JSON.stringify(stopped));

                const others = [await calls.create({ tags: [['owner', 'me']] }), await calls.create({ tags: [['owner', 'me']] })];
                await calls.create({ tags: [['owner', 'you']], network: true });
                const listed = (await calls.do('list', { tags: [['owner', 'me']] })).sandboxes;
                assert.deepEqual(listed.map((one) => one.id).sort(), [id, ...others].sort(), 'over two pages');
                assert.deepEqual(listed.find((one) => one.id === id).tags, { owner: 'me', n: '1' });
                assert.equal((await calls.do('list')).sandboxes.length, 4);

                assert.equal((await calls.do('reach', { id })).id, id);
                assert.equal((await calls.sh(id, 'echo kept >/root/file')).code, 0);
                const snapshot = (await calls.do('snapshot', { id })).image;
                const next = await calls.create({ image: snapshot });
                assert.equal((await calls.sh(next, `cat /root/file; test -x ${program} && echo there`)).out, 'kept\nthere\n');
                const layered = await calls.image(snapshot);
                assert.notEqual(layered, snapshot);
                assert.equal((await calls.sh(await calls.create({ image: layered }), 'cat /root/file')).out, 'kept\n');

                assert.deepEqual(await calls.do('ended', { id }), { ended: false, why: null });
                assert.deepEqual(await calls.do('terminate', { id }), {});
                assert.deepEqual(await calls.do('terminate', { id }), {});
                assert.deepEqual(await calls.do('ended', { id }), { ended: true, why: 'it was terminated' });
                assert.equal((await calls.do('reach', { id })).error, 'computer_not_found');
                assert.equal((await calls.sh(id, 'true')).error, 'computer_not_found');
                assert.deepEqual(await calls.do('terminate', { id: 'sb-0000000000000000000000' }), {});
                assert.equal((await calls.do('ended', { id: 'sb-00000000000000000000000000' })).ended, true);
            });
        }
    }

    for (const tls of [false, true]) {
        test(`what fails on the way is sent again, and done once: ${tls ? 'TLS' : 'in the clear'}`, needsRooms, async (t) => {
            const calls = await Calls.at(t, { options: tls ? ['--tls'] : [] });
            const image = await calls.image();
            const make = { match: 'SandboxCreateV2$' };
            for (const fault of [
                { drop: true, handled: true },
                { drop: true },
                { hangup: true },
                { grpc: 14, message: 'try again', times: 2 },
                { grpc: 13 },
                { grpc: 8, times: 3 },
                { grpc: 8, message: 'rate limit of 5 per second exceeded' },
                { status: 503, body: 'busy' },
                { status: 502, body: '<html>'.repeat(100000) },
                { truncate: 0, handled: true },
                { truncate: 20 },
                { cut: 3 },
                { trickle: 1, pause: 1 },
                { goaway: true },
            ]) {
                const before = (await calls.fake.state()).totals.created;
                const [id, [hits]] = await struck(calls, [{ ...make, ...fault }], () => calls.create({ image }));
                assert.equal(hits, fault.times ?? 1, JSON.stringify(fault));
                assert.equal((await calls.fake.state()).totals.created, before + 1, JSON.stringify(fault));
                assert.deepEqual(await calls.do('terminate', { id }), {});
            }

            const id = await calls.create({ image });
            const [run, hits] = await struck(
                calls,
                [
                    { match: 'TaskExecStart$', drop: true, handled: true },
                    { match: 'TaskExecStdinWrite$', drop: true, handled: true },
                    { match: 'TaskExecStdioRead$', cut: 10000, times: 6 },
                    { match: 'TaskExecWait$', grpc: 14 },
                ],
                () => calls.sh(id, 'echo run >>/tmp/runs; cat; seq 20000', { stdin: 'in\n' }),
            );
            assert.deepEqual(run, { code: 0, out: run.out, err: '' });
            assert.deepEqual(run.out, { size: 108897, sha256: run.out.sha256 });
            assert.deepEqual(hits, [1, 1, 6, 1]);
            assert.equal((await calls.sh(id, 'cat /tmp/runs')).out, 'run\n');
            const truncated = [{ match: 'TaskExecStdioRead$', truncate: 2, times: 3 }];
            assert.equal((await struck(calls, truncated, () => calls.sh(id, 'echo truncated')))[0].out, 'truncated\n');
            await calls.fake.goaway();
            assert.equal((await calls.sh(id, 'echo on')).out, 'on\n');
            const lost = [{ match: 'TaskSnapshotFilesystem$', drop: true, handled: true }];
            const [, [made]] = await struck(calls, lost, () => calls.do('snapshot', { id }));
            assert.equal(made, 1);
        });
    }

    test('refusals and nonsense are told in words, without credentials', needsRooms, async (t) => {
        const calls = await Calls.at(t, { options: ['--max-sandboxes', '1', '--token-secret', 'as-so-secret'] });
        const image = await calls.image();
        const id = await calls.create({ image });
        const full = await calls.do('create', { image });
        assert.deepEqual([full.error, full.message], ['limit', 'Modal says RESOURCE_EXHAUSTED: Sandbox limit of 1 reached']);
        const fails = async (fault, what = 'create', task = { image }) => {
            const [answer] = await struck(calls, [{ match: '/modal', times: 0, ...fault }], () => calls.do(what, task));
            return answer;
        };
        for (const [fault, error, message] of [
            [{ status: 401, body: 'no' }, 'denied', /401/],
            [{ status: 200, headers: { 'content-type': 'text/html' }, body: '<html>' }, 'unavailable', /no gRPC/],
            [{ status: 200, headers: { 'content-type': 'application/grpc' }, body: '\x01\0\0\0\0' }, 'unavailable', /compressed/],
            [{ status: 200, headers: { 'content-type': 'application/grpc' }, body: '\0\x7f\x7f\x7f\x7f' }, 'limit', /at most/],
            [{ status: 200, headers: { 'content-type': 'application/grpc' }, body: '\0\0\0\0\x01\xff' }, 'unavailable', /ended|message/],
            [{ status: 200, headers: { 'content-type': 'application/grpc', 'grpc-status': '0' }, body: '' }, 'unavailable', /no message/],
            [{ status: 200, headers: { 'content-type': 'application/grpc', 'grpc-status': '77' }, body: '' }, 'unavailable', /UNKNOWN/],
            [{ grpc: 3, message: 'must be less\n\u001b[31mthan this' }, 'invalid_argument', /_ARGUMENT: must be less {2}\[31mthan this$/],
            [{ grpc: 7, message: 'not with as-so-secret' }, 'denied', /PERMISSION_DENIED/],
            [{ grpc: 12 }, 'unsupported', /UNIMPLEMENTED/],
            [{ grpc: 8, message: 'workspace quota exceeded' }, 'limit', /RESOURCE_EXHAUSTED: workspace quota exceeded$/],
            [{ grpc: 8, message: 'busy' }, 'limit', /RESOURCE_EXHAUSTED: busy$/],
            [{ grpc: 14, message: 'x'.repeat(5000) }, 'unavailable', /UNAVAILABLE: x{100}/],
        ]) {
            const told = await fails(fault);
            assert.equal(told.error, error, JSON.stringify([fault, told]).slice(0, 1000));
            assert.match(told.message, message);
            assert.doesNotMatch(told.message, /so-secret|ak-fake|[\n\u001b]/);
            assert.ok(told.message.length < 500);
        }
        assert.equal((await fails({ stall: 0 }, 'ended', { id, timeout: 0.3 })).error, 'timeout');
        assert.equal((await fails({ delay: 60000 }, 'ended', { id, cancel_ms: 100 })).error, 'cancelled');
        const broken = await calls.do('image', { reference: 'no-such-image' });
        assert.equal(broken.error, 'invalid_argument');
        assert.equal(broken.message, "Modal can't build the image 'no-such-image': Image build failed: manifest unknown");
        assert.equal((await calls.do('image', { reference: 'a\nRUN evil' })).error, 'invalid_argument');
        assert.equal((await calls.do('create', { image, gpu: 'H100:0' })).error, 'invalid_argument');

        const wrong = await Calls.at(t, { fake: calls.fake, env: { MODAL_TOKEN_SECRET: 'as-wrong' } });
        const refused = await wrong.do('check');
        assert.equal(refused.error, 'denied');
        assert.match(refused.message, /MODAL_TOKEN_ID/);
        assert.doesNotMatch(refused.message, /as-wrong/);
        const none = await Calls.at(t, { fake: calls.fake, env: { MODAL_TOKEN_SECRET: '' } });
        assert.match((await none.do('check')).message, /modal setup/);
    });

    test('tokens that are refused are replaced once, by one', needsRooms, async (t) => {
        const calls = await Calls.at(t);
        const image = await calls.image();
        const id = await calls.create({ image });
        await calls.requests();
        const requests = async (table, act) => {
            await calls.fake.faults(table);
            const answer = await act();
            await calls.fake.faults([]);
            return [answer, await calls.requests()];
        };
        const once = await requests([{ match: 'SandboxWaitV2$', grpc: 16 }], () => calls.do('ended', { id }));
        assert.deepEqual(once, [{ ended: false, why: null }, ['SandboxWaitV2', 'AuthTokenGet', 'SandboxWaitV2']]);
        const [always, all] = await requests([{ match: 'SandboxWaitV2$', grpc: 16, times: 0 }], () => calls.do('ended', { id }));
        assert.equal(always.error, 'denied');
        assert.equal(all.length, 3);
        const both = [
            { match: 'TaskExecStart$', grpc: 16 },
            { match: 'TaskExecStdioRead$', grpc: 16 },
        ];
        const [quick, router] = await requests(both, () => calls.do('quick', { id, argv: ['echo', 'here'] }));
        const renewal = ['SandboxGetTaskIdV2', 'SandboxGetCommandRouterAccess'];
        assert.deepEqual(quick, { out: 'here\n' });
        assert.deepEqual(router, ['TaskExecStart', 'TaskExecStdioRead', ...renewal, 'TaskExecStart', 'TaskExecStdioRead']);
    });

    test('many at once, and past the rate as slowly as Modal wants it', needsRooms, async (t) => {
        const calls = await Calls.at(t, { options: ['--tls', '--latency', '20'] });
        const image = { reference: IMAGE };
        await calls.together(Array.from({ length: 50 }, () => ({ do: 'image', ...image })));
        const first = await calls.requests();
        for (const name of ['AuthTokenGet', 'AppGetOrCreate', 'ImageGetOrCreate'])
            assert.equal(first.filter((one) => one === name).length, 1, `${name}: one asks for all`);
        const made = await calls.together(Array.from({ length: 200 }, () => ({ do: 'create', image: 'im-none', tags: [['t', 'x']] })));
        assert.ok(made.every((one) => one.error === 'computer_not_found'));
        const built = await calls.image();
        const boxes = await calls.together(Array.from({ length: 200 }, () => ({ do: 'create', image: built })));
        assert.equal(new Set(boxes.map((one) => one.id)).size, 200);
        const rated = await Calls.at(t, { options: ['--create-rate', '4', '--clock-scale', '5'] });
        const slow = await rated.together(Array.from({ length: 12 }, () => ({ do: 'create', image: 'im-x' })));
        assert.equal(slow.length, 12);
        const ready = await rated.image();
        const all = await rated.together(Array.from({ length: 12 }, () => ({ do: 'create', image: ready })));
        assert.ok(all.every((one) => one.id), JSON.stringify(all));
        assert.equal((await rated.fake.state()).totals.created, 12);
    });

    test('a warm command takes one round trip, over connections that are kept', needsRooms, async (t) => {
        const calls = await Calls.at(t, { options: ['--tls', '--latency', '20'] });
        const id = await calls.create();
        const task = { id, argv: ['/bin/true'] };
        await calls.do('quick', task);
        const before = new Set((await calls.fake.requests()).map((one) => one.connection));
        await calls.fake.forgetRequests();
        assert.deepEqual(await calls.do('quick', task), { out: '' });
        const requests = await calls.fake.requests();
        assert.deepEqual(requests.map((one) => one.path.split('/').pop()).sort(), ['TaskExecStart', 'TaskExecStdioRead']);
        assert.ok(requests.every((one) => before.has(one.connection)));
    });

    test('output that is asked for before the router knows of the command is asked for again', needsRooms, async (t) => {
        const calls = await Calls.at(t);
        const id = await calls.create();
        await calls.requests();
        await calls.fake.faults([{ match: 'TaskExecStart$', delay: 200 }]);
        assert.deepEqual(await calls.do('quick', { id, argv: ['echo', 'here'] }), { out: 'here\n' });
        assert.deepEqual(await calls.requests(), ['TaskExecStart', 'TaskExecStdioRead', 'TaskExecStdioRead']);
        await calls.fake.faults([{ match: 'TaskExecStdioRead$', drop: true }]);
        assert.deepEqual(await calls.do('quick', { id, argv: ['echo', 'here'] }), { out: 'here\n' });
    });

    test('nothing is left of a creation that is given up', async (t) => {
        const calls = await Calls.at(t);
        const image = await calls.image();
        const lost = [{ match: 'SandboxCreateV2$', drop: true, handled: true, times: 0 }];
        const [made, [hits]] = await struck(calls, lost, () => calls.do('create', { image, tags: [['key', '1']] }));
        assert.ok(made.id && hits === 4, 'no answer ever came, and it was found');
        assert.equal((await calls.fake.state()).totals.created, 1);
        const stalled = [{ match: 'SandboxCreateV2$', stall: 0, times: 0 }];
        const [late] = await struck(calls, stalled, () => calls.do('create', { image, tags: [['key', '2']], timeout: 0.5 }));
        assert.equal(late.error, 'timeout');
        assert.deepEqual((await calls.do('list', { tags: [['key', '2']] })).sandboxes, []);
        assert.deepEqual((await calls.fake.state()).totals.terminated, 1);
    });
});
