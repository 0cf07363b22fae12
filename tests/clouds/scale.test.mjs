// Many computers at once, much into one and out of it, and long commands. SCALE=full: a thousand, which takes longer than a test of every day may.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import test from 'node:test';
import { eventually } from '../integration/support/machine.mjs';
import { NAMES, PROVIDERS, call, world } from './worlds.mjs';
import { needsRooms } from './support.mjs';

const RESOURCE_EXHAUSTED = 8; // what 429 is to gRPC
const BEYOND_CALLS = 16; // threads of the server that are no call's: its loop, those that wait for the next calls, what looks after computers

function sha256(bytes) {
    return createHash('sha256').update(bytes).digest('hex');
}

async function make(server, id) {
    const made = await call(server, 'computer_create', { computer_id: id, temporary: true });
    assert.equal(made.computer_id, id, JSON.stringify(made));
}

// Makes so many at once. Gives the most threads that the server had meanwhile.
async function createAll(server, count) {
    let threads = 0;
    const look = setInterval(() => {
        threads = Math.max(threads, fs.readdirSync(`/proc/${server.pid}/task`).length);
    }, 10);
    try {
        await Promise.all(Array.from({ length: count }, (_, n) => make(server, `c${n}`)));
    } finally {
        clearInterval(look);
    }
    return threads;
}

for (const name of NAMES) {
    const { create, many, rates, created } = PROVIDERS[name];
    const count = process.env.SCALE === 'full' ? 1000 : many;

    for (const [words, at] of Object.entries(rates)) {
        test(`${name}: ${count} computers, more than it takes in a second, ${words}`, needsRooms, async (t) => {
            const { fake, server, start, live } = await world(t, name, { at });
            await createAll(server, count);
            assert.equal(created(await fake.state()), count, 'none twice');
            assert.equal((await live()).length, count, 'each is there');
            if (!at.within) assert.ok((await fake.requests()).some(({ status, grpc }) => status === 429 || grpc === RESOURCE_EXHAUSTED), 'there were too many');
            await server.stop();
            if ((await live()).length > 0) await start(); // a server that ends has no time for all of them over a slow line
            await eventually('none is left', async () => (await live()).length === 0);
        });
    }

    test(`${name}: calls are answered while computers wait to be made`, needsRooms, async (t) => {
        const { fake, server } = await world(t, name, { args: ['--max-concurrent', '512'] });
        await server.run('true', { computer_id: 'there' });
        await fake.faults([{ match: create, at: 3, times: 2, status: 429 }, { match: create, at: many, delay: 5000 }]);
        let ended = false;
        const all = createAll(server, many).finally(() => {
            ended = true;
        });
        await eventually('some are made', async () => (await call(server, 'computer_list')).computers.length > 5);
        assert.equal((await server.run('echo here', { computer_id: 'there' })).stdout, 'here\n');
        assert.ok((await call(server, 'computer_list')).computers.some((one) => one.computer_id === 'there'));
        assert.equal(ended, false, 'there are others yet to be made');
        const threads = await all;
        assert.ok(threads <= many + BEYOND_CALLS, `${threads} threads for ${many} calls`);
    });

    test(`${name}: a command of more than a minute, as the provider's clock goes`, needsRooms, async (t) => {
        const { fake, server } = await world(t, name, { options: ['--clock-scale', '40'] });
        await server.run('true');
        const { now } = await fake.state();
        const long = await server.run('echo begun; cat; sleep 2; echo ended >&2; exit 3', { stdin: 'told\n', timeout: 60 });
        assert.deepEqual([long.stdout, long.stderr, long.exit_code], ['begun\ntold\n', 'ended\n', 3]);
        assert.ok((await fake.state()).now - now > 60000);
    });

    test(`${name}: 2 MiB in, 20 MiB out, any bytes both ways`, needsRooms, async (t) => {
        const { server } = await world(t, name);
        const bytes = randomBytes(1 << 20);
        const all = Buffer.concat([bytes, bytes]);
        const echoed = await server.run('cat', { stdin_base64: all.toString('base64'), output_encoding: 'base64', output_limit: 4 << 20 });
        assert.equal(sha256(Buffer.from(echoed.stdout, 'base64')), sha256(all));

        const lines = Buffer.from(Array.from({ length: 20 << 16 }, (_, n) => `${String(n).padStart(15, '0')}\n`).join(''));
        const long = await server.run('seq -f %015.0f 0 1310719', { output_limit: 100000, timeout: 100 });
        assert.equal(long.exit_code, 0);
        assert.ok(long.stdout.startsWith('000000000000000\n') && long.stdout.endsWith('000000001310719\n'), 'its beginning and its end');
        assert.equal((await server.run(`sha256sum <${long.truncated.stdout_path}`)).stdout, `${sha256(lines)}  -\n`, 'all of it is in the computer');
    });
}
