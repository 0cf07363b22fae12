// The computer_* tools: named computers as people and models see them, in both eras and over both transports.
import assert from 'node:assert/strict';
import test from 'node:test';
import { eventually, namedComputersIn, needsRoot } from './support/machine.mjs';
import { MODERN } from './support/schemas.mjs';
import { NEWEST_LEGACY, startServer } from './support/server.mjs';

const ON = { env: { ENABLE_LIFECYCLE_TOOLS: 'true' } };
const NAMES = ['terminal_execute', 'computer_dashboard', 'computer_list', 'computer_create', 'computer_restart',
    'computer_factory_reset', 'computer_delete', 'computer_status', 'computer_cancel'];
const DASHBOARD = 'ui://kilntainers/computers';

// One call of a tool: the structured content, which text and schema are checked against by the server's support.
async function call(server, name, args = {}) {
    const reply = await server.request('tools/call', { name, arguments: args });
    assert.ok(reply.result, JSON.stringify(reply.error));
    return reply.result.structuredContent;
}

async function states(server, query) {
    const { computers } = await call(server, 'computer_list', query);
    return computers.map((c) => `${c.computer_id} ${c.state}`);
}

for (const version of [NEWEST_LEGACY, MODERN]) {
    test(`${version}: the tools, the page, and the capability`, async (t) => {
        const server = await startServer(t, { ...ON, version });
        const { tools } = (await server.request('tools/list')).result;
        assert.deepEqual(tools.map((tool) => tool.name), NAMES);
        for (const tool of tools) assert.ok(tool.outputSchema && tool.annotations && tool._meta.ui.visibility, tool.name);
        const [page] = (await server.request('resources/read', { uri: DASHBOARD })).result.contents;
        assert.equal(page.mimeType, 'text/html;profile=mcp-app');
        assert.match(page.text, /^<!doctype html>/i);
        assert.ok(page.text.length < 100 * 1024, `${page.text.length} bytes`);
        assert.equal((await server.request('resources/list')).result.resources[0].uri, DASHBOARD);
    });
}

test('a life: created, used, restarted, reset, deleted', needsRoot, async (t) => {
    const server = await startServer(t, ON);
    const made = await call(server, 'computer_create', { computer_id: 'keep', temporary: false, memory: '96m', pids: 99, env: { OWN: 'mine' }, description: 'for tests' });
    assert.deepEqual([made.ok, made.computer_id, made.temporary, made.created], [true, 'keep', false, true]);
    assert.equal((await call(server, 'computer_create', { computer_id: 'keep' })).created, false);
    const where = { computer_id: 'keep' };
    assert.equal((await server.run('echo $OWN >/root/file; sleep 300 >/dev/null & cat /root/file', where)).stdout, 'mine\n');

    const [seen] = (await call(server, 'computer_list', { metrics: true })).computers;
    assert.equal(seen.description, 'for tests');
    assert.equal(seen.limits.memory.value, 96 * 1024 * 1024);
    assert.equal(seen.last_command.exit_code, 0);
    assert.ok(seen.metrics.cpu_ns >= 0);

    assert.equal((await call(server, 'computer_restart', where)).ok, true);
    assert.equal((await server.run('cat /root/file; pgrep -c sleep', where)).stdout, 'mine\n0\n');
    const reset = await call(server, 'computer_factory_reset', where);
    assert.equal(reset.ok, true);
    assert.notEqual(reset.sandbox_id, made.sandbox_id);
    assert.equal((await server.run('ls /root/file 2>&1; echo $OWN', where)).stdout.split('\n').at(-2), 'mine');
    assert.equal((await call(server, 'computer_list')).computers[0].limits.pids.value, 99);
    assert.deepEqual(await call(server, 'computer_delete', where), { ok: true, computer_id: 'keep', deleted: true });
    assert.deepEqual(await call(server, 'computer_delete', where), { ok: true, computer_id: 'keep', deleted: false });
    for (const tool of ['computer_restart', 'computer_factory_reset']) {
        const missing = await call(server, tool, where);
        assert.equal(missing.code, 'computer_not_found');
        assert.match(missing.error, /computer_list/);
    }
    assert.deepEqual(namedComputersIn(server.stateDir), []);
});

test('what is refused before anything is made', async (t) => {
    const server = await startServer(t, ON);
    const cases = [
        [{ image: 'debian' }, 'unsupported'],
        [{ computer_id: 'Not A Slug' }, 'invalid_argument'],
        [{ memory: 'lots' }, 'invalid_argument'],
        [{ memory: 1 }, 'invalid_argument'],
        [{ memory: '99999999g' }, 'invalid_argument'],
        [{ disk: '99999g' }, 'invalid_argument'],
        [{ pids: 3 }, 'invalid_argument'],
        [{ on_idle: 'explode' }, 'invalid_argument'],
        [{ ttl: -1 }, 'invalid_argument'],
    ];
    for (const [args, code] of cases) assert.equal((await call(server, 'computer_create', args)).code, code, JSON.stringify(args));
    assert.equal((await call(server, 'computer_delete')).code, 'invalid_argument');
    assert.deepEqual(namedComputersIn(server.stateDir), []);
});

test('unknown arguments are told by every tool', needsRoot, async (t) => {
    const server = await startServer(t, ON);
    await server.run('true', { computer_id: 'box' });
    const where = { computer_id: 'box', bogus: 1 };
    const cases = [
        ['computer_list', { bogus: 1 }], ['computer_status', { bogus: 1 }], ['computer_create', where], ['computer_restart', where],
        ['computer_cancel', { ...where, command: 999 }], ['computer_delete', where],
    ];
    for (const [tool, args] of cases) assert.match((await call(server, tool, args)).note ?? '', /^unknown to this tool, and ignored: 'bogus'$/, tool);
    for (const tool of ['computer_list', 'computer_status']) {
        assert.equal((await call(server, tool)).note, undefined, tool);
        assert.equal((await call(server, tool, { computer_id: 0 })).code, 'invalid_argument', tool);
    }
});

test('a result says when the computer ends by its own terms', needsRoot, async (t) => {
    const server = await startServer(t, ON);
    await call(server, 'computer_create', { computer_id: 'box', ttl: 200, idle_timeout: 100 });
    const { expires_in_s } = await server.run('true', { computer_id: 'box' });
    assert.ok(expires_in_s > 0 && expires_in_s <= 100, expires_in_s);
});

test('a restart leaves nothing in memory', needsRoot, async (t) => {
    const server = await startServer(t, ON);
    for (const temporary of [true, false]) {
        const where = { computer_id: temporary ? 'passing' : 'lasting' };
        const made = await server.run('ipcmk -Q >/dev/null && echo gone >/dev/shm/file && ipcs -q | grep -c ^0x', { ...where, temporary });
        assert.equal(made.stdout, '1\n');
        await call(server, 'computer_restart', where);
        assert.equal((await server.run('ipcs -q | grep -c ^0x; ls /dev/shm', where)).stdout, '0\n');
    }
});

test('restarts at once are each told what came of it', needsRoot, async (t) => {
    const server = await startServer(t, ON);
    const { sandbox_id } = await call(server, 'computer_create', { computer_id: 'box', temporary: false });
    const all = await Promise.all(Array.from({ length: 8 }, () => call(server, 'computer_restart', { computer_id: 'box' })));
    for (const one of all) assert.deepEqual([one.ok, one.state, one.sandbox_id], [true, 'running', sandbox_id]);
});

test('a disk and a network of its own: what can be had is held, what can\'t is refused in words', needsRoot, async (t) => {
    const server = await startServer(t, ON);
    const { tools } = (await server.request('tools/list')).result;
    const { properties } = tools.find((tool) => tool.name === 'computer_create').inputSchema;
    const where = { computer_id: 'small' };
    const without = await call(server, 'computer_create', { ...where, network: true });
    assert.equal(without.code, 'unsupported');
    assert.match(without.error, /have no network/);
    if (!properties.disk) { // a machine without loop devices
        assert.equal((await call(server, 'computer_create', { ...where, disk: '32m' })).code, 'unsupported');
        return;
    }
    const fill = 'head -c 64M /dev/zero >/root/big 2>/dev/null; stat -c %s /root/big';
    const expectHeld = async () => {
        const { stdout, disk_full } = await server.run(fill, where);
        assert.ok(Number(stdout) < 32 * 1024 * 1024 && disk_full, stdout);
        const [{ limits, network }] = (await call(server, 'computer_list')).computers;
        assert.deepEqual([limits.disk, network], [{ value: 32 * 1024 * 1024, enforced: true }, false]);
    };
    assert.equal((await call(server, 'computer_create', { ...where, temporary: false, disk: '32m', network: false })).created, true);
    await expectHeld();
    await call(server, 'computer_restart', where);
    await expectHeld();
    await call(server, 'computer_factory_reset', where);
    await expectHeld();
    const other = await call(server, 'computer_create', { ...where, disk: '64m' });
    assert.match(other.error, /exists already with disk=33554432/);
    await call(server, 'computer_delete', where);
});

test('deleting and resetting a computer ends the calls that run on it, and the id is free at once', needsRoot, async (t) => {
    const server = await startServer(t, ON);
    for (const [tool, code] of [['computer_delete', 'computer_deleted'], ['computer_factory_reset', 'computer_gone'], ['computer_restart', 'computer_gone']]) {
        const running = await server.startAndReach('sleep 300', { computer_id: 'busy' });
        assert.equal((await call(server, tool, { computer_id: 'busy' })).ok, true, tool);
        assert.equal((await running.reply).result.structuredContent.code, code, tool);
        assert.equal((await server.run('echo again', { computer_id: 'busy' })).stdout, 'again\n', tool);
    }
});

test('one command is cancelled by its number', needsRoot, async (t) => {
    const server = await startServer(t, ON);
    const running = await server.startAndReach('sleep 300', { computer_id: 'box' });
    const { computers: [box] } = await call(server, 'computer_status');
    assert.match(box.running[0].text, /sleep 300/);
    const wish = { computer_id: 'box', command: box.running[0].command };
    assert.deepEqual(await call(server, 'computer_cancel', wish), { ok: true, cancelled: true });
    await running.reply.catch(() => {});
    assert.deepEqual(await call(server, 'computer_cancel', wish), { ok: true, cancelled: false });
});

test('a stopped computer is listed by the next server, and may be managed there', needsRoot, async (t) => {
    const first = await startServer(t, ON);
    for (const id of ['a', 'b', 'c']) await first.run('echo kept >/root/file', { computer_id: id, temporary: false });
    const second = await startServer(t, { ...ON, stateDir: first.stateDir });
    assert.deepEqual(await states(second), ['a running', 'b running', 'c running']);
    assert.equal((await call(second, 'computer_delete', { computer_id: 'a' })).code, 'busy');
    await first.stop();
    assert.deepEqual(await states(second), ['a stopped', 'b stopped', 'c stopped']);
    assert.equal((await call(second, 'computer_restart', { computer_id: 'a' })).ok, true);
    assert.equal((await second.run('cat /root/file', { computer_id: 'a' })).stdout, 'kept\n');
    assert.equal((await call(second, 'computer_factory_reset', { computer_id: 'b' })).ok, true);
    assert.notEqual((await second.run('cat /root/file', { computer_id: 'b' })).exit_code, 0);
    assert.equal((await call(second, 'computer_delete', { computer_id: 'c' })).deleted, true);
    assert.deepEqual(await states(second, { state: 'running', prefix: 'a' }), ['a running']);
    for (const id of ['a', 'b']) await call(second, 'computer_delete', { computer_id: id });
});

test('pages, filters, and a thousand names', needsRoot, async (t) => {
    const server = await startServer(t, ON);
    for (const id of ['a1', 'a2', 'b1']) await call(server, 'computer_create', { computer_id: id });
    assert.deepEqual(await states(server, { prefix: 'a' }), ['a1 running', 'a2 running']);
    const page = await call(server, 'computer_list', { limit: 2 });
    assert.deepEqual([page.count, page.next], [2, 'a2']);
    assert.deepEqual(await states(server, { after: page.next }), ['b1 running']);
});

test('time to live and idle time remove and stop computers', needsRoot, async (t) => {
    const server = await startServer(t, ON);
    await call(server, 'computer_create', { computer_id: 'short', temporary: false, ttl: 1 });
    await call(server, 'computer_create', { computer_id: 'lazy', temporary: false, idle_timeout: 1 });
    await call(server, 'computer_create', { computer_id: 'works', temporary: false, idle_timeout: 1 });
    const running = await server.startAndReach('until [ -e /root/enough ]; do sleep 0.05; done; echo done', { computer_id: 'works' });
    await eventually('the first is gone, the second stopped', async () =>
        (await states(server)).join() === 'lazy stopped,works running');
    await server.run('touch /root/enough', { computer_id: 'works' });
    assert.equal((await running.reply).result.structuredContent.stdout, 'done\n');
    for (const id of ['lazy', 'works']) await call(server, 'computer_delete', { computer_id: id });
});

test('no more than --max-computers', needsRoot, async (t) => {
    const server = await startServer(t, { ...ON, args: ['--max-computers', '2'] });
    for (const id of ['a', 'b']) assert.equal((await call(server, 'computer_create', { computer_id: id })).ok, true);
    const refused = await call(server, 'computer_create', { computer_id: 'c' });
    assert.equal(refused.code, 'limit');
    assert.match(refused.error, /computer_delete|computer_list/);
    await call(server, 'computer_delete', { computer_id: 'a' });
    assert.equal((await call(server, 'computer_create', { computer_id: 'c' })).ok, true);
});
