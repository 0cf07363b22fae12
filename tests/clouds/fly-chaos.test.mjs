// The server at Fly's fake, of which one request fails.
import assert from 'node:assert/strict';
import test from 'node:test';
import { eventually } from '../integration/support/machine.mjs';
import { anyOneFails, faultsOf } from './chaos.mjs';
import { call, machines, world } from './fly-world.mjs';
import { needsRooms } from './support.mjs';

const FAULTS = { ...faultsOf({ error: 'busy' }), 'is answered 429': { status: 429, body: { error: 'rate limit exceeded' } } };
const created = async (fake) => (await fake.state()).totals.created;

anyOneFails({
    world,
    call,
    faults: FAULTS,
    requests: 7, // and one more where one is repeated
    file: '/root/file',
    begin: created,
    made: async (fake, before) => assert.ok(await created(fake) <= before + 2, 'nothing is made again and again'),
    gone: (fake, when) => eventually(`nothing is left ${when}`, async () => (await machines(fake)).length === 0),
});

// What comes back: a stopped machine, whose server asks for it again.
for (const [what, fault] of Object.entries(FAULTS)) {
    test(`chaos: a permanent computer comes back although any one request ${what}`, needsRooms, async (t) => {
        const { fake, server, start } = await world(t);
        await server.run('echo kept >/root/file', { computer_id: 'keep-me', temporary: false });
        await server.stop();
        for (const n of [1, 2, 3, 4]) {
            await fake.faults([{ at: n, ...fault }]);
            const next = await start();
            await next.exec({ command: 'true', computer_id: 'keep-me' }); // it may fail, and tells so
            await fake.faults([]);
            assert.equal((await next.run('cat /root/file', { computer_id: 'keep-me' })).stdout, 'kept\n', `request ${n}`);
            await next.stop();
            assert.equal((await machines(fake)).length, 1);
        }
    });
}
