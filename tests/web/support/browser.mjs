// Debian's Chromium, and looking at the dashboard in it as its users do: by what is seen, by the keyboard, by roles and names.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import puppeteer from 'puppeteer-core';
import { defer, eventually, temporaryFolder } from '../../integration/support/machine.mjs';

const root = path.resolve(import.meta.dirname, '../../..');
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
export const needsBrowser = { skip: fs.existsSync(CHROMIUM) ? false : `no ${CHROMIUM} (tools/setup web installs it)` };

// A browser that closes with the test `t`; its children go before its folder does.
export async function startBrowser(t) {
    const profile = temporaryFolder(t, 'chromium-');
    const browser = await puppeteer.launch({ executablePath: CHROMIUM, userDataDir: profile,
        env: { ...process.env, HOME: profile },
        args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--lang=en-GB', '--force-color-profile=srgb'] });
    defer(t, () => browser.close());
    return browser;
}

// Pictures are for people to look at; tests don't compare them.
export async function screenshot(page, name) {
    const folder = path.join(root, 'build/web-screenshots');
    fs.mkdirSync(folder, { recursive: true });
    await page.screenshot({ path: path.join(folder, `${name}.png`) });
}

// What axe-core has against the page as it is now: a line for each element.
const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
export async function accessibilityFaults(frame) {
    await frame.evaluate(axe);
    return frame.evaluate(async () => {
        const { violations } = await globalThis.axe.run(document, { resultTypes: ['violations'] });
        return violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(' ')}: ${n.failureSummary}`));
    });
}

// The text that is seen of an element, as of now.
export function textOf(frame, selector) {
    return frame.$eval(selector, (node) => node.innerText);
}

export async function untilText(frame, selector, pattern) {
    let last;
    try {
        await eventually('', async () => {
            last = await frame.$$eval(selector, (nodes) => nodes.map((n) => (n.checkVisibility() ? n.textContent : '')).join('\n'));
            return pattern.test(last);
        }, 30);
    } catch {
        assert.match(last ?? '', pattern, `the text of ${selector}`);
    }
    return last;
}

// Clicks the visible button of this name.
export async function press(frame, name) {
    const handle = await eventually(`a button ${name}`, () => frame.evaluateHandle((wanted) => [...document.querySelectorAll('button')]
        .find((b) => b.checkVisibility() && b.innerText.trim() === wanted && !b.closest('[inert]')), name)
        .then((found) => found.asElement()));
    await handle.click();
}

// What has the focus: its role-ish tag and its name.
export function focused(frame) {
    return frame.evaluate(() => {
        const node = document.activeElement;
        return { tag: node.tagName.toLowerCase(), id: node.id, text: node.getAttribute('aria-label') ?? node.innerText };
    });
}

// How long the page's main thread has been at work.
export async function mainThreadMs(frame) {
    await frame.client.send('Performance.enable');
    const { metrics } = await frame.client.send('Performance.getMetrics');
    return 1000 * metrics.find((m) => m.name === 'ThreadTime').value;
}
