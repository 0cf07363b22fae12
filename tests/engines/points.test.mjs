// kill -9 of the server between the steps of a restart, a factory reset and a delete. Then another one begins on what is left: the
// id can be used at once, files that nobody wanted gone are there, and beside the computer there is no container and no folder.
// They take a while: with Podman by KILL_ALL=1 only.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { defer, eventually, namedComputersIn, temporaryFolder } from '../integration/support/machine.mjs';
import { Faults, namedPoints } from '../kill/support/faults.mjs';
import { callTool, computers, kind, startServer, states, watch } from './support/engine.mjs';

const here = path.dirname(new URL(import.meta.url).pathname);
const FAULTS_SERVER = process.env.FAULTS_SERVER
    ?? path.resolve(here, '../../build/faults/src/mcp-sandbox-computer-vm-for-ai');
const skip = !fs.existsSync(FAULTS_SERVER) ? 'tools/build faults makes the server for these'
    : kind !== 'docker' && !process.env.KILL_ALL ? 'with KILL_ALL=1 only' : false;
const AT_ONCE = 4;

// The operations, and where they are interrupted; `kept`: up to there the old files are what the id has.
const operations = {
    restart: { always: ['container.stopped', 'container.started', 'restart.restarted'] },
    factory_reset: {
        kept: ['reset.record-written', 'container.created', 'reset.made-recorded'],
        lost: ['reset.exchanged', 'container.name-freed', 'container.renamed', 'delete.marked', 'container.removed', 'reset.old-removed'],
    },
    delete: { kept: ['delete.killed'], lost: ['delete.marked', 'container.removed', 'remove.folder-removed'] },
};
const ON = { alone: false, env: { ENABLE_LIFECYCLE_TOOLS: 'true' } };

async function interrupt(t, name, point, id) {
    const stateDir = temporaryFolder(t, 'state-');
    const faults = new Faults(`${stateDir}.faults`);
    defer(t, () => {
        faults.close();
        fs.rmSync(faults.file);
    });
    const where = { computer_id: id, temporary: false };
    const first = await startServer(t, { ...ON, stateDir, binary: FAULTS_SERVER, env: { ...ON.env, SANDBOX_FAULTS: faults.file } });
    await first.run('echo kept >/root/file; sleep 300 >/dev/null 2>&1 &', where);
    faults.arm(point);
    const act = callTool(first, `computer_${name}`, { computer_id: id }).catch(() => 'no answer');
    assert.ok(await faults.holds(act), 'somebody comes to the point');
    await first.kill('SIGKILL');
    first.faults = first.faults.filter((fault) => !/no end/.test(fault));
    faults.letGo();

    const second = await startServer(t, { ...ON, stateDir });
    const { stdout } = await second.run('cat /root/file; ps | grep -c "[s]leep 300"', where);
    await second.stop();
    const next = await startServer(t, { ...ON, stateDir });
    assert.equal((await next.run('echo used', where)).stdout, 'used\n');
    assert.deepEqual(await states(next, { prefix: id }), [`${id} running`]);
    await eventually('there is one container, and one folder', async () =>
        (await computers((one) => one.Labels['kilntainers.computer-id'] === id)).length === 1
        && namedComputersIn(stateDir).join() === id);
    assert.equal((await callTool(next, 'computer_delete', { computer_id: id })).deleted, true);
    await next.stop();
    assert.deepEqual(fs.readdirSync(path.join(stateDir, 'computers/local')), []);
    return stdout;
}

async function inTurns(jobs) {
    const waiting = [...jobs];
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
        for (let job; (job = waiting.shift());) await job();
    }));
}

for (const [name, { always = [], kept = [], lost = [] }] of Object.entries(operations)) {
    test(`killed in the middle of a ${name}`, { skip, concurrency: AT_ONCE }, async (t) => {
        watch(t);
        await inTurns([...always, ...kept, ...lost].map((point, i) => () => t.test(point, async (t) => {
            const stdout = await interrupt(t, name, point, `${name.replace('_', '-')}-${i}`);
            assert.equal(stdout, lost.includes(point) ? '0\n' : 'kept\n0\n');
        })));
        assert.deepEqual(await computers(), []);
    });
}

test('every point that the backend names is among them', () => {
    const named = Object.values(operations).flatMap((points) => Object.values(points).flat());
    assert.deepEqual(namedPoints({ ofEngine: true }).filter((point) => !named.includes(point)), []);
});
