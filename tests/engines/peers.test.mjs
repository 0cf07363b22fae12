// Side by side with the Python programs whose place ours takes, where they are installed (CONTRIBUTING.md): the same calls at the same
// engine have the same visible results. Members that ours has in addition are left aside; where ours does something else on purpose,
// the table says what.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import test from 'node:test';
import { defer, temporaryFolder } from '../integration/support/machine.mjs';
import { BINARY } from '../integration/support/server.mjs';
import { computers, inspect, kind, watch } from './support/engine.mjs';

// What pip installs is a script; ours, which may have the same name on PATH, is none.
function isScript(file) {
    return fs.existsSync(file) && fs.readFileSync(file).subarray(0, 2).equals(Buffer.from('#!'));
}

const onPath = process.env.PATH.split(':').map((folder) => path.join(folder, 'mcp-sandbox-computer-vm-for-ai'));
const PYTHON = process.env.PEER_PYTHON_V ?? onPath.find(isScript);
const KILNTAINERS = process.env.PEER_PYTHON_K;

function needs(program, variable) {
    if (kind !== 'docker') return { skip: 'they use Docker' };
    return { skip: program ? false : `the Python program isn't installed: ${variable} names none` };
}

// One of them over stdio.
class Program {
    #asked = new Map();
    #last = 0;

    constructor(t, file, args, tool) {
        this.tool = tool;
        const env = { ...process.env, ENABLE_LIFECYCLE_TOOLS: 'true' };
        this.child = spawn(file, args, { stdio: ['pipe', 'pipe', 'ignore'], env });
        this.ended = new Promise((done) => this.child.on('close', done));
        this.ended.then(() => this.#asked.forEach(({ reject }) => reject(new Error(`${file} has ended`))));
        createInterface({ input: this.child.stdout }).on('line', (line) => {
            const message = JSON.parse(line);
            this.#asked.get(message.id)?.resolve(message);
        });
        defer(t, () => this.end());
    }

    ask(method, params = {}) {
        const id = ++this.#last;
        this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
        return new Promise((resolve, reject) => this.#asked.set(id, { resolve, reject }));
    }

    async open(version = '2025-11-25') {
        const clientInfo = { name: 'peers', version: '1' };
        const { result } = await this.ask('initialize', { protocolVersion: version, capabilities: {}, clientInfo });
        this.child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
        return result;
    }

    async call(name, args) {
        return (await this.ask('tools/call', { name, arguments: args })).result;
    }

    // What a client sees of a command: {error} or {stdout, ...}.
    async run(args) {
        const { isError, content, structuredContent } = await this.call(this.tool, args);
        if (isError) return { error: true };
        const value = structuredContent ?? JSON.parse(content[0].text);
        assert.equal(typeof value.exec_duration_ms, 'number');
        const { temporary, stdout, stderr, exit_code } = value;
        return { id: value.computer_id, temporary, stdout, stderr, exit_code };
    }

    end() {
        this.child.stdin.end();
        return this.ended;
    }
}

function python(t) {
    return new Program(t, PYTHON, [], 'terminal_execute');
}

function ours(t, ...args) {
    const state = temporaryFolder(t, 'state-');
    return new Program(t, BINARY, ['--backend', 'docker', '--state-dir', state, ...args], 'terminal_execute');
}

async function bothOpen(t) {
    watch(t);
    const programs = [python(t), ours(t)];
    await Promise.all(programs.map((one) => one.open()));
    return programs;
}

// Each of the members that the first has, the second has too.
function contains(all, some, where = '') {
    if (typeof some !== 'object' || some === null) return assert.equal(all, some, where);
    assert.equal(typeof all, 'object', where);
    for (const [name, value] of Object.entries(some)) contains(all[name], value, `${where}/${name}`);
    return undefined;
}

test('the handshake', needs(PYTHON, 'PEER_PYTHON_V'), async (t) => {
    for (const version of ['2024-11-05', '1999-01-01']) {
        const [theirs, mine] = await Promise.all([python(t), ours(t)].map((one) => one.open(version)));
        assert.equal(mine.protocolVersion, theirs.protocolVersion);
        const { experimental, ...capabilities } = theirs.capabilities;
        assert.deepEqual(experimental, {}, 'it says nothing');
        contains(mine.capabilities, capabilities);
    }
});

// A number is wider than an integer.
const wider = (type) => (type === 'integer' ? ['integer', 'number'] : [type]);

test('tools, their arguments, the dashboard', needs(PYTHON, 'PEER_PYTHON_V'), async (t) => {
    const [theirs, mine] = await bothOpen(t);
    const [their, my] = await Promise.all([theirs, mine].map(async (one) => (await one.ask('tools/list')).result.tools));
    assert.deepEqual(my.slice(0, their.length).map(({ name }) => name), their.map(({ name }) => name));
    for (const [n, tool] of their.entries()) {
        contains(my[n]._meta, tool._meta);
        assert.deepEqual(my[n].inputSchema.required ?? [], tool.inputSchema.required ?? []);
        for (const [name, { type }] of Object.entries(tool.inputSchema.properties)) {
            assert.ok(wider(type).includes(my[n].inputSchema.properties[name]?.type), `${tool.name}: ${name}`);
        }
    }
    for (const method of ['ping', 'prompts/list', 'resources/templates/list']) {
        assert.deepEqual((await mine.ask(method)).result, (await theirs.ask(method)).result, method);
    }
    const [their1, my1] = await Promise.all([theirs, mine].map(async (one) => (await one.ask('resources/list')).result.resources));
    assert.equal(my1.length, their1.length);
    const { description, ...shown } = their1[0];
    contains(my1[0], shown);
    assert.ok(description && my1[0].description);
});

const SAME = [
    { command: 'echo out; echo err >&2; exit 3' },
    { command: 'for i in 1 2; do\n echo $i\ndone' },
    { command: '[[ -n $BASH_VERSION ]] && echo bash' },
    { command: 'no-such-program' },
    { command: 'kill -9 $$' },
    { command: "printf 'a\\377b\\0c\\n'" },
    { command: 'cat; pwd; id -u; tty; echo "$0 $-"' },
    { command: 'echo "$HOME $PATH $SHLVL"' },
    { command: 'cat', stdin: 'héllo \u{1f600}\n' },
    { command: 'cat', stdin: '', working_directory: '' },
    { command: 'pwd', working_directory: '/tmp' },
    { args: ['printf', '%s|', 'a b', '$HOME', ''] },
    { args: ['sh', '-c', 'kill -15 $$'] },
    { args: '["echo","hi"]' },
    { command: 'true', timeout: '30' },
    { command: 'true', nonsense: 1 },
    { command: 'X=1; cd /tmp; echo kept >/root/file' },
    { command: 'echo "$X$PWD"; cat /root/file' },
    { command: 'sleep 20', timeout: 1 },
    // What is refused.
    { command: 'true', args: ['true'] },
    {},
    { command: '', args: [] },
    { command: 5 },
    { args: 'echo hi' },
    { args: ['echo', 1] },
    { command: 'true', timeout: 0 },
    { command: 'true', timeout: 'x' },
    { command: 'true', working_directory: 'tmp' },
    { command: 'true', temporary: true },
    { command: 'true', computer_id: 'Upper' },
    { command: 'true', computer_id: '-x' },
    { command: 'true', computer_id: 'a'.repeat(64) },
    { command: 'true', stdin: 'x'.repeat((2 << 20) + 1) },
];

// [arguments, what theirs comes to, what ours does]
const OTHERWISE = [
    [{ args: ['no-such-program'] }, { exit_code: 126 }, { exit_code: 127, stdout: '' }],
    [{ args: ['/tmp'] }, { exit_code: 126 }, { exit_code: 126, stdout: '' }],
    [{ command: 'true', working_directory: '/none' }, { exit_code: 126 }, { error: true }],
    [{ command: 'echo begun; sleep 20', timeout: 1 }, { exit_code: 124, stdout: '' }, { exit_code: 124, stdout: 'begun\n' }],
    [{ command: 'true', stdin: null }, { error: true }, { exit_code: 0 }],
    [{ command: 'true', timeout: 1.5 }, { error: true }, { exit_code: 0 }],
];

test('terminal_execute: the same calls, the same visible results', needs(PYTHON, 'PEER_PYTHON_V'), async (t) => {
    const [theirs, mine] = await bothOpen(t);
    // Permanent, since a temporary one of theirs takes five seconds to end.
    const pair = (args) =>
        Promise.all([
            theirs.run({ computer_id: 'theirs', temporary: false, ...args }),
            mine.run({ computer_id: 'mine', temporary: false, ...args }),
        ]);
    for (const args of SAME) {
        const [their, my] = await pair(args);
        if (!their.error) assert.deepEqual([their.id, my.id], ['theirs', 'mine']);
        assert.deepEqual({ ...my, id: '' }, { ...their, id: '' }, JSON.stringify(args).slice(0, 200));
    }
    for (const [args, their, my] of OTHERWISE) {
        const [a, b] = await pair(args);
        contains(a, their, `theirs, ${JSON.stringify(args)}`);
        contains(b, my, `ours, ${JSON.stringify(args)}`);
    }
});

test('a computer without an id is the session’s, under a name of the same kind', needs(PYTHON, 'PEER_PYTHON_V'), async (t) => {
    for (const one of await bothOpen(t)) {
        const first = await one.run({ command: 'echo 1 >/root/x' });
        const second = await one.run({ command: 'cat /root/x' });
        assert.match(first.id, /^[a-z]+-[a-z]+-[0-9a-f]{4}$/);
        assert.deepEqual(second, { ...first, stdout: '1\n' });
    }
});

// What lifecycle tools answer, with the id and the container's number left aside.
async function lifecycleOf(one, id) {
    const told = [];
    const steps = [
        ['computer_create', { temporary: false }],
        ['computer_create', { temporary: false }],
        ['computer_create', { temporary: true }],
        ['terminal_execute', { temporary: false, command: 'echo kept >/root/file' }],
        ['computer_restart', {}],
        ['terminal_execute', { temporary: false, command: 'cat /root/file' }],
        ['computer_factory_reset', {}],
        ['terminal_execute', { temporary: false, command: 'cat /root/file' }],
        ['computer_delete', {}],
        ['computer_restart', {}],
        ['computer_factory_reset', {}],
    ];
    for (const [name, args] of steps) {
        const { isError, structuredContent } = await one.call(name, { computer_id: id, ...args });
        const { ok, temporary, deleted, stdout, stderr, exit_code, sandbox_id } = structuredContent;
        if (sandbox_id) assert.equal(sandbox_id, (await inspect(id)).Id.slice(0, 12));
        if (!isError) assert.equal(structuredContent.computer_id, id);
        told.push({ name, isError, ok, temporary, deleted, stdout, stderr, exit_code });
    }
    return told;
}

test('lifecycle tools: the same calls, the same visible results', needs(PYTHON, 'PEER_PYTHON_V'), async (t) => {
    const [theirs, mine] = await bothOpen(t);
    const [their, my] = await Promise.all([lifecycleOf(theirs, 'theirs'), lifecycleOf(mine, 'mine')]);
    assert.deepEqual(my, their);
});

// Of what is in neither list: the latter of ours alone has it.
const listed = ({ computer_id, sandbox_id, backend, temporary, image, state }) => ({
    computer_id, sandbox_id, backend, temporary, image, state,
});

test('the list, and labels of a container', needs(PYTHON, 'PEER_PYTHON_V'), async (t) => {
    const [theirs, mine] = await bothOpen(t);
    await theirs.run({ command: 'true', computer_id: 'theirs', temporary: false });
    await mine.run({ command: 'true', computer_id: 'mine', temporary: false });
    const [their, my] = await Promise.all([theirs, mine].map(async (one) => (await one.call('computer_list', {})).structuredContent));
    assert.equal(my.count, 2);
    assert.equal(their.count, 2);
    assert.deepEqual(my.computers.map(listed), their.computers.map(listed));
    for (const { created_at } of [...my.computers, ...their.computers]) assert.ok(Date.parse(created_at));
    const labels = (await inspect('theirs')).Config.Labels;
    contains((await inspect('mine')).Config.Labels, { ...labels, 'kilntainers.computer-id': 'mine' });
});

test('each goes on with a permanent computer that the other has made', needs(PYTHON, 'PEER_PYTHON_V'), async (t) => {
    const [theirs, mine] = await bothOpen(t);
    for (const [first, second, id] of [[theirs, ours(t), 'theirs'], [mine, python(t), 'mine']]) {
        await first.run({ command: 'echo kept >/root/file', computer_id: id, temporary: false });
        await first.end();
        await second.open();
        const { stdout, error } = await second.run({ command: 'cat /root/file', computer_id: id, temporary: false });
        assert.deepEqual({ stdout, error }, { stdout: 'kept\n', error: undefined }, `the computer '${id}'`);
        await second.end();
    }
    assert.deepEqual(await computers(), ['mine', 'theirs']);
});

test('Kilntainers: the same calls, the same visible results', needs(KILNTAINERS, 'PEER_PYTHON_K'), async (t) => {
    watch(t);
    const state = temporaryFolder(t, 'state-');
    const mine = [BINARY, ['--personality', 'kilntainers', '--state-dir', state, '--backend', 'docker']];
    const programs = [[KILNTAINERS, []], mine].map(([file, args]) => new Program(t, file, args, 'sandbox_exec'));
    await Promise.all(programs.map((one) => one.open()));
    const [their, my] = await Promise.all(programs.map(async (one) => (await one.ask('tools/list')).result.tools));
    assert.deepEqual(my.map(({ name }) => name), their.map(({ name }) => name));
    for (const args of SAME.filter(({ computer_id, temporary }) => !computer_id && temporary === undefined)) {
        const [a, b] = await Promise.all(programs.map((one) => one.run(args)));
        assert.deepEqual({ ...b, id: '' }, { ...a, id: '' }, JSON.stringify(args).slice(0, 200));
    }
});
