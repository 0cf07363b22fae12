// From end to end: the dashboard in the official Inspector's web host, which shows it as hosts do (a proxy on another origin, a
// frame without one), before the real server over HTTP and real computers.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';
import test from 'node:test';
import { startHttp } from '../integration/support/http.mjs';
import { allGone, defer, eventually, family, isRoot, temporaryFolder } from '../integration/support/machine.mjs';
import { accessibilityFaults, needsBrowser, press, screenshot, startBrowser, textOf, untilText } from './support/browser.mjs';

const require = createRequire(import.meta.url);
const manifest = require.resolve('@modelcontextprotocol/inspector/package.json');
const program = path.join(path.dirname(manifest), require(manifest).bin['mcp-inspector']);
const possible = isRoot ? needsBrowser : { skip: 'these are about computers as root of the machine has them' };

// A port that was free a moment ago: the Inspector can't choose its own.
async function freePort() {
    const server = net.createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => server.on('listening', resolve));
    const { port } = server.address();
    await new Promise((resolve) => server.close(resolve));
    return port;
}

// The Inspector's address that connects to a server and opens an app of it.
async function startInspector(t, serverUrl, app) {
    const token = randomBytes(16).toString('hex');
    const port = await freePort();
    const home = temporaryFolder(t, 'home-');
    const child = spawn(process.execPath, [program, '--web'], { stdio: 'ignore', env: { ...process.env, HOME: home, HOST: '127.0.0.1',
        CLIENT_PORT: String(port), MCP_SANDBOX_PORT: String(await freePort()), MCP_AUTO_OPEN_ENABLED: 'false', MCP_INSPECTOR_API_TOKEN: token } });
    defer(t, async () => {
        const all = family(child.pid);
        child.kill('SIGTERM');
        await allGone(all, 'the Inspector is gone').catch(() => all.forEach((p) => process.kill(p.pid, 'SIGKILL')));
    });
    const origin = `http://127.0.0.1:${port}`;
    await eventually('the Inspector serves', () => fetch(origin).then((r) => r.ok, () => false));
    const query = new URLSearchParams({ serverUrl, transport: 'http', autoConnect: token, openApp: app,
        appArgs: Buffer.from('{}').toString('base64url'), autoOpen: token });
    return `${origin}/?${query}`;
}

async function openInInspector(t, serverUrl) {
    const browser = await startBrowser(t);
    const address = await startInspector(t, serverUrl, 'computer_dashboard');
    const page = await browser.newPage();
    await page.setViewport({ width: 1280, height: 900 });
    await page.goto(address);
    await page.waitForSelector('[data-app-status="ready"], [data-app-status="error"]', { timeout: 60000 });
    assert.equal(await page.$('[data-app-status="error"]'), null, 'the app is shown');
    await page.click('[aria-label="Close monitoring sidebar"]'); // which makes an editor for each message, and all else slow
    const frame = await eventually('the dashboard is in a frame', async () => {
        for (const one of page.frames()) if (await one.$('#app').catch(() => null)) return one;
        return null;
    });
    return { page, frame };
}

test('in the Inspector: open, create, run, cancel, restart, reset, delete', possible, async (t) => {
    const server = await startHttp(t, { args: ['--lifecycle-tools'] });
    const { page, frame } = await openInInspector(t, server.url);
    await untilText(frame, '#blank', /No computers yet/);
    await press(frame, 'New computer');
    await page.keyboard.type('from-the-page');
    await frame.click('#create input[value="permanent"]');
    await press(frame, 'Create');
    await untilText(frame, '#detail h2', /from-the-page/);
    await untilText(frame, '#detail .chip', /running/);

    const run = async (command, outcome) => {
        await frame.focus('#terminal-input');
        await page.keyboard.type(command);
        await page.keyboard.press('Enter');
        await untilText(frame, '.entry:last-child .outcome', outcome);
        return textOf(frame, '.entry:last-child');
    };
    assert.match(await run('echo kept >/root/note; cat /root/note; ls /nowhere', /exit 2/), /kept[\s\S]*stderr[\s\S]*No such file/);
    await run('sleep 1000', /running for/);
    await screenshot(page, 'inspector');
    assert.deepEqual(await accessibilityFaults(frame), []);
    await frame.click('.entry:last-child button');
    await untilText(frame, '.entry:last-child .outcome', /cancelled/);

    const change = async (verb, button) => {
        await frame.click(`#detail [data-text="${verb}"]`);
        await press(frame, button);
    };
    await change('restart', 'Restart from-the-page');
    await untilText(frame, '#announcer', /has been restarted/);
    await untilText(frame, '#detail .chip', /running/);
    assert.match(await run('cat /root/note', /exit 0/), /kept/, 'restarting keeps files');
    await change('reset', 'Reset from-the-page');
    await untilText(frame, '#announcer', /is as new/);
    await untilText(frame, '#detail .chip', /running/);
    await run('cat /root/note', /exit 1/);
    await change('remove', 'Delete from-the-page');
    await untilText(frame, '#blank', /No computers yet/);
});
