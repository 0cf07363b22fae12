// kill -9 at every named point of every operation: of the server, of its zygote, of the computer's first process. Then a server
// begins anew, and nothing is left, no file of a permanent computer lost, no id taken.
//
// Which points an operation comes to is found by running it once. KILL_ALL=1: each of them in each operation, and each process;
// else each point once, and the process that comes to it. KILL_ONLY: a regular expression of `operation: point`, to look
// at one closely.
import assert from 'node:assert/strict';
import test from 'node:test';
import { needsRoot } from '../integration/support/machine.mjs';
import { namedPoints } from './support/faults.mjs';
import { operations } from './support/operations.mjs';
import { World, report, takes } from './support/world.mjs';

const ALL = Boolean(process.env.KILL_ALL);
const ONLY = new RegExp(process.env.KILL_ONLY ?? '');
const AT_ONCE = 4;
const CASE_MS = 180_000, OPERATION_MS = 600_000;

const victims = {
    server: (world, server) => server.pid,
    zygote: (world, server) => world.zygoteOf(server),
    init: (world) => world.inits().at(-1),
};
const comesTo = (point) => (point.startsWith('zygote.') ? 'zygote' : point.startsWith('init.') ? 'init' : 'server');

// What the client was told: nothing, by a dead server; a result; an error.
async function outcome(act, server) {
    try {
        const result = await Promise.race([act, server.exited.then(() => Promise.reject(new Error('ended')))]);
        return result?.isError ? result.value.code : 'done';
    } catch {
        return 'no answer';
    }
}

// One more command on each id, at once. A server that lives may tell first that something has ended, unless it did so already.
async function useAll(world, server, operation, { mayTell, runs, cleared }) {
    const command = 'cat /root/file; grep -lx sleep /proc/[0-9]*/comm; echo used';
    for (const id of operation.ids) {
        const what = { command, computer_id: id, ...(id === 'keeper' ? { temporary: false } : {}) };
        let result = await server.exec(what);
        for (let i = 0; i < mayTell && ['computer_gone', 'unavailable'].includes(result.value.code); i++) result = await server.exec(what);
        assert.ok(!result.isError, `${id} can be used at once: ${JSON.stringify(result.value)}`);
        if (operation.kept.includes(id)) assert.match(result.value.stdout, /^kept$/m, 'its files are there');
        if (operation.kept.includes(id) && runs) assert.match(result.value.stdout, /^.proc/m, 'what ran in it runs');
        if (cleared) assert.doesNotMatch(result.value.stdout, /^kept$/m, 'its files are gone');
    }
    world.checkRanges();
}

// A server begins on what is left, everything is to be had at once, and when it has ended nothing is left.
async function recover(world, operation, expected) {
    world.faults.forget();
    const next = await world.start({ args: ['--warm-pool', '0'] });
    await useAll(world, next, operation, { mayTell: 0, ...expected });
    await world.quiet(next, permanent(operation));
    await world.end(next);
    await world.settle(permanent(operation));
}

const permanent = ({ kept, ids }) => [...new Set([...kept, ...ids])].filter((id) => id === 'keeper');

async function begin(world, operation, point) {
    await operation.prepare?.(world);
    const server = await operation.before?.(world);
    world.faults.forget();
    if (point) world.faults.arm(point);
    return server ?? world.start({ args: operation.args });
}

// Runs it to its end, and gives the points that it comes to.
async function trace(t, operation) {
    const world = new World(t);
    const server = await begin(world, operation);
    await operation.act(world, server);
    const points = world.faults.reached();
    await world.killed(server);
    await recover(world, operation, { runs: operation.runs, cleared: operation.clears });
    return points;
}

// What the client was told; or that nobody was there to be killed, or nobody came to the point, as not everything happens each time.
async function killAt(world, server, operation, point, victim) {
    const answer = outcome(operation.act(world, server), server);
    let pid;
    try {
        if (!await world.faults.holds(answer)) return 'passed by';
        world.checkRanges();
        pid = victims[victim](world, server);
        if (pid) world.kill(pid);
        if (victim === 'server') await world.killed(server);
    } finally {
        world.faults.letGo();
    }
    const told = await answer;
    return pid ? told : 'nobody';
}

async function interrupt(t, operation, point, victim) {
    const world = new World(t);
    const server = await begin(world, operation, point);
    const told = await killAt(world, server, operation, point, victim);
    const expected = { runs: operation.runs && victim !== 'init', cleared: operation.clears && told === 'done' };
    if (server.child.exitCode === null && server.child.signalCode === null) {
        const wasTold = ['computer_gone', 'unavailable'].includes(told);
        await useAll(world, server, operation, { mayTell: wasTold ? 0 : 1, ...expected });
        await world.killed(server);
    }
    await recover(world, operation, expected);
    return told;
}

async function inTurns(jobs) {
    const waiting = [...jobs];
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
        for (let job; (job = waiting.shift());) await job();
    }));
}

const seen = new Set();
const table = [];
const possible = Object.entries(operations).filter(([, operation]) => takes(operation.args));
for (const [name, operation] of possible) {
    test(`killed: ${name}`, { ...needsRoot, concurrency: AT_ONCE, timeout: OPERATION_MS }, async (t) => {
        const points = await trace(t, operation);
        const chosen = ALL ? points : points.filter((point) => !seen.has(point));
        points.forEach((point) => seen.add(point));
        const cases = chosen.filter((point) => ONLY.test(`${name}: ${point}`))
            .flatMap((point) => (ALL ? Object.keys(victims) : [comesTo(point)]).map((victim) => ({ point, victim })));
        await inTurns(cases.map(({ point, victim }) => () => t.test(`${point}, ${victim}`, { timeout: CASE_MS }, async (t) => {
            const row = { operation: name, point, victim, told: 'FAILED' };
            table.push(row);
            row.told = await interrupt(t, operation, point, victim);
        })));
    });
}

const none = possible.length < Object.keys(operations).length && 'some operations are not in this version';
test('every point that the source names was come to', { skip: needsRoot.skip || none }, () => {
    assert.deepEqual(namedPoints().filter((point) => !seen.has(point)), []);
});

// Operation, point, and what the client was told when the server, the zygote, the first process was killed.
test.after(() => {
    const rows = [['operation', 'point', ...Object.keys(victims)]];
    for (const { operation, point, victim, told } of table) {
        let row = rows.find((r) => r[0] === operation && r[1] === point);
        if (!row) rows.push(row = [operation, point, ...Object.keys(victims).map(() => '')]);
        row[2 + Object.keys(victims).indexOf(victim)] = told;
    }
    report(rows.map((row) => row.map((text, i) => text.padEnd(i < 2 ? 25 : 14)).join('').trimEnd()).join('\n'));
});
