// A server at a provider's fake, of which one request fails: nothing is left, made twice, run twice or lost without a word. What came
// of each operation and each way to fail is shown as a table at the end. SCALE=full: each request in each way; else one of three, what
// is `seldom` in one way of three, and what a server does while nobody calls in one.
// CHAOS_ONLY: a regular expression of `operation: way to fail`.
import assert from 'node:assert/strict';
import test from 'node:test';
import { eventually } from '../integration/support/machine.mjs';
import { needsRooms } from './support.mjs';
import { NAMES, PROVIDERS, call, world } from './worlds.mjs';

const ONLY = new RegExp(process.env.CHAOS_ONLY ?? '');
const REQUESTS_MAX = 40; // of one operation
const STRIDE = process.env.SCALE === 'full' ? 1 : 3;
const NEVER = 1e9; // there are not so many requests
const AT_ONCE = 4; // servers that are left alone
const CREATED_MOST = 3; // by an operation, and by what follows it until all is well

// Each way for a request to fail, whoever speaks what.
const TRANSPORT = {
    'is done, and the answer lost': { drop: true, handled: true },
    'is lost': { drop: true },
    'is lost with its connection': { hangup: true },
    'is answered 503': { status: 503, body: { code: 503, error: 'busy', message: 'busy' } },
    'is answered with nonsense': { status: 200, headers: { 'content-type': 'application/json' }, body: '{"a":' },
    'is cut in its answer': { cut: 20 },
    'is answered late': { delay: 150 },
    'is the last of its connection': { goaway: true },
};
const HTTP = { 'is answered 429': { status: 429, body: { code: 429, error: 'slow down', message: 'slow down' } } };
const GRPC = {
    'is answered UNAVAILABLE': { grpc: 14, message: 'busy' },
    'is done, and answered UNAVAILABLE': { grpc: 14, handled: true },
    'is answered INTERNAL': { grpc: 13, message: 'failure' },
    'is answered RESOURCE_EXHAUSTED': { grpc: 8 },
    'is answered without trailers': { bare: true },
};

// What is done while one request of it fails, with the computer 'c', which has a file of one line 'first'; or, `fresh`, without
// one. sure: each of its requests can be sent once more, so it goes well. Each gives the tool's answer.
const tool = (name) => async ({ server }) => {
    const value = await call(server, name, { computer_id: 'c' });
    return { isError: value.error !== undefined, value };
};
const append = (word) => ({ server, file }) => server.exec({ command: `echo ${word} | tee -a ${file}`, computer_id: 'c', temporary: false });
const OPERATIONS = {
    create: { fresh: true, act: append('first'), says: 'first\n' },
    command: { act: append('second'), says: 'second\n' },
    restart: { act: tool('computer_restart'), sure: true },
    reset: { act: tool('computer_factory_reset'), clears: true },
    list: { act: ({ server }) => call(server, 'computer_list', { metrics: true }).then((value) => ({ isError: false, value })) },
    delete: { act: tool('computer_delete'), clears: true, sure: true },
};

// What failed may have ended it: then that is told once, and the next call starts it again.
async function linesOf({ server, file }, mayHaveEnded) {
    const read = () => server.exec({ command: `cat ${file} 2>/dev/null; true`, computer_id: 'c', temporary: false });
    let { isError, value } = await read();
    if (mayHaveEnded && value.code === 'computer_gone') ({ isError, value } = await read());
    assert.ok(!isError, `refused: ${JSON.stringify(value)}`);
    return value.stdout.split('\n').filter(Boolean);
}

function checkTold({ isError, value }, says) {
    if (isError) assert.ok(['unavailable', 'computer_gone'].includes(value.code) && value.error.length > 20, JSON.stringify(value));
    else if (says) assert.deepEqual([value.stdout, value.exit_code], [says, 0]);
}

async function nothingIsLeft({ fake, row, live, images }) {
    await eventually('nothing is left', async () => (await live()).length === 0);
    assert.deepEqual(row.images(await fake.state()), images, 'not of its files either');
}

// The nth request of an operation fails. What the client was told; null: there is no nth.
async function strike(where, operation, fault, n) {
    const { server, fake, row, live } = where;
    const before = row.created(await fake.state());
    if (!operation.fresh) await append('first')(where).then(checkTold);
    await fake.faults([{ at: n, ...fault }]);
    const told = await operation.act(where);
    const [{ hit }] = await fake.faults();
    await fake.faults([]);
    checkTold(told, operation.says);
    assert.ok(!operation.sure || !told.isError, JSON.stringify(told.value));
    const lines = await linesOf(where, told.isError);
    assert.equal(new Set(lines).size, lines.length, `nothing ran twice: ${lines}`);
    if (!told.isError && operation.says) assert.ok(lines.includes(operation.says.trim()), `nothing is lost: ${lines}`);
    if (!told.isError && operation.clears) assert.deepEqual(lines, [], 'what was there is gone');
    if (!operation.clears && !operation.fresh && told.value.code !== 'computer_gone') assert.ok(lines.includes('first'), `what was there is there: ${lines}`);
    assert.ok(row.created(await fake.state()) - before <= CREATED_MOST, 'nothing is made again and again');
    await call(server, 'computer_delete', { computer_id: 'c' });
    await nothingIsLeft(where);
    return hit ? (told.isError ? told.value.code : 'fine') : null;
}

// What one server leaves to the next, a permanent computer and a temporary one, while one request fails: of the first one's end, or of
// what the next one does, by itself and for the permanent computer.
const TURNS = {
    'come back': { end: (server) => server.stop() },
    'come back after a kill': { end: (server) => server.kill('SIGKILL'), seldom: true },
    end: { end: (server) => server.stop(), struck: 'end', seldom: true },
};

async function strikeTurn(where, { end, struck }, fault, n) {
    const { fake, file, start, live } = where;
    const fail = () => fake.faults([{ at: n, ...fault }]);
    await where.server.run(`echo kept >${file}`, { computer_id: 'keep-me', temporary: false });
    await where.server.run('true', { computer_id: 'passing' });
    if (struck === 'end') await fail();
    await end(where.server);
    if (struck !== 'end') await fail();
    const atEnd = (await fake.faults())[0].hit;
    if (struck === 'end') await fake.faults([]);
    where.server = await start();
    const told = await where.server.exec({ command: `cat ${file}`, computer_id: 'keep-me' });
    checkTold(told, 'kept\n');
    await eventually('it is there once, and nothing else is', async () => (await live()).length === 1);
    const hit = atEnd + (struck === 'end' ? 0 : (await fake.faults())[0].hit);
    await fake.faults([]);
    assert.equal((await where.server.run(`cat ${file}`, { computer_id: 'keep-me' })).stdout, 'kept\n');
    await call(where.server, 'computer_delete', { computer_id: 'keep-me' });
    await nothingIsLeft(where);
    return hit ? (told.isError ? told.value.code : 'fine') : null;
}

const ALONE = 'left alone';

// A lifetime that is short may be over while the command runs, which is told.
function surely(server, args) {
    return eventually('it can be used', async () => {
        const { isError, value } = await server.exec(args);
        return !isError && value;
    });
}

// Nobody calls, and the nth request fails of what the server does by itself for a permanent computer and a temporary one. How many
// there were.
async function strikeAlone(t, name, fault, n) {
    const { args } = PROVIDERS[name].alone;
    const where = await aWorld(t, name, { args, options: ['--clock-scale', '0.1'] }); // no machine is too slow for that
    const { row, server, fake, file, live } = where;
    const both = [{ computer_id: 'keep-me', temporary: false }, { computer_id: 'passing' }];
    for (const one of both) await surely(server, { command: `echo kept >${file}`, ...one });
    const before = await fake.state();
    await fake.forgetRequests();
    await fake.faults([{ at: n, ...fault }]);
    await eventually('both were looked after', async () => row.alone.done(await fake.requests(), before, await fake.state()));
    const [{ seen }] = await fake.faults();
    await fake.faults([]);
    for (const { computer_id } of both) assert.equal((await surely(server, { command: `cat ${file}`, computer_id })).stdout, 'kept\n');
    await eventually('nothing is there twice', async () => (await live()).length === 2);
    for (const { computer_id } of both) await call(server, 'computer_delete', { computer_id });
    await nothingIsLeft(where);
    return seen;
}

async function eachAlone(t, name, fault, first) {
    const count = await strikeAlone(t, name, fault, NEVER);
    const struck = Array.from({ length: count }, (_, n) => n + 1).filter((n) => n >= first && (n - first) % STRIDE === 0);
    await Promise.all(struck.map((n) => t.test(`request ${n}`, (t) => strikeAlone(t, name, fault, n))));
    return struck.map(() => 'fine');
}

// A world, and what there is in it whoever has a computer.
async function aWorld(t, name, options) {
    const where = await world(t, name, options);
    const { server, fake, row } = where;
    await surely(server, { command: 'true', computer_id: 'c' }); // what is asked for once is known
    await call(server, 'computer_delete', { computer_id: 'c' });
    return { ...where, file: row.file, images: row.images(await fake.state()) };
}

async function each(first, strikes, tell) {
    const outcomes = [];
    for (let n = first; n <= REQUESTS_MAX; n += STRIDE) {
        const outcome = await strikes(n);
        if (outcome === null) return tell(outcomes);
        outcomes.push(outcome);
    }
    throw new Error(`more than ${REQUESTS_MAX} requests`);
}

// "5 fine, 1 unavailable"
function summary(outcomes) {
    return [...new Set(outcomes)].map((one) => `${outcomes.filter((other) => other === one).length} ${one}`).join(', ');
}

function tableOf(name, rows) {
    const operations = [...Object.keys({ ...OPERATIONS, ...TURNS }), ALONE];
    const cells = [[`${name}: any one request that`, ...operations], ...rows.map(([fault, found]) => [fault, ...operations.map((one) => found[one] || '-')])];
    const widths = cells[0].map((_, n) => Math.max(...cells.map((row) => row[n].length)));
    return cells.map((row) => row.map((cell, n) => cell.padEnd(widths[n])).join(' | ').trimEnd());
}

export function anyOneFails(name) {
    if (!NAMES.includes(name)) return;
    const row = PROVIDERS[name];
    const rows = [];
    for (const [nth, [what, fault]] of Object.entries({ ...TRANSPORT, ...(row.grpc ? GRPC : HTTP) }).entries()) {
        const isTried = (operation, seldom) => ONLY.test(`${operation}: ${what}`) && !(seldom && nth % STRIDE > 0);
        const operations = Object.entries({ ...OPERATIONS, ...TURNS }).filter(([operation, { seldom }]) => isTried(operation, seldom));
        const isLeftAlone = isTried(ALONE, true) && (STRIDE === 1 || nth === 0);
        const first = 1 + (nth % STRIDE);
        const found = {};
        if (operations.length > 0 || isLeftAlone) rows.push([what, found]);
        if (operations.length > 0)
            test(`chaos: ${name}: any one request that ${what}`, needsRooms, async (t) => {
                const where = await aWorld(t, name);
                for (const [operation, how] of operations) {
                    const one = (n) => (how.act ? strike : strikeTurn)(where, how, fault, n);
                    await t.test(operation, () => each(first, one, (all) => (found[operation] = summary(all))));
                }
            });
        if (isLeftAlone)
            test(`chaos: ${name}: ${ALONE}, any one request that ${what}`, { ...needsRooms, concurrency: AT_ONCE }, async (t) => {
                found[ALONE] = summary(await eachAlone(t, name, fault, first));
            });
    }
    test(`chaos: ${name}: what came of it`, (t) => {
        for (const line of tableOf(name, rows)) t.diagnostic(line);
    });
}
