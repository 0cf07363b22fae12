// The server at E2B's fake, of which one request fails.
import assert from 'node:assert/strict';
import { anyOneFails, faultsOf } from './chaos.mjs';
import { call, sandboxes, world } from './e2b-world.mjs';

anyOneFails({
    world,
    call,
    faults: faultsOf({ code: 503, message: 'busy' }),
    requests: 8,
    file: 'file',
    gone: async (fake, when) => assert.deepEqual(await sandboxes(fake), [], when),
});
