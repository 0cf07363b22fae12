// The official Inspector's command line, in each era: what people look at a server with.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { startHttp } from '../integration/support/http.mjs';
import { needsRoot, temporaryFolder } from '../integration/support/machine.mjs';
import { BINARY } from '../integration/support/server.mjs';

const require = createRequire(import.meta.url);
const manifest = require.resolve('@modelcontextprotocol/inspector/package.json');
const program = path.join(path.dirname(manifest), require(manifest).bin['mcp-inspector']);

// What it is told of the server.
const targets = {
    stdio: async (t) => [BINARY, '--backend', 'native', '--state-dir', temporaryFolder(t, 'state-')],
    http: async (t) => [(await startHttp(t)).url, '--transport', 'http'],
};

// Exit code and output of one run of it.
async function inspect(t, target, ...args) {
    const home = temporaryFolder(t, 'home-');
    const command = [program, '--cli', ...target, ...args];
    try {
        const { stdout } = await promisify(execFile)(process.execPath, command, { env: { ...process.env, HOME: home } });
        return { code: 0, stdout };
    } catch (error) {
        return { code: error.code, stdout: error.stdout, stderr: error.stderr };
    }
}

for (const [kind, era] of Object.keys(targets).flatMap((kind) => ['legacy', 'auto', 'modern'].map((era) => [kind, era]))) {
    test(`${kind}, era ${era}: tools/list is portable, tools/call works, a tool's error is one`, needsRoot, async (t) => {
        const target = await targets[kind](t);
        const listed = await inspect(t, target, '--protocol-era', era, '--method', 'tools/list', '--strict');
        assert.equal(listed.code, 0, listed.stderr);
        assert.match(listed.stdout, /"terminal_execute"/);

        const call = ['--protocol-era', era, '--method', 'tools/call', '--tool-name', 'terminal_execute', '--tool-args-json'];
        const called = await inspect(t, target, ...call, JSON.stringify({ command: 'echo from inside; exit 4' }));
        assert.equal(called.code, 0, called.stdout + called.stderr);
        assert.equal(JSON.parse(called.stdout).structuredContent.stdout, 'from inside\n');
        assert.equal(JSON.parse(called.stdout).structuredContent.exit_code, 4);

        const refused = await inspect(t, target, ...call, JSON.stringify({ command: 'true', timeout: -1 }));
        assert.equal(refused.code, 5, refused.stderr);
    });
}
