// The official TypeScript SDK, version 2, in its three ways to choose an era: by default legacy, by probing, and pinned to modern.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Client, StreamableHTTPClientTransport as Http } from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio } from '@modelcontextprotocol/client/stdio';
import { defer, needsRoot } from '../integration/support/machine.mjs';
import { LEGACY, MODERN } from '../integration/support/schemas.mjs';
import { transports } from './support.mjs';

const modes = [
    ['default', undefined, LEGACY.at(-1)],
    ['auto', 'auto', MODERN],
    ['pinned', { pin: MODERN }, MODERN],
];
for (const [kind, [name, mode, version]] of Object.keys(transports).flatMap((kind) => modes.map((mode) => [kind, mode]))) {
    test(`${kind}, mode ${name}: connect, list, call, cancel, time-out, close`, needsRoot, async (t) => {
        const transport = await transports[kind](t, { Stdio, Http });
        const client = new Client({ name: 'interop', version: '1' }, { capabilities: {}, ...(mode && { versionNegotiation: { mode } }) });
        const errors = [];
        client.onerror = (error) => errors.push(error);
        await client.connect(transport);
        defer(t, async () => {
            await client.close();
            assert.deepEqual(errors, [], 'the client had nothing to complain of');
        });
        assert.equal(client.getNegotiatedProtocolVersion(), version);
        assert.equal(client.getProtocolEra(), version === MODERN ? 'modern' : 'legacy');

        const { tools } = await client.listTools();
        assert.deepEqual(tools.map((tool) => tool.name), ['terminal_execute']);
        assert.deepEqual((await client.listResources()).resources, []);
        const execute = (args, options) => client.callTool({ name: 'terminal_execute', arguments: { computer_id: 'box', ...args } }, options);

        const first = await execute({ command: 'echo one >/root/file; cat /root/file' });
        assert.equal(first.structuredContent.stdout, 'one\n');
        const again = await execute({ command: 'cat /root/file' });
        assert.equal(again.structuredContent.stdout, 'one\n');
        assert.equal((await execute({ command: 'true', working_directory: 'relative' })).isError, true);

        const controller = new AbortController();
        const cancelled = execute({ command: 'touch /tmp/runs; sleep 300' }, { signal: controller.signal });
        cancelled.catch(() => {});
        while ((await execute({ command: '[ -e /tmp/runs ]' })).structuredContent.exit_code !== 0);
        controller.abort();
        await assert.rejects(cancelled);
        await assert.rejects(execute({ command: 'sleep 300' }, { timeout: 500 }));
        const count = 'n=0; for p in /proc/[0-9]*/comm; do read -r c 2>/dev/null <$p && [ "$c" = sleep ] && n=$((n+1)); done; echo $n';
        while ((await execute({ command: count })).structuredContent.stdout !== '0\n');
    });
}
