// What a client may get wrong in a call, and what it may get nearly right.
import assert from 'node:assert/strict';
import test from 'node:test';
import { computersIn, needsRoot } from './support/machine.mjs';
import { startServer } from './support/server.mjs';

const ok = { command: 'true' };
const refused = [
    // what, arguments, what the text has to name
    ['a mistyped name', { comand: 'true' }, /command/],
    ['a mistyped optional', { ...ok, time_out: 5 }, /timeout/],
    ['an alias: cwd', { ...ok, cwd: '/' }, /working_directory/],
    ['an alias: workdir', { ...ok, workdir: '/' }, /working_directory/],
    ['an alias: cmd', { cmd: 'true' }, /command/],
    ['an alias: id', { ...ok, id: 'box' }, /computer_id/],
    ['neither command nor args', {}, /command.*args|args.*command/],
    ['an empty command alone', { command: '' }, /command/],
    ['command and args', { command: 'true', args: ['true'] }, /command.*args|args.*command/],
    ['a number as command', { command: 5 }, /command/],
    ['a word as args', { args: 'true' }, /args/],
    ['a number in args', { args: ['echo', 1] }, /args/],
    ['a number as stdin', { ...ok, stdin: 7 }, /stdin/],
    ['a word as temporary', { ...ok, temporary: 'perhaps' }, /temporary/],
    ['a list as env', { ...ok, env: ['A=1'] }, /env/],
    ['a bad name in env', { ...ok, env: { 'A=B': '1' } }, /env/],
    ['an unknown output_encoding', { ...ok, output_encoding: 'latin1' }, /output_encoding.*text|text.*base64/s],
    ['an output_limit of 0', { ...ok, output_limit: 0 }, /output_limit/],
    ['an output_limit over the maximum', { ...ok, output_limit: 1e12 }, /output_limit/],
    ['capitals in an id', { ...ok, computer_id: 'Box' }, /computer_id|lowercase|a-z/],
    ['an id that begins with a dash', { ...ok, computer_id: '-box' }, /computer_id|a-z/],
    ['an id of 64 letters', { ...ok, computer_id: 'a'.repeat(64) }, /63/],
    ['an id that is a path', { ...ok, computer_id: '../etc' }, /computer_id|a-z/],
    ['a relative working_directory', { ...ok, working_directory: 'tmp' }, /working_directory.*absolute|absolute.*working_directory/s],
    ['a NUL in working_directory', { ...ok, working_directory: '/tmp\0' }, /working_directory/],
    ['a NUL in args', { args: ['echo', 'a\0b'] }, /args/],
    ['a NUL in command', { command: 'echo \0' }, /command/],
    ['a NUL in env', { ...ok, env: { A: '\0' } }, /env/],
    ['a timeout of 0', { ...ok, timeout: 0 }, /timeout.*0\.1/s],
    ['a negative timeout', { ...ok, timeout: -1 }, /timeout.*0\.1/s],
    ['a timeout of NaN', { ...ok, timeout: 'NaN' }, /timeout/],
    ['a timeout of 1e9', { ...ok, timeout: 1e9 }, /timeout.*86400/s],
    ['a word as timeout', { ...ok, timeout: 'soon' }, /timeout/],
    ['stdin over 2 MiB', { ...ok, stdin: 'x'.repeat(2 * 1024 * 1024 + 1) }, /stdin.*2097152|2 MiB/s],
    ['both forms of stdin', { ...ok, stdin: 'a', stdin_base64: 'YQ==' }, /stdin.*stdin_base64/s],
    ['base64 with a letter from elsewhere', { ...ok, stdin_base64: 'YQ*=' }, /stdin_base64/],
    ['url-safe base64', { ...ok, stdin_base64: '-_-_' }, /stdin_base64/],
    ['base64 without padding', { ...ok, stdin_base64: 'YQ' }, /stdin_base64/],
    ['an argument over 128 KiB', { args: ['true', 'x'.repeat(128 * 1024 + 1)] }, /args/],
    ['a command over 1 MiB', { command: `#${'x'.repeat(1024 * 1024)}` }, /command/],
];

test('calls that are refused say why, and make nothing', needsRoot, async (t) => {
    const server = await startServer(t);
    for (const [what, args, named] of refused) {
        await t.test(what, async () => {
            const { isError, value, text } = await server.exec(args);
            assert.equal(isError, true);
            assert.equal(value.code, 'invalid_argument', text);
            assert.match(text, named);
            assert.ok(!text.includes('\0'));
        });
    }
    assert.deepEqual(computersIn(server.stateDir), [], 'no computer was made');
});

test('arguments that are no object are for the protocol to refuse', async (t) => {
    const server = await startServer(t);
    for (const bad of [[], 'true', 7]) {
        assert.equal((await server.request('tools/call', { name: server.tool, arguments: bad })).error.code, -32602);
    }
});

test('an unknown tool, and none at all', async (t) => {
    const server = await startServer(t);
    assert.equal((await server.request('tools/call', { name: 'no_such_tool', arguments: {} })).error.code, -32602);
    assert.equal((await server.request('tools/call', { arguments: {} })).error.code, -32602);
    assert.equal((await server.request('tools/call', { name: 5, arguments: {} })).error.code, -32602);
});

test('arguments that mean something all the same', needsRoot, async (t) => {
    const server = await startServer(t);
    const nothing = { args: null, stdin: null, working_directory: null, timeout: null, computer_id: null, temporary: null, env: null,
        stdin_base64: null, output_encoding: null, output_limit: null };
    assert.equal((await server.run('echo hi', nothing)).stdout, 'hi\n');
    assert.equal((await server.run('echo hi', { args: [], stdin: '', working_directory: '' })).stdout, 'hi\n');
    assert.equal((await server.run('echo hi', { timeout: '30' })).stdout, 'hi\n');
    assert.equal((await server.exec({ args: '["echo", "a b"]' })).value.stdout, 'a b\n');
    assert.equal((await server.run('echo hi', { computer_id: '  box  ' })).computer_id, 'box');
});

test('an unknown argument is ignored and named', needsRoot, async (t) => {
    const server = await startServer(t);
    const value = await server.run('echo hi', { explanation: 'says hi', zebra: 1 });
    assert.equal(value.stdout, 'hi\n');
    assert.deepEqual(value.ignored_arguments, ['explanation', 'zebra']);
});

test('temporary: as the computer is, and never two ways', needsRoot, async (t) => {
    const server = await startServer(t);
    assert.equal((await server.run('true', { computer_id: 'keeper', temporary: false })).temporary, false);
    assert.equal((await server.run('true', { computer_id: 'keeper' })).temporary, false);
    const { isError, text } = await server.exec({ command: 'true', computer_id: 'keeper', temporary: true });
    assert.equal(isError, true);
    assert.match(text, /keeper/);
    assert.equal((await server.run('true', { computer_id: 'passing' })).temporary, true);
    assert.equal((await server.exec({ command: 'true', computer_id: 'passing', temporary: false })).isError, true);
});

test('a shell that is not there', needsRoot, async (t) => {
    const server = await startServer(t, { args: ['--shell', '/bin/no-such-shell'] });
    const { isError, value, text } = await server.exec({ command: 'true' });
    assert.equal(isError, true);
    assert.equal(value.code, 'shell_not_found');
    assert.match(text, /\/bin\/no-such-shell/);
    assert.equal((await server.exec({ args: ['true'] })).value.exit_code, 0, 'args need no shell');
});
