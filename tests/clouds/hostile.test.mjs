// A provider that answers with whatever would break a client: the server says so in an error, stays small, goes on, and leaves
// nothing at the provider once that is itself again. SCALE=full: every answer also where a call that gets them takes seconds.
import assert from 'node:assert/strict';
import test from 'node:test';
import { eventually, memoryKiB } from '../integration/support/machine.mjs';
import { NAMES, PROVIDERS, call, world } from './worlds.mjs';
import { needsRooms } from './support.mjs';

const MEMORY_MIB = 160;
const GROUPS = 3;

const json = (body) => ({ status: 200, headers: { 'content-type': 'application/json' }, body });
const ids = (id) => json(JSON.stringify({ sandboxID: id, id, envdAccessToken: id, domain: id, instance_id: id, state: id, name: id }));

const ANSWERS = {
    'a body of 20 MiB': json(`"${'x'.repeat(20 << 20)}"`),
    'a body that is deep': json('['.repeat(200000) + ']'.repeat(200000)),
    'a body of many values': json(`[${'1,'.repeat(3 << 20)}1]`),
    'a body of many members': json(`{${Array.from({ length: 300000 }, (_, n) => `"${n}":{}`).join()}}`),
    'no text at all': json('\u0000\u0001\ud800'),
    'a number': json('5'),
    'null': json('null'),
    'nulls within a list': json('[null,[null],{"metadata":null},{"config":5}]'),
    'an empty object': json('{}'),
    'an empty list': json('[]'),
    'nothing': json(''),
    'the wrong types': json('{"sandboxID":{"a":1},"id":5,"state":[],"config":"x","exit_code":"0","stdout":1e99}'),
    'numbers that none are': json('{"id":"x","exit_code":1e308,"oom":-99999999999999999999,"pid":-1}'),
    'an id with a slash': ids('../../v2/sandboxes'),
    'an id with lines': ids('a\r\nX-Other: b\r\n\r\nGET / HTTP/1.1'),
    'an id that is long': ids('a'.repeat(100000)),
    'an id that is empty': ids(''),
    'another type': { status: 200, headers: { 'content-type': 'text/html' }, body: '<html>' },
    'a redirect': { status: 307, headers: { location: 'http://127.0.0.1:1/' }, body: '' },
    'a head of 100 KiB': { status: 200, headers: { 'x-long': 'x'.repeat(100 << 10) }, body: '{}' },
    'a strange status': { status: 299, headers: { 'content-type': 'application/json' }, body: '{' },
    'a teapot': { status: 418, body: { message: `${'\u001b[31m'}${'%s%n'.repeat(100)}` } },
    'its own answer, one byte of it': { truncate: 1 },
    'its own answer, cut': { cut: 1 },
    'its own answer, in small pieces': { trickle: 701, pause: 1 },
    'its own answer, and the end of the connection': { goaway: true },
};

// A message of gRPC, with a status that says all is well, or whatever `headers` say.
function grpc(message, headers = {}, flags = 0) {
    const head = Buffer.alloc(5, flags);
    head.writeUInt32BE(message.length, 1);
    const base64 = Buffer.concat([head, message]).toString('base64');
    return { status: 200, headers: { 'content-type': 'application/grpc', 'grpc-status': '0', ...headers }, base64 };
}

// Fields of a message: [[number, text or bytes or fields]].
function fields(...all) {
    const varint = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...varint(n >>> 7)]);
    const bytesOf = (value) => (Array.isArray(value) ? fields(...value) : Buffer.from(value));
    return Buffer.concat(all.flatMap(([n, value]) => [Buffer.from([...varint((n << 3) | 2), ...varint(bytesOf(value).length)]), bytesOf(value)]));
}

const routerAt = (url, jwt = 'eyJh.eyJi.c') => grpc(fields([1, 'sb-a'], [3, 'ta-a'], [5, [[1, jwt], [2, url]]]));
const refused = (code, headers) => ({ status: 200, headers: { 'content-type': 'application/grpc', 'grpc-status': code, ...headers }, body: '' });

// Beside those, of who speaks gRPC.
const GRPC_ANSWERS = {
    'a message of nothing': grpc(Buffer.alloc(0)),
    'two messages': { ...grpc(Buffer.alloc(0)), base64: Buffer.alloc(10).toString('base64') },
    'a message that says it is of 4 GiB': { ...grpc(Buffer.alloc(0)), base64: Buffer.from('\x00\xff\xff\xff\xff', 'latin1').toString('base64') },
    'a message that is compressed': grpc(Buffer.from('x'), {}, 1),
    'a message of 4 MiB': grpc(fields([1, Buffer.alloc(4 << 20, 'x')])),
    'a message of many fields': grpc(Buffer.concat(Array(400000).fill(fields([1, [[1, 'a'], [2, 'b']]])))),
    'a message within itself': grpc(Array.from({ length: 5000 }).reduce((inner) => fields([1, inner.length < 100000 ? inner : '']), Buffer.alloc(0))),
    'a number without an end': grpc(Buffer.alloc(100, 0xff)),
    'text that is no Unicode': grpc(fields([1, Buffer.from([0xff, 0xfe, 0])], [2, Buffer.from([0xc3, 0x28])])),
    'a message with an id that is a path': grpc(fields([1, '../../x'])),
    'a message with an id of lines': grpc(fields([1, 'a\r\nx-other: b'])),
    'a router in the clear': routerAt('http://192.0.2.1'),
    'a router elsewhere': routerAt('https://192.0.2.1'),
    'a router that is a file': routerAt('file:///etc/passwd'),
    'a token with lines': routerAt('https://127.0.0.1:1', 'a\r\nx-other: b'),
    'a status that is none': refused('x'),
    'a status beyond all': refused('4294967296'),
    'words that are none': refused('3', { 'grpc-message': '%1b%5b31m%00%ff%'.repeat(200) }),
    'details that are none': refused('8', { 'grpc-message': 'quota', 'grpc-status-details-bin': '!'.repeat(5000) }),
    'its own answer, without trailers': { bare: true },
};

const KNOWN = ['unavailable', 'computer_gone', 'invalid_argument', 'limit', 'denied', 'timeout', 'internal', 'busy', 'unsupported'];

function checkTold({ isError, value }, where) {
    if (!isError) return;
    assert.ok(KNOWN.includes(value.code), `${where}: ${JSON.stringify(value)}`);
    assert.notEqual(value.code, 'internal', `${where}: ${value.error}`);
    assert.ok(value.error.length > 20 && value.error.length < 2000, `${where}: ${value.error}`);
    assert.doesNotMatch(value.error, /[\u0000-\u0009\u000b-\u001f]/, where);
}

// Each answer to all that is asked, and then a provider that is itself again.
async function ask(t, { fake, server }, answer, n) {
    await fake.faults([{ times: 0, ...answer }]);
    checkTold(await server.exec({ command: 'true', computer_id: 'there', timeout: 1 }), 'a command');
    checkTold(await server.exec({ command: 'true', computer_id: `new-${n}`, timeout: 1 }), 'a computer');
    await call(server, 'computer_list', { metrics: true });
    await fake.faults([]);
    await eventually('the first one is of use', async () => !(await server.exec({ command: 'true', computer_id: 'there' })).isError);
}

for (const name of NAMES) {
    const all = { ...ANSWERS, ...(PROVIDERS[name].grpc ? GRPC_ANSWERS : {}) };
    const answers = Object.entries(all).filter((_, n) => process.env.SCALE === 'full' || n % PROVIDERS[name].patience === 0);
    const group = (t, nth) =>
        t.test(`${nth + 1} of ${GROUPS}`, async (t) => {
            const { fake, server, start, live } = await world(t, name);
            await server.run('true', { computer_id: 'there', temporary: false });
            for (const [n, [words, answer]] of answers.entries())
                if (n % GROUPS === nth) await t.test(words, (t) => ask(t, { fake, server }, answer, n));
            assert.ok(memoryKiB(server.pid, 'VmHWM') < MEMORY_MIB << 10, `${memoryKiB(server.pid, 'VmHWM')} KiB`);
            assert.equal((await server.run('echo on', { computer_id: 'after' })).stdout, 'on\n');
            await call(server, 'computer_delete', { computer_id: 'there' });
            await server.stop();
            if ((await live()).length > 0) await start(); // what it couldn't remove
            await eventually('nothing is left', async () => (await live()).length === 0);
        });
    test(`${name}: whatever it answers`, { ...needsRooms, concurrency: true }, (t) =>
        Promise.all(Array.from({ length: GROUPS }, (_, nth) => group(t, nth))));
}
