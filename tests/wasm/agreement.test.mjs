// go-busybox by the server and by node's WASI, which has another engine, another way to open files and another start: what both say is
// what the module does, and not what one of them makes of it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { temporaryFolder } from '../integration/support/machine.mjs';
import { chapters, files, words } from './applets.mjs';
import { Oracle } from './support/oracle.mjs';
import { BUSYBOX, needsWasm, run, startWasm, told } from './support/wasm.mjs';

function oracleFolder(t) {
    const folder = path.join(temporaryFolder(t, 'oracle-'), 'root');
    fs.mkdirSync(path.join(folder, 'tmp'), { recursive: true });
    for (const [name, content] of Object.entries(files)) {
        fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
        fs.writeFileSync(path.join(folder, name), content);
    }
    return folder;
}

// What differs, or null. Of a trap each engine has its own words.
function difference(server, oracle) {
    const mine = { code: server.exit_code, stdout: server.stdout };
    const other = { code: oracle.code, stdout: oracle.stdout };
    if (!oracle.trap) [mine.stderr, other.stderr] = [server.stderr, oracle.stderr];
    else if (!/wasm trap: wasm `unreachable`/.test(told(server))) return { mine: server, other: oracle.trap };
    return JSON.stringify(mine) === JSON.stringify(other) ? null : { mine, other };
}

const stateDir = fs.mkdtempSync(path.join(os.tmpdir(), 'state-')); // it is compiled once for all
let agreed = 0, explained = 0;

for (const [name, rows] of Object.entries(chapters)) {
    test(`go-busybox does what it does under another engine: ${name}`, needsWasm, async (t) => {
        const server = await startWasm(t, { module: 'go_busybox', stateDir });
        const oracle = await Oracle.of(BUSYBOX);
        const folder = oracleFolder(t);
        const archive = execFileSync('tar', ['--format=ustar', '-C', folder, '-cf', '-', ...fs.readdirSync(folder)]);
        const differences = [];
        await run(server, ['tar', '-x', '-f', '-'], { stdin_base64: archive.toString('base64') });
        for (const [row, stdin = '', { differs = null } = {}] of [...rows, ['find .']]) {
            const args = words(row);
            const found = difference(await run(server, args, { stdin }), oracle.run(folder, args, { stdin }));
            if (!found) agreed++;
            else if (differs) explained++;
            else differences.push({ row, ...found });
        }
        assert.deepEqual(differences, []);
    });
}

test('they agree on at least 200 calls', needsWasm, (t) => {
    t.diagnostic(`${agreed} calls agree, ${explained} differ as explained`);
    assert.ok(agreed >= 200, `${agreed}`);
});

test.after(() => fs.rmSync(stateDir, { recursive: true }));
