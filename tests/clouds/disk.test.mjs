// A computer whose disk is full: it is told, and files can be removed, since nothing of ours needs room there.
import assert from 'node:assert/strict';
import test from 'node:test';
import { NAMES, call, world } from './worlds.mjs';
import { needsRooms } from './support.mjs';

const FILL = 'cat /dev/zero >~/big; cat /dev/zero >~/rest; stat -c %s ~/big';

for (const name of NAMES) {
    test(`${name}: a full disk is told, and files can be removed from it`, needsRooms, async (t) => {
        const { server } = await world(t, name, { options: ['--disk', '48'] });
        const free = await server.run('true');
        assert.equal(free.disk_full, undefined);
        const filled = await server.run(FILL);
        assert.ok(Number(filled.stdout) > 1 << 20, filled.stdout);
        assert.match(filled.stderr, /No space left/);
        assert.deepEqual([filled.disk_full, filled.note], [true, "the computer's disk is full: remove files that aren't needed"]);
        const long = await server.run('seq 300000', { output_limit: 1000, stdin: 'x'.repeat(1 << 20) });
        assert.ok(long.stdout.endsWith('300000\n') && long.disk_full, 'much in and much out');
        assert.equal(long.truncated.stdout_path, undefined, 'there is no room for all of it');
        assert.equal((await server.run('true')).disk_full, true);
        assert.deepEqual([(await server.run('rm ~/big ~/rest')).disk_full, (await server.run('echo kept >~/file; cat ~/file')).stdout], [undefined, 'kept\n']);
    });

    test(`${name}: a full disk is no end of a permanent computer`, needsRooms, async (t) => {
        const { server, start } = await world(t, name, { options: ['--disk', '48'] });
        const there = { computer_id: 'keep-me', temporary: false };
        await server.run(FILL, there);
        await server.stop();
        const next = await start();
        assert.equal((await next.run('stat -c %s ~/big >/dev/null && echo there', there)).stdout, 'there\n');
        assert.equal((await call(next, 'computer_restart', { computer_id: 'keep-me' })).ok, true);
        assert.equal((await next.run('rm ~/big ~/rest && echo removed', there)).stdout, 'removed\n');
    });
}
