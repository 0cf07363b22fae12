// The operations that are interrupted. `before` brings the world to where it begins and gives the server, or nothing if its
// start belongs to the operation; `act` does it. `kept`: permanent computers that there are from before, with /root/file in
// each; `ids`: those that the operation is about; `runs`: what was started in the permanent one has to live on; `clears`: when
// it says that it is done, the files are gone for good, and else they are as they were, or gone. A row whose options the server
// refuses is left out. A new operation is a row; its points are found by running it.
const COLD = ['--warm-pool', '0'], WARM = ['--warm-pool', '1'], STOP = [...COLD, '--on-exit', 'stop'];
const MANAGED = [...COLD, '--lifecycle-tools'], BRIEF = [...COLD, '--ttl', '1'];
const KEEP = { computer_id: 'keeper', temporary: false };
const SLEEP = 'sleep 300 >/dev/null 2>&1 & true';
const write = 'echo kept >/root/file';

// More than a result holds, so that the rest goes into a file.
const flood = 'yes 0123456789 | head -c 3000000; echo end >&2';

const call = (server, command, more) => server.exec({ command, ...more });

async function manage(server, name) {
    const { result } = await server.request('tools/call', { name, arguments: { computer_id: KEEP.computer_id } });
    return { ...result, value: result.structuredContent };
}

async function withKeeper(world, args) {
    const server = await world.startAndRest({ args });
    await server.run(write, KEEP);
    return server;
}

async function putDown(world) {
    const first = await withKeeper(world, COLD);
    await first.stop();
    return world.startAndRest({ args: COLD });
}

// A server has a permanent computer and a temporary one, with processes, and one that was made ahead, and is killed.
async function abandoned(world, args = WARM) {
    const first = await withKeeper(world, args);
    await first.run(SLEEP, KEEP);
    await first.run(SLEEP, { computer_id: 'passing' });
    if (args.includes('1')) await world.reached('spare.rehearsed');
    await world.killed(first);
}

export const operations = {
    'start, create': {
        args: COLD, kept: [], ids: ['passing'],
        act: (world, server) => call(server, 'echo made', { computer_id: 'passing' }),
    },
    'create permanent': {
        args: COLD, kept: [], ids: ['keeper'],
        before: (world) => world.startAndRest({ args: COLD }),
        act: (world, server) => call(server, write, KEEP),
    },
    'attach': {
        args: COLD, kept: ['keeper'], ids: ['keeper'],
        before: putDown,
        act: (world, server) => call(server, 'cat /root/file', KEEP),
    },
    'exec': {
        args: COLD, kept: ['keeper'], ids: ['keeper'],
        before: (world) => withKeeper(world, COLD),
        act: (world, server) => call(server, flood, KEEP),
    },
    'make ahead': {
        args: WARM, kept: [], ids: ['passing'],
        before: (world) => world.startAndRest({ args: WARM }),
        async act(world, server) {
            const result = await call(server, 'echo made', { computer_id: 'passing' });
            await world.reached('spare.rehearsed');
            return result;
        },
    },
    'give an id': {
        args: WARM, kept: ['keeper'], ids: ['passing'],
        async before(world) {
            const server = await withKeeper(world, WARM);
            await world.reached('spare.rehearsed');
            return server;
        },
        act: (world, server) => call(server, 'echo named', { computer_id: 'passing' }),
    },
    'prepare': {
        args: COLD, kept: [], ids: ['passing'],
        before: (world) => world.startAndRest({ args: COLD }),
        async act(world, server) {
            const result = await call(server, 'echo made', { computer_id: 'passing' });
            await world.reached('spare.prepared');
            return result;
        },
    },
    'begin what is prepared': {
        args: COLD, kept: ['keeper'], ids: ['passing'],
        async before(world) {
            const server = await withKeeper(world, COLD);
            await world.reached('spare.prepared');
            return server;
        },
        act: (world, server) => call(server, 'echo begun', { computer_id: 'passing' }),
    },
    'end': {
        args: COLD, kept: ['keeper'], ids: ['passing', 'keeper'],
        async before(world) {
            const server = await withKeeper(world, COLD);
            await server.run(SLEEP, { computer_id: 'passing' });
            return server;
        },
        act: (world, server) => server.stop(),
    },
    'restart': {
        args: MANAGED, kept: ['keeper'], ids: ['keeper'],
        before: (world) => withKeeper(world, MANAGED),
        act: (world, server) => manage(server, 'computer_restart'),
    },
    'factory reset': {
        args: MANAGED, kept: [], ids: ['keeper'], clears: true,
        before: (world) => withKeeper(world, MANAGED),
        act: (world, server) => manage(server, 'computer_factory_reset'),
    },
    'delete': {
        args: MANAGED, kept: [], ids: ['keeper'], clears: true,
        before: (world) => withKeeper(world, MANAGED),
        act: (world, server) => manage(server, 'computer_delete'),
    },
    'expire': {
        args: BRIEF, kept: [], ids: ['passing'],
        before: (world) => world.startAndRest({ args: BRIEF }),
        async act(world, server) {
            await call(server, SLEEP, { computer_id: 'passing' });
            world.faults.forget();
            await world.reached('remove.folder-removed');
        },
    },
    'leave': {
        args: COLD, kept: ['keeper'], ids: ['keeper'], runs: true,
        async before(world) {
            const server = await withKeeper(world, COLD);
            await server.run(SLEEP, KEEP);
            return server;
        },
        act(world, server) {
            server.child.stdin.end();
            return server.exited;
        },
    },
    'attach to what runs': {
        args: COLD, kept: ['keeper'], ids: ['keeper'], runs: true,
        prepare: (world) => abandoned(world, COLD),
        before: (world) => world.startAndRest({ args: COLD }),
        act: (world, server) => call(server, 'cat /root/file', KEEP),
    },
    'reap': {
        args: COLD, kept: ['keeper'], ids: ['passing', 'keeper'], runs: true,
        prepare: abandoned,
        act: (world) => world.reached('start.over'),
    },
    'settle': {
        args: STOP, kept: ['keeper'], ids: ['passing', 'keeper'],
        prepare: (world) => abandoned(world, STOP),
        act: (world) => world.reached('start.over'),
    },
};
