// A server at a provider's fake, of which one request fails: nothing is left, made twice, run twice or lost without a word.
import assert from 'node:assert/strict';
import test from 'node:test';
import { needsRooms } from './support.mjs';

// Each way for a request to fail; busy: the body with which the provider says so.
export const faultsOf = (busy) => ({
    'is answered 503': { status: 503, body: busy },
    'is done, and the answer lost': { drop: true, handled: true },
    'is lost': { drop: true },
    'is answered with nonsense': { status: 200, headers: { 'content-type': 'application/json' }, body: '{"a":' },
    'is cut in its answer': { cut: 20 },
});

// The nth request of making a computer, running two commands and removing it fails in each way. made(fake, before) holds what was
// made meanwhile, `before` being what begin(fake) told; gone(fake, when) what is there at the end.
export function anyOneFails({ world, call, faults, requests, file, begin, made, gone }) {
    for (const [what, fault] of Object.entries(faults)) {
        test(`chaos: any one request that ${what}`, needsRooms, async (t) => {
            const { fake, server } = await world(t);
            await server.run('true', { computer_id: 'warm' });
            await call(server, 'computer_delete', { computer_id: 'warm' });
            for (let n = 1; n <= requests; n++) {
                const before = await begin?.(fake);
                await fake.faults([{ at: n, ...fault }]);
                const id = `c${n}`;
                for (const word of ['first', 'second']) {
                    const { isError, value } = await server.exec({ command: `echo ${word} | tee -a ${file}`, computer_id: id });
                    if (isError) assert.ok(['unavailable', 'computer_gone'].includes(value.code) && value.error.length > 20, JSON.stringify(value));
                    else assert.deepEqual([value.stdout, value.exit_code], [`${word}\n`, 0]);
                }
                await fake.faults([]);
                const lines = (await server.run(`cat ${file} 2>/dev/null; true`, { computer_id: id })).stdout.split('\n').filter(Boolean);
                assert.equal(new Set(lines).size, lines.length, 'nothing ran twice');
                await made?.(fake, before);
                await call(server, 'computer_delete', { computer_id: id });
                await gone(fake, `after request ${n}`);
            }
        });
    }
}
