// The five main views, in light and dark, narrow and wide, in both languages: nothing that axe-core objects to, and pictures of
// them in build/web-screenshots for people to look at.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { openDashboard, World } from './mock-host.mjs';
import { accessibilityFaults, needsBrowser, screenshot, startBrowser, untilText } from './support/browser.mjs';

const MIB = 1024 * 1024;

// Computers in every state that one meets.
function fill(world) {
    const ended = (seconds) => new Date(world.now - seconds * 1000).toISOString();
    const last = (text, exit_code, duration_ms, seconds) => ({ last_command: { text, exit_code, duration_ms, ended_at: ended(seconds) } });
    world.add('api-tests', { description: 'Integration tests of the API', temporary: false, image: 'python:3.12', backend: 'docker',
        sandbox_id: 'e4d066da65f3', network: true, ...last('pytest -q tests/api', 1, 48210, 65) });
    world.add('build-cache', { temporary: false, state: 'stopped', ...last('make -j4 all', 0, 182000, 4100) });
    world.add('calm-tiger-2c33', { expires_in_s: 840, on_expiry: 'delete', ...last('python3 -c "print(sum(range(10**8)))"', 0, 2310, 12) });
    world.add('data-prep', { description: 'Cleaning the survey', ...last('head -c 1G /dev/zero | sha256sum', 0, 4020, 33) });
    world.add('eager-otter-91fe', {});
    world.add('ghost', { state: 'failed', temporary: false, reason: 'its writable layer can\'t be mounted: no space left on device' });
    world.add('nightly', { temporary: false, ...last('cargo test --workspace', 0, 95300, 610) });
    world.add('on-hold', { temporary: false, backend: 'docker', paused: true, ...last('make check', 0, 61000, 900),
        reason: 'it is paused, and does nothing until somebody runs: docker unpause e4d066da65f3' });
    world.addCommand('nightly', 'cargo bench --workspace -- --save-baseline nightly');
}

// A poll's worth of work: `step` counts them.
function work(world, step) {
    world.advance(2);
    let i = 0;
    for (const c of world.computers.values()) {
        i++;
        if (!c.metrics) continue;
        const load = i === 7 ? 0.55 + 0.4 * Math.sin(step / 9) * Math.sin(step / 2.3) : i === 4 ? (step % 60 > 42 ? 0.9 : 0.03) : 0.02 + 0.02 * (step % 5);
        c.metrics.cpu_ns += Math.max(0, load) * 2e9;
        c.metrics.memory_bytes = Math.round(MIB * (i === 7 ? 180 + 120 * Math.abs(Math.sin(step / 40)) : 18 + 9 * i + (step % 60 > 42 ? 60 : 0)));
        c.metrics.pids = i === 7 ? 14 : 1 + (i % 3);
    }
}

// As if the page had been looking on for five minutes: gives it 150 polls in a row, and more work from then on.
async function lookOn(frame, world, polls = 150) {
    const steps = [];
    for (let step = 0; step < polls; step++) {
        work(world, step);
        steps.push(structuredClone(world.status()));
    }
    let step = polls;
    const { computer_status } = world.tools;
    world.tools.computer_status = () => {
        work(world, step++);
        return computer_status();
    };
    await frame.evaluate((all) => {
        for (const status of all) model.apply(status);
        poller.now();
    }, steps);
    await untilText(frame, '[data-id="nightly"] .now', /\d %/);
}

let browser;
const ends = [];
before(async () => {
    if (!needsBrowser.skip) browser = await startBrowser({ after: (fn) => ends.push(fn) });
});
after(async () => {
    for (const end of ends) await end();
});

const OUTPUTS = {
    'python3 --version && nproc': { stdout: 'Python 3.12.4\n4\n', exec_duration_ms: 38 },
    'pytest -q tests/api -k login': { exit_code: 1, exec_duration_ms: 4120,
        stdout: '..F.                                                     [100%]\n1 failed, 3 passed in 3.91s\n',
        stderr: 'tests/api/test_login.py:41: DeprecationWarning: utcnow() is deprecated\n' },
    'seq 1 2000000': { stdout: '1\n2\n3\n\n[... 14888874 bytes omitted]\n1999999\n2000000\n', exec_duration_ms: 310,
        truncated: { stdout_bytes: 14888896, stdout_head_bytes: 6, stdout_omitted_bytes: 14888874, stdout_path: '/run/output/7.stdout' } },
};

// From one view to the next, in this order.
const VIEWS = {
    empty: async ({ frame }) => untilText(frame, '#blank h2', /No computers yet|还没有计算机/),
    list: async ({ frame, world }) => {
        fill(world);
        await untilText(frame, '#list', /nightly/);
        await lookOn(frame, world);
    },
    confirm: async ({ page, frame }) => {
        await frame.focus('[data-id="nightly"] .open');
        await page.keyboard.press('Delete');
        await untilText(frame, '#confirm h2', /nightly/);
    },
    create: async ({ page, frame }) => {
        await page.keyboard.press('Escape');
        await frame.click('#new');
        for (const summary of await frame.$$('#create summary')) await summary.click();
    },
    terminal: async ({ page, frame, world }) => {
        await page.keyboard.press('Escape');
        world.run = async ({ command }) => OUTPUTS[command] ?? new Promise(() => {});
        await frame.click('[data-id="api-tests"] .open');
        for (const command of [...Object.keys(OUTPUTS), 'tail -f /var/log/app.log']) {
            await frame.type('#terminal-input', `${command}\n`);
            await untilText(frame, '.entry:last-child .outcome', OUTPUTS[command] ? /exit|退出码/ : /running|运行/);
        }
    },
    error: async ({ page, frame, world }) => {
        await page.keyboard.press('Escape');
        world.refuse('computer_restart', 'A stopped computer has nothing to restart: a command that is run in it starts it.', 'unavailable');
        await frame.focus('[data-id="build-cache"] .open');
        await page.keyboard.press('Enter');
        await frame.click('[data-text="restart"]');
        await frame.click('#confirm .primary');
        await untilText(frame, '.notice.bad', /nothing to restart/);
        await frame.focus('#terminal-input');
        await page.keyboard.press('Escape');
        world.dead = true;
        await untilText(frame, '#notices', /doesn't answer|没有响应/);
    },
};

const LOOKS = {
    light: {},
    dark: { theme: 'dark' },
    'light-320': { width: 320, height: 700 },
    'dark-320-zh': { theme: 'dark', locale: 'zh-CN', width: 320, height: 700 },
    'dark-zh': { theme: 'dark', locale: 'zh-CN', width: 700 },
};

for (const [look, settings] of Object.entries(LOOKS)) {
    test(`${look}: whoever can't see it can use it, and it fits`, needsBrowser, async (t) => {
        const dashboard = await openDashboard(t, browser, new World(), settings);
        const { page, frame } = dashboard;
        for (const [name, goThere] of Object.entries(VIEWS)) {
            await goThere(dashboard);
            await screenshot(page, `${name}-${look}`);
            assert.deepEqual(await accessibilityFaults(frame), [], name);
            const [content, room] = await frame.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
            assert.ok(content <= room, `${name} is wider than its frame: ${content} > ${room}`);
            const cut = await frame.$$eval('.top, .bottom, .notice, .row, .meter, dialog', (all) => all.filter((n) => n.checkVisibility()
                && n.scrollHeight > n.clientHeight + 1).map((n) => n.className || n.id));
            assert.deepEqual(cut, [], `${name}: what doesn't fit into its box lies over the next`);
        }
    });
}
