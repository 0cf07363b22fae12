// A provider that takes no more says when to come again, which may be any text and any number: nobody waits longer than his call
// lasts, or is told less than why, and what makes no sense is as good as no word.
import assert from 'node:assert/strict';
import test from 'node:test';
import { eventually } from '../integration/support/machine.mjs';
import { NAMES, PROVIDERS, call, world } from './worlds.mjs';
import { needsRooms } from './support.mjs';

const FAR = ['1000000000', '9223372036854775807'];
const NONSENSE = ['-5', 'NaN', '1e9', '-0.0001', '', 'Wed, 21 Oct 2099 07:28:00 GMT', '9'.repeat(1000)];

for (const name of NAMES) {
    const { create, tooMuch, created } = PROVIDERS[name];
    for (const after of FAR) {
        test(`${name}: to come again in ${after} seconds is told, and keeps nobody else`, needsRooms, async (t) => {
            const { fake, server, start, live } = await world(t, name);
            await server.run('true', { computer_id: 'there' });
            await fake.faults([{ match: create, times: 0, ...tooMuch(after) }]);
            const { isError, value } = await server.exec({ command: 'true', computer_id: 'new', timeout: 1 });
            assert.ok(isError);
            assert.equal(value.code, 'limit', JSON.stringify(value));
            assert.match(value.error, /slow down/, 'it says what the provider said');
            assert.equal((await server.run('echo on', { computer_id: 'there' })).stdout, 'on\n');
            await fake.faults([]);
            await server.stop();
            if ((await live()).length > 0) await start();
            await eventually('nothing is left', async () => (await live()).length === 0);
        });
    }

    test(`${name}: when to come again makes no sense`, needsRooms, async (t) => {
        const { fake, server } = await world(t, name);
        for (const [n, after] of NONSENSE.entries()) {
            const fault = tooMuch(after);
            if (!fault) continue; // there is no way to say so
            await fake.faults([{ match: create, ...fault }]);
            assert.equal((await server.run('echo made', { computer_id: 'new' })).stdout, 'made\n', after);
            assert.equal((await fake.faults())[0].hit, 1);
            assert.equal(created(await fake.state()), n + 1 - NONSENSE.slice(0, n).filter((one) => !tooMuch(one)).length, 'one each time');
            await call(server, 'computer_delete', { computer_id: 'new' });
        }
    });
}
