// Computers that are modules from their beginning to their end, and servers from theirs.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { allGone, eventually, namedComputersIn, temporaryFolder } from '../integration/support/machine.mjs';
import { needsWasm, call, run, says, startWasm } from './support/wasm.mjs';

const KEPT = { computer_id: 'kept', temporary: false };

test('a temporary computer ends with its session, a permanent one is there again', needsWasm, async (t) => {
    const first = await startWasm(t);
    await says(first, ['save', 'file'], { stdin: 'kept\n', ...KEPT });
    await says(first, ['save', 'file'], { stdin: 'lost\n' });
    assert.equal(namedComputersIn(first.stateDir).length, 2);
    assert.deepEqual(await first.stop(), { code: 0, signal: null });
    assert.deepEqual(namedComputersIn(first.stateDir), ['kept']);
    const second = await startWasm(t, { stateDir: first.stateDir });
    assert.equal(await says(second, ['cat', 'file'], { computer_id: 'kept' }), 'kept\n');
    assert.ok(!(await says(second, ['list'])).includes('file'), 'a new one is empty');
});

for (const signal of ['SIGTERM', 'SIGKILL']) {
    test(`${signal} with commands running leaves nothing behind`, needsWasm, async (t) => {
        const server = await startWasm(t);
        await says(server, ['save', 'file'], { stdin: 'kept\n', ...KEPT });
        await says(server, ['echo']);
        const idle = server.family().length;
        for (const args of [['spin'], ['sleep', '600'], ['flood'], ['spin']]) server.startExec({ args }).reply.catch(() => {});
        await eventually('they run', () => server.family().length >= idle + 4);
        await server.kill(signal);
        const next = await startWasm(t, { stateDir: server.stateDir });
        assert.equal(await says(next, ['cat', 'file'], { computer_id: 'kept' }), 'kept\n');
        await eventually('what was temporary is removed', () => namedComputersIn(server.stateDir).length === 1);
    });
}

test('what loads the module is killed: the next command has another one', needsWasm, async (t) => {
    const server = await startWasm(t);
    await says(server, ['save', 'file'], { stdin: 'here\n' });
    const others = server.family().filter((p) => p.pid !== server.pid);
    assert.ok(others.length >= 1, 'there is something to kill');
    for (const { pid } of others) process.kill(pid, 'SIGKILL');
    await allGone(others);
    const values = [];
    for (let i = 0; i < 3 && !values.some((v) => v.stdout); i++) values.push(await call(server, ['cat', 'file']));
    assert.equal(values.at(-1).stdout, 'here\n', JSON.stringify(values));
    assert.ok(values.length <= 2, 'at most one call has noticed');
});

test('the same while commands run: they end with an error, and the next ones run', needsWasm, async (t) => {
    const server = await startWasm(t);
    await says(server, ['echo']);
    const idle = server.family().length;
    const running = [call(server, ['spin']), call(server, ['sleep', '600'])];
    await eventually('they run', () => server.family().length >= idle + 2);
    for (const { pid } of server.family().filter((p) => p.pid !== server.pid && p.parent === server.pid)) process.kill(pid, 'SIGKILL');
    for (const value of await Promise.all(running)) assert.ok(value.error || value.exit_code !== 0, JSON.stringify(value));
    await eventually('the next one runs', async () => (await call(server, ['echo', 'again'])).stdout === 'again\n');
});

test('two servers: one cache, own computers, and a permanent one is used by one at a time', needsWasm, async (t) => {
    const stateDir = temporaryFolder(t, 'state-');
    const servers = await Promise.all([startWasm(t, { stateDir }), startWasm(t, { stateDir })]);
    await Promise.all(servers.map((server, i) => says(server, ['save', 'file'], { stdin: `of ${i}\n` })));
    for (const [i, server] of servers.entries()) assert.equal(await says(server, ['cat', 'file']), `of ${i}\n`);
    await says(servers[0], ['save', 'file'], { stdin: 'shared\n', ...KEPT });
    assert.equal((await call(servers[1], ['cat', 'file'], { computer_id: 'kept' })).code, 'busy');
    await servers[0].stop();
    assert.equal(await says(servers[1], ['cat', 'file'], { computer_id: 'kept' }), 'shared\n');
});

test('tools for named computers', needsWasm, async (t) => {
    const server = await startWasm(t, { args: ['--lifecycle-tools'] });
    const tool = async (name, args) => (await server.request('tools/call', { name, arguments: args })).result;
    assert.equal((await tool('computer_create', { computer_id: 'build', temporary: false })).structuredContent.created, true);
    await says(server, ['save', 'file'], { stdin: 'kept\n', computer_id: 'build' });
    assert.match(JSON.stringify((await tool('computer_list', { metrics: true })).structuredContent), /"build"/);
    assert.ok(!(await tool('computer_restart', { computer_id: 'build' })).isError);
    assert.equal(await says(server, ['cat', 'file'], { computer_id: 'build' }), 'kept\n');
    assert.ok(!(await tool('computer_factory_reset', { computer_id: 'build' })).isError);
    assert.equal((await run(server, ['cat', 'file'], { computer_id: 'build' })).exit_code, 1);
    const idle = server.family().length;
    const running = call(server, ['sleep', '600'], { computer_id: 'build' });
    await eventually('it runs', () => server.family().length > idle);
    assert.equal((await tool('computer_delete', { computer_id: 'build' })).structuredContent.deleted, true);
    assert.equal((await running).code, 'computer_deleted');
    await eventually('its command is gone', () => server.family().length <= idle);
    assert.deepEqual(namedComputersIn(server.stateDir), []);
});

test('deep and wide folders are removed', needsWasm, async (t) => {
    const server = await startWasm(t);
    await says(server, ['mkdir', 'a']);
    const stateful = fs.readdirSync(server.stateDir, { recursive: true }).find((name) => name.endsWith('/a'));
    let folder = path.join(server.stateDir, stateful);
    for (let i = 0; i < 200; i++) fs.mkdirSync((folder = path.join(folder, 'nested')));
    await server.stop();
    await startWasm(t, { stateDir: server.stateDir }); // removes what took longer than a server waits
    await eventually('nothing is left', () => namedComputersIn(server.stateDir).length === 0);
});
