// Who sees and touches which computers through the lifecycle tools: nobody any where they are off, and each principal its own
// where they are on; in both eras and over both transports.
import assert from 'node:assert/strict';
import test from 'node:test';
import { INITIALIZE, startHttp, tokenFile } from './support/http.mjs';
import { defer, needsRoot } from './support/machine.mjs';
import { LEGACY, MODERN } from './support/schemas.mjs';
import { startServer } from './support/server.mjs';

const ON = { ENABLE_LIFECYCLE_TOOLS: 'true' };
const DASHBOARD = 'ui://kilntainers/computers';
const LIFECYCLE = ['computer_dashboard', 'computer_list', 'computer_create', 'computer_restart', 'computer_factory_reset',
    'computer_delete', 'computer_status', 'computer_cancel'];
const TOKENS = { alice: 'first-token-of-alice', bob: 'second-token-of-bob' };

// Ways to ask a server, over HTTP as one of TOKENS: each gives a function of method and params that gives the reply.
const headersOf = (who) => (who ? { authorization: `Bearer ${TOKENS[who]}` } : {});
const asks = {
    [`stdio, ${LEGACY.at(-1)}`]: (server) => (method, params) => server.request(method, params),
    [`stdio, ${MODERN}`]: (server) => (method, params) => server.request(method, params),
    async [`http, ${LEGACY.at(-1)}`](server, who) {
        const session = await server.session({ headers: headersOf(who) });
        return async (method, params) => (await session.start(method, params).whole()).reply;
    },
    [`http, ${MODERN}`]: (server, who) => async (method, params) => (await server.modern(method, params, headersOf(who)).whole()).reply,
};
const isHttp = (way) => way.startsWith('http');
const eraOf = (way) => way.split(', ')[1];

async function callWith(ask, name, args = {}) {
    const reply = await ask('tools/call', { name, arguments: args });
    assert.ok(reply.result, JSON.stringify(reply.error));
    return reply.result.structuredContent;
}

// What the server says of itself.
async function helloOf(way, server, ask) {
    if (eraOf(way) === MODERN) return (await ask('server/discover')).result;
    if (isHttp(way)) return (await server.post(INITIALIZE).whole()).reply.result;
    return server.messages.find(({ message }) => message.result?.serverInfo).message.result;
}

for (const [way, asking] of Object.entries(asks)) {
    test(`${way}: without ENABLE_LIFECYCLE_TOOLS none of it is visible`, async (t) => {
        const env = { ENABLE_LIFECYCLE_TOOLS: '' };
        const server = await (isHttp(way) ? startHttp(t, { env }) : startServer(t, { env, version: eraOf(way) }));
        const ask = await asking(server);
        const hello = await helloOf(way, server, ask);
        const { result: { tools } } = await ask('tools/list');
        assert.deepEqual(tools.map((tool) => tool.name), ['terminal_execute']);
        assert.deepEqual((await ask('resources/list')).result.resources, []);
        assert.deepEqual((await ask('resources/templates/list')).result.resourceTemplates, []);
        assert.ok((await ask('resources/read', { uri: DASHBOARD })).error);
        assert.doesNotMatch(JSON.stringify([hello, tools]), /dashboard|ui:\/\/|mcp-app|computer_(?!id|deleted|gone|not_found)/);
        for (const name of LIFECYCLE) {
            const { error } = await ask('tools/call', { name, arguments: { computer_id: 'box' } });
            assert.equal(error?.code, -32602, name);
        }
        if (isHttp(way)) assert.doesNotMatch((await server.fetch('GET', { path: '/' })).text, /dashboard/);
    });
}

// What somebody else tries with alice's computer `box`, and what comes of it. In this order: the later ones have a `box` of
// their own.
const attempts = [
    ['computer_list', {}, (r) => assert.equal(r.count, 0)],
    ['computer_list', { state: 'running', prefix: 'box', metrics: true }, (r) => assert.equal(r.count, 0)],
    ['computer_dashboard', {}, (r) => assert.equal(r.count, 0)],
    ['computer_status', {}, (r) => assert.equal(r.count, 0)],
    ['computer_cancel', ({ command }) => ({ computer_id: 'box', command }), (r) => assert.equal(r.code, 'computer_not_found')],
    ['computer_restart', { computer_id: 'box' }, (r) => assert.equal(r.code, 'computer_not_found')],
    ['computer_factory_reset', { computer_id: 'box' }, (r) => assert.equal(r.code, 'computer_not_found')],
    ['computer_delete', { computer_id: 'box' }, (r) => assert.equal(r.deleted, false)],
    ['computer_create', { computer_id: 'box' }, (r) => assert.equal(r.created, true)],
    ['terminal_execute', { computer_id: 'box', command: 'cat /root/secret' }, (r) => assert.deepEqual([r.stdout, r.exit_code], ['', 1])],
    ['computer_cancel', ({ command }) => ({ computer_id: 'box', command }), (r) => assert.equal(r.cancelled, false)],
    ['computer_restart', { computer_id: 'box' }, (r, { sandbox }) => assert.notEqual(r.sandbox_id, sandbox)],
    ['computer_factory_reset', { computer_id: 'box' }, (r, { sandbox }) => assert.notEqual(r.sandbox_id, sandbox)],
    ['computer_delete', { computer_id: 'box' }, (r) => assert.equal(r.deleted, true)],
];

// Another principal over HTTP; over stdio the one of a server without tokens, beside alice's on one state directory.
async function somebodyElse(t, way, server) {
    const other = isHttp(way) ? server : await startServer(t, { env: ON, stateDir: server.stateDir, version: eraOf(way) });
    return asks[way](other, 'bob');
}

for (const way of Object.keys(asks)) {
    test(`${way}: no tool touches another principal's computer`, needsRoot, async (t) => {
        const server = await startHttp(t, { env: ON, args: ['--auth-token-file', tokenFile(t, TOKENS)] });
        const session = await server.session({ headers: headersOf('alice') });
        const alice = (name, args) => callWith(async (method, params) => (await session.start(method, params).whole()).reply, name, args);
        await session.run('echo hers >/root/secret', { computer_id: 'box', temporary: false });
        const running = session.startRun('sleep 300', { computer_id: 'box' });
        defer(t, () => running.abort());
        let box;
        do [box] = (await alice('computer_list')).computers; while (!box.running);

        const ask = await somebodyElse(t, way, server);
        const hers = { command: box.running[0].command, sandbox: box.sandbox_id };
        for (const [name, args, check] of attempts) {
            check(await callWith(ask, name, typeof args === 'function' ? args(hers) : args), hers);
        }
        const [after] = (await alice('computer_list')).computers;
        assert.deepEqual([after.sandbox_id, after.state, after.running[0].command], [box.sandbox_id, 'running', hers.command]);
        assert.equal((await session.run('cat /root/secret', { computer_id: 'box' })).stdout, 'hers\n');
        assert.equal((await alice('computer_delete', { computer_id: 'box' })).deleted, true);
    });
}
