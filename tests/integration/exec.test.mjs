// Commands in a computer: what comes back, whatever they do. B-numbers are the cases of the field's bug reports.
import assert from 'node:assert/strict';
import net from 'node:net';
import test from 'node:test';
import { defer, eventually, memoryKiB, needsRoot } from './support/machine.mjs';
import { startServer } from './support/server.mjs';

const MIB = 1024 * 1024;
// Inside: how many processes have a name. A shell's own words only: a process that counts must not be counted.
const countOf = (name) => `n=0; for p in /proc/[0-9]*/comm; do read -r c 2>/dev/null <$p && [ "$c" = ${name} ] && n=$((n+1)); done; echo $n`;

async function sleeping(server) {
    return Number((await server.run(countOf('sleep'))).stdout);
}

test('a command, its output, its error output and its exit code', needsRoot, async (t) => {
    const server = await startServer(t);
    const first = await server.run('echo out; echo err >&2; exit 3');
    assert.equal(first.stdout, 'out\n');
    assert.equal(first.stderr, 'err\n');
    assert.equal(first.exit_code, 3);
    assert.equal(first.temporary, true);
    assert.equal(first.created, true);
    assert.match(first.computer_id, /^[a-z]+-[a-z]+-[0-9a-f]{4}$/);
    assert.ok(Number.isInteger(first.exec_duration_ms));
    assert.deepEqual(Object.keys(first).slice(0, 6),
        ['computer_id', 'temporary', 'stdout', 'stderr', 'exit_code', 'exec_duration_ms']);

    const second = await server.run('echo again');
    assert.equal(second.computer_id, first.computer_id);
    assert.ok(!('created' in second), 'only the call that made it says so');
    for (const member of ['timed_out', 'signal', 'oom_killed', 'truncated', 'background', 'ignored_arguments']) {
        assert.ok(!(member in second), `${member} has nothing to say`);
    }
});

test('files stay from call to call; directory and variables do not', needsRoot, async (t) => {
    const server = await startServer(t);
    const { stdout: home } = await server.run('pwd');
    await server.run('cd /tmp && x=1 && echo kept >file');
    assert.equal((await server.run('pwd; echo "[$x]"; cat /tmp/file')).stdout, `${home}[]\nkept\n`);
});

test('args runs a program without a shell', needsRoot, async (t) => {
    const server = await startServer(t);
    const { value } = await server.exec({ args: ['printf', '%s|', '$HOME', '*', 'a b'] });
    assert.equal(value.stdout, '$HOME|*|a b|');
    assert.equal((await server.exec({ args: ['/etc'] })).value.exit_code, 126);
    assert.equal((await server.exec({ args: ['no-such-program'] })).value.exit_code, 127);
});

test('env, working_directory and stdin reach the command', needsRoot, async (t) => {
    const server = await startServer(t);
    const { stdout } = await server.run('echo "$GREETING"; pwd; cat', { env: { GREETING: 'hello' }, working_directory: '/usr', stdin: 'in' });
    assert.equal(stdout, 'hello\n/usr\nin');
});

test('a signal is named and gives 128 + its number', needsRoot, async (t) => {
    const server = await startServer(t);
    const value = await server.run('kill -TERM $$');
    assert.equal(value.exit_code, 143);
    assert.equal(value.signal, 'SIGTERM');
});

test('B1: the time limit ends a command and its background process', needsRoot, async (t) => {
    const server = await startServer(t);
    await server.run('true');
    const value = await server.run('echo before; sleep 300 & sleep 300', { timeout: 3 });
    assert.equal(value.timed_out, true);
    assert.equal(value.exit_code, 124);
    assert.equal(value.stdout, 'before\n', 'what was printed until then is there');
    assert.equal(await sleeping(server), 0);
});

test('B1: what left the session ends too, and a second command lives on', needsRoot, async (t) => {
    const server = await startServer(t);
    await server.run('mkfifo /tmp/gate');
    const other = await server.startAndReach('read -r word </tmp/gate; echo $word; sleep 0');
    const value = await server.run('setsid -f sleep 300; sleep 300', { timeout: 1 });
    assert.equal(value.timed_out, true);
    assert.equal(await sleeping(server), 0);
    await server.run('echo alive >/tmp/gate');
    const { structuredContent } = (await other.reply).result;
    assert.equal(structuredContent.stdout, 'alive\n');
    assert.equal(structuredContent.exit_code, 0);
});

test('B2: a background process that keeps stdout does not hold the call', needsRoot, async (t) => {
    const server = await startServer(t);
    const value = await server.run('sleep 100 & echo $!');
    const pid = Number(value.stdout);
    assert.equal(value.exit_code, 0);
    assert.deepEqual(value.background, [pid]);
    assert.equal((await server.run(`kill -0 ${pid} && kill ${pid}`)).exit_code, 0, 'it was alive');
});

test('B3: 200 calls of cat without stdin', needsRoot, async (t) => {
    const server = await startServer(t);
    for (let i = 0; i < 200; i++) {
        const { value } = await server.exec(i % 2 ? { args: ['cat'] } : { command: 'cat', stdin: '' });
        assert.equal(value.stdout, '');
        assert.equal(value.exit_code, 0);
    }
});

test('B5: big results while the client reads slowly', needsRoot, async (t) => {
    const server = await startServer(t, { args: ['--output-limit', String(8 * MIB)] });
    await server.run('true');
    server.child.stdout.pause();
    const calls = [
        server.startExec({ command: 'head -c 70000 /dev/zero | tr "\\0" x' }),
        server.startExec({ command: 'head -c 2000000 /dev/zero | tr "\\0" x' }),
        server.startExec({ command: 'head -c 1500000 /dev/zero' }), // 20 MB once escaped, twice
    ];
    const pings = Array.from({ length: 50 }, () => server.request('ping'));
    // Slowly: a piece, then a turn of the event loop without reading.
    const reading = setInterval(() => {
        server.child.stdout.resume();
        setImmediate(() => server.child.stdout.pause());
    }, 1);
    defer(t, () => clearInterval(reading));
    const [small, middle, big] = await Promise.all(calls.map((call) => call.reply));
    assert.equal(small.result.structuredContent.stdout, 'x'.repeat(70000));
    assert.equal(middle.result.structuredContent.stdout, 'x'.repeat(2000000));
    assert.equal(big.result.structuredContent.stdout, '\0'.repeat(1500000));
    for (const { result } of await Promise.all(pings)) assert.deepEqual(result, {});
    clearInterval(reading);
    server.child.stdout.resume();
});

test('B6: a client that never reads stderr', needsRoot, async (t) => {
    const server = await startServer(t, { args: ['--log-level', 'debug'], readStderr: false });
    const filler = 'x'.repeat(40000);
    for (let i = 0; i < 100; i++) {
        assert.equal((await server.exec({ args: ['true', filler] })).value.exit_code, 0);
    }
});

test('B8: output that is not UTF-8', needsRoot, async (t) => {
    const server = await startServer(t);
    const command = "printf '\\xb0\\xa1\\xff\\x00x'";
    assert.equal((await server.run(command)).stdout, '\ufffd\ufffd\ufffd\0x');
    const { stdout } = await server.run(command, { output_encoding: 'base64' });
    assert.deepEqual(Buffer.from(stdout, 'base64'), Buffer.from([0xb0, 0xa1, 0xff, 0, 0x78]));
});

test('B9: bytes as stdin', needsRoot, async (t) => {
    const server = await startServer(t);
    assert.equal((await server.run('wc -c', { stdin_base64: 'AAEC/w==' })).stdout.trim(), '4');
});

test('B10: 2 MiB through cat', needsRoot, async (t) => {
    const server = await startServer(t);
    const stdin = '0123456789abcdef'.repeat((2 * MIB) / 16);
    const value = await server.run('cat', { stdin });
    assert.equal(value.stdout.length, stdin.length);
    assert.ok(value.stdout === stdin);
});

test('B11: 1 MiB of stdin that nobody reads', needsRoot, async (t) => {
    const server = await startServer(t);
    assert.equal((await server.run('true', { stdin: 'x'.repeat(MIB) })).exit_code, 0);
});

test('B13: a flood is cut, kept in the computer, and costs the server little', needsRoot, async (t) => {
    const server = await startServer(t);
    const value = await server.run("echo first; head -c 500M /dev/zero | tr '\\0' x; echo; echo last");
    assert.equal(value.exit_code, 0);
    assert.ok(value.stdout.startsWith('first\nxxx'));
    assert.ok(value.stdout.endsWith('xxx\nlast\n'));
    assert.ok(value.stdout.length < 3 * MIB);
    assert.equal(value.truncated.stdout_bytes, 500 * MIB + 12);
    assert.equal((await server.run(`head -c 9 ${value.truncated.stdout_path}`)).stdout, 'first\nxxx');
    assert.ok(memoryKiB(server.pid, 'VmHWM') < 64 * 1024, `high-water mark ${memoryKiB(server.pid, 'VmHWM')} KiB`);
});

test('output_limit of a call: head and tail of what is longer', needsRoot, async (t) => {
    const server = await startServer(t);
    const value = await server.run('seq 1 100000', { output_limit: 4096 });
    assert.ok(value.stdout.startsWith('1\n2\n'));
    assert.ok(value.stdout.endsWith('\n100000\n'));
    assert.ok(value.stdout.length < 8192);
    assert.ok(value.truncated);
    assert.ok(!('truncated' in await server.run('seq 1 100', { output_limit: 4096 })));
});

test('B18: a working directory that is not there', needsRoot, async (t) => {
    const server = await startServer(t);
    const { isError, value, text } = await server.exec({ command: 'true', working_directory: '/nope' });
    assert.equal(isError, true);
    assert.equal(value.code, 'cwd_not_found');
    assert.match(text, /\/nope.*make it first/);
    await server.run('echo a file >/root/file');
    const { value: file } = await server.exec({ command: 'true', working_directory: '/root/file' });
    assert.equal(file.code, 'cwd_not_found');
    assert.match(file.error, /Not a directory; give another one/);
    assert.equal((await server.run('echo usable')).stdout, 'usable\n');
});

test('B19: a builtin in args mode', needsRoot, async (t) => {
    const server = await startServer(t);
    const { isError, value } = await server.exec({ args: ['cd', '/'] });
    assert.ok(!isError);
    assert.equal(value.exit_code, 127);
    assert.match(value.note, /command/, 'says that builtins need command');
});

test('B45: a stuck command does not hold another one', needsRoot, async (t) => {
    const server = await startServer(t);
    await server.run('mkfifo /tmp/never');
    const stuck = await server.startAndReach('read -r x </tmp/never; echo "$x"');
    assert.equal((await server.run('echo free')).stdout, 'free\n');
    await server.run('echo end >/tmp/never');
    assert.equal((await stuck.reply).result.structuredContent.stdout, 'end\n');
});

test("B48: the call's own timeout wins, shorter or longer", needsRoot, async (t) => {
    const long = await startServer(t, { args: ['--timeout', '3600'] });
    assert.equal((await long.run('sleep 300', { timeout: 0.5 })).timed_out, true);
    const short = await startServer(t, { args: ['--timeout', '0.5'] });
    assert.equal((await short.run('sleep 300')).timed_out, true);
    assert.equal((await short.run('sleep 1; echo done', { timeout: 60 })).stdout, 'done\n');
});

test('B49: more memory than the limit', needsRoot, async (t) => {
    const server = await startServer(t, { args: ['--memory', '256m'] });
    const { value, text } = await server.exec({ command: `perl -e '$x = "x" x 2_000_000_000; print length $x'` });
    assert.equal(value.oom_killed, true);
    assert.equal(value.exit_code, 137);
    assert.match(text, /256/, 'names the limit');
    assert.equal((await server.run('echo usable')).stdout, 'usable\n');
});

test('B53: nothing of the network and the host is to be reached', needsRoot, async (t) => {
    const listener = net.createServer((socket) => socket.end('host')).listen(0, '127.0.0.1');
    defer(t, () => listener.close());
    await eventually('the listener listens', () => listener.listening);
    const server = await startServer(t);
    const connect = (address, port) => server.run(`exec 3<>/dev/tcp/${address}/${port} && cat <&3`, { timeout: 20 });
    for (const address of ['169.254.169.254', '10.0.0.1', '172.17.0.1', '192.168.1.1', '1.1.1.1']) {
        const { exit_code: code, stdout } = await connect(address, 80);
        assert.notEqual(code, 0, address);
        assert.equal(stdout, '');
    }
    assert.notEqual((await connect('127.0.0.1', listener.address().port)).exit_code, 0, "the host's loopback");
    const sockets = await server.run('ls -d /var/run/docker.sock /run/docker.sock /run/podman /run/containerd 2>/dev/null; true');
    assert.equal(sockets.stdout, '');
});

test('B56: the locale is UTF-8', needsRoot, async (t) => {
    const server = await startServer(t, { env: { LANG: '', LC_ALL: '' } });
    assert.equal((await server.run("printf '✓é'")).stdout, '✓é');
    assert.equal((await server.run('printf %s "$LANG"')).stdout, 'C.UTF-8');
});

test('a long command text', needsRoot, async (t) => {
    const server = await startServer(t);
    const command = `${'# filler\n'.repeat(60000)}cat; echo end`; // 540 KB
    assert.equal((await server.run(command, { stdin: 'in ' })).stdout, 'in end\n');
});
