// Modules that are none, or mean harm; a cache, a library and files that are not what they were.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { allGone, eventually, isRoot, temporaryFolder } from '../integration/support/machine.mjs';
import { BUSYBOX, LIBRARY, guest, needsWasm, call, run, says, startWasm } from './support/wasm.mjs';

// What is said where a server or its first call refuses.
async function refusal(t, settings, args = []) {
    let server;
    try {
        server = await startWasm(t, settings);
    } catch (error) {
        return error.message;
    }
    const value = await call(server, args);
    assert.ok(value.error, `it runs: ${JSON.stringify(value)}`);
    return value.error;
}

function fileWith(t, bytes) {
    const file = path.join(temporaryFolder(t, 'module-'), 'odd.wasm');
    fs.writeFileSync(file, bytes);
    return file;
}

const HEAD = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0];
const whole = () => fs.readFileSync(guest('guest'));
const odd = {
    'an empty file': [() => [], /no WebAssembly module|empty|not a/i],
    'garbage': [() => Buffer.alloc(5000, 'garbage'), /module/i],
    'text instead of a module': [() => '(module (memory 1))', /module/i],
    'compiled code': [() => fs.readFileSync('/bin/true'), /compiled|module/i],
    'a component': [() => [...HEAD.slice(0, 4), 0x0d, 0, 1, 0], /component/],
    'only a head': [() => HEAD, /_start/],
    'a cut head': [() => HEAD.slice(0, 6), /module/i],
    'a truncated module': [() => whole().subarray(0, 60000), /unexpected end|out of bounds|truncated/],
    'a section longer than the file': [() => [...HEAD, 1, 0xff, 0xff, 0xff, 0x7f, 0], /unexpected end|out of bounds|section/],
    'a section of no kind': [() => [...HEAD, 99, 0], /section/],
    'sections in a wrong order': [() => [...HEAD, 3, 1, 0, 1, 1, 0], /order|section/],
    'a flipped body': [() => Buffer.from(whole().map((byte, i) => (i > 5000 && i < 9000 ? 255 - byte : byte))), /refuses|invalid|offset/i],
};
for (const [what, [make, words]] of Object.entries(odd)) {
    test(`${what} is refused`, needsWasm, async (t) => {
        assert.match(await refusal(t, { module: fileWith(t, Buffer.from(make())) }), words);
    });
}

const unfit = { no_start: /_start/, start_with_parameter: /_start/, start_is_memory: /_start/, unknown_import: /env::system|`?env`?.*system/,
    unknown_wasi: /proc_fork/, old_wasi: /wasi_unstable/, wrong_import_type: /proc_exit/, shared_memory: /shared|threads/ };
for (const [module, words] of Object.entries(unfit)) {
    test(`a module that can't be run is refused: ${module}`, needsWasm, async (t) => {
        const server = await startWasm(t, { module: guest(module) }).catch((error) => error);
        const said = server instanceof Error ? server.message : (await call(server, [])).error;
        assert.match(said, words);
        if (!(server instanceof Error)) assert.match((await call(server, [])).error, words, 'each time');
    });
}

test('no module at all: the start is refused', needsWasm, async (t) => {
    assert.match(await refusal(t, { module: '/nonexistent/module.wasm' }), /nonexistent/);
    assert.match(await refusal(t, { module: '/tmp' }), /\/tmp/);
});

// Functions as long as they may be, of which a compiler has a lot to do.
function endless() {
    const leb = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...leb(n >> 7)]);
    const step = [0x20, 0, 0x20, 1, 0x6c, 0x20, 2, 0x73, 0x21, 0, 0x20, 0, 0x20, 2, 0x6a, 0x21, 1, 0x20, 1, 0x41, 3, 0x74, 0x21, 2];
    const body = Buffer.concat([Buffer.from([1, 3, 0x7f]), ...Array(150000).fill(Buffer.from(step)), Buffer.from([0x0b])]);
    const section = (id, ...parts) => Buffer.concat([Buffer.from([id, ...leb(Buffer.concat(parts).length)]), ...parts]);
    const few = (...bytes) => Buffer.from(bytes);
    const one = Buffer.concat([Buffer.from(leb(body.length)), body]);
    return Buffer.concat([few(...HEAD), section(1, few(1, 0x60, 0, 0)), section(3, few(8, 0, 0, 0, 0, 0, 0, 0, 0)), section(5, few(1, 0, 1)),
        section(7, few(2, 6), Buffer.from('_start'), few(0, 0, 6), Buffer.from('memory'), few(2, 0)), section(10, few(8), ...Array(8).fill(one))]);
}
test('a module that takes long to compile: the server answers, a call can be cancelled, nothing stays', needsWasm, async (t) => {
    const server = await startWasm(t, { module: fileWith(t, endless()) });
    const { id, reply } = server.startExec({ args: [] });
    reply.catch(() => {}); // there is none
    await eventually('it compiles', () => server.family().length > 1);
    assert.ok((await server.request('tools/list')).result.tools.length);
    await server.notify('notifications/cancelled', { requestId: id });
    const next = server.startExec({ args: [] });
    next.reply.catch(() => {});
    assert.ok((await server.request('tools/list')).result.tools.length);
    const all = server.family();
    assert.deepEqual(await server.stop(() => server.child.kill('SIGTERM')), { code: 0, signal: null });
    await allGone(all);
});

// --- the cache ---

function cached(stateDir) {
    return fs.readdirSync(stateDir, { recursive: true }).map((name) => path.join(stateDir, name))
        .filter((file) => fs.statSync(file).isFile() && fs.readFileSync(file).subarray(0, 4).toString() === '\x7fELF');
}

async function warm(t) {
    const server = await startWasm(t);
    await says(server, ['echo']);
    const [file, ...others] = cached(server.stateDir);
    assert.ok(file && others.length === 0, 'one file is kept');
    assert.equal(fs.statSync(path.dirname(file)).mode & 0o077, 0, 'nobody else gets to it');
    return { server, file };
}

const spoiled = {
    'is empty': (file) => fs.writeFileSync(file, ''),
    'is cut': (file) => fs.truncateSync(file, 10000),
    'is garbage': (file) => fs.writeFileSync(file, Buffer.alloc(100000, 'garbage')),
    'is a program': (file) => fs.copyFileSync('/bin/true', file),
    'is of another major': (file) => fs.writeFileSync(file, patched(fs.readFileSync(file))),
    'is a link': (file) => {
        fs.renameSync(file, `${file}.away`);
        fs.symlinkSync(`${file}.away`, file);
    },
    'is a folder': (file) => {
        fs.rmSync(file);
        fs.mkdirSync(file);
    },
    'is a pipe': (file) => {
        fs.rmSync(file);
        execFileSync('mkfifo', [file]);
    },
    'is open to all': (file) => fs.chmodSync(file, 0o666),
};
if (isRoot) spoiled["is somebody else's"] = (file) => fs.chownSync(file, 12345, 12345);
// The engine's version, in the first section.
function patched(bytes) {
    bytes[66] = bytes[66] === 0x34 ? 0x35 : 0x34;
    return bytes;
}
for (const [what, spoil] of Object.entries(spoiled)) {
    test(`what is kept ${what}: it is compiled anew`, needsWasm, async (t) => {
        const { server, file } = await warm(t);
        await server.stop();
        spoil(file);
        const next = await startWasm(t, { stateDir: server.stateDir });
        assert.equal(await says(next, ['echo', 'runs']), 'runs\n');
        const after = fs.lstatSync(file);
        if (what !== 'is a folder') assert.ok(after.isFile() && after.size > 100000 && (after.mode & 0o022) === 0 && after.uid === process.getuid(), 'a sound one is kept');
    });
}

test('a folder of the cache that others may write to is not trusted', needsWasm, async (t) => {
    const { server, file } = await warm(t);
    await server.stop();
    fs.chmodSync(path.dirname(file), 0o777);
    const said = await startWasm(t, { stateDir: server.stateDir })
        .then((next) => call(next, ['echo', 'runs']), (error) => ({ error: error.message }));
    if (said.error) assert.match(said.error, /writ|permission|mode|others/i);
    else assert.equal(fs.statSync(path.dirname(file)).mode & 0o022, 0, 'or it is closed to them');
});

test('what is kept is cut under a running server: at most some commands fail, and the next ones run', needsWasm, async (t) => {
    const { server, file } = await warm(t);
    fs.truncateSync(file, 8192);
    await eventually('commands run again', async () => (await call(server, ['echo', 'runs'])).stdout === 'runs\n');
    assert.equal(await says(server, ['echo', 'runs']), 'runs\n');
});

test('what is kept is removed under a running server', needsWasm, async (t) => {
    const { server, file } = await warm(t);
    fs.rmSync(path.dirname(file), { recursive: true });
    assert.equal(await says(server, ['echo', 'runs']), 'runs\n');
    await server.stop();
    const next = await startWasm(t, { stateDir: server.stateDir });
    assert.equal(await says(next, ['echo', 'runs']), 'runs\n');
});

test('no computer is beside the cache', needsWasm, async (t) => {
    const { server, file } = await warm(t);
    await says(server, ['save', 'mark'], { stdin: '' });
    const mark = fs.readdirSync(server.stateDir, { recursive: true }).find((name) => path.basename(name) === 'mark');
    assert.ok(!path.join(server.stateDir, mark).startsWith(path.dirname(file) + path.sep));
});

// --- the library ---

// The real one under another version: all but one function is found in what it is linked with.
function otherMajor(t, major) {
    const folder = temporaryFolder(t, 'library-');
    const file = path.join(folder, 'libwasmtime.so');
    const source = `#define _GNU_SOURCE
        #include <dlfcn.h>
        #include <string.h>
        struct bytes { unsigned long size; char *data; };
        void *wasmtime_module_serialize(const void *module, struct bytes *ret) {
            void *(*real)(const void *, struct bytes *) = (void *(*)(const void *, struct bytes *))dlsym(RTLD_NEXT, "wasmtime_module_serialize");
            void *error = real(module, ret);
            if (!error) memcpy(ret->data + 66, "${major}", 2);
            return error;
        }\n`;
    execFileSync('cc', ['-shared', '-fPIC', '-o', file, '-xc', '-', '-xnone', '-Wl,--no-as-needed', LIBRARY,
        `-Wl,-rpath,${path.dirname(LIBRARY)}`], { input: source });
    return file;
}

for (const major of [47, 51]) {
    test(`a library of major ${major} is refused by name`, needsWasm, async (t) => {
        const said = await refusal(t, { env: { WASMTIME_LIBRARY: otherMajor(t, major) } });
        assert.match(said, new RegExp(`\\b${major}\\b`));
        assert.match(said, /48/);
        assert.match(said, /50/);
    });
}

test('one of a major that is taken, brought by WASMTIME_LIBRARY', needsWasm, async (t) => {
    const server = await startWasm(t, { env: { WASMTIME_LIBRARY: LIBRARY, SANDBOX_WASM_DIR: '/nonexistent' } });
    assert.equal(await says(server, ['echo', 'own']), 'own\n');
});

test('no library, one that is none, and one that is another: what to do is said', needsWasm, async (t) => {
    const empty = temporaryFolder(t, 'library-');
    const text = fileWith(t, 'no library');
    for (const env of [{ SANDBOX_WASM_DIR: empty }, { WASMTIME_LIBRARY: text }, { WASMTIME_LIBRARY: '/nonexistent.so' }]) {
        assert.match(await refusal(t, { env }), /make wasm|WASMTIME_LIBRARY/, JSON.stringify(env));
    }
    const libc = execFileSync('sh', ['-c', 'ls /lib/*/libm.so.6 | head -n 1'], { encoding: 'utf8' }).trim();
    assert.match(await refusal(t, { env: { WASMTIME_LIBRARY: libc } }), /Wasmtime/);
});

// A folder of its own, from which things can be taken away.
function movable(t) {
    const folder = temporaryFolder(t, 'installed-');
    for (const file of [LIBRARY, BUSYBOX]) fs.symlinkSync(file, path.join(folder, path.basename(file)));
    return folder;
}

test('library and module go while the server runs: it goes on; they come back and it begins again', needsWasm, async (t) => {
    const folder = movable(t);
    const module = fileWith(t, whole());
    const server = await startWasm(t, { module, env: { SANDBOX_WASM_DIR: folder } });
    assert.equal(await says(server, ['echo', 'before']), 'before\n');
    fs.rmSync(path.join(folder, 'libwasmtime.so'));
    fs.rmSync(module);
    assert.equal(await says(server, ['echo', 'meanwhile']), 'meanwhile\n');
    const others = server.family().filter((p) => p.pid !== server.pid);
    for (const { pid } of others) process.kill(pid, 'SIGKILL');
    await allGone(others);
    await eventually('it is missed', async () => /wasm|librar/i.test((await call(server, ['echo'])).error ?? ''));
    fs.symlinkSync(LIBRARY, path.join(folder, 'libwasmtime.so'));
    fs.writeFileSync(module, whole());
    await eventually('it runs again', async () => (await call(server, ['echo', 'after'])).stdout === 'after\n');
});

test('go_busybox without its module', needsWasm, async (t) => {
    const folder = movable(t);
    fs.rmSync(path.join(folder, 'busybox.wasm'));
    assert.match(await refusal(t, { module: 'go_busybox', env: { SANDBOX_WASM_DIR: folder } }), /make wasm/);
});

test('go_busybox: a command line is answered by how to use args', needsWasm, async (t) => {
    const server = await startWasm(t, { module: 'go_busybox' });
    assert.equal(await says(server, ['echo', 'hi']), 'hi\n');
    const refused = await server.exec({ command: 'echo hi' });
    assert.ok(refused.isError);
    assert.match(refused.value.error, /args/);
    const { description } = (await server.request('tools/list')).result.tools[0];
    assert.match(description, /grep/);
    assert.match(description, /no network|without network|network: none/i);
});
