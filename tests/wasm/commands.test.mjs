// Commands as runs of a module: what goes in, what comes back, how it ends.
import assert from 'node:assert/strict';
import test from 'node:test';
import { eventually, survivors } from '../integration/support/machine.mjs';
import { guest, needsWasm, call, run, says, startWasm, told } from './support/wasm.mjs';

const MIB = 1024 * 1024;
const KEPT = 2 * MIB;
// What `guest count` says of some bytes.
function counted(bytes) {
    let sum = 0n;
    for (const byte of bytes) sum = (sum * 31n + BigInt(byte)) & 0xffffffffffffffffn;
    return `${bytes.length} ${sum.toString(16).padStart(16, '0')}\n`;
}

test('arguments, output, error output and exit code', needsWasm, async (t) => {
    const server = await startWasm(t);
    const first = await run(server, ['echo', 'hello', 'world']);
    assert.equal(first.stdout, 'hello world\n');
    assert.equal(first.stderr, '');
    assert.equal(first.exit_code, 0);
    assert.equal(first.created, true);
    assert.equal(first.temporary, true);
    assert.equal(await says(server, ['arguments', '', 'a b', '日本', '"$X"', '*', '\n']), '[guest][arguments][][a b][日本]["$X"][*][\n]\n');
    const wrong = await run(server, ['no-such-applet']);
    assert.equal(wrong.exit_code, 127);
    assert.equal(wrong.stderr, 'no such applet\n');
});

test('each exit code is the one that comes back', needsWasm, async (t) => {
    const server = await startWasm(t);
    const codes = Array.from({ length: 256 }, (_, i) => i);
    const found = await Promise.all(codes.map(async (code) => (await run(server, ['exit', String(code)])).exit_code));
    assert.deepEqual(found, codes);
    assert.equal((await run(server, ['exit', '256'])).exit_code, 0);
});

for (const [module, code] of [['exit_status', 7], ['exit_negative', 255], ['exit_early', 9], ['catches_its_end', 3]]) {
    test(`an exit that no libc makes: ${module}`, needsWasm, async (t) => {
        assert.equal((await run(await startWasm(t, { module: guest(module) }), [])).exit_code, code);
    });
}

test('a trap is exit code 1, and said', needsWasm, async (t) => {
    const server = await startWasm(t);
    const words = { trap: /unreachable/, outside: /out of bounds memory access/, divide: /integer divide by zero/, recurse: /out of bounds|stack/ };
    for (const [applet, word] of Object.entries(words)) {
        const value = await run(server, [applet]);
        assert.equal(value.exit_code, 1, applet);
        assert.match(told(value), word);
        assert.match(told(value), /wasm trap: /);
        assert.doesNotMatch(told(value), /backtrace/);
    }
    assert.match((await run(server, ['trap'])).stderr, /^before\n/);
});

for (const [module, word] of [['recursion', /call stack exhausted/], ['start_section_traps', /unreachable/], ['bad_data', /out of bounds/]]) {
    test(`it goes wrong before or in _start: ${module}`, needsWasm, async (t) => {
        const server = await startWasm(t, { module: guest(module) });
        for (let i = 0; i < 2; i++) {
            const value = await run(server, []);
            assert.equal(value.exit_code, 1);
            assert.match(told(value), word);
        }
    });
}

test('stdin: none, some, as much as may be, and any bytes', needsWasm, async (t) => {
    const server = await startWasm(t);
    const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const most = Buffer.alloc(KEPT, 'line of input\n');
    assert.equal(await says(server, ['count']), counted(Buffer.alloc(0)));
    assert.equal(await says(server, ['cat'], { stdin: 'grüße\n' }), 'grüße\n');
    assert.equal(await says(server, ['count'], { stdin_base64: all.toString('base64') }), counted(all));
    assert.equal(await says(server, ['count'], { stdin: most.toString() }), counted(most));
    assert.equal((await run(server, ['echo', 'unread'], { stdin: most.toString() })).exit_code, 0);
    assert.equal((await call(server, ['count'], { stdin: `${most}x` })).code, 'invalid_argument');
});

test('20 MiB of output: head and tail come back, the whole is in the computer', needsWasm, async (t) => {
    const server = await startWasm(t);
    const lines = 20 * MIB / 64;
    const value = await run(server, ['flood', String(lines)]);
    assert.equal(value.exit_code, 0);
    assert.ok(value.stdout.length <= KEPT + 200, `${value.stdout.length}`);
    assert.ok(value.stdout.startsWith(`${'0'.repeat(63)}\n`) && value.stdout.endsWith(`${String(lines - 1).padStart(63, '0')}\n`));
    assert.ok(value.truncated, JSON.stringify(Object.keys(value)));
    const file = JSON.stringify(value.truncated).match(/\/tmp\/[\w./-]+/)[0];
    assert.match(await says(server, ['count', file]), new RegExp(`^${20 * MIB} `));
    const other = await run(server, ['flood', '1000'], { output_limit: 640 });
    assert.ok(other.stdout.startsWith('0'.repeat(63)) && other.stdout.endsWith('999\n') && other.truncated);
});

test('environment and folder', needsWasm, async (t) => {
    const server = await startWasm(t);
    const env = (text) => Object.fromEntries(text.trim().split('\n').map((line) => line.split(/=(.*)/s).slice(0, 2)));
    const plain = env(await says(server, ['env']));
    assert.deepEqual([plain.HOME, plain.PATH, plain.TMPDIR, plain.PWD], ['/', '/bin', '/tmp', '/']);
    assert.ok(!('SANDBOX_WASM_DIR' in plain || 'USER' in plain || 'TOKIO_WORKER_THREADS' in plain), 'nothing of the server');
    const more = env(await says(server, ['env'], { env: { HOME: '/home', 'X-Y': 'a=b', EMPTY: '' }, working_directory: '/a/b' }));
    assert.deepEqual([more.HOME, more['X-Y'], more.EMPTY, more.PWD], ['/home', 'a=b', '', '/a/b']);
    assert.deepEqual(env(await says(server, ['env'])), plain, 'it lasts for one command');
});

test('files stay; relative and absolute names, with and without a working directory', needsWasm, async (t) => {
    const server = await startWasm(t);
    await says(server, ['save', 'here'], { stdin: 'in /\n' });
    assert.equal(await says(server, ['cat', 'here']), 'in /\n');
    assert.equal(await says(server, ['cat', '/here']), 'in /\n');
    await says(server, ['save', 'there'], { stdin: 'in /a/b\n', working_directory: '/a/b' });
    await says(server, ['save', '/tmp/shared'], { stdin: 'in /tmp\n', working_directory: '/a/b' });
    assert.equal(await says(server, ['cat', 'there'], { working_directory: '/a/b' }), 'in /a/b\n');
    assert.equal(await says(server, ['cat', '/a/b/there'], { working_directory: '/a/b' }), 'in /a/b\n');
    assert.equal(await says(server, ['cat', '/a/b/there']), 'in /a/b\n');
    assert.equal(await says(server, ['cat', 'b/there'], { working_directory: '/a' }), 'in /a/b\n');
    assert.equal(await says(server, ['cat', '/tmp/shared']), 'in /tmp\n');
    assert.equal((await run(server, ['cat', 'here'], { working_directory: '/a' })).exit_code, 1);
    assert.equal((await call(server, ['list'], { working_directory: 'relative' })).code, 'invalid_argument');
    assert.ok(['invalid_argument', 'cwd_not_found'].includes((await call(server, ['list'], { working_directory: '/here' })).code));
});

test('a command line: only where --shell says what of the module reads it', needsWasm, async (t) => {
    const without = await startWasm(t);
    const refused = await without.exec({ command: 'echo hi' });
    assert.ok(refused.isError);
    assert.match(refused.value.error, /args/);
    const server = await startWasm(t, { args: ['--shell', 'sh'] });
    assert.equal((await server.run("it's all $one 'word'")).stdout, "sh of guest: it's all $one 'word'\n");
    assert.equal(await says(server, ['echo', 'args']), 'args\n');
});

for (const applet of ['spin', 'sleep', 'flood']) {
    test(`a time limit ends a module that ${{ spin: 'computes', sleep: 'blocks', flood: 'prints' }[applet]}`, needsWasm, async (t) => {
        const server = await startWasm(t);
        await says(server, ['echo']);
        const before = server.family();
        const value = await run(server, applet === 'sleep' ? ['sleep', '600'] : [applet], { timeout: 0.5 });
        assert.equal(value.exit_code, 124);
        assert.equal(value.timed_out, true);
        assert.match(value.stdout, applet === 'flood' ? /^0{63}\n/ : /^(spinning|sleeping)\n$/);
        const all = () => survivors(server.family()).length;
        await eventually('what ran it is gone', () => all() <= before.length);
        assert.equal(await says(server, ['echo', 'next']), 'next\n');
    });
}

test('a start section that never ends, too', needsWasm, async (t) => {
    const server = await startWasm(t, { module: guest('start_section_spins') });
    assert.equal((await run(server, [], { timeout: 0.5 })).exit_code, 124);
});

test('a cancelled call ends its module', needsWasm, async (t) => {
    const server = await startWasm(t);
    await says(server, ['echo']);
    const before = server.family().length;
    const { id, reply } = server.startExec({ args: ['spin'] });
    reply.catch(() => {}); // there is none
    await eventually('it runs', () => server.family().length > before);
    await server.notify('notifications/cancelled', { requestId: id });
    await eventually('it is gone', () => server.family().length <= before);
});

test('fifty commands at once in one computer', needsWasm, async (t) => {
    const server = await startWasm(t);
    await says(server, ['echo']);
    const all = await Promise.all(Array.from({ length: 50 }, async (_, i) => {
        await says(server, ['save', `file-${i}`], { stdin: `content ${i}\n` });
        return says(server, ['cat', `file-${i}`]);
    }));
    assert.deepEqual(all, all.map((_, i) => `content ${i}\n`));
    assert.equal((await says(server, ['list', '.'])).split('\n').filter((name) => name.startsWith('file-')).length, 50);
});

test('one command waits for another: they run at the same time', needsWasm, async (t) => {
    const server = await startWasm(t);
    await says(server, ['echo']);
    const waiting = run(server, ['await', 'gate']);
    await says(server, ['save', 'gate'], { stdin: '' });
    assert.equal((await waiting).exit_code, 0);
});
