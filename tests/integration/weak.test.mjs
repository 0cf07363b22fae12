// Where no namespaces are to be had, as in a container: refused, or weak where that is allowed, and then said everywhere.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { eventually, isRoot, needsRoot, temporaryFolder } from './support/machine.mjs';
import { BINARY, startServer } from './support/server.mjs';

const FILTERED = ['.', '..'].map((up) => path.join(path.dirname(BINARY), up, 'tests/ladder/without-namespaces')).find((file) => fs.existsSync(file));
const needsFilter = { skip: FILTERED ? false : 'tests/ladder/without-namespaces is not built' };
const ALLOWED = ['--allow-weak-isolation'];

/* The server as a program that may make no namespaces. */
function filtered(t) {
    const script = path.join(temporaryFolder(t, 'weak-'), 'server');
    fs.writeFileSync(script, `#!/bin/sh\nexec ${FILTERED} ${BINARY} "$@"\n`, { mode: 0o755 });
    return script;
}

/* As root each computer has a user of its own, who must get to its folder. */
function openFolder(t) {
    const folder = temporaryFolder(t, 'state-');
    fs.chmodSync(folder, 0o711);
    return folder;
}

const recordOf = (server, id) => JSON.parse(fs.readFileSync(path.join(server.stateDir, 'computers/local', id, 'record.json')));

test('B42: without namespaces no computer is made, and what to do is said', needsFilter, async (t) => {
    const server = await startServer(t, { binary: filtered(t) });
    for (const time of ['first', 'second']) {
        const { value } = await server.exec({ command: 'true' });
        assert.equal(value.code, 'denied', time);
        assert.match(value.error, /--security-opt seccomp=unconfined[^]*--allow-weak-isolation/);
    }
});

test('weak computers are named so: on standard error, to the model, in the record', needsFilter, async (t) => {
    const server = await startServer(t, { binary: filtered(t), args: ALLOWED, stateDir: openFolder(t) });
    const { tools } = (await server.request('tools/list')).result;
    assert.match(tools[0].description, /^Runs a command, as an ordinary user of this machine[^]*WEAKLY isolated[^]*weak isolation/);
    const { value } = await server.exec({ command: 'pwd; echo $HOME; id -u' });
    const [cwd, home, uid] = value.stdout.trim().split('\n');
    assert.equal(cwd, home);
    assert.notEqual(uid, '0');
    await eventually('the weakness is said', () => /weak isolation/.test(server.stderr));
    const record = recordOf(server, value.computer_id);
    assert.equal(record.data.rung, 'weak');
    assert.match(record.data.weaker, /weak isolation/);
});

test('a weak computer that its user could not get to is refused with what to do', { skip: isRoot ? needsFilter.skip : needsRoot.skip }, async (t) => {
    const server = await startServer(t, { binary: filtered(t), args: ALLOWED });
    const { value } = await server.exec({ command: 'true' });
    assert.match(value.error, /--state-dir that others may pass/);
});

test('weak is never picked where more is to be had', async (t) => {
    const server = await startServer(t, { args: ALLOWED });
    const { tools } = (await server.request('tools/list')).result;
    assert.doesNotMatch(tools[0].description, /weak/i);
    const { value } = await server.exec({ command: 'id -u' });
    assert.equal(value.stdout, '0\n');
    assert.notEqual(recordOf(server, value.computer_id).data.rung, 'weak');
});

test('a first process of a weak computer that is killed leaves nothing running', needsFilter, async (t) => {
    const server = await startServer(t, { binary: filtered(t), args: ALLOWED, stateDir: openFolder(t) });
    const mark = `4${process.pid}`;
    const { value } = await server.exec({ command: `setsid sleep ${mark} >/dev/null 2>&1 & setsid -f sleep ${mark} >/dev/null 2>&1;
        cut -d' ' -f4 /proc/$PPID/stat` }); // whose parent is a reaper, whose parent is that process
    process.kill(Number(value.stdout), 'SIGKILL');
    const running = () => spawnSync('pgrep', ['-fx', `sleep ${mark}`]).status === 0;
    await eventually('what it left is ended', () => !running());
});
