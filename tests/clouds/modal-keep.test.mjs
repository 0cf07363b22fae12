// What becomes of a computer's sandboxes at Modal and of its snapshots, whatever happens on the way.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ModalClient } from 'modal';
import { eventually } from '../integration/support/machine.mjs';
import { call } from './e2b-world.mjs';
import { running, world } from './modal-world.mjs';
import { needsRooms } from './support.mjs';

const KEPT = { computer_id: 'keep-me', temporary: false };
const HERE = { computer_id: 'keep-me' };
const UNAVAILABLE = 14;
const SNAPSHOT = 'TaskSnapshotFilesystem$';

async function images(fake) {
    return (await fake.state()).images;
}

test('a new sandbox that comes to nothing leaves the computer in the one that it has', needsRooms, async (t) => {
    const { fake, server } = await world(t);
    await server.run('echo kept >file', KEPT);
    const [before] = await running(fake);
    await fake.faults([{ match: 'SandboxCreateV2$', times: 0, grpc: UNAVAILABLE, message: 'not now' }]);
    assert.equal((await call(server, 'computer_restart', HERE)).code, 'unavailable');
    await fake.faults([]);
    assert.deepEqual((await running(fake)).map(({ id }) => id), [before.id]);
    assert.equal((await server.run('cat file', HERE)).stdout, 'kept\n');
});

test('a second sandbox, of a server that died on the move, is ended by the next', needsRooms, async (t) => {
    const { fake, server, start } = await world(t);
    await server.run('echo kept >file', KEPT);
    await fake.faults([{ match: 'SandboxCreateV2$', handled: true, stall: 0 }]);
    const moving = call(server, 'computer_restart', HERE).catch(() => {});
    await eventually('there are two', async () => (await running(fake)).length === 2);
    await server.kill('SIGKILL');
    await moving;
    await fake.faults([]);
    const second = await start();
    await eventually('both are ended', async () => (await running(fake)).length === 0);
    assert.equal((await second.run('cat file', HERE)).stdout, 'kept\n');
});

test('a second sandbox of one key is ended by whoever takes the computer up', needsRooms, async (t) => {
    const { fake, server, start } = await world(t);
    await server.run('echo kept >file', KEPT);
    const [{ tags }] = await running(fake);
    await server.stop();
    await eventually('it is put down', async () => (await running(fake)).length === 0);
    Object.assign(process.env, fake.ready.environment, { MODAL_CONFIG_PATH: '/nonexistent', MODAL_SANDBOX_V2: '1' });
    const client = new ModalClient({ logLevel: 'error' });
    const app = await client.apps.fromName((await fake.state()).apps[0].name);
    const others = { tags: Object.fromEntries(tags.map((tag) => [tag.tag_name, tag.tag_value])) };
    const stray = await client.sandboxes.create(app, client.images.fromRegistry('debian:bookworm-slim'), others);
    const second = await start();
    assert.equal((await second.run('cat file', HERE)).stdout, 'kept\n');
    const left = (await running(fake)).map(({ id }) => id);
    assert.ok(left.length === 1 && left[0] !== stray.sandboxId, left.join());
});

for (const v2 of [true, false]) {
    test(`snapshots that are replaced are deleted, and all with their computer (${v2 ? 'second' : 'first'} generation)`, needsRooms, async (t) => {
        const { fake, server, start } = await world(t, { v2 });
        await server.run('echo kept >file', KEPT);
        const everybodys = await images(fake);
        const own = async () => (await images(fake)).filter((image) => !everybodys.includes(image)).length;
        for (let n = 0; n < 3; n++) {
            assert.equal((await call(server, 'computer_restart', HERE)).computer_id, 'keep-me');
            assert.equal(await own(), 1, `after restart ${n}`);
            assert.equal((await server.run('cat file; date +%N >>other', HERE)).stdout, 'kept\n');
        }
        await server.stop();
        await eventually('the last one is left', async () => (await running(fake)).length === 0 && (await own()) === 1);
        const second = await start();
        await second.run('cat file', HERE);
        await second.kill('SIGKILL');
        const third = await start();
        await eventually('it is settled', async () => (await running(fake)).length === 0 && (await own()) === 1);
        assert.equal((await third.run('cat file', HERE)).stdout, 'kept\n');
        await call(third, 'computer_factory_reset', HERE);
        assert.equal(await own(), 0, 'after the reset');
        await call(third, 'computer_restart', HERE);
        assert.equal((await call(third, 'computer_delete', HERE)).deleted, true);
        assert.deepEqual(await images(fake), everybodys);
    });
}

test('a computer that is deleted while it is put down takes its snapshot along', needsRooms, async (t) => {
    const { fake, server, start } = await world(t);
    await server.run('echo kept >file', KEPT);
    const everybodys = await images(fake);
    await server.stop();
    await eventually('it is put down', async () => (await running(fake)).length === 0);
    assert.equal((await images(fake)).length, everybodys.length + 1);
    assert.equal((await call(await start(), 'computer_delete', HERE)).deleted, true);
    assert.deepEqual(await images(fake), everybodys);
});

test('what can\'t be deleted now is deleted later; a snapshot whose answer was lost, too', needsRooms, async (t) => {
    const { fake, server } = await world(t);
    await server.run('echo kept >file', KEPT);
    const everybodys = await images(fake);
    await call(server, 'computer_restart', HERE);
    await server.run('echo more >>file', HERE);
    await fake.faults([{ match: 'ImageDelete$', times: 0, grpc: UNAVAILABLE, message: 'not now' }]);
    await call(server, 'computer_restart', HERE);
    assert.equal((await images(fake)).length, everybodys.length + 2);
    await server.run('echo most >>file', HERE);
    await fake.faults([{ match: SNAPSHOT, times: 0, handled: true, grpc: UNAVAILABLE, message: 'not now' }]);
    assert.equal((await call(server, 'computer_restart', HERE)).code, 'unavailable');
    await fake.faults([]);
    assert.equal((await call(server, 'computer_restart', HERE)).computer_id, 'keep-me');
    assert.equal((await images(fake)).length, everybodys.length + 1);
    assert.equal((await server.run('cat file', HERE)).stdout, 'kept\nmore\nmost\n');
});

for (const tool of ['computer_delete', 'computer_factory_reset']) {
    test(`${tool}: a snapshot whose answer was lost goes with the files that it is of`, needsRooms, async (t) => {
        const { fake, server } = await world(t);
        await server.run('echo kept >file', KEPT);
        const everybodys = await images(fake);
        await fake.faults([{ match: SNAPSHOT, times: 0, handled: true, grpc: UNAVAILABLE, message: 'not now' }]);
        assert.equal((await call(server, 'computer_restart', HERE)).code, 'unavailable');
        await fake.faults([]);
        assert.equal((await images(fake)).length, everybodys.length + 1);
        assert.equal((await call(server, tool, HERE)).ok, true);
        assert.deepEqual(await images(fake), everybodys);
    });
}

test('a permanent computer that is idle has a snapshot, so that the end of its sandbox loses little', needsRooms, async (t) => {
    const { fake, server } = await world(t, { args: ['--sandbox-timeout', '80'] });
    await server.run('true');
    await server.run('echo kept >file', KEPT);
    const snapshots = async () => (await fake.requests()).filter(({ path }) => new RegExp(SNAPSHOT).test(path)).length;
    await eventually('there is one', async () => (await snapshots()) === 1);
    await fake.advance(81); // all sandboxes end, as if Modal had lost them
    const { value } = await server.exec({ command: 'cat file', ...HERE });
    assert.deepEqual([value.code, /its lifetime was over.*last snapshot/.test(value.error)], ['computer_gone', true], value.error);
    assert.equal((await server.run('cat file', HERE)).stdout, 'kept\n');
});

test('what still runs at the end of a lifetime is ended in words, and the computer goes on with its files', needsRooms, async (t) => {
    const { fake, server } = await world(t, { args: ['--sandbox-timeout', '8'] });
    const { isError, value } = await server.exec({ command: 'echo kept >file; sleep 1000', ...KEPT });
    assert.deepEqual([isError, value.code, /lifetime of its sandbox.*--sandbox-timeout, 8 s.*goes on in a new one/.test(value.error)], [true, 'unavailable', true], value.error);
    assert.equal((await server.run('cat file; pgrep -xfc "sleep 1000"', HERE)).stdout, 'kept\n0\n');
    await eventually('the old one is ended', async () => (await running(fake)).length === 1);
});

test('a computer that can\'t move holds up no other', needsRooms, async (t) => {
    const { fake, server } = await world(t, { args: ['--sandbox-timeout', '24'] });
    await server.run('true', KEPT);
    const [stuck] = await running(fake);
    await server.run('echo kept >file', { computer_id: 'other' });
    await fake.faults([{ match: SNAPSHOT, stall: 0 }]); // the first that is looked after
    await eventually('the other one has moved', async () => (await fake.state()).totals.created === 3);
    assert.ok((await running(fake)).some(({ id }) => id === stuck.id), 'before the end of what it would have waited for');
    assert.equal((await server.run('cat file', { computer_id: 'other' })).stdout, 'kept\n');
});
