// Images: pulled from registries, named in every way, and such as lack what a computer usually has.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { describe, test } from 'node:test';
import { defer, eventually } from '../integration/support/machine.mjs';
import { computers, image, inspect, record, refused, removeImage, runPythonsComputer, startServer, watch } from './support/engine.mjs';

const open = process.env.SANDBOX_REGISTRY;
const byPassword = process.env.SANDBOX_REGISTRY_AUTH;
const { SANDBOX_REGISTRY_USER: user, SANDBOX_REGISTRY_PASSWORD: password } = process.env;
const NAME = 'sandbox-test/busybox';

// An image that the engine hasn't got, neither now nor after the test.
async function absent(t, name) {
    await removeImage(name);
    defer(t, () => removeImage(name));
    return name;
}

async function digest() {
    const request = http.request(`http://${open}/v2/${NAME}/manifests/1`,
        { method: 'HEAD', agent: false, headers: { Accept: 'application/vnd.docker.distribution.manifest.list.v2+json' } }).end();
    const [response] = await once(request, 'response');
    response.resume();
    return response.headers['docker-content-digest'];
}

// Takes connections and says nothing.
async function hangingRegistry(t) {
    const sockets = [];
    const listener = net.createServer((socket) => sockets.push(socket.on('error', () => {}))).listen(0, '127.0.0.1');
    defer(t, () => {
        listener.close();
        sockets.forEach((socket) => socket.destroy());
    });
    await once(listener, 'listening');
    return { address: `127.0.0.1:${listener.address().port}`, asked: () => sockets.length > 0 };
}

// The first one takes a minute, of waiting: meanwhile come the others.
describe('images', { concurrency: 2 }, () => {
    test('B28: a registry that hangs: the creation fails at a limit, and says which', async (t) => {
        const registry = await hangingRegistry(t);
        const server = await startServer(t, { from: `${registry.address}/x/y:1`, alone: false });
        const error = await refused(server, { command: 'true' });
        assert.ok(['timeout', 'unavailable'].includes(error.code), JSON.stringify(error));
        assert.match(error.error, new RegExp(registry.address));
        assert.match(error.error, /pull/);
    });

    describe('one after the other', { concurrency: 1 }, () => {
        test('an absent image is pulled, once for all that want it, with progress for who asks', async (t) => {
            watch(t);
            const server = await startServer(t, { from: await absent(t, `${open}/${NAME}:1`), args: ['--log-level', 'info'] });
            const calls = ['one', 'two', 'three'].map((id) => (
                server.startExec({ command: 'echo pulled', computer_id: id }, id === 'one' ? { meta: { progressToken: 'pull' } } : {})));
            for (const { reply } of calls) assert.equal((await reply).result.structuredContent.stdout, 'pulled\n');
            const told = server.messages.map(({ message }) => message).filter((m) => m.method === 'notifications/progress');
            assert.ok(told.length > 0);
            assert.ok(told.every(({ params }) => params.progressToken === 'pull'));
            assert.ok(told.some(({ params }) => /pulling.*busybox/.test(params.message)), JSON.stringify(told));
            for (let i = 1; i < told.length; i++) assert.ok(told[i].params.progress > told[i - 1].params.progress);
        });

        test('B27: an image by tag and digest, and by digest alone', async (t) => {
            watch(t);
            const its = await digest();
            assert.match(its, /^sha256:/);
            for (const name of [`${open}/${NAME}:1@${its}`, `${open}/${NAME}@${its}`]) {
                const server = await startServer(t, { from: await absent(t, name) });
                assert.equal((await server.run('echo works')).stdout, 'works\n', name);
                await server.stop();
            }
        });

        test('a registry with a password: the right one', async (t) => {
            watch(t);
            const server = await startServer(t, { from: await absent(t, `${byPassword}/${NAME}:1`), credentials: { [byPassword]: `${user}:${password}` } });
            assert.equal((await server.run('echo works')).stdout, 'works\n');
        });

        for (const [what, credentials] of [['none', {}], ['a wrong one', { [byPassword]: `${user}:wrong` }], ["another registry's", { [open]: `${user}:${password}` }]]) {
            test(`a registry with a password: ${what}`, async (t) => {
                watch(t);
                const server = await startServer(t, { from: await absent(t, `${byPassword}/${NAME}:1`), credentials });
                const error = await refused(server, { command: 'true' });
                assert.equal(error.code, 'denied', error.error);
                assert.match(error.error, new RegExp(byPassword));
                assert.match(error.error, /login/);
                assert.ok(!error.error.includes(password));
                assert.deepEqual(await computers(), []);
            });
        }

        test('an image that the registry has not got, and a registry that is not there', async (t) => {
            watch(t);
            for (const name of [`${open}/sandbox-test/nothing:1`, '127.0.0.1:1/x/y:1']) {
                const server = await startServer(t, { from: name });
                const error = await refused(server, { command: 'true' });
                assert.ok(['unavailable', 'denied', 'computer_not_found', 'invalid_argument'].includes(error.code), JSON.stringify(error));
                assert.match(error.error, new RegExp(name.split('/')[0]));
            }
        });

        test('B28: a registry that hangs: listed at once, cancelled, others unaffected', async (t) => {
            watch(t);
            const registry = await hangingRegistry(t);
            await runPythonsComputer('theirs');
            const server = await startServer(t, { from: `${registry.address}/x/y:1` });
            assert.equal((await server.request('tools/list')).result.tools.length, 1);
            const stuck = server.startExec({ command: 'true', computer_id: 'stuck' });
            let answered = false;
            stuck.reply.then(() => (answered = true), () => {});
            await eventually('the registry is asked', registry.asked);
            assert.equal((await server.run('echo works', { computer_id: 'theirs' })).stdout, 'works\n', 'one of another image');
            const other = await startServer(t);
            assert.equal((await other.run('echo works')).stdout, 'works\n');
            assert.equal((await server.request('tools/list')).result.tools.length, 1);
            await server.notify('notifications/cancelled', { requestId: stuck.id });
            assert.equal((await server.run('echo works', { computer_id: 'theirs' })).stdout, 'works\n');
            assert.equal(answered, false, 'a cancelled request has no answer');
            const again = server.startExec({ command: 'true', computer_id: 'stuck' });
            again.reply.catch(() => {});
            assert.deepEqual(await server.stop(), { code: 0, signal: null }, 'also with a pull under way');
            assert.equal(await inspect('stuck'), null);
        });

        test('an image without a shell: args works, a command says what is missing', async (t) => {
            const server = await startServer(t, { from: image('noshell') });
            const { value } = await server.exec({ args: ['true'], computer_id: 'bare' });
            assert.equal(value.exit_code, 0);
            const error = await refused(server, { command: 'true', computer_id: 'bare' });
            assert.equal(error.code, 'shell_not_found');
            assert.match(error.error, /args/);
            assert.equal((await server.exec({ args: ['sleep', '300'], computer_id: 'bare', timeout: 0.5 })).value.timed_out, true);
        });

        test('a shell that a command has removed', async (t) => {
            const server = await startServer(t);
            await server.run('rm /bin/sh', { computer_id: 'shorn' });
            const error = await refused(server, { command: 'true', computer_id: 'shorn' });
            assert.equal(error.code, 'shell_not_found');
            assert.match(error.error, /is gone from this computer/);
        });

        test('an image without tail', async (t) => {
            const server = await startServer(t, { from: image('notail') });
            assert.equal((await server.run('echo works')).stdout, 'works\n');
        });

        test('an image without bash: the shell is sh; with bash, bash', async (t) => {
            const busybox = await startServer(t);
            assert.equal((await busybox.run('echo "[$BASH_VERSION]"')).stdout, '[]\n');
            const debian = await startServer(t, { from: image('debian') });
            assert.match((await debian.run('echo "[$BASH_VERSION]"')).stdout, /\[5/);
        });

        test('--shell never falls back', async (t) => {
            const server = await startServer(t, { args: ['--shell', '/bin/bash'] });
            const error = await refused(server, { command: 'true' });
            assert.equal(error.code, 'shell_not_found');
            assert.match(error.error, /\/bin\/sh/, 'names what is there');
        });

        test('an image of another user', async (t) => {
            const server = await startServer(t, { from: image('user') });
            const value = await server.run('id -u; pwd; touch file && ls; grep CapEff /proc/self/status', { computer_id: 'user', temporary: false });
            assert.equal(value.stdout, '1000\n/home/user\nfile\nCapEff:\t0000000000000000\n');
            assert.notEqual((await server.run('touch /root/x', { computer_id: 'user' })).exit_code, 0);
            assert.equal(record(server, 'user').data.commands, 'stream');
            assert.equal((await server.run('sleep 300', { computer_id: 'user', timeout: 0.5 })).timed_out, true);
        });

        test('an image whose entrypoint exits', async (t) => {
            const server = await startServer(t, { from: image('exits') });
            assert.equal((await server.run('echo works')).stdout, 'works\n');
        });

        test("an image that is called another architecture's works if it does, and is refused where a platform is asked for", async (t) => {
            const server = await startServer(t, { from: image('arm64') });
            assert.equal((await server.run('echo works')).stdout, 'works\n');
            const strict = await startServer(t, { from: image('arm64'), args: ['--docker-run-flag=--platform=linux/amd64'] });
            const error = await refused(strict, { command: 'true' });
            assert.match(error.error, /arm64/);
            assert.deepEqual((await computers()).length, 1);
        });
    });
});
