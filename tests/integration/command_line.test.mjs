// The command line: what it prints, what it refuses, and under which name.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { eventually, needsRoot, temporaryFolder } from './support/machine.mjs';
import { BINARY, startServer } from './support/server.mjs';

const NAME = 'mcp-sandbox-computer-vm-for-ai';

// The program under another name, and a folder that goes with the test.
function linked(t, name) {
    const folder = temporaryFolder(t, 'bin-');
    fs.symlinkSync(fs.realpathSync(BINARY), path.join(folder, name));
    return path.join(folder, name);
}

function run(args, { binary = BINARY, env = {}, input = '' } = {}) {
    const clean = { PATH: process.env.PATH, HOME: '/nonexistent', STATE_DIRECTORY: '/nonexistent', ...env };
    const { status, stdout, stderr } = spawnSync(binary, args, { env: clean, input, encoding: 'utf8', timeout: 60000 });
    return { status, stdout, stderr };
}

test('--help, --version, --print-config, --check-config', (t) => {
    for (const flag of ['--help', '-h']) {
        const { status, stdout, stderr } = run([flag]);
        assert.equal(status, 0);
        assert.equal(stderr, '');
        for (const option of ['--backend', '--timeout', '--output-limit', '--docker-run-flag', '--e2b-api-key', '--wasm-path', '--gpu', '--warm-pool']) {
            assert.ok(stdout.includes(option), option);
        }
    }
    for (const flag of ['--version', '-V']) {
        const { status, stdout } = run([flag]);
        assert.equal(status, 0);
        assert.match(stdout, new RegExp(`^${NAME} \\d+\\.\\d+\\.\\d+\\n$`));
    }
    const printed = run(['--print-config', '--timeout', '7', '--auth-token', 'hunter2', '--e2b-api-key=geheim']);
    assert.equal(printed.status, 0);
    assert.match(printed.stdout, /timeout = 7/);
    assert.doesNotMatch(printed.stdout, /hunter2|geheim/);
    assert.equal(run(['--check-config', '--backend', 'docker']).status, 0);
    for (const limit of ['native 1.0, docker none', 'native 512, docker 1024']) {
        assert.ok(run(['--help'], { env: { COLUMNS: '160' } }).stdout.includes(limit), limit);
    }
    assert.equal(run(['--check-config', '--timeout', '0']).status, 1);
});

test('a log that meets the limit of file sizes ends nothing', needsRoot, (t) => {
    const log = path.join(temporaryFolder(t, 'log-'), 'log');
    const limited = ['-c', 'ulimit -f 0; exec "$0" --backend native --log-level debug --log-file "$1"', BINARY, log];
    const input = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })}\n`;
    const { status, stdout } = spawnSync('sh', limited, { input, encoding: 'utf8', timeout: 60000 });
    assert.equal(status, 0);
    assert.equal(JSON.parse(stdout).id, 1);
    assert.equal(fs.statSync(log).size, 0);
});

// Where replies go, and what becomes of a server whose output fails.
const outputs = {
    'a full disk is told, and is a failure': ['exec "$@" >/dev/full', 1, /error: Replies are lost: standard output can't be written: No space left on device/],
    'a file that may not grow as well': ['ulimit -f 0; exec "$@" >"$FILE"', 1, /error: Replies are lost: .*File too large/],
    'a reader that has gone is an end like any other': ['{ "$@"; echo $? >"$FILE"; } | :; exit $(cat "$FILE")', 0, /^((?!lost).)*$/s],
};
for (const [what, [script, expected, said]] of Object.entries(outputs))
    test(`output that can't be written: ${what}`, (t) => {
        const folder = temporaryFolder(t, 'output-');
        const input = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })}\n`;
        const args = ['-c', script, 'sh', BINARY, '--backend', 'native', '--state-dir', path.join(folder, 'state')];
        const { status, stderr } = spawnSync('sh', args, { input, encoding: 'utf8', env: { ...process.env, FILE: path.join(folder, 'file') }, timeout: 60000 });
        assert.equal(status, expected, stderr);
        assert.match(stderr, said);
    });

const usage = [['--no-such-flag'], ['--timeout', 'soon'], ['--timeout'], ['--port', 'x'], ['--transport', 'carrier-pigeon'], ['surplus']];
for (const args of usage) {
    test(`a usage error, exit 2: ${args.join(' ')}`, () => {
        const { status, stdout, stderr } = run(args);
        assert.equal(status, 2);
        assert.equal(stdout, '');
        assert.match(stderr, new RegExp(`^${NAME}: error: .*${args[0]}`, 'm'));
    });
}

const refused = [
    ['--timeout', '0'], ['--timeout', '1e9'], ['--output-limit', '0'], ['--host', '0.0.0.0'], ['--port', '9000'], ['--session-timeout', '5'],
    ['--tool-instruction-override', 'a', '--extended-tool-instruction', 'b'], ['--config', '/nonexistent.toml'],
    ['--backend', 'modal', '--on-exit', 'keep'], ['--backend', 'modal', '--pids', '10'],
    ['--backend', 'fly', '--no-network'], ['--backend', 'fly', '--image', 'debian:12'], ['--backend', 'fly', '--on-exit', 'keep'],
    ['--backend', 'wasm'], ['--backend', 'wasm', '--wasm-path', '/dev/null'], ['--backend', 'kubernetes'],
    ['--backend', 'e2b', '--image', 'debian:12'], ['--backend', 'e2b', '--memory', '1g'], ['--backend', 'e2b', '--on-exit', 'keep'],
    ['--backend', 'native', '--network'], ['--backend', 'native', '--image', 'debian:12'], ['--backend', 'native', '--disk', '1m'],
    ['--backend', 'native', '--platform', 'linux/arm64'],
    ['--backend', 'docker', '--disk', '1g'], ['--backend', 'docker', '--rootfs', '/'], ['--rootfs', '/', '--image', 'debian:12'],
    ['--backend', 'docker', '--image', 'Not An Image'], ['--backend', 'docker', '--docker-run-flag', '--no-such-flag'],
    ['--transport', 'http', '--allowed-host', 'https://box.example'], ['--transport', 'http', '--allowed-origin', 'https://box.example/'],
    ['--engine', 'nerdctl'], ['--backend', 'podman', '--engine', 'docker'],
];
for (const args of refused) {
    test(`a refused start, exit 1: ${args.join(' ')}`, () => {
        const { status, stdout, stderr } = run(args);
        assert.equal(status, 1, stderr);
        assert.equal(stdout, '');
        assert.match(stderr, new RegExp(`^${NAME}: error: .+`, 'm'));
        const flag = args[0] === '--backend' ? args[2] ?? args[1] : args[0];
        assert.ok(stderr.includes(flag) || stderr.includes(args.at(-1)), stderr);
    });
}

test('flag before environment before file', (t) => {
    const folder = temporaryFolder(t, 'config-');
    const file = path.join(folder, 'config.toml');
    fs.writeFileSync(file, 'backend = "native"\ntimeout = 11\n');
    assert.match(run(['--print-config', '--config', file]).stdout, /timeout = 11/);
    assert.match(run(['--print-config', '--config', file, '--timeout=12']).stdout, /timeout = 12/);
    const env = { SANDBOX_BACKEND: 'kubernetes' };
    assert.equal(run(['--config', file], { env }).status, 1);
    assert.equal(run(['--config', file, '--backend', 'native'], { env }).status, 0);
});

test('an abbreviation means what it meant', () => {
    assert.match(run(['--print-config', '--time', '9']).stdout, /timeout = 9/);
});

test('the network that is not there yet is said on stderr', needsRoot, async (t) => {
    const server = await startServer(t);
    await server.run('true');
    await eventually('it is said', () => /network/.test(server.stderr));
});

test('the other name: one tool, no computers in sight', needsRoot, async (t) => {
    const server = await startServer(t, { binary: linked(t, 'kilntainers'), tool: 'sandbox_exec', version: null });
    const { serverInfo } = await server.initialize();
    assert.ok(serverInfo.name);
    const { tools } = (await server.request('tools/list')).result;
    assert.deepEqual(tools.map((tool) => tool.name), ['sandbox_exec']);
    assert.ok(!JSON.stringify(tools[0].inputSchema).includes('computer_id'));
    assert.ok(!('_meta' in tools[0]));
    const value = await server.run('echo out; echo err >&2; exit 3');
    assert.equal(value.stdout, 'out\n');
    assert.equal(value.stderr, 'err\n');
    assert.equal(value.exit_code, 3);
    assert.deepEqual(Object.keys(value).slice(0, 4), ['stdout', 'stderr', 'exit_code', 'exec_duration_ms']);
    assert.ok(!('computer_id' in value) && !('temporary' in value));
    assert.equal((await server.run('echo x >/root/f; cat /root/f')).stdout, 'x\n');
    assert.equal((await server.run('cat /root/f')).stdout, 'x\n', 'one computer for the session');
});

test('the other name in errors, also by --personality', (t) => {
    const binary = linked(t, 'kilntainers');
    assert.match(run(['--timeout', '0'], { binary }).stderr, /^kilntainers: error: /m);
    assert.match(run(['--personality', 'kilntainers', '--timeout', '0']).stderr, /^kilntainers: error: /m);
    assert.match(run(['--version'], { binary }).stdout, /^kilntainers /);
    assert.match(run(['--version'], { binary: linked(t, 'mcp-sandbox-computer') }).stdout, new RegExp(`^${NAME} `));
});

test('an ordinary user is welcome', needsRoot, (t) => {
    const folder = temporaryFolder(t, 'user-');
    fs.chmodSync(folder, 0o777);
    const binary = path.join(folder, NAME);
    fs.copyFileSync(fs.realpathSync(BINARY), binary);
    fs.chmodSync(binary, 0o755);
    const { status, stderr } = run(['--reuid=65534', '--regid=65534', '--clear-groups', binary, '--backend', 'native', '--state-dir', path.join(folder, 'state')],
        { binary: 'setpriv' });
    assert.doesNotMatch(stderr, /error:/);
    assert.equal(status, 0);
});
