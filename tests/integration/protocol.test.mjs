// MCP on stdio: both eras, and lines that are not what they should be.
import assert from 'node:assert/strict';
import test from 'node:test';
import { needsRoot, eventually } from './support/machine.mjs';
import { LEGACY, MODERN } from './support/schemas.mjs';
import { modernMeta, startServer } from './support/server.mjs';

for (const version of LEGACY) {
    test(`initialize, lists and ping in ${version}`, async (t) => {
        const server = await startServer(t, { version: null });
        const result = await server.initialize(version);
        assert.equal(result.protocolVersion, version);
        assert.ok(result.serverInfo.name && result.serverInfo.version);
        assert.ok(result.capabilities.tools);
        assert.deepEqual((await server.request('ping')).result, {});
        assert.deepEqual((await server.request('tools/list')).result.tools.map((tool) => tool.name), ['terminal_execute']);
        assert.deepEqual((await server.request('prompts/list')).result, { prompts: [] });
        assert.deepEqual((await server.request('resources/list')).result, { resources: [] });
        assert.deepEqual((await server.request('resources/templates/list')).result, { resourceTemplates: [] });
        const missing = (await server.request('resources/read', { uri: 'ui://no/such' })).error;
        assert.equal(missing.code, -32002);
        assert.equal((await server.request('no/such/method')).error.code, -32601);
    });
}

test('a version from elsewhere is answered with the newest legacy one', async (t) => {
    for (const version of ['1999-01-01', MODERN, 'latest']) {
        const server = await startServer(t, { version: null });
        assert.equal((await server.initialize(version)).protocolVersion, LEGACY.at(-1));
    }
});

test('discover, lists and errors in the modern era', async (t) => {
    const server = await startServer(t, { version: null });
    server.modern = true;
    const { result } = await server.request('server/discover');
    assert.ok(result.supportedVersions.includes(MODERN));
    assert.ok(result._meta['io.modelcontextprotocol/serverInfo'].name);
    const tools = (await server.request('tools/list')).result.tools;
    assert.deepEqual(tools.map((tool) => tool.name), ['terminal_execute']);
    assert.deepEqual((await server.request('prompts/list')).result.prompts, []);
    assert.deepEqual((await server.request('resources/list')).result.resources, []);
    assert.deepEqual((await server.request('resources/templates/list')).result.resourceTemplates, []);
    const missing = (await server.request('resources/read', { uri: 'ui://no/such' })).error;
    assert.equal(missing.code, -32602);
    assert.equal(missing.data.uri, 'ui://no/such');
    for (const gone of ['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'no/such/method']) {
        assert.equal((await server.request(gone)).error.code, -32601, gone);
    }
});

test('a modern request that lacks something, or names another version', async (t) => {
    const server = await startServer(t, { version: MODERN });
    const bare = (meta) => server.request('tools/list', { _meta: meta }, { modern: false });
    const key = (name) => `io.modelcontextprotocol/${name}`;
    assert.equal((await bare({ [key('protocolVersion')]: MODERN })).error.code, -32602);
    assert.equal((await bare({ ...modernMeta(), [key('clientCapabilities')]: 5 })).error.code, -32602);
    const { error } = await bare({ ...modernMeta(), [key('protocolVersion')]: 'v999.0.0' });
    assert.equal(error.code, -32022);
    assert.deepEqual(error.data, { supported: [MODERN], requested: 'v999.0.0' });
    const anonymous = modernMeta();
    delete anonymous[key('clientInfo')];
    server.expect('anonymous', 'tools/list');
    await server.send({ jsonrpc: '2.0', id: 'anonymous', method: 'tools/list', params: { _meta: anonymous } });
    assert.ok((await server.next((m) => m.id === 'anonymous')).message.result, 'clientInfo is not demanded');
});

test('both eras on one process, in turn', needsRoot, async (t) => {
    const server = await startServer(t);
    const legacy = await server.run('echo shared >/tmp/file; cat /tmp/file');
    const modern = await server.exec({ command: 'cat /tmp/file', computer_id: legacy.computer_id }, { modern: true });
    assert.equal(modern.value.stdout, 'shared\n');
    assert.equal(modern.resultType, 'complete');
    assert.ok((await server.request('server/discover', {}, { modern: true })).result);
    assert.equal((await server.run('cat /tmp/file')).stdout, 'shared\n');
});

test('the tool as it is listed', async (t) => {
    const server = await startServer(t, { version: null });
    await server.initialize();
    const [tool] = (await server.request('tools/list')).result.tools;
    const { properties } = tool.inputSchema;
    assert.deepEqual(Object.keys(properties).sort(), ['args', 'command', 'computer_id', 'env', 'output_encoding', 'output_limit', 'stdin',
        'stdin_base64', 'temporary', 'timeout', 'working_directory']);
    assert.ok(!JSON.stringify(tool.inputSchema).includes('"default"'));
    assert.equal(tool.outputSchema.type, 'object');
    assert.deepEqual(tool._meta.ui.visibility, ['model', 'app']);
    assert.ok(tool.annotations);
    assert.match(tool.description, /network/i);
    const again = (await server.request('tools/list')).result.tools;
    assert.deepEqual(again, [tool]);
});

test('the description can be replaced, or gone on with', async (t) => {
    const described = async (...args) => {
        const server = await startServer(t, { args, version: null });
        await server.initialize();
        return (await server.request('tools/list')).result.tools[0].description;
    };
    assert.equal(await described('--tool-instruction-override', 'Only this.'), 'Only this.');
    assert.equal(await described('--extended-tool-instruction', 'And this.'), `${await described()}\n\nAnd this.`);
});

const ids = ['0', '-1', '7', '9007199254740993', '123456789012345678901234567890', '""', '"a b"', '"\\u00e9"', '"é"', '"\\"\\\\"',
    '"\\u0000"', `"${'x'.repeat(500)}"`];
for (const id of ids) {
    test(`the id ${id.slice(0, 40)} comes back as it went`, async (t) => {
        const server = await startServer(t);
        server.expect(JSON.parse(id), 'ping');
        await server.write(`{"jsonrpc":"2.0","id":${id},"method":"ping"}\n`);
        const { line } = await server.next((m) => m.id === JSON.parse(id));
        assert.ok(line.includes(`"id":${id}`), line);
    });
}

const wrong = [
    // what, the line, the error's code, the error's id: also of a line that isn't JSON, where it can be read without doubt
    ['no JSON', 'hello', -32700, null],
    ['half of an object', '{"jsonrpc":"2.0","id":1,"meth', -32700, null],
    ['two values', '{} {}', -32700, null],
    ['a byte order mark', '\ufeff{"jsonrpc":"2.0","id":1,"method":"ping"}', -32700, null],
    ['a NUL byte', Buffer.from('{"jsonrpc":"2.0","id":1,"method":"p\0ing"}'), -32700, 1],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]), -32700, null],
    ['half of a surrogate pair', '{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', -32700, 1],
    ['a member twice', '{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}', -32700, 1],
    ['an id twice', '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700, null],
    ['100000 brackets', '['.repeat(100000), -32700, null],
    ['deep nesting', `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":${'['.repeat(500)}${']'.repeat(500)}}}`, -32700, 1],
    ['an id with a leading zero', '{"jsonrpc":"2.0","id":01,"method":"ping"}', -32700, null],
    ['a string', '"ping"', -32600, null],
    ['an empty batch', '[]', -32600, null],
    ['a batch, in a revision without them', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, null],
    ['no version', '{"id":1,"method":"ping"}', -32600, 1],
    ['an older version', '{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, 1],
    ['a method that is no string', '{"jsonrpc":"2.0","id":"m","method":5}', -32600, 'm'],
    ['a null id', '{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, null],
    ['an object as id', '{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, null],
    ['a fraction as id', '{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, null],
    ['a list as params', '{"jsonrpc":"2.0","id":2,"method":"ping","params":[]}', -32600, 2],
];
for (const [what, line, code, id] of wrong) {
    test(`${what}: an error, and the next request is answered`, async (t) => {
        const server = await startServer(t);
        await server.write(Buffer.concat([Buffer.from(line), Buffer.from('\n')]));
        const { message } = await server.next((m) => m.error);
        assert.ok(message.error.code === code || (code === -32600 && message.error.code === -32602),
            `${message.error.code}: ${message.error.message}`);
        assert.deepEqual(message.id ?? null, id);
        assert.deepEqual((await server.request('ping')).result, {});
    });
}

test('a line of 64 MiB: one error, and the next request is answered', async (t) => {
    const server = await startServer(t);
    const piece = Buffer.alloc(1024 * 1024, 'x');
    for (let i = 0; i < 64; i++) await server.write(piece);
    await server.write('\n');
    assert.ok((await server.next((m) => m.error)).message.error.code <= -32600);
    assert.deepEqual((await server.request('ping')).result, {});
    assert.equal(server.messages.filter(({ message }) => message.error).length, 1);
});

test('what is no request gets no answer', async (t) => {
    const server = await startServer(t);
    const before = server.messages.length;
    await server.write('\n \r\n');
    await server.notify('no/such/notification', {});
    await server.notify('notifications/cancelled', { requestId: 'never seen' });
    await server.notify('notifications/cancelled');
    await server.send({ jsonrpc: '2.0', id: 99, result: {} });
    await server.request('ping');
    assert.equal(server.messages.length, before + 1);
});

test('CRLF ends a line, and a message may come in pieces', async (t) => {
    const server = await startServer(t);
    server.expect('crlf', 'ping');
    server.expect('pieces', 'ping');
    await server.write('{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r\n');
    await server.next((m) => m.id === 'crlf');
    for (const byte of '{"jsonrpc":"2.0","id":"pieces","method":"ping"}\n') await server.write(byte);
    await server.next((m) => m.id === 'pieces');
});

test('2025-03-26 takes batches', needsRoot, async (t) => {
    const server = await startServer(t, { version: '2025-03-26' });
    server.expect('a', 'ping');
    server.expect('b', 'tools/call', { tool: server.tool });
    server.expect('c', 'no/such/method');
    await server.send([
        { jsonrpc: '2.0', id: 'a', method: 'ping' },
        { jsonrpc: '2.0', method: 'notifications/initialized' },
        { jsonrpc: '2.0', id: 'b', method: 'tools/call', params: { name: server.tool, arguments: { command: 'echo hi' } } },
        { jsonrpc: '2.0', id: 'c', method: 'no/such/method' },
    ]);
    const { message } = await server.next((m) => Array.isArray(m));
    const byId = Object.fromEntries(message.map((m) => [m.id, m]));
    assert.deepEqual(Object.keys(byId).sort(), ['a', 'b', 'c']);
    assert.deepEqual(byId.a.result, {});
    assert.equal(byId.b.result.structuredContent.stdout, 'hi\n');
    assert.equal(byId.c.error.code, -32601);

    const before = server.messages.length;
    await server.send([{ jsonrpc: '2.0', method: 'notifications/initialized' }]);
    await server.request('ping');
    assert.equal(server.messages.length, before + 1, 'a batch of notifications has no answer');
});

for (const modern of [false, true]) {
    test(`B36: a call that is cancelled, ${modern ? 'modern' : 'legacy'}`, needsRoot, async (t) => {
        const server = await startServer(t, { version: modern ? MODERN : LEGACY.at(-1) });
        const { value: first } = await server.exec({ command: 'true', computer_id: 'box' });
        assert.equal(first.created, true);
        const call = await server.startAndReach('sleep 300', { computer_id: 'box' });
        call.reply.catch(() => {}); // never comes
        await server.notify('notifications/cancelled', { requestId: call.id, reason: 'test', ...(modern && { _meta: modernMeta() }) });
        const count = 'n=0; for p in /proc/[0-9]*/comm; do read -r c 2>/dev/null <$p && [ "$c" = sleep ] && n=$((n+1)); done; echo $n';
        await eventually('the command is gone', async () => (await server.run(count, { computer_id: 'box' })).stdout === '0\n');
        assert.ok(!server.messages.some(({ message }) => message.id === call.id), 'no answer');
    });
}

test('a heartbeat while a command runs, if it was asked for', needsRoot, async (t) => {
    const server = await startServer(t);
    const untilTold = 'until [ -e /tmp/enough ]; do sleep 0.1; done';
    const silent = server.startExec({ command: untilTold });
    const { reply } = server.startExec({ command: untilTold }, { meta: { progressToken: 'beat' } });
    await server.next((m) => m.method === 'notifications/progress');
    await server.run('touch /tmp/enough');
    const { result } = await reply;
    assert.equal(result.structuredContent.exit_code, 0);
    const end = server.messages.findIndex(({ message }) => message.result === result);
    await silent.reply;
    const beats = server.messages.map(({ message }) => message).filter((m) => m.method === 'notifications/progress');
    assert.ok(beats.length >= 1);
    assert.ok(beats.every((m) => m.params.progressToken === 'beat'));
    assert.ok(beats.every((m, i) => i === 0 || m.params.progress > beats[i - 1].params.progress));
    assert.ok(server.messages.slice(end).every(({ message }) => message.method !== 'notifications/progress'), 'none after the answer');
});

test('a request goes on being read while tools run', needsRoot, async (t) => {
    const server = await startServer(t);
    await server.run('mkfifo /tmp/gate');
    const held = await server.startAndReach('read -r x </tmp/gate; echo $x');
    assert.deepEqual((await server.request('ping')).result, {});
    assert.equal((await server.request('tools/list')).result.tools.length, 1);
    await server.run('echo go >/tmp/gate');
    assert.equal((await held.reply).result.structuredContent.stdout, 'go\n');
});

test('B28: lists and discover need no backend', async (t) => {
    const server = await startServer(t, { version: null, args: ['--rootfs', '/nonexistent-root'] });
    server.modern = true;
    const answered = server.request('server/discover').then(() => 'answered');
    if (await Promise.race([answered.catch(() => 'refused'), server.exited.then(() => 'refused')]) === 'refused') {
        assert.match(server.stderr, /\/nonexistent-root/, 'or the start is refused in words');
        return;
    }
    assert.equal((await server.request('tools/list')).result.tools.length, 1);
    const { isError, text } = await server.exec({ command: 'true' });
    assert.equal(isError, true);
    assert.match(text, /\/nonexistent-root/);
});
