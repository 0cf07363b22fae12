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
