// What holds at each provider for servers that die, and for several on one account: what costs is ended by the next one, permanent computers are found
// again, nothing is there twice, and nobody ends what is another's. SCALE=full: killed at each request; else at one of three.
import assert from 'node:assert/strict';
import test from 'node:test';
import { eventually, temporaryFolder } from '../integration/support/machine.mjs';
import { PROVIDERS, call, world } from './worlds.mjs';
import { needsRooms } from './support.mjs';

const STRIDE = process.env.SCALE === 'full' ? 1 : 3;
const REQUESTS_MAX = 40; // of one operation
const ROUNDS_MAX = 40;
const ROUNDS = process.env.SCALE === 'full' ? ROUNDS_MAX : 3;

// Where the server is killed: the request has come, and is carried out or not, and is never answered.
const MOMENTS = {
    'before the provider has done it': { drop: true, delay: 3_600_000 },
    'once the provider has done it': { stall: 0 },
};

const KEPT = { computer_id: 'keep-me', temporary: false };
const write = ({ server, file }) => server.run(`echo kept >${file}`, KEPT);
const tool = (name) => ({ server }) => call(server, name, { computer_id: KEPT.computer_id });
// begin: before the operation; kept: its files are there afterwards, whatever came of it; else they may be.
const OPERATIONS = {
    'creation of a temporary one': { act: ({ server }) => server.exec({ command: 'true', computer_id: 'passing' }) },
    'creation of a permanent one': { act: ({ server, file }) => server.exec({ command: `echo kept >${file}`, ...KEPT }) },
    'a command': { begin: write, act: ({ server }) => server.exec({ command: 'seq 100000', ...KEPT }), kept: true },
    'a restart': { begin: write, act: tool('computer_restart'), kept: true },
    'a reset': { begin: write, act: tool('computer_factory_reset') },
    'a deletion': { begin: write, act: tool('computer_delete') },
    'its return': { begin: (where) => write(where).then(() => again(where)), act: ({ server }) => server.exec({ command: 'true', ...KEPT }), kept: true },
};

async function again(where) {
    await where.server.stop();
    where.server = await where.start();
}

// What a server that is killed leaves to the next one.
async function recover(where, kept) {
    const { fake, file, live } = where;
    await fake.faults([]);
    where.server = await where.start();
    await eventually('it can be used', async () => !(await where.server.exec({ command: 'true', ...KEPT })).isError);
    if (kept) assert.equal((await where.server.run(`cat ${file}`, KEPT)).stdout, 'kept\n');
    await eventually('it is there once, and nothing else is', async () => (await live()).length === 1);
    await call(where.server, 'computer_delete', { computer_id: KEPT.computer_id });
    await eventually('nothing is left', async () => (await live()).length === 0);
}

// False: there is no nth request.
async function killAt(where, operation, moment, n) {
    const { fake } = where;
    await operation.begin?.(where);
    await fake.faults([{ at: n, ...moment }]);
    let over = false;
    operation.act(where).catch(() => {}).finally(() => {
        over = true;
    });
    const struck = async () => (await fake.faults())[0].hit > 0;
    await eventually('it comes to the request, or to its end', async () => over || (await struck()));
    const was = await struck();
    await where.server.kill('SIGKILL');
    await recover(where, operation.kept);
    return was;
}

export function severalServers(name) {
    const { file } = PROVIDERS[name];
    for (const [nth, [what, moment]] of Object.entries(MOMENTS).entries()) {
        test(`${name}: a server that is killed ${what}`, needsRooms, async (t) => {
            const where = { ...(await world(t, name)), file };
            for (const [operation, how] of Object.entries(OPERATIONS)) {
                await t.test(operation, async (t) => {
                    let n = 1 + nth;
                    while (n < REQUESTS_MAX && (await killAt(where, how, moment, n))) n += STRIDE;
                    assert.ok(n < REQUESTS_MAX);
                    t.diagnostic(`killed at ${Math.ceil((n - 1 - nth) / STRIDE)} requests`);
                });
            }
            await t.test('nothing at all', async () => {
                await write(where);
                await where.server.run('true', { computer_id: 'passing' });
                await where.server.kill('SIGKILL');
                await recover(where, true);
            });
        });
    }

    test(`${name}: two servers on one account leave each other's computers alone`, needsRooms, async (t) => {
        const { server, start, live } = await world(t, name);
        const stateDir = temporaryFolder(t, 'state-');
        await server.run('true', { computer_id: 'one-passing' });
        await server.run(`echo kept >${file}`, { computer_id: 'one-kept', temporary: false });
        const second = await start({ stateDir });
        await second.run('true', { computer_id: 'two-passing' });
        await second.run(`echo kept >${file}`, { computer_id: 'two-kept', temporary: false });
        await second.kill('SIGKILL');
        const third = await start({ stateDir });
        assert.equal((await third.run(`cat ${file}`, { computer_id: 'two-kept' })).stdout, 'kept\n');
        await eventually('what it left is ended', async () => (await live()).length === 3);
        assert.equal((await server.run(`cat ${file}`, { computer_id: 'one-kept' })).stdout, 'kept\n');
        assert.equal((await server.run('echo on', { computer_id: 'one-passing' })).stdout, 'on\n');
        await third.stop();
        assert.equal((await server.run('echo on', { computer_id: 'one-passing' })).stdout, 'on\n');
    });

    test(`${name}: an id that two servers want is one computer, and the other is told`, needsRooms, async (t) => {
        const { server, start, live } = await world(t, name);
        const other = await start({ stateDir: temporaryFolder(t, 'state-') });
        for (const temporary of [true, false]) {
            const args = { command: 'true', computer_id: temporary ? 'same' : 'same-kept', temporary };
            await server.run('true', { computer_id: args.computer_id, temporary });
            const { isError, value } = await other.exec(args);
            assert.ok(isError);
            assert.equal(value.code, 'busy', value.error);
            assert.match(value.error, /--state-dir/);
            assert.equal((await live()).length, 1, 'it is there once');
            await call(server, 'computer_delete', { computer_id: args.computer_id });
            await eventually('nothing is left', async () => (await live()).length === 0);
        }
    });

    // Between the look whether there is one and the creation passes some time, for either; then whoever is first is anybody's guess.
    test(`${name}: an id that two servers want at the same instant is one computer`, needsRooms, async (t) => {
        const { row, fake, server, start, live } = await world(t, name);
        const servers = [server, await start({ stateDir: temporaryFolder(t, 'state-') })];
        for (const [nth, one] of servers.entries()) await one.run('true', { computer_id: `warm-${nth}` }); // what is asked for once is known
        let contests = 0;
        for (let round = 0; round < ROUNDS || (contests === 0 && round < ROUNDS_MAX); round++) {
            const same = { computer_id: `same-${round}`, temporary: false };
            const before = row.created(await fake.state());
            await fake.faults([0, 1].map((nth) => ({ match: row.create, at: nth + 1, delay: 40 + ((round * 23 + nth * 31) % 60) })));
            const told = await Promise.all(servers.map((one, nth) => one.exec({ command: `echo ${nth} >${file}`, ...same })));
            const winner = told.findIndex(({ isError }) => !isError);
            const { isError, value } = told[1 - winner];
            assert.ok(isError && value.code === 'busy' && /--state-dir/.test(value.error), JSON.stringify(told.map((one) => one.value)));
            assert.equal((await live()).length, 3, 'it is there once, and nothing else is');
            assert.equal((await servers[winner].run(`cat ${file}`, same)).stdout, `${winner}\n`);
            contests += row.created(await fake.state()) - before > 1;
            await call(servers[winner], 'computer_delete', same);
            await eventually('nothing of it is left', async () => (await live()).length === 2);
        }
        assert.ok(contests > 0, 'both have made one now and then');
    });
}
