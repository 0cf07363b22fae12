// mcp-remote: for clients that speak stdio only, to a server over HTTP.
import assert from 'node:assert/strict';
import path from 'node:path';
import test from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { startHttp } from '../integration/support/http.mjs';
import { defer, needsRoot, temporaryFolder } from '../integration/support/machine.mjs';

const PROXY = path.resolve(path.dirname(new URL(import.meta.url).pathname), '../node_modules/mcp-remote/dist/proxy.js');
const TOKEN = 'token-for-the-bridge';

for (const [what, env, more] of [
    ['without a token', {}, []],
    ['with a bearer token', { KILNTAINERS_AUTH_TOKEN: TOKEN }, ['--header', `Authorization: Bearer ${TOKEN}`]],
]) {
    test(`through mcp-remote, ${what}`, needsRoot, async (t) => {
        const { url } = await startHttp(t, { env });
        const transport = new StdioClientTransport({ command: process.execPath, args: [PROXY, url, '--transport', 'http-only', '--allow-http', ...more],
            env: { ...process.env, HOME: temporaryFolder(t, 'home-') }, stderr: 'pipe' });
        const client = new Client({ name: 'interop', version: '1' }, { capabilities: {} });
        await client.connect(transport);
        defer(t, () => client.close());
        assert.deepEqual((await client.listTools()).tools.map((tool) => tool.name), ['terminal_execute']);
        const result = await client.callTool({ name: 'terminal_execute', arguments: { command: 'echo across; exit 5' } });
        assert.equal(result.structuredContent.stdout, 'across\n');
        assert.equal(result.structuredContent.exit_code, 5);
    });
}
