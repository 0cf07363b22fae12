// What the dashboard does, in a host of our own: by keyboard alone, with many computers, hostile ones, a server that dies and
// comes back, hosts that lack things.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { eventually } from '../integration/support/machine.mjs';
import { dashboardPage, openDashboard, World } from './mock-host.mjs';
import { accessibilityFaults, focused, mainThreadMs, needsBrowser, press, startBrowser, textOf, untilText } from './support/browser.mjs';

let browser;
const ends = [];
before(async () => {
    if (!needsBrowser.skip) browser = await startBrowser({ after: (fn) => ends.push(fn) });
});
after(async () => {
    for (const end of ends) await end();
});

function worldOf(...ids) {
    const world = new World();
    for (const id of ids) world.add(id);
    return world;
}

// A command whose end the test decides on.
function held() {
    let release;
    const result = new Promise((resolve) => (release = resolve));
    return { result, release };
}

test('the page is small enough', (t) => {
    const size = Buffer.byteLength(dashboardPage(t));
    assert.ok(size <= 100 * 1024, `${size} bytes`);
});

test('by keyboard alone: find, open, run, recall, cancel, restart, reset, delete', needsBrowser, async (t) => {
    const world = worldOf('alpha', 'beta', 'gamma');
    const { page, frame } = await openDashboard(t, browser, world);
    const keys = async (...names) => {
        for (const name of names) await page.keyboard.press(name);
    };
    await untilText(frame, '#list', /gamma/);
    await frame.focus('#search');
    await page.keyboard.type('be');
    await keys('ArrowDown');
    assert.match((await focused(frame)).text, /^beta/, 'from the search to what it found');
    await keys('/');
    assert.equal((await focused(frame)).id, 'search');
    await keys('Backspace', 'Backspace', 'ArrowDown', 'Home', 'ArrowDown', 'ArrowDown', 'ArrowUp', 'Enter');
    assert.deepEqual(await focused(frame), { tag: 'textarea', id: 'terminal-input', text: 'Command for beta' });

    world.run = async ({ command }) => (command === 'false' ? { exit_code: 1, stderr: 'no\n' } : { stdout: `ran ${command}\n` });
    for (const command of ['echo one', 'false']) {
        await page.keyboard.type(command);
        await keys('Enter');
        await untilText(frame, '.entry:last-child .outcome', /exit/);
    }
    assert.match(await textOf(frame, '.entry:nth-child(1)'), /ran echo one/);
    assert.match(await textOf(frame, '.entry:nth-child(2) .stderr'), /stderr\s+no/);
    await page.keyboard.type('draft');
    await keys('ArrowUp', 'ArrowUp');
    assert.equal(await frame.$eval('#terminal-input', (n) => n.value), 'echo one');
    await keys('ArrowDown', 'ArrowDown');
    assert.equal(await frame.$eval('#terminal-input', (n) => n.value), 'draft', 'what was being written is still there');
    await frame.$eval('#terminal-input', (n) => (n.value = ''));

    world.run = () => new Promise(() => {});
    await page.keyboard.type('sleep 100');
    await keys('Enter');
    await untilText(frame, '.entry:last-child .outcome', /running/);
    await page.keyboard.down('Control');
    await keys('c');
    await page.keyboard.up('Control');
    await untilText(frame, '.entry:last-child .outcome', /cancelled/);
    assert.equal(world.calls.find((c) => c.name === 'computer_cancel').args.computer_id, 'beta');

    for (const [verb, tool, question] of [['restart', 'computer_restart', 'Restart beta?'],
        ['reset', 'computer_factory_reset', 'Reset beta to its first state?'], ['remove', 'computer_delete', 'Delete beta?']]) {
        const opener = `#detail [data-text="${verb}"]`;
        await frame.focus(opener);
        await keys('Enter');
        assert.equal(await textOf(frame, '#confirm-title'), question);
        assert.equal((await focused(frame)).text, 'Cancel', 'what is safe comes first');
        await keys('Enter');
        assert.equal(world.countOf(tool), 0);
        assert.equal(await frame.$eval(opener, (n) => n === document.activeElement), true, 'the focus is back');
        await keys('Enter', 'Tab', 'Enter');
        await eventually(tool, () => world.countOf(tool) === 1);
        await eventually('it is done', () => frame.evaluate(() => !model.computers.get('beta')?.busy));
    }
    await untilText(frame, '#summary', /2 computers/);
    assert.match((await focused(frame)).text, /^(alpha|gamma)/, 'a deleted computer leaves the focus to another');
    await keys('Delete', 'Escape');
    assert.equal(world.countOf('computer_delete'), 1);
});

test('creating offers what the backend can do, sends what was given, shows a refusal where it can be mended', needsBrowser, async (t) => {
    const world = new World();
    world.options = ['memory', 'env'];
    const { page, frame } = await openDashboard(t, browser, world);
    await press(frame, 'New computer');
    const labels = await frame.$$eval('#create label', (all) => all.map((l) => l.innerText));
    assert.ok(!labels.some((l) => /Image|CPUs|Disk|Network/.test(l)), labels.join());
    await frame.click('#create summary');
    const fill = async (label, text) => {
        const id = await frame.$$eval('#create label', (all, wanted) => all.find((l) => l.innerText === wanted).htmlFor, label);
        await frame.type(`#${id}`, text);
    };
    await fill('Name', 'keep-me');
    await frame.click('input[value="permanent"]');
    await fill('Description', 'for later');
    await fill('Memory', 'lots');
    await fill('Environment', 'A=1\nB=x=y');
    world.refuse('computer_create', '\'memory\' is lots: give bytes, or a number with a unit like "1g"', 'invalid_argument');
    await press(frame, 'Create');
    await untilText(frame, '#create .problem', /'memory' is lots/);
    world.refusals.clear();
    await page.keyboard.press('Escape');
    await press(frame, 'New computer');
    await frame.click('#create summary');
    await fill('Name', 'keep-me');
    await frame.click('input[value="permanent"]');
    await fill('Memory', '1g');
    await fill('Environment', 'A=1\nB=x=y');
    await press(frame, 'Create');
    await untilText(frame, '#detail h2', /keep-me/);
    assert.deepEqual(world.calls.findLast((c) => c.name === 'computer_create').args,
        { computer_id: 'keep-me', temporary: false, memory: '1g', env: { A: '1', B: 'x=y' } });
    assert.equal((await focused(frame)).id, 'terminal-input');
});

test('why a computer can\'t be used is there at a glance', needsBrowser, async (t) => {
    const world = worldOf('fine');
    const last = { text: 'make', exit_code: 0, duration_ms: 5, ended_at: new Date().toISOString() };
    world.add('broken', { state: 'failed', temporary: false, reason: 'it couldn\'t be started: no space left on device', last_command: last });
    const { frame } = await openDashboard(t, browser, world);
    await untilText(frame, '[data-id="broken"] .last', /^it couldn't be started: no space left on device$/);
    world.computers.get('broken').state = 'running';
    world.computers.get('broken').reason = '';
    await untilText(frame, '[data-id="broken"] .last', /make\s*exit 0/);
});

test('a paused computer is told of as such, and runs nothing', needsBrowser, async (t) => {
    const world = worldOf('fine');
    world.add('held', { paused: true, reason: 'it is paused, and does nothing until somebody runs: docker unpause 1' });
    const { frame } = await openDashboard(t, browser, world);
    await untilText(frame, '[data-id="held"] .last', /^it is paused.*docker unpause 1$/);
    assert.equal(await textOf(frame, '[data-id="held"] .state'), 'paused');
    await untilText(frame, '#summary', /2 computers · 1 running/);
    await frame.click('[data-id="held"] .open');
    await untilText(frame, '#terminal-hint', /It is paused/);
    assert.equal(await frame.$eval('#terminal-input', (n) => n.readOnly), true);
    delete world.computers.get('held').paused;
    await untilText(frame, '#detail .chip', /running/);
    assert.equal(await frame.$eval('#terminal-input', (n) => n.readOnly), false);
});

test('all temporary computers are deleted at once, and no other', needsBrowser, async (t) => {
    const world = worldOf('a-1', 'a-2', 'a-3');
    world.add('kept', { temporary: false });
    const { frame } = await openDashboard(t, browser, world);
    await press(frame, 'Delete temporary');
    assert.equal(await textOf(frame, '#confirm .names'), 'a-1\na-2\na-3');
    await press(frame, 'Delete 3 computers');
    await untilText(frame, '#summary', /1 computer /);
    assert.deepEqual([...world.computers.keys()], ['kept']);
});

const MARKUP = '<img src=x onerror="parent.postMessage(\'pwned\',\'*\')"><script>document.title="pwned"</script>&lt;b&gt;';

test('whatever the server says is text', needsBrowser, async (t) => {
    const world = worldOf('plain');
    world.add(MARKUP, { image: MARKUP, description: MARKUP, sandbox_id: MARKUP, backend: MARKUP, reason: MARKUP, state: 'running',
        last_command: { text: MARKUP, exit_code: 0, duration_ms: 1, ended_at: new Date().toISOString() } });
    world.addCommand(MARKUP, MARKUP);
    world.add('../../etc', { state: '__proto__', description: '\u202egnp.exe' });
    world.add('constructor', {});
    world.run = async () => ({ stdout: `${MARKUP}\n\u001b[31mred\u001b[0m\u001b]0;title\u0007\n`, stderr: MARKUP, note: MARKUP });
    const { frame } = await openDashboard(t, browser, world, { complaint: /TrustedHTML/ });
    await untilText(frame, '#list', /plain/);
    await frame.$$eval('#list .id', (all, id) => all.find((n) => n.textContent === id).closest('button').click(), MARKUP);
    await frame.type('#terminal-input', 'x\n');
    await untilText(frame, '.entry .outcome', /exit/);
    const shown = await textOf(frame, '.entry');
    assert.ok(shown.includes(MARKUP) && shown.includes('red'), 'as it is');
    assert.ok(!/\u001b|\[31m|title/.test(shown.replaceAll(MARKUP, '')), 'without what moves a terminal\'s cursor');
    world.refuse('computer_restart', MARKUP, 'internal');
    await frame.click('[data-text="restart"]');
    assert.ok((await textOf(frame, '#confirm')).includes(MARKUP));
    await frame.click('#confirm .primary');
    await untilText(frame, '.notice.bad', /onerror/);
    const elements = await frame.$$eval('img, #app script, dialog script, #app b', (all) => all.length);
    assert.equal(elements, 0);
    assert.equal(await frame.title(), 'Sandbox computers');
    await assert.rejects(frame.evaluate((m) => (document.body.innerHTML = m), MARKUP), /TrustedHTML/, 'the page couldn\'t, even if it would');
});

test('nobody but the host is listened to', needsBrowser, async (t) => {
    const { frame, world } = await openDashboard(t, browser, worldOf('mine'));
    await untilText(frame, '#list', /mine/);
    await frame.evaluate(() => {
        const child = document.createElement('iframe');
        document.body.append(child);
        const forged = { jsonrpc: '2.0', method: 'ui/notifications/host-context-changed', params: { locale: 'zh-CN' } };
        window.postMessage(forged, '*');
        window.dispatchEvent(new MessageEvent('message', { data: forged, source: child.contentWindow }));
        window.postMessage({ jsonrpc: '2.0', id: 'x', method: 'ui/resource-teardown' }, '*');
    });
    const polls = world.countOf('computer_status');
    await eventually('it polls on', () => world.countOf('computer_status') > polls);
    assert.equal(await textOf(frame, 'h1'), 'Computers');
});

test('the server dies: told, with what to do, and nothing is lost; it comes back: all goes on', needsBrowser, async (t) => {
    const world = worldOf('steady');
    const { page, frame } = await openDashboard(t, browser, world);
    await frame.waitForSelector('[data-id="steady"]');
    await frame.click('[data-id="steady"] .open');
    await frame.type('#terminal-input', 'half a comm');
    world.dead = true;
    await untilText(frame, '#notices', /doesn't answer.*Next try in .*look whether the server still runs/s);
    assert.match(await textOf(frame, '#link'), /Last update/);
    assert.deepEqual(await focused(frame), { tag: 'textarea', id: 'terminal-input', text: 'Command for steady' });
    await page.keyboard.type('and\n');
    await untilText(frame, '.entry .problem', /connection to the server was lost/);
    const failed = world.countOf('computer_status');
    await eventually('it tries again', () => world.countOf('computer_status') > failed);
    world.dead = false;
    world.add('newcomer');
    await press(frame, 'Try now');
    await untilText(frame, '#link', /Live/);
    await untilText(frame, '#list', /newcomer/);
    assert.equal(await textOf(frame, '#notices'), '');
});

test('focus, selection and scrolling survive polls; a computer that goes is told of, with its output kept', needsBrowser, async (t) => {
    const world = worldOf('one', 'two');
    const { frame } = await openDashboard(t, browser, world);
    await frame.waitForSelector('[data-id="two"]');
    await frame.click('[data-id="two"] .open');
    await frame.type('#terminal-input', 'echo kept\n');
    await untilText(frame, '.entry .outcome', /exit/);
    await frame.evaluate(() => {
        window.marked = document.querySelector('.entry pre').firstChild;
        getSelection().selectAllChildren(document.querySelector('.entry pre'));
    });
    await frame.focus('#detail [data-text="restart"]');
    world.add('aaa');
    world.computers.delete('two');
    await untilText(frame, '#detail .chip', /gone/);
    assert.equal(await frame.evaluate(() => document.activeElement.dataset.text), 'restart');
    assert.equal(await frame.evaluate(() => String(getSelection())), 'echo kept');
    assert.equal(await frame.evaluate(() => window.marked === document.querySelector('.entry pre').firstChild), true);
    assert.match(await textOf(frame, '#terminal-hint'), /is gone/);
    assert.equal(await frame.$eval('#terminal-input', (n) => n.readOnly), true);
});

test('what others run is listed, and can be cancelled', needsBrowser, async (t) => {
    const world = worldOf('busy');
    const { frame } = await openDashboard(t, browser, world);
    world.addCommand('busy', 'make world');
    await untilText(frame, '[data-id="busy"] .last', /make world\s*running/);
    await frame.click('[data-id="busy"] .open');
    const own = held();
    world.run = () => own.result;
    await frame.type('#terminal-input', 'make mine\n');
    await eventually('only the other one is listed above', async () => world.countOf('terminal_execute') === 1
        && (await textOf(frame, '.running .command')) === 'make world' && (await frame.$$('.running li')).length === 1);
    world.tools.computer_cancel = ({ command }) => {
        world.endCommand('busy', command, 137, 5);
        return { ok: true, cancelled: true };
    };
    await press(frame, 'Cancel').catch(() => {});
    await eventually('a cancel', () => world.countOf('computer_cancel') === 1);
    await eventually('it is off the list', async () => (await frame.$$('.running li')).length === 0);
    own.release({ stdout: 'mine\n' });
    await untilText(frame, '.entry', /mine/);
});

test('output that was cut says where, how much, and where the rest is', needsBrowser, async (t) => {
    const world = worldOf('loud');
    world.run = async () => ({ stdout: 'h\u00e9ad\n\n[... 1048576 bytes omitted; all of it is in /run/o/1]\ntail\n', stderr: '', truncated: {
        stdout_bytes: 1048588, stdout_head_bytes: 6, stdout_omitted_bytes: 1048576, stdout_path: '/run/o/1' } });
    const { frame } = await openDashboard(t, browser, world);
    await frame.waitForSelector('[data-id="loud"]');
    await frame.click('[data-id="loud"] .open');
    await frame.type('#terminal-input', 'yes\n');
    await untilText(frame, '.entry .cut', /1 MiB left out here, of 1 MiB in all\. The whole is in \/run\/o\/1\./);
    assert.deepEqual(await frame.$$eval('.entry pre', (all) => all.map((n) => n.textContent)), ['h\u00e9ad', 'tail']);
    assert.ok(world.calls.find((c) => c.name === 'terminal_execute').args.output_limit <= 1024 * 1024, 'the page holds no floods');
});

test('200 computers are there at once, in an order that holds', needsBrowser, async (t) => {
    const world = worldOf(...Array.from({ length: 200 }, (_, i) => `computer-${String(i * 7919 % 200).padStart(3, '0')}`));
    const { frame } = await openDashboard(t, browser, new World());
    await untilText(frame, '#blank', /No computers yet/);
    await frame.evaluate(() => poller.stop()); // whose answers would take them away
    const status = { ...world.status(), now: new Date(Date.now() + 1000).toISOString() };
    const show = (computers) => frame.evaluate(async (given) => {
        const began = performance.now();
        model.apply(given);
        render();
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        return performance.now() - began;
    }, { ...status, computers });
    const runs = [];
    for (let i = 0; i < 5; i++) {
        await show([]);
        const before = await mainThreadMs(frame);
        const wall = await show(status.computers);
        runs.push({ wall, busy: (await mainThreadMs(frame)) - before });
    }
    t.diagnostic(`first paint of 200 computers: ${runs.map((r) => `${r.wall.toFixed(0)} ms (${r.busy.toFixed(0)} ms of work)`).join(', ')}`);
    assert.ok(Math.min(...runs.map((r) => r.busy)) < 200, 'under 200 ms of work, whatever else the machine does');
    const ids = await frame.$$eval('#list .id', (all) => all.map((n) => n.textContent));
    assert.equal(ids.length, 200);
    assert.deepEqual(ids, [...ids].sort());
});

test('a host whose pages call no tools: it says so, and shows what it was given', needsBrowser, async (t) => {
    const world = worldOf('given');
    const result = { content: [], structuredContent: world.status() };
    const { frame } = await openDashboard(t, browser, world, { capabilities: {}, result });
    await untilText(frame, '#list', /given/);
    await untilText(frame, '#notices', /doesn't let the page call tools.*computer_list/s);
    assert.equal(await frame.$eval('#new', (n) => n.checkVisibility()), false);
    assert.deepEqual(world.calls, []);
});

test('the host\'s theme, colours, language and size are followed while they change', needsBrowser, async (t) => {
    const { page, frame } = await openDashboard(t, browser, worldOf('one'), { theme: 'dark', context: { containerDimensions: { maxHeight: 500 },
        styles: { variables: { '--color-background-primary': 'rgb(1, 2, 3)', 'not a variable': 'x' } } } });
    await untilText(frame, '#list', /one/);
    const back = () => frame.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await back(), 'rgb(1, 2, 3)');
    assert.equal(await frame.evaluate(() => getComputedStyle(document.documentElement).colorScheme), 'dark');
    const sizes = () => page.evaluate(() => window.received.filter((m) => m.method === 'ui/notifications/size-changed').map((m) => m.params.height));
    const first = (await eventually('a size', async () => (await sizes()).length && sizes())).at(-1);
    assert.ok(first > 100 && first <= 500, String(first));
    await page.evaluate(() => window.post({ method: 'ui/notifications/host-context-changed', params: { theme: 'light', locale: 'zh-Hans' } }));
    await untilText(frame, 'h1', /^计算机$/);
    await untilText(frame, '#list', /运行中/);
    assert.equal(await frame.evaluate(() => document.documentElement.lang), 'zh-CN');
    assert.equal(await frame.evaluate(() => getComputedStyle(document.documentElement).colorScheme), 'light');
    await page.evaluate(() => window.post({ id: 'bye', method: 'ui/resource-teardown', params: {} }));
    await eventually('a reply', () => page.evaluate(() => window.received.some((m) => m.id === 'bye' && m.result)));
    assert.equal(await frame.evaluate(() => poller.stopped), true);
});

test('while nobody looks it asks rarely', needsBrowser, async (t) => {
    const world = worldOf('one');
    const { frame } = await openDashboard(t, browser, world);
    await untilText(frame, '#list', /one/);
    const waits = await frame.evaluate(async () => {
        Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });
        const seen = [];
        for (let i = 0; i < 3; i++) {
            const last = poller.nextAt;
            poller.now();
            while (poller.nextAt === last) await new Promise((resolve) => setTimeout(resolve));
            seen.push(poller.nextAt - Date.now());
        }
        return seen;
    });
    assert.ok(waits[0] > 5000 && waits[1] > waits[0] && waits[2] > waits[1], String(waits));
});

test('both languages say the same things', needsBrowser, async (t) => {
    const { frame } = await openDashboard(t, browser, new World());
    const wrong = await frame.evaluate(() => {
        const holes = (text) => [...new Set(text.match(/\{\w+\}/g))].sort().join();
        const keys = new Set([...Object.keys(TEXTS.en), ...Object.keys(TEXTS.zh)]);
        return [...keys].filter((key) => !TEXTS.en[key] || !TEXTS.zh[key] || holes(TEXTS.en[key]) !== holes(TEXTS.zh[key]));
    });
    assert.deepEqual(wrong, []);
});

test('no host: it says what it is', needsBrowser, async (t) => {
    const page = await browser.newPage();
    t.after(() => page.close());
    await page.setContent(dashboardPage(t));
    await page.evaluate(() => {
        phase = 'alone';
        render();
    });
    assert.match(await page.$eval('#blank', (n) => n.innerText), /MCP App.*computer_dashboard/s);
    assert.deepEqual(await accessibilityFaults(page), []);
});
