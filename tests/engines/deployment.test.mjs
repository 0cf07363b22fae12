// The image of Dockerfile, run as compose.yaml says, with the socket of the engine that runs it. Its last stage is built as it
// stands, from stand-ins of what it begins with: a network and a compiler are not needed for that.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { defer, eventually, temporaryFolder } from '../integration/support/machine.mjs';
import { BINARY, modernMeta } from '../integration/support/server.mjs';
import { MODERN } from '../integration/support/schemas.mjs';
import { computers, DEBIAN, onlyDocker, socketPath } from './support/engine.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const NAME = 'mcp-sandbox-computer-vm-for-ai';
const TOKEN = 'a-token-for-tests';
const compose = fs.readFileSync(path.join(ROOT, 'compose.yaml'), 'utf8');

async function docker(...args) {
    const { stdout, stderr } = await promisify(execFile)('docker', args, { env: { ...process.env, DOCKER_BUILDKIT: '0' } });
    return (stdout || stderr).trim();
}

async function librariesOf(program) {
    const { stdout } = await promisify(execFile)('ldd', [program]);
    return [...stdout.matchAll(/(\/\S+) \(0x/g)].map((m) => m[1]).filter((file) => !/ld-linux|libc\.so|libm\.so/.test(file));
}

// debian:12-slim with what apt-get would install, and an apt-get that has nothing to do.
async function buildBase(folder) {
    const { stdout } = await promisify(execFile)('/sbin/ldconfig', ['-p']);
    const http_library = /libmicrohttpd\.so\.12 .*=> (\S+)/.exec(stdout)[1];
    fs.mkdirSync(path.join(folder, 'lib'), { recursive: true });
    for (const file of new Set([http_library, ...(await librariesOf(http_library)), ...(await librariesOf(BINARY))])) {
        fs.copyFileSync(file, path.join(folder, 'lib', path.basename(file)));
    }
    fs.writeFileSync(path.join(folder, 'apt-get'), '#!/bin/sh\n', { mode: 0o755 });
    fs.writeFileSync(path.join(folder, 'Dockerfile'), `FROM ${DEBIAN}\nCOPY lib/ /usr/lib/\nCOPY apt-get /usr/bin/\nRUN ldconfig\n`);
    await docker('build', '-q', '-t', 'debian:12-slim', folder);
}

async function buildBinary(folder) {
    fs.mkdirSync(folder);
    fs.copyFileSync(BINARY, path.join(folder, NAME));
    fs.writeFileSync(path.join(folder, 'Dockerfile'), `FROM scratch\nCOPY ${NAME} /src/build/src/\n`);
    await docker('build', '-q', '-t', 'build', folder);
}

async function buildImage(t) {
    const folder = temporaryFolder(t, 'image-');
    await buildBase(path.join(folder, 'base'));
    await buildBinary(path.join(folder, 'binary'));
    const last = path.join(folder, 'last');
    fs.cpSync(path.join(ROOT, 'packaging/docker'), path.join(last, 'packaging/docker'), { recursive: true });
    const text = fs.readFileSync(path.join(ROOT, 'Dockerfile'), 'utf8');
    fs.writeFileSync(path.join(last, 'Dockerfile'), text.slice(text.lastIndexOf('\nFROM ') + 1));
    await docker('build', '-q', '-t', NAME, last);
}

// The flags of `docker run` that mean what compose.yaml says.
function flagsOfCompose(environment) {
    const [, drop] = /cap_drop: \[(.*)\]/.exec(compose);
    const [, add] = /cap_add: \[(.*)\]/.exec(compose);
    const [, option] = /security_opt: \["(.*)"\]/.exec(compose);
    const [, port] = /ports:\n\s+- (\S+)/.exec(compose);
    const variables = [...compose.matchAll(/^ +([A-Z_]+): \$\{\1:-\}$/gm)].map((m) => m[1]);
    assert.deepEqual(variables, ['KILNTAINERS_AUTH_TOKEN', 'ENABLE_LIFECYCLE_TOOLS']);
    assert.match(compose, /read_only: true/);
    return ['--publish', port, '--read-only', '--security-opt', option, ...drop.split(', ').map((c) => `--cap-drop=${c}`),
        ...add.split(', ').map((c) => `--cap-add=${c}`), ...variables.map((v) => `--env=${v}=${environment[v] ?? ''}`),
        '--volume', `${socketPath}:/var/run/docker.sock`, '--volume', 'state:/var/lib/mcp-sandbox-computer-vm-for-ai'];
}

const commandOfCompose = () => /command: \[(.*)\]/.exec(compose)[1].split(', ').map((word) => word.replaceAll('"', ''));

function request(method, where, headers = {}, body) {
    return new Promise((resolve) => {
        const sent = http.request({ host: '127.0.0.1', port: 8080, method, path: where, headers, agent: false }, (response) => {
            let text = '';
            response.setEncoding('utf8').on('data', (chunk) => (text += chunk)).on('end', () => resolve({ status: response.statusCode, text }));
        });
        sent.on('error', () => resolve({ status: 0 })).end(body);
    });
}

async function run(args, headers = {}) {
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'terminal_execute', arguments: args, _meta: modernMeta() } };
    const { status, text } = await request('POST', '/mcp', { 'content-type': 'application/json', accept: 'application/json, text/event-stream',
        'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': 'terminal_execute', ...headers }, JSON.stringify(body));
    return { status, ...(text && status === 200 ? JSON.parse(text).result.structuredContent : {}) };
}

async function startContainer(t, environment = {}) {
    const id = await docker('run', '--detach', ...flagsOfCompose(environment), NAME, ...commandOfCompose());
    defer(t, () => docker('rm', '--force', id));
    await up();
    return id;
}

const up = () => eventually('it answers', async () => (await request('GET', '/healthz')).status === 200);

test('the image, as compose.yaml runs it', onlyDocker, async (t) => {
    defer(t, () => docker('volume', 'rm', '--force', 'state'));
    await buildImage(t);
    await t.test('without a token, for this machine only', async (t) => {
        const id = await startContainer(t);
        assert.equal((await run({ command: 'echo kept >/root/file', computer_id: 'keeper', temporary: false })).exit_code, 0);
        const users = (await docker('top', id, '-eo', 'uid,pid,args')).split('\n').filter((line) => line.includes(NAME));
        assert.ok(users.length > 0 && users.every((line) => line.trim().startsWith('10001 ')), users.join('\n'));
        assert.equal((await request('GET', '/', { host: 'box.example' })).status, 403);
        await docker('exec', id, 'healthcheck');
        assert.match(await docker('inspect', '--format', '{{.Config.Healthcheck.Test}}', id), /healthcheck/);

        const { computer_id } = await run({ command: 'sleep 300 & true' });
        await docker('kill', id);
        await eventually('the temporary computer is gone', async () => !(await computers()).includes(computer_id));
        await docker('start', id);
        await up();
        assert.equal((await run({ command: 'cat /root/file', computer_id: 'keeper' })).stdout, 'kept\n');
        await docker('stop', '--time', '20', id);
        assert.equal(await docker('inspect', '--format', '{{.State.ExitCode}}', id), '0');
        await docker('rm', '--force', 'kilntainer-keeper');
    });
    await t.test('with a token, which is demanded', async (t) => {
        await startContainer(t, { KILNTAINERS_AUTH_TOKEN: TOKEN, ENABLE_LIFECYCLE_TOOLS: 'false' });
        assert.equal((await run({ command: 'true' })).status, 401);
        assert.equal((await run({ command: 'echo in' }, { authorization: `Bearer ${TOKEN}`, host: 'box.example' })).stdout, 'in\n');
    });
    await t.test('by itself it refuses to be open', async (t) => {
        const id = await docker('run', '--detach', NAME);
        defer(t, () => docker('rm', '--force', id));
        assert.notEqual(await docker('wait', id), '0');
        assert.match(await docker('logs', id), /lets other machines in without a token/);
    });
});
