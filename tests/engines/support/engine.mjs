// The engine that with-engine runs beside the tests, seen from outside: its own API, for looking and for doing harm; and servers
// that use it. Every test ends with a look: servers that still run answer, and no temporary computer outlives them.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { computersIn, defer, eventually, temporaryFolder } from '../../integration/support/machine.mjs';
import { startServer as startAnyServer } from '../../integration/support/server.mjs';

export const kind = process.env.SANDBOX_ENGINE;
export const socketPath = new URL(process.env.DOCKER_HOST ?? process.env.CONTAINER_HOST).pathname;
export const onlyDocker = { skip: kind === 'docker' ? false : 'of Docker only' };
export const onlyPodman = { skip: kind === 'podman' ? false : 'of Podman only' };

export const image = (name) => `docker.io/sandbox-test/${name}:1`;
export const BUSYBOX = image('busybox');
export const DEBIAN = 'debian:bookworm-slim';

// One request to the engine: status and body.
export function api(method, where, body) {
    return new Promise((resolve, reject) => {
        const text = body && JSON.stringify(body);
        const headers = text ? { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) } : {};
        const request = http.request({ socketPath, method, path: `/v1.41${where}`, headers, agent: false }, (response) => {
            let said = '';
            response.setEncoding('utf8').on('data', (chunk) => (said += chunk)).on('error', reject).on('end', () => {
                const json = response.headers['content-type']?.startsWith('application/json');
                resolve({ status: response.statusCode, body: json && said ? JSON.parse(said) : said });
            });
        });
        request.on('error', reject).end(text);
    });
}

async function done(method, where, body) {
    const answer = await api(method, where, body);
    assert.ok(answer.status < 400, `${method} ${where}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
}

// The container of a computer, as the engine describes it; null: there is none.
export async function inspect(id) {
    const { status, body } = await api('GET', `/containers/kilntainer-${id}/json`);
    return status === 404 ? null : body;
}

export async function removeContainer(id) {
    await done('DELETE', `/containers/kilntainer-${id}?force=1`);
    await eventually(`the container of ${id} is gone`, async () => !(await inspect(id)));
}

export const stopContainer = (id) => done('POST', `/containers/kilntainer-${id}/stop?t=1`);
// Podman may say that the container is gone, which has ended so quickly.
export async function killContainer(id) {
    const { status, body } = await api('POST', `/containers/kilntainer-${id}/kill`);
    assert.ok(status < 400 || body.cause === 'no such container', `${status} ${JSON.stringify(body)}`);
}
export const pauseContainer = (id) => done('POST', `/containers/kilntainer-${id}/pause`);
export const unpauseContainer = (id) => done('POST', `/containers/kilntainer-${id}/unpause`);
export const removeImage = (name) => api('DELETE', `/images/${name}?force=1`);

// As `docker run -d` does it. Gives the container's id.
export async function runContainer(name, labels, { from = BUSYBOX, readOnly = false } = {}) {
    const { Id } = await done('POST', `/containers/create?name=${name}`,
        { Image: from, Labels: labels, Cmd: ['tail', '-f', '/dev/null'], HostConfig: { ReadonlyRootfs: readOnly } });
    await done('POST', `/containers/${Id}/start`);
    return Id;
}

// As the Python programs do it.
export function runPythonsComputer(id, { temporary = false, ...more } = {}) {
    return runContainer(`kilntainer-${id}`, {
        'kilntainers': 'true',
        'kilntainers.computer-id': id,
        'kilntainers.temporary': String(temporary),
        'kilntainers.image': more.from ?? BUSYBOX,
    }, more);
}

// A Docker that was killed may list, until its next start, a container that it has removed and knows nothing else of.
const isThere = (one) => one.State !== 'dead' || one.Names.length > 0;

async function containers() {
    return (await done('GET', '/containers/json?all=1')).filter(isThere);
}

// The ids of all computers that the engine knows, or of those of a kind.
export async function computers(filter = () => true) {
    return (await containers()).filter((one) => one.Labels?.['kilntainers.computer-id']).filter(filter)
        .map((one) => one.Labels['kilntainers.computer-id']).sort();
}

const isOurTemporary = (one) => one.Labels['kilntainers.temporary'] === 'true' && one.Labels['kilntainers.key'];

// Again and again: an engine that has just been killed may still be at something of its own with one of them.
async function tryToRemoveAll(seconds) {
    await eventually('the engine has no container', async () => {
        const all = await containers();
        await Promise.all(all.map(({ Id }) => api('DELETE', `/containers/${Id}?force=1&v=1`)));
        return all.length === 0;
    }, seconds);
}

// What an engine never lets go of, since it was killed amid making it, it does after another start. All within a test's time: what goes
// on beyond that would be done to the next test's engine.
async function removeAll() {
    await tryToRemoveAll(20).catch(() => restartEngine().then(() => tryToRemoveAll(20)));
}

// At once; or where the engine takes longer than clients wait, the server says so, and the next one removes what is left.
export async function endsWithItsComputers(t, server, end) {
    const { code } = await end();
    if (code !== 0) {
        assert.match(server.stderr, /the next start removes it/);
        const next = await startServer(t, { stateDir: server.stateDir });
        await eventually('the next start has removed what was left', async () => (await computers()).length === 0);
        await next.stop();
    }
    assert.deepEqual(await computers(), []);
    assert.deepEqual(computersIn(server.stateDir), []);
}

const watched = new WeakSet();

// What holds for every test: at its end, no temporary computer of a server of ours is left; the rest is removed.
export function watch(t) {
    if (watched.has(t)) return;
    watched.add(t);
    defer(t, async () => {
        await eventually('no temporary computer is left', async () => (await computers(isOurTemporary)).length === 0, 40)
            .finally(removeAll);
    });
}

// A server for the test on the engine here. `from` is the image; credentials are by registry,
// NAME:PASSWORD; alone: no other test runs meanwhile. A network costs time: most do without.
export async function startServer(t, { from = BUSYBOX, network = false, credentials = {}, alone = true, args = [], env = {}, ...more } = {}) {
    if (alone) watch(t);
    const config = temporaryFolder(t, 'config-');
    const auths = Object.entries(credentials).map(([registry, pair]) => [registry, { auth: Buffer.from(pair).toString('base64') }]);
    for (const name of ['config.json', 'auth.json']) {
        fs.writeFileSync(path.join(config, name), JSON.stringify({ auths: Object.fromEntries(auths) }));
    }
    const server = await startAnyServer(t, {
        args: ['--backend', kind, '--image', from, ...(network ? [] : ['--no-network']), ...args],
        env: { HOME: config, DOCKER_CONFIG: config, XDG_RUNTIME_DIR: config, REGISTRY_AUTH_FILE: path.join(config, 'auth.json'), ...env },
        ...more,
    });
    defer(t, async () => {
        if (server.child.exitCode === null && server.child.signalCode === null) {
            assert.deepEqual((await server.request('ping')).result, {}, 'the server is alive');
        }
    });
    return server;
}

// A call that has to fail: its error.
export async function refused(server, args) {
    const { isError, value } = await server.exec(args);
    assert.ok(isError, `it worked: ${JSON.stringify(value)}`);
    return value;
}

// One call of another tool: its structured content.
export async function callTool(server, name, args = {}) {
    const reply = await server.request('tools/call', { name, arguments: args });
    assert.ok(reply.result, JSON.stringify(reply.error));
    return reply.result.structuredContent;
}

// "ID STATE" of all that computer_list tells.
export async function states(server, query) {
    const { computers: listed } = await callTool(server, 'computer_list', query);
    return listed.map((one) => `${one.computer_id} ${one.state}`);
}

// The record of a permanent computer.
export function record(server, id) {
    return JSON.parse(fs.readFileSync(path.join(server.stateDir, 'computers/local', id, 'record.json'), 'utf8'));
}

// --- the engine itself ---

export function signalEngine(signal) {
    process.kill(Number(fs.readFileSync(process.env.SANDBOX_ENGINE_PID_FILE, 'utf8')), signal);
}

export const killEngine = () => signalEngine('SIGKILL');

export async function restartEngine() {
    const child = spawn(process.env.SANDBOX_ENGINE_RESTART, { stdio: ['ignore', 'ignore', 'inherit'] });
    const code = await new Promise((resolve, reject) => child.on('exit', resolve).on('error', reject));
    assert.equal(code, 0, 'the engine is up again');
}

// A way to the engine by another socket. A request, told by its first line, waits for what `held` gives; cut() ends all connections.
export async function startProxy(t, held) {
    const socket = path.join(temporaryFolder(t, 'proxy-'), 'engine.sock');
    const open = new Set();
    const listener = net.createServer({ allowHalfOpen: true }, (client) => {
        const engine = net.connect({ path: socketPath, allowHalfOpen: true });
        for (const one of [client, engine]) {
            open.add(one);
            one.on('error', () => {}).on('close', () => {
                open.delete(one);
                (one === client ? engine : client).destroy();
            });
        }
        engine.pipe(client);
        client.on('data', async (chunk) => {
            client.pause();
            await held(chunk.toString('latin1').split('\r\n', 1)[0]);
            if (!engine.write(chunk)) await new Promise((resolve) => engine.once('drain', resolve).once('close', resolve));
            client.resume();
        }).on('end', () => engine.end());
    });
    await new Promise((resolve) => listener.listen(socket, resolve));
    const cut = () => open.forEach((one) => one.destroy());
    defer(t, () => {
        listener.close();
        cut();
    });
    return { env: { DOCKER_HOST: `unix://${socket}`, CONTAINER_HOST: `unix://${socket}` }, cut };
}
