// Memory and fuel, to the unit; and what has no option but has an end.
import assert from 'node:assert/strict';
import test from 'node:test';
import { guest, needsWasm, call, run, says, startWasm, told } from './support/wasm.mjs';

const PAGES_PER_MIB = 16;

for (const mib of [2, 17, 64, 256]) {
    test(`--wasm-max-memory ${mib} is that many pages, and not one more`, needsWasm, async (t) => {
        const server = await startWasm(t, { args: ['--wasm-max-memory', String(mib)] });
        assert.equal(await says(server, ['grow']), `${mib * PAGES_PER_MIB} pages\n`);
        if (mib >= 17) assert.equal(await says(server, ['allocate', String(mib - 2)]), 'touched all\n');
        const more = await run(server, ['allocate', String(mib)]);
        assert.equal(more.exit_code, 1);
        assert.match(more.stderr, /^malloc: /);
    });
}

test('what a module has from the beginning counts', needsWasm, async (t) => {
    const limit = ['--wasm-max-memory', '64'];
    assert.equal((await run(await startWasm(t, { module: guest('memory_64_mib'), args: limit }), [])).exit_code, 0);
    for (const module of ['memory_over_64_mib', 'huge_memory', 'two_memories', 'huge_table']) {
        const value = await call(await startWasm(t, { module: guest(module), args: limit }), []);
        assert.ok(value.error || value.exit_code === 1, JSON.stringify(value));
        assert.match(told(value), /limit|exceed|too large/i, module);
    }
});

test('a table grows to its limit', needsWasm, async (t) => {
    assert.equal((await run(await startWasm(t, { module: guest('table_without_end') }), [])).exit_code, 0);
});

// One unit for each instruction but `loop`, `end` and the like, and one for entering a function. The engine looks when a round of a
// loop begins: of what was given there must be something left then.
const ENTRY = 1, BEFORE = 2, EACH = 5, ROUNDS = 1000;
test('--wasm-fuel: enough is enough, and one less is not', needsWasm, async (t) => {
    const needed = ENTRY + BEFORE + EACH * (ROUNDS - 1) + 1;
    const module = guest('thousand_steps');
    const runs = async (fuel) => run(await startWasm(t, { module, args: ['--wasm-fuel', String(fuel)] }), []);
    assert.equal((await runs(needed)).exit_code, 0);
    const spent = await runs(needed - 1);
    assert.equal(spent.exit_code, 124);
    assert.match(told(spent), /fuel/);
    assert.ok(!spent.timed_out, 'it was not the time');
});

test('fuel is each command\'s own, and ends one that only computes', needsWasm, async (t) => {
    const server = await startWasm(t, { args: ['--wasm-fuel', '1000000'] });
    for (let i = 0; i < 20; i++) assert.equal(await says(server, ['echo', 'hi']), 'hi\n');
    const spent = await run(server, ['spin']);
    assert.equal(spent.exit_code, 124);
    assert.match(told(spent), /fuel/);
    assert.equal(await says(server, ['echo', 'hi']), 'hi\n');
});

test('--disk bounds what a computer writes', needsWasm, async (t) => {
    const server = await startWasm(t, { args: ['--disk', '16m'] });
    const value = await run(server, ['fill', 'big', '64']);
    const full = value.exit_code !== 0 || value.disk_full;
    assert.ok(full, JSON.stringify(value));
    assert.ok(parseInt(value.stdout, 10) <= 32, value.stdout);
    await says(server, ['remove', 'big']);
    assert.equal(await says(server, ['save', 'small'], { stdin: 'fits again\n' }), '');
});
