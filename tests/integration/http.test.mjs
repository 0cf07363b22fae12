// Streamable HTTP: sessions and what belongs to them, streams that are taken up again, and the era without sessions.
import assert from 'node:assert/strict';
import test from 'node:test';
import { INITIALIZE, LEGACY, NEWEST_LEGACY, startHttp } from './support/http.mjs';
import { eventually, namedComputersIn, needsRoot } from './support/machine.mjs';

// A command that runs until another one lets it end.
const UNTIL_ENOUGH = 'until [ -e /tmp/enough ]; do sleep 0.05; done; echo survived';

for (const version of LEGACY) {
    test(`a session of ${version}`, async (t) => {
        const session = await (await startHttp(t)).session({ version });
        assert.equal((await session.run('echo hello')).stdout, 'hello\n');
        const ping = await session.start('ping').whole();
        assert.deepEqual(ping.reply.result, {});
        assert.equal((await session.end()).status, 204);
        assert.equal((await session.start('ping').whole()).status, 404);
    });
}

test('sessions have computers of their own, and one default each', async (t) => {
    const server = await startHttp(t);
    const [one, two] = [await server.session(), await server.session()];
    const first = await one.run('echo one >/tmp/mine');
    assert.equal((await one.run('cat /tmp/mine')).computer_id, first.computer_id);
    const other = await two.run('cat /tmp/mine');
    assert.notEqual(other.computer_id, first.computer_id);
    assert.notEqual(other.exit_code, 0);
    assert.equal(namedComputersIn(server.stateDir).length, 2);
    await one.end();
    await eventually('the ended session\'s computer is gone', () => namedComputersIn(server.stateDir).length === 1);
    assert.equal((await two.run('echo still')).stdout, 'still\n');
});

test('what has no session, or a dead one', async (t) => {
    const server = await startHttp(t);
    const session = await server.session();
    const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' };
    const cases = [
        ['no id', 400, server.post(list)],
        ['an unknown id', 404, server.post(list, { 'mcp-session-id': 'unknown' })],
        ['an unknown id on GET', 404, server.start('GET', { headers: { accept: 'text/event-stream', 'mcp-session-id': 'x' } })],
        ['no id on GET', 405, server.start('GET', { headers: { accept: 'text/event-stream' } })],
        ['an unknown id on DELETE', 404, server.start('DELETE', { headers: { 'mcp-session-id': 'x' } })],
        ['a revision that is not known', 400, server.post(list, { ...session.headers, 'mcp-protocol-version': '1999-01-01' })],
        ['initialize with a stale id', 200, server.post(INITIALIZE, { 'mcp-session-id': 'unknown' })],
    ];
    for (const [what, status, exchange] of cases) {
        const done = await exchange.whole();
        assert.equal(done.status, status, `${what}: ${done.text}`);
        if (status >= 400) assert.ok(JSON.parse(done.text).error.message.length > 10, what);
    }
    assert.equal((await session.run('echo unharmed')).stdout, 'unharmed\n');
});

test('what is no message, or not for this path', async (t) => {
    const server = await startHttp(t);
    const cases = [
        [415, server.post(INITIALIZE, { 'content-type': 'text/plain' })],
        [406, server.post(INITIALIZE, { accept: 'application/json' })],
        [406, server.post(INITIALIZE, { accept: 'text/html' })],
        [200, server.post(INITIALIZE, { accept: '*/*' })],
        [400, server.post('{"jsonrpc":')],
        [400, server.post('\xff\xfe')],
        [400, server.post('[]')],
        [405, server.start('PUT', { body: '{}' })],
        [404, server.start('GET', { path: '/elsewhere' })],
        [404, server.start('GET', { path: '/.well-known/oauth-protected-resource' })],
        [405, server.start('POST', { path: '/healthz', body: '' })],
        [200, server.start('GET', { path: '/healthz' })],
        [200, server.start('GET', { path: '/' })],
        [200, server.start('POST', { path: '/mcp/', headers: { 'content-type': 'application/json' }, body: JSON.stringify(INITIALIZE) })],
    ];
    for (const [i, [status, exchange]] of cases.entries()) {
        const done = await exchange.whole();
        assert.equal(done.status, status, `case ${i}: ${done.text}`);
    }
});

test('a body over the limit is refused, and the next one served', async (t) => {
    const server = await startHttp(t, { args: ['--max-body', '64k'] });
    const session = await server.session();
    const done = await session.startRun('cat', { stdin: 'x'.repeat(100000) }).whole();
    assert.equal(done.status, 413);
    assert.equal((await session.run('wc -c', { stdin: 'x'.repeat(50000) })).stdout.trim(), '50000');
});

test('a call that takes its time becomes a stream, with progress if it was asked for', async (t) => {
    const session = await (await startHttp(t)).session();
    const done = await session.startRun('sleep 1; echo done', { meta: { progressToken: 'p' } }).whole();
    assert.ok(done.isStream);
    assert.equal(done.reply.result.structuredContent.stdout, 'done\n');
    assert.ok(done.events[0].id && !done.events[0].data, 'the first event only tells where to resume');
    assert.ok(done.events[0].retry);
    session.server.check(done, NEWEST_LEGACY, 'tools/call');
});

test('B33: a broken connection is no cancel: the result waits for who resumes', needsRoot, async (t) => {
    const session = await (await startHttp(t)).session();
    const call = await session.startAndReach('until [ -e /tmp/go ]; do sleep 0.05; done; echo result');
    await call.until((c) => c.events.length > 0);
    const [{ id }] = call.events;
    call.abort();
    assert.equal((await session.run('touch /tmp/go')).exit_code, 0);
    const rest = await session.listen(id).whole();
    assert.equal(rest.status, 200);
    assert.equal(rest.reply.id, call.id);
    assert.equal(rest.reply.result.structuredContent.stdout, 'result\n');
    const again = await session.listen(id).whole(); // who lost that one as well
    assert.deepEqual(again.reply, rest.reply);
});

test('a stream that is resumed while the call runs goes on live, and its old connection ends', needsRoot, async (t) => {
    const session = await (await startHttp(t)).session();
    const call = await session.startAndReach('until [ -e /tmp/go ]; do sleep 0.05; done; echo result');
    await call.until((c) => c.events.length > 0);
    const second = session.listen(call.events[0].id);
    await second.answered;
    await call.whole();
    assert.equal(call.reply, undefined);
    await session.run('touch /tmp/go');
    assert.equal((await second.whole()).reply.result.structuredContent.stdout, 'result\n');
});

test('event ids of other sessions, and of none, are refused', async (t) => {
    const server = await startHttp(t);
    const [one, two] = [await server.session(), await server.session()];
    const call = await one.startRun('sleep 1.5').whole();
    const { id } = call.events[0];
    assert.equal((await two.listen(id).whole()).status, 400);
    for (const wrong of ['x', '-', '99-0', '1-99', '']) {
        const listening = one.listen(wrong || undefined);
        await listening.answered;
        assert.equal(listening.status, wrong ? 400 : 200, wrong);
        listening.abort();
    }
});

test('B36: notifications/cancelled ends the command, and its response without a reply', needsRoot, async (t) => {
    const server = await startHttp(t);
    const session = await server.session();
    const call = await session.startAndReach('sleep 300');
    const running = server.family();
    assert.equal((await session.notify('notifications/cancelled', { requestId: call.id })).status, 202);
    await call.whole();
    assert.equal(call.reply, undefined);
    assert.equal((await session.run('pgrep -c sleep')).stdout, '0\n');
    assert.ok(running.length > 0);
});

test('an idle session ends with its computers; one that is used does not', needsRoot, async (t) => {
    const server = await startHttp(t, { args: ['--session-timeout', '1'] });
    const listening = await server.session();
    const stream = listening.listen();
    await stream.answered;
    await listening.run('true');
    const busy = await server.session();
    const call = busy.startRun(UNTIL_ENOUGH);
    call.answered.catch(() => {});
    const idle = await server.session(); // the last: when its time is over, so is theirs
    const { computer_id } = await idle.run('true');
    await eventually('the idle one\'s computer is gone', () => !namedComputersIn(server.stateDir).includes(computer_id));
    assert.equal((await idle.start('ping').whole()).status, 404);
    await busy.run('touch /tmp/enough');
    assert.equal((await call.whole()).reply.result.structuredContent.stdout, 'survived\n');
    assert.equal((await listening.start('ping').whole()).status, 200);
    assert.equal(stream.ended, false);
    stream.abort();
    await eventually('nothing is left', () => namedComputersIn(server.stateDir).length === 0);
});

test('B34: DELETE during a run ends the call and the computer', needsRoot, async (t) => {
    const server = await startHttp(t);
    const session = await server.session();
    const call = await session.startAndReach('sleep 300');
    const listening = session.listen();
    await listening.answered;
    assert.equal((await session.end()).status, 204);
    await call.whole();
    await listening.whole();
    await eventually('the computer is gone', () => namedComputersIn(server.stateDir).length === 0);
});

test('modern: without an id each call has a computer of its own, and its answer says how to keep it', async (t) => {
    const server = await startHttp(t);
    const first = await server.modernRun({ command: 'echo kept >/tmp/file' });
    const second = await server.modernRun({ command: 'cat /tmp/file' });
    assert.notEqual(first.computer_id, second.computer_id);
    assert.match(first.note ?? '', /computer_id/);
    assert.ok(first.expires_in_s > 0 && first.expires_in_s <= 300);
    const third = await server.modernRun({ command: 'cat /tmp/file', computer_id: first.computer_id });
    assert.equal(third.stdout, 'kept\n');
    assert.equal(third.created, undefined);
});

test('B33: modern: closing the response cancels the command', needsRoot, async (t) => {
    const server = await startHttp(t);
    const { computer_id } = await server.modernRun({ command: 'true' });
    const call = server.modern('tools/call', { name: 'terminal_execute', arguments: { command: 'touch /tmp/up; sleep 300', computer_id } });
    call.answered.catch(() => {});
    await eventually('it runs', async () => (await server.modernRun({ command: '[ -e /tmp/up ]', computer_id })).exit_code === 0);
    call.abort();
    await eventually('it has ended', async () => (await server.modernRun({ command: 'pgrep -c sleep', computer_id })).stdout === '0\n');
});

test('modern: leases end what nobody uses, not what runs', needsRoot, async (t) => {
    const server = await startHttp(t, { args: ['--session-timeout', '1'] });
    const done = server.modernRun({ command: UNTIL_ENOUGH, computer_id: 'busy' });
    await eventually('it is there', () => namedComputersIn(server.stateDir).join() === 'busy');
    const idle = await server.modernRun({ command: 'true' });
    await eventually('the idle one is gone', () => namedComputersIn(server.stateDir).join() === 'busy');
    await server.modernRun({ command: 'touch /tmp/enough', computer_id: 'busy' });
    assert.equal((await done).stdout, 'survived\n');
    const again = await server.modernRun({ command: 'true', computer_id: idle.computer_id });
    assert.ok(again.created || again.code === 'computer_gone');
});
