// Streamable HTTP: who gets in and as whom, who may watch, how much there may be at once, and the end.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { INITIALIZE, startHttp, tokenFile } from './support/http.mjs';
import { allGone, eventually, namedComputersIn, needsRoot, temporaryFolder, untilReaped } from './support/machine.mjs';

const TOKEN = 'a-token-for-tests';

test('a token is demanded of everybody, and says who it is', async (t) => {
    const file = tokenFile(t, { alice: 'first-token-of-alice', bob: 'second-token-of-bob' });
    const server = await startHttp(t, { args: ['--auth-token-file', file] });
    const bearer = (token) => ({ headers: { authorization: `Bearer ${token}` } });
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: 'Basic YTpi' }, { authorization: 'Bearer \xff\xe9' }]) {
        const done = await server.post(INITIALIZE, headers).whole();
        assert.equal(done.status, 401);
        assert.match(done.headers['www-authenticate'], /^Bearer/);
    }
    const alice = await server.session(bearer('first-token-of-alice'));
    const bob = await server.session(bearer('second-token-of-bob'));
    await alice.run('echo private >/tmp/x', { computer_id: 'box' });
    const other = await bob.run('cat /tmp/x', { computer_id: 'box' });
    assert.equal(other.created, true, 'the same id is another computer');
    const stolen = await server.post({ jsonrpc: '2.0', id: 9, method: 'ping' }, { ...alice.headers, ...bob.own }).whole();
    assert.equal(stolen.status, 404, 'a session of somebody else is as absent');
    fs.writeFileSync(file, 'alice another-token-of-alice\n');
    server.child.kill('SIGHUP');
    await eventually('the tokens are new', async () => (await bob.start('ping').whole()).status === 401);
    assert.equal((await server.post({ jsonrpc: '2.0', id: 9, method: 'ping' },
        { ...alice.headers, authorization: 'Bearer another-token-of-alice' }).whole()).status, 200);
});

test('KILNTAINERS_AUTH_TOKEN alone is the token of the one user', async (t) => {
    const server = await startHttp(t, { env: { KILNTAINERS_AUTH_TOKEN: TOKEN }, address: ['--host', '0.0.0.0', '--port', '0'] });
    assert.equal((await server.post(INITIALIZE).whole()).status, 401);
    const session = await server.session({ headers: { authorization: `Bearer ${TOKEN}` } });
    assert.equal((await session.run('echo in')).stdout, 'in\n');
    await server.stop();
    assert.ok(!server.stderr.includes(TOKEN));
});

test('B39: other hosts and origins', async (t) => {
    const server = await startHttp(t, { args: ['--allowed-origin', 'https://app.example', '--allowed-host', 'box.example'] });
    const status = async (headers) => (await server.post(INITIALIZE, headers).whole()).status;
    assert.equal(await status({ host: 'evil.example' }), 403);
    assert.equal(await status({ host: `localhost:${server.address.port}` }), 200);
    assert.equal(await status({ host: 'box.example' }), 200);
    assert.equal(await status({ origin: 'https://evil.example' }), 403);
    assert.equal(await status({ origin: 'null' }), 403);
    const page = await server.post(INITIALIZE, { origin: 'https://app.example' }).whole();
    assert.equal(page.headers['access-control-allow-origin'], 'https://app.example');
    assert.match(page.headers['access-control-expose-headers'], /mcp-session-id/i);
    const preflight = await server.fetch('OPTIONS', { headers: { origin: 'https://app.example', 'access-control-request-method': 'POST' } });
    assert.equal(preflight.status, 204);
    assert.match(preflight.headers['access-control-allow-headers'], /mcp-protocol-version/i);
    assert.equal((await server.fetch('OPTIONS', { headers: { origin: 'https://evil.example' } })).status, 403);
    assert.equal((await server.fetch('GET', { path: '/healthz', headers: { host: 'probe.example' } })).status, 200);
});

// RFC 9112, section 3.2.2: as proxies are asked, and then Host says nothing.
test('what an absolute target names is whom it is for', async (t) => {
    const server = await startHttp(t, { args: ['--allowed-host', 'box.example'] });
    const { port } = server.address;
    const evil = { host: 'evil.example' };
    const cases = [
        { target: `http://127.0.0.1:${port}/`, status: 200 },
        { target: 'HTTPS://Box.Example/', status: 200 },
        { target: 'http://localhost', status: 200 },
        { target: 'http://localhost?a=/b', status: 200 },
        { target: 'http://localhost/x', status: 404 },
        { target: 'http://localhost//', status: 404 },
        { target: 'http://localhost/', headers: evil, status: 200 },
        { target: 'http://localhost/', headers: { origin: 'http://localhost' }, status: 200 },
        { target: 'http://localhost/', headers: { ...evil, origin: 'http://evil.example' }, status: 403 },
        { target: 'http://evil.example/', headers: { host: 'localhost' }, status: 403 },
        { target: 'http://evil.example/', headers: { host: 'localhost', origin: 'http://evil.example' }, status: 403 },
        { target: 'http://evil.example/healthz', status: 200 },
        { target: 'http://localhost@evil.example/', status: 403 },
        { target: 'http://localhost#@evil.example/', status: 403 },
        { target: 'http:///', status: 403 },
        { target: 'http://', status: 403 },
        { target: 'http://?http://localhost/', status: 403 },
        { target: 'ftp://localhost/', status: 404 },
    ];
    for (const { target, headers, status } of cases)
        assert.equal((await server.fetch('GET', { path: target, headers })).status, status, `${target} ${JSON.stringify(headers ?? {})}`);
    const started = await server.fetch('POST', { path: `http://localhost:${port}/mcp`, body: JSON.stringify(INITIALIZE),
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' } });
    assert.equal(started.status, 200);
});

test('a unix socket is its owner\'s, and goes with the server', async (t) => {
    const socket = path.join(temporaryFolder(t, 'run-'), 'mcp.sock');
    const server = await startHttp(t, { address: ['--unix-socket', socket], env: { KILNTAINERS_AUTH_TOKEN: TOKEN } });
    assert.equal(fs.statSync(socket).mode & 0o777, 0o600);
    const session = await server.session();
    assert.equal((await session.run('echo in')).stdout, 'in\n');
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    assert.equal(fs.existsSync(socket), false);
});

test('SIGTERM lets calls end, refuses new ones, and leaves nothing', needsRoot, async (t) => {
    const server = await startHttp(t);
    const session = await server.session();
    const call = await session.startAndReach('sleep 1; echo finished');
    const stopped = server.stop();
    assert.equal((await call.whole()).reply.result.structuredContent.stdout, 'finished\n');
    assert.deepEqual(await stopped, { code: 0, signal: null });
    assert.deepEqual(namedComputersIn(server.stateDir), []);
});

test('SIGTERM does not wait longer than --stop-timeout', needsRoot, async (t) => {
    const server = await startHttp(t, { args: ['--stop-timeout', '0.2'] });
    const session = await server.session();
    const call = await session.startAndReach('sleep 300');
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    await call.whole();
    assert.deepEqual(namedComputersIn(server.stateDir), []);
});

test('two servers on one state directory, and one that was killed before', needsRoot, async (t) => {
    const first = await startHttp(t);
    const second = await startHttp(t, { stateDir: first.stateDir });
    const [one, two] = [await first.session(), await second.session()];
    assert.equal((await one.run('echo keep >/root/file', { computer_id: 'kept', temporary: false })).exit_code, 0);
    await one.run('true');
    assert.equal((await two.run('true', { computer_id: 'kept' })).code, 'busy');
    const all = first.family();
    first.child.kill('SIGKILL');
    await first.exited;
    await allGone(all.filter((p) => p.pid !== first.pid));
    const third = await startHttp(t, { stateDir: first.stateDir });
    const three = await third.session();
    assert.equal((await three.run('cat /root/file', { computer_id: 'kept' })).stdout, 'keep\n');
    await eventually('the dead server\'s temporary computer is gone', () => namedComputersIn(first.stateDir).join() === 'kept');
    await untilReaped(first.stateDir);
});

test('more sessions than there may be', async (t) => {
    const server = await startHttp(t, { args: ['--max-sessions', '2'] });
    const first = await server.session();
    await server.session();
    const refused = await server.post(INITIALIZE).whole();
    assert.equal(refused.status, 503);
    await first.end();
    await server.session();
});

test('requests are logged to standard error, and nobody waits for who doesn\'t read that', async (t) => {
    const server = await startHttp(t, { args: ['--access-log', '-'] });
    await server.fetch('GET', { path: '/first' });
    await eventually('it is logged', () => server.stderr.split('\n').some((line) => line.startsWith('{') && JSON.parse(line).path === '/first'));
    server.child.stderr.pause();
    for (let i = 0; i < 200; i++) assert.equal((await server.fetch('GET', { path: `/${'x'.repeat(8000)}` })).status, 404);
    server.child.stderr.resume();
    await eventually('what was lost is told, by the next line that there is room for', async () => {
        await server.fetch('GET', { path: '/last' });
        return /"lost_lines":\d+/.test(server.stderr);
    });
});

test('how the server is, for those who may watch', async (t) => {
    const folder = temporaryFolder(t, 'watch-');
    const [token, log] = [path.join(folder, 'token'), path.join(folder, 'access.log')];
    fs.writeFileSync(token, 'the-watchers-token\n');
    const server = await startHttp(t, { args: ['--access-log', log] });
    await (await server.session()).run('exit 3');
    await (await server.session()).run('true', { working_directory: '/nonexistent' });
    await eventually('it is ready', async () => (await server.fetch('GET', { path: '/readyz' })).status === 200);
    const metrics = (await server.fetch('GET', { path: '/metrics' })).text;
    assert.match(metrics, /^sandbox_calls_total\{tool="terminal_execute",outcome="ok"\} 1$/m);
    assert.match(metrics, /^sandbox_calls_total\{tool="terminal_execute",outcome="cwd_not_found"\} 1$/m);
    assert.match(metrics, /^sandbox_call_seconds_count\{tool="terminal_execute"\} 2$/m);
    assert.match(metrics, /^sandbox_sessions 2$/m);
    for (const line of metrics.trim().split('\n')) assert.match(line, /^(# (HELP|TYPE) \w+ .+|\w+(\{[^}]*\})? [\d.e+]+)$/);
    const lines = fs.readFileSync(log, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
    assert.ok(lines.some((l) => l.path === '/mcp' && l.method === 'POST' && l.status === 200 && l.principal === 'local' && l.complete));
    fs.renameSync(log, `${log}.1`);
    server.child.kill('SIGHUP');
    await eventually('the log is opened anew', async () => (await server.fetch('GET', { path: '/healthz' })) && fs.existsSync(log));

    const open = { authorization: 'Bearer the-watchers-token' };
    const guarded = await startHttp(t, { args: ['--metrics-token-file', token], env: { KILNTAINERS_AUTH_TOKEN: TOKEN } });
    assert.equal((await guarded.fetch('GET', { path: '/metrics' })).status, 401);
    assert.equal((await guarded.fetch('GET', { path: '/metrics', headers: { authorization: `Bearer ${TOKEN}` } })).status, 401);
    assert.equal((await guarded.fetch('GET', { path: '/metrics', headers: open })).status, 200);
    assert.equal((await guarded.post(INITIALIZE, open).whole()).status, 401);
    const closed = await startHttp(t, { env: { KILNTAINERS_AUTH_TOKEN: TOKEN } });
    assert.equal((await closed.fetch('GET', { path: '/metrics' })).status, 401);
});
