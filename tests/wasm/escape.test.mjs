// Ways out of a computer's folder: tried by a guest that makes WASI's calls itself (guests/escape.c), by links that lie in the folder, by
// arguments of the tool, by all of them while names change under them. Secrets lie beside the folder and far from it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { temporaryFolder } from '../integration/support/machine.mjs';
import { guest, needsWasm, call, run, says, startWasm, told } from './support/wasm.mjs';

const SECRET = 'OUTSIDE of all computers\n';

// The folder of the machine that is the computer's `/`.
async function rootOf(server, computer = {}) {
    await call(server, ['misuse', '0'], computer); // which makes /in.txt
    const found = fs.readdirSync(server.stateDir, { recursive: true }).find((name) => path.basename(name) === 'in.txt');
    return path.dirname(path.join(server.stateDir, found));
}

// What a guest can't make, but a user may have put there.
function hostsLinks(root, secret) {
    const links = { 'host-absolute': secret, 'host-relative': '../outside-secret', 'host-folder': '..', 'host-root': '/', 'host-proc': '/proc/self',
        'host-dangling': `${secret}-new`, 'host-loop': 'host-loop', 'sub/host-up': '../..', 'host-folder-absolute': path.dirname(secret) };
    fs.mkdirSync(path.join(root, 'sub'), { recursive: true });
    for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, path.join(root, name));
}

// A server with a computer, secrets around it, and at the end the proof that nothing of them was read or changed.
async function besieged(t) {
    const outside = temporaryFolder(t, 'outside-');
    const secret = path.join(outside, 'outside-secret');
    fs.writeFileSync(secret, SECRET);
    fs.mkdirSync(path.join(outside, 'outside-folder'));
    const server = await startWasm(t, { module: guest('escape') });
    const root = await rootOf(server);
    fs.writeFileSync(path.join(root, '../outside-secret'), SECRET);
    hostsLinks(root, secret);
    const look = () => ({
        names: fs.readdirSync(outside, { recursive: true }).sort(),
        beside: fs.readdirSync(path.dirname(root)).sort(),
        far: [fs.readFileSync(secret, 'utf8'), fs.statSync(secret).mtimeMs, fs.statSync(secret).nlink],
        near: [fs.readFileSync(path.join(root, '../outside-secret'), 'utf8'), fs.statSync(path.join(root, '../outside-secret')).mtimeMs],
    });
    const before = look();
    return { server, root, secret, outside, untouched: () => assert.deepEqual(look(), before, 'outside nothing has changed') };
}

let total = 0;
function counted(t, value) {
    const [, attempts, escapes] = /(\d+) attempts, (\d+) escapes\n$/.exec(value.stdout) ?? assert.fail(JSON.stringify(value));
    assert.equal(escapes, '0', value.stdout);
    total += Number(attempts);
    t.diagnostic(`${attempts} attempts, 0 escapes`);
    return Number(attempts);
}

const places = { 'at the root': {}, 'with a working directory, which is another descriptor': { working_directory: '/sub/deeper' } };
for (const [what, more] of Object.entries(places)) {
    test(`every call that takes a path, by every way to name what is outside, ${what}`, needsWasm, async (t) => {
        const { server, secret, outside, root, untouched } = await besieged(t);
        const names = [secret, path.join(outside, 'outside-new'), path.join(outside, 'outside-folder'), path.join(root, '../outside-secret')];
        assert.ok(counted(t, await run(server, ['paths', ...names], more)) > 2000);
        counted(t, await run(server, ['look', '/etc/passwd', '/proc/self/environ'], more));
        untouched();
        counted(t, await run(server, ['descriptors', secret], more));
        untouched();
    });
}

test('opens while a folder and a link to what is above change places', needsWasm, async (t) => {
    const { server, untouched } = await besieged(t);
    const flipping = run(server, ['flip', '8000']);
    const found = { inside: 0, refused: 0, outside: 0 };
    const racers = await Promise.all(Array.from({ length: 3 }, () => run(server, ['race', '8000'])));
    for (const { stdout } of racers) {
        for (const [, word, n] of stdout.matchAll(/(\w+) (\d+)/g)) found[word] += Number(n);
    }
    assert.equal((await flipping).exit_code, 0);
    assert.equal(found.outside, 0);
    assert.ok(found.inside > 100 && found.refused > 100, `it was a race: ${JSON.stringify(found)}`);
    total += found.inside + found.refused;
    t.diagnostic(`${found.inside + found.refused} opens in a race (${found.inside} inside, ${found.refused} refused), 0 outside`);
    untouched();
});

test('names that go down and up again, while other names change', needsWasm, async (t) => {
    const server = await startWasm(t, { module: guest('escape') });
    const [climbed, ...flipped] = await Promise.all([run(server, ['climb', '300']),
        ...Array.from({ length: 4 }, (_, i) => run(server, ['flip', '3000'], { working_directory: `/flip-${i}` }))]);
    for (const one of flipped) assert.equal(one.exit_code, 0, JSON.stringify(one));
    assert.deepEqual([climbed.exit_code, climbed.stdout], [0, 'opened 300\n'], JSON.stringify(climbed));
});

test('working directories that lead out', needsWasm, async (t) => {
    const { server, root, outside, untouched } = await besieged(t);
    await run(server, ['paths', path.join(outside, 'outside-secret')]); // leaves its links there
    const tries = ['/..', '/../..', '/../../../../../../../../..', '/sub/../..', '/sub/../../..', '/.', '//', '/host-folder', '/host-folder/..',
        '/host-root', '/host-root/etc', '/host-proc', '/host-proc/root', '/host-proc/cwd', '/host-folder-absolute', '/host-loop', '/sub/host-up',
        '/own-up', '/own-up/..', '/own-chain', '/own-chain/etc', '/own-dot/..', outside, root, path.dirname(root), '/proc/self/root',
        '/host-absolute', '/host-folder/new-folder', '/own-up/new-folder', '/host-root/tmp/outside-made', '/host-folder-absolute/outside-made'];
    for (const working_directory of tries) {
        const here = await call(server, ['look', '/outside-secret', '/etc/passwd'], { working_directory });
        if (here.error) assert.ok(['invalid_argument', 'cwd_not_found'].includes(here.code), JSON.stringify(here));
        else counted({ diagnostic() {} }, here);
        untouched();
    }
    assert.ok(!fs.existsSync('/tmp/outside-made'));
    total += tries.length;
    t.diagnostic(`${tries.length} working directories, 0 outside`);
});

test('a working directory that changes while it is looked for', needsWasm, async (t) => {
    const { server, untouched } = await besieged(t);
    await run(server, ['flip', '1']);
    const flipping = run(server, ['flip', '6000']);
    let inside = 0;
    for (let i = 0; i < 20; i++) {
        const here = await call(server, ['look', '/outside-secret'], { working_directory: '/s' });
        if (here.error) continue;
        inside += counted({ diagnostic() {} }, here);
    }
    await flipping;
    t.diagnostic(`${inside} attempts in it, 0 escapes`);
    untouched();
});

test('the file of long output, where its folder leads elsewhere', needsWasm, async (t) => {
    const outside = temporaryFolder(t, 'outside-');
    const server = await startWasm(t);
    await says(server, ['save', 'in.txt'], { stdin: '' });
    const root = await rootOf(server);
    const flood = async () => {
        const value = await run(server, ['flood', '1000'], { output_limit: 1000 });
        assert.equal(value.exit_code, 0);
        return value;
    };
    const { truncated } = await flood();
    const file = JSON.stringify(truncated).match(/\/tmp\/[\w./-]+/)[0];
    const folder = path.dirname(file);
    const traps = [[folder, outside], [folder, '../../..'], [folder, '/proc/self/fd'], [file, path.join(outside, 'x')], ['/tmp', outside],
        ['/tmp', '..']];
    for (const [where, target] of traps) {
        const place = path.join(root, where);
        fs.rmSync(place, { recursive: true, force: true });
        fs.mkdirSync(path.dirname(place), { recursive: true });
        fs.symlinkSync(target, place);
        const beside = fs.readdirSync(path.dirname(root)).sort();
        await flood();
        assert.deepEqual(fs.readdirSync(outside), []);
        assert.deepEqual(fs.readdirSync(path.dirname(root)).sort(), beside);
        fs.rmSync(place, { recursive: true, force: true });
        total++;
    }
});

test('a computer full of links is removed, and nothing they lead to', needsWasm, async (t) => {
    const { server, root, secret, outside } = await besieged(t);
    fs.symlinkSync(outside, path.join(root, 'sub/all'));
    await server.stop();
    assert.ok(!fs.existsSync(root));
    assert.equal(fs.readFileSync(secret, 'utf8'), SECRET);
    assert.ok(fs.existsSync(path.join(outside, 'outside-folder')));
});

test('calls that make no sense end in an error or a trap', needsWasm, async (t) => {
    const server = await startWasm(t, { module: guest('escape') });
    const count = Number((await run(server, ['misuse'])).stdout);
    for (let i = 0; i < count; i++) {
        const value = await run(server, ['misuse', String(i)], { timeout: 20, stdin: 'input' });
        assert.ok([0, 1].includes(value.exit_code), `${i}: ${JSON.stringify(value).slice(0, 300)}`);
        assert.doesNotMatch(told(value), /backtrace/);
        assert.ok(!value.signal && !/root:/.test(value.stdout), `${i}: ${JSON.stringify(value).slice(0, 300)}`);
    }
    assert.equal((await run(server, ['flip', '1'])).exit_code, 0, 'and the next command runs');
});

test.after(() => console.log(`# ${total} attempts to get out of a WASM computer, 0 escapes`));
