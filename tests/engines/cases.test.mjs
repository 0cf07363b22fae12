// Cases of the field's bug reports, by their numbers, in both ways that commands get into a container: by our program inside, and
// by one exec of the engine each, where it can't run.
import assert from 'node:assert/strict';
import test from 'node:test';
import { memoryKiB } from '../integration/support/machine.mjs';
import { DEBIAN, kind, record, refused, runPythonsComputer, startServer, watch } from './support/engine.mjs';

const MIB = 1024 * 1024;

// A server, and arguments of calls on a computer of that way.
const ways = {
    'by our program': async (t) => ({ server: await startServer(t), on: { computer_id: 'ours' } }),
    'by the engine': async (t) => {
        watch(t);
        await runPythonsComputer('theirs', { readOnly: true });
        const server = await startServer(t);
        await server.run('true', { computer_id: 'theirs' });
        assert.equal(record(server, 'theirs').data.commands, 'engine exec');
        return { server, on: { computer_id: 'theirs' } };
    },
};
const ours = ways['by our program'];

const cases = [];
const inBothWays = (name, body) => cases.push([name, body]);

// Those that were ended wait for a parent, where the first process is none to orphans.
const sleeping = async (server, on) => Number((await server.run("ps -o stat,comm | grep -c '^[^Z].* sleep$'", on)).stdout);

inBothWays('B1: the time limit ends a command and its background process', async (server, on) => {
    const value = await server.run('echo before; sleep 300 & setsid sleep 300 & sleep 300', { timeout: 3, ...on });
    assert.equal(value.timed_out, true);
    assert.equal(value.exit_code, 124);
    assert.equal(value.stdout, 'before\n');
    assert.equal(await sleeping(server, on), 0);
});

inBothWays('B2: a background process that keeps stdout does not hold the call', async (server, on) => {
    const value = await server.run('sleep 100 & echo $!', on);
    const pid = Number(value.stdout);
    assert.equal(value.exit_code, 0);
    if (on.computer_id === 'ours') assert.deepEqual(value.background, [pid]);
    assert.equal((await server.run(`kill -0 ${pid} && kill ${pid}`, on)).exit_code, 0, 'it was alive');
});

inBothWays('B3: many calls of cat without stdin', async (server, on) => {
    for (let i = 0; i < (on.computer_id === 'ours' ? 200 : 10); i++) {
        const { value } = await server.exec(i % 2 ? { args: ['cat'], ...on } : { command: 'cat', stdin: '', ...on });
        assert.equal(value.stdout, '');
        assert.equal(value.exit_code, 0);
    }
});

inBothWays('B8: output that is not UTF-8', async (server, on) => {
    const command = "printf '\\260\\241\\377\\0x'";
    assert.equal((await server.run(command, on)).stdout, '\ufffd\ufffd\ufffd\0x');
    const { stdout } = await server.run(command, { output_encoding: 'base64', ...on });
    assert.deepEqual(Buffer.from(stdout, 'base64'), Buffer.from([0xb0, 0xa1, 0xff, 0, 0x78]));
});

inBothWays('B10: 2 MiB through cat', async (server, on) => {
    const stdin = '0123456789abcdef'.repeat((2 * MIB) / 16);
    const value = await server.run('cat', { stdin, ...on });
    assert.ok(value.stdout === stdin, `${value.stdout.length} bytes came back`);
});

inBothWays('B11: 1 MiB of stdin that nobody reads', async (server, on) => {
    const value = await server.run('true', { stdin: 'x'.repeat(MIB), ...on });
    assert.equal(value.exit_code, 0);
    assert.equal(value.stderr, '');
});

inBothWays('B13: a flood is cut, and costs the server little', async (server, on) => {
    const value = await server.run("echo first; head -c 524288000 /dev/zero | tr '\\0' x; echo; echo last", on);
    assert.equal(value.exit_code, 0);
    assert.ok(value.stdout.startsWith('first\nxxx'));
    assert.ok(value.stdout.endsWith('xxx\nlast\n'));
    assert.ok(value.stdout.length < 3 * MIB);
    assert.equal(value.truncated.stdout_bytes, 500 * MIB + 12);
    assert.ok(memoryKiB(server.pid, 'VmHWM') < 64 * 1024, `high-water mark ${memoryKiB(server.pid, 'VmHWM')} KiB`);
});

inBothWays('B15: a folder, no such program, a shell that exits with 5', async (server, on) => {
    assert.equal((await server.exec({ args: ['/etc'], ...on })).value.exit_code, 126);
    assert.equal((await server.exec({ args: ['no-such-cmd'], ...on })).value.exit_code, 127);
    assert.equal((await server.exec({ args: ['sh', '-c', 'exit 5'], ...on })).value.exit_code, 5);
    assert.equal((await server.run('exit 5', on)).exit_code, 5);
});

inBothWays('B16: nothing of the engine in what a command says', async (server, on) => {
    for (const args of [['sh', '-c', 'exit 1'], ['sh', '-c', 'exit 126'], ['sh', '-c', 'exit 127']]) {
        const { value } = await server.exec({ args, ...on });
        assert.deepEqual([value.stdout, value.stderr], ['', '']);
    }
    const { value } = await server.exec({ args: ['no-such-cmd'], ...on });
    assert.doesNotMatch(value.stdout + value.stderr, /OCI|runc|exec failed/);
});

inBothWays('B18: a working directory that is not there', async (server, on) => {
    const error = await refused(server, { command: 'true', working_directory: '/nope', ...on });
    assert.equal(error.code, 'cwd_not_found');
    assert.match(error.error, /\/nope/);
    assert.equal((await server.run('pwd', { working_directory: '/usr', ...on })).stdout, '/usr\n');
});

inBothWays('B19: a builtin in args mode', async (server, on) => {
    const { isError, value } = await server.exec({ args: ['cd', '/'], ...on });
    assert.ok(!isError, JSON.stringify(value));
    assert.equal(value.exit_code, 127);
    assert.match(value.note, /command/, 'says that builtins need command');
});

inBothWays('B45: a stuck command does not hold another one', async (server, on) => {
    await server.run('mkfifo /dev/shm/never', on);
    const stuck = server.startExec({ command: 'read -r x </dev/shm/never; echo "$x"', ...on });
    for (let i = 0; i < 3; i++) assert.equal((await server.run('echo free', on)).stdout, 'free\n');
    await server.run('echo end >/dev/shm/never', on);
    assert.equal((await stuck.reply).result.structuredContent.stdout, 'end\n');
});

inBothWays('a cancelled command ends', async (server, on) => {
    const { id, reply } = server.startExec({ command: 'echo begun >/dev/shm/begun; sleep 300', ...on });
    reply.catch(() => {});
    while ((await server.run('[ -e /dev/shm/begun ]', on)).exit_code !== 0);
    await server.notify('notifications/cancelled', { requestId: id });
    while (await sleeping(server, on) !== 0);
});

for (const [way, make] of Object.entries(ways)) {
    test(`commands ${way}`, async (t) => {
        const { server, on } = await make(t);
        for (const [name, body] of cases) await t.test(`${name}, ${way}`, () => body(server, on));
    });
}

test('B23: a computer is not held up by others being made, nor by a creation that fails', async (t) => {
    const { server } = await ours(t);
    await server.run('true', { computer_id: 'steady' });
    const making = Array.from({ length: 6 }, (_, i) => server.run('true', { computer_id: `new-${i}` }));
    const failing = server.exec({ command: 'true', computer_id: 'steady', temporary: false });
    for (let i = 0; i < 5; i++) {
        assert.equal((await server.run(`echo ${i}`, { computer_id: 'steady' })).stdout, `${i}\n`);
    }
    assert.equal((await failing).isError, true);
    assert.ok((await Promise.all(making)).every((r) => r.created && r.exit_code === 0));
});

test('twenty commands at once', async (t) => {
    const { server, on } = await ours(t);
    await server.run('true', on);
    const all = await Promise.all(Array.from({ length: 20 }, (_, i) => server.run(`sleep 0.2; echo ${i}`, on)));
    all.forEach((value, i) => assert.equal(value.stdout, `${i}\n`));
});

test('the default image: bash, the locale, a long command text', async (t) => {
    const server = await startServer(t, { from: DEBIAN });
    assert.equal((await server.run("printf '✓é'; [[ $LANG == C.UTF-8 ]] && echo bash")).stdout, '✓ébash\n', kind);
    const command = `${'# filler\n'.repeat(60000)}cat; echo end`; // 540 KB
    assert.equal((await server.run(command, { stdin: 'in ' })).stdout, 'in end\n');
});
