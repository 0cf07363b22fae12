// Our program in a computer of a provider, removed or replaced by what runs there: the next command has it again, or says what to do.
import assert from 'node:assert/strict';
import test from 'node:test';
import { call, world } from './worlds.mjs';
import { needsRooms } from './support.mjs';

const PLACES = { e2b: '~/.sandbox/guest-*', fly: '/.sandbox/guest', modal: '/.sandbox/guest-*' };

// $p: where it is.
const DAMAGES = {
    'it is removed': 'rm -rf $p',
    'its folder is removed': 'rm -rf ${p%/*}',
    'a folder is in its place': 'rm -f $p && mkdir $p',
    'it may not be executed': 'chmod 0 $p',
    'another program is in its place': 'cp --remove-destination /bin/true $p',
    'one is that sends back what it gets': 'cp --remove-destination /bin/cat $p',
    'one is that says what is no frame': 'rm -f $p; printf "#!/bin/sh\\nyes | head -c 100000\\nexec cat\\n" >$p; chmod 755 $p',
};

const TOLD = { e2b: ['a folder is in its place'] }; // files are what is put there

for (const [name, place] of Object.entries(PLACES)) {
    test(`${name}: our program is put back`, needsRooms, async (t) => {
        const { server } = await world(t, name);
        for (const [n, [what, damage]] of Object.entries(DAMAGES).entries())
            await t.test(what, async () => {
                const there = { computer_id: `c${n}`, timeout: 20 };
                await server.run(`echo kept >file; p=$(echo ${place}); ${damage}`, { ...there, temporary: n % 2 === 1 });
                const { value } = await server.exec({ command: 'echo on; cat file', ...there });
                if (TOLD[name]?.includes(what)) {
                    assert.match(value.error, /isn't in the computer any more.*factory reset/);
                    await call(server, 'computer_factory_reset', { computer_id: there.computer_id });
                    assert.equal((await server.run('echo on', there)).stdout, 'on\n');
                    return;
                }
                assert.equal(value.stdout, 'on\nkept\n', JSON.stringify(value));
                await call(server, 'computer_restart', { computer_id: there.computer_id });
                assert.equal((await server.run('cat file', there)).stdout, 'kept\n');
            });
    });
}
