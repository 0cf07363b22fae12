// The official TypeScript SDK, version 1: what most clients are built on. Legacy era.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as Stdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as Http } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { defer, needsRoot } from '../integration/support/machine.mjs';
import { transports } from './support.mjs';

async function connected(t, kind) {
    const transport = await transports[kind](t, { Stdio, Http });
    const client = new Client({ name: 'interop', version: '1' }, { capabilities: {} });
    const errors = [];
    client.onerror = (error) => errors.push(error);
    await client.connect(transport);
    defer(t, async () => {
        await client.close();
        assert.deepEqual(errors, [], 'the client had nothing to complain of');
    });
    return client;
}

const execute = (client, args, options) => client.callTool({ name: 'terminal_execute', arguments: args }, undefined, options);

// Side by side: one of them waits.
describe('version 1', { concurrency: 2 }, () => {
    for (const kind of Object.keys(transports)) {
        test(`${kind}: connect, list, call, close`, needsRoot, async (t) => {
            const client = await connected(t, kind);
            assert.ok(client.getServerVersion().name);
            assert.ok(client.getServerCapabilities().tools);
            await client.ping();
            const { tools } = await client.listTools(); // from here on results are checked against the output schema
            assert.deepEqual(tools.map((tool) => tool.name), ['terminal_execute']);
            assert.deepEqual((await client.listResources()).resources, []);
            assert.deepEqual((await client.listPrompts()).prompts, []);
            const result = await execute(client, { command: 'echo hi; exit 2' });
            assert.equal(result.structuredContent.stdout, 'hi\n');
            assert.equal(result.structuredContent.exit_code, 2);
            assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
            const refused = await execute(client, { command: 'true', timeout: 0 });
            assert.equal(refused.isError, true);
            await assert.rejects(client.callTool({ name: 'no_such_tool', arguments: {} }), { code: -32602 });
        });

        test(`${kind}: progress keeps a long call alive, and without it the client gives up`, needsRoot, async (t) => {
            const client = await connected(t, kind);
            await execute(client, { command: 'true' });
            let beats = 0;
            const patient = execute(client, { command: 'sleep 17; echo done' },
                { timeout: 15500, resetTimeoutOnProgress: true, onprogress: () => beats++ });
            await assert.rejects(execute(client, { command: 'sleep 300' }, { timeout: 500 }), { code: -32001 });
            assert.equal((await patient).structuredContent.stdout, 'done\n');
            assert.ok(beats >= 1);
        });

        test(`${kind}: an aborted call ends its command`, needsRoot, async (t) => {
            const client = await connected(t, kind);
            await execute(client, { command: 'true' });
            const controller = new AbortController();
            const call = execute(client, { command: 'touch /tmp/runs; sleep 300' }, { signal: controller.signal });
            call.catch(() => {});
            while ((await execute(client, { command: '[ -e /tmp/runs ]' })).structuredContent.exit_code !== 0);
            controller.abort('enough');
            await assert.rejects(call);
            const count = 'n=0; for p in /proc/[0-9]*/comm; do read -r c 2>/dev/null <$p && [ "$c" = sleep ] && n=$((n+1)); done; echo $n';
            while ((await execute(client, { command: count })).structuredContent.stdout !== '0\n');
        });
    }
});
