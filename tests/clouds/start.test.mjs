// A command that goes with the start of our program: what becomes of it where nobody says whether it has begun, and who can read it.
import assert from 'node:assert/strict';
import test from 'node:test';
import { eventually } from '../integration/support/machine.mjs';
import { needsRooms } from './support.mjs';
import { world } from './worlds.mjs';

const STARTS = { e2b: '^POST /process.Process/Start$', modal: 'TaskExecStart$' };
const THERE = { computer_id: 'c', timeout: 20 };

for (const [name, match] of Object.entries(STARTS)) {
    const runs = (server, seconds) => server.run(`pgrep -fx 'sleep ${seconds}' >/dev/null && echo runs; cat begun`, THERE);

    test(`${name}: a command whose start isn't answered in time is ended`, needsRooms, async (t) => {
        const { fake, server } = await world(t, name);
        await server.run('true', THERE);
        await fake.faults([{ match, stall: 0, times: 0 }]);
        const late = await server.exec({ command: 'echo once >>begun; sleep 3000.1', ...THERE, timeout: 1 });
        await fake.faults([]);
        assert.ok(late.value.timed_out ?? late.isError, JSON.stringify(late.value));
        assert.doesNotMatch(JSON.stringify(late.value), /isn't known/);
        assert.equal((await runs(server, '3000.1')).stdout, 'once\n');
    });

    test(`${name}: a command that is cancelled before its start is answered is ended`, needsRooms, async (t) => {
        const { fake, server } = await world(t, name);
        await server.run('true', THERE);
        await fake.faults([{ match, stall: 0, times: 0 }]);
        const { id, reply } = server.start('tools/call', {
            name: 'terminal_execute',
            arguments: { command: 'echo once >>begun; sleep 3000.2', ...THERE, timeout: 60 },
        });
        reply.catch(() => {}); // it has none
        await eventually('it has come', async () => (await fake.faults())[0].hit > 0);
        await fake.faults([]);
        server.notify('notifications/cancelled', { requestId: id });
        await eventually('it is gone', async () => !(await runs(server, '3000.2')).stdout.includes('runs'));
    });

    test(`${name}: a command whose start's answer is lost runs once at most, and isn't left`, needsRooms, async (t) => {
        const { fake, server } = await world(t, name);
        await server.run('true', THERE);
        await fake.faults([{ match, drop: true, handled: true }]);
        const lost = await server.exec({ command: 'echo once >>begun; [ ! -e more ] || sleep 3000.3', ...THERE });
        assert.equal((await fake.faults())[0].hit, 1);
        if (!lost.isError) assert.equal(lost.value.exit_code, 0);
        const first = (await runs(server, '3000.3')).stdout;
        assert.ok(first === 'once\n' || (lost.isError && first === ''), JSON.stringify([first, lost.value]));
        await fake.faults([{ match, drop: true, handled: true }]);
        await server.exec({ command: 'echo twice >>begun; sleep 3000.3', ...THERE, timeout: 2 });
        await fake.faults([]);
        await eventually('it is gone', async () => [first, `${first}twice\n`].includes((await runs(server, '3000.3')).stdout));
    });

    test(`${name}: what a command is given can't be read beside it`, needsRooms, async (t) => {
        const { server } = await world(t, name);
        const look = `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -a -c 'SERVE_FIRST[=].'; env | grep SERVE_FIRST; true`;
        assert.equal((await server.run(look, THERE)).stdout, '0\n');
    });
}
