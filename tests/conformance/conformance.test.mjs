// The official conformance suite, in the two revisions that it scores: against the fixture server, which is the product's own
// protocol and transport with the tools that the suite wants (everything must pass); and against the product, where only what
// needs such tools may fail (baseline.yml).
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { startHttp } from '../integration/support/http.mjs';
import { defer, temporaryFolder } from '../integration/support/machine.mjs';

const here = path.dirname(new URL(import.meta.url).pathname);
const SUITE = path.resolve(here, '../node_modules/@modelcontextprotocol/conformance/dist/index.js');
const FIXTURE_SERVER = process.env.FIXTURE_SERVER ?? path.resolve(here, '../../build/tests/fixtures/fixture_server');
const REVISIONS = { '2025-11-25': 30, '2026-07-28': 37 }; // scenarios that count

async function startFixtures(t) {
    const child = spawn(FIXTURE_SERVER, [path.resolve(here, '../fixtures/fixtures.json')], { stdio: ['ignore', 'pipe', 'inherit'] });
    defer(t, async () => {
        child.kill('SIGTERM');
        assert.deepEqual(await once(child, 'exit'), [0, null]);
    });
    const [line] = await once(child.stdout, 'data');
    return line.toString().trim();
}

// Runs the suite; gives its exit code, and each scenario's outcome as { name, scored, passed, failed }.
async function conformance(t, url, revision, baseline) {
    const folder = temporaryFolder(t, 'conformance-');
    const args = [SUITE, 'server', '--url', url.replace('127.0.0.1', 'localhost'), '--requirements', revision,
        ...(baseline ? ['--expected-failures', path.join(here, 'baseline.yml')] : [])];
    const { code, output } = await new Promise((resolve) => execFile(process.execPath, args, { cwd: folder, maxBuffer: 64 << 20 },
        (error, stdout, stderr) => resolve({ code: error ? error.code : 0, output: stdout + stderr })));
    const summary = output.slice(output.indexOf('=== SUMMARY ==='));
    const scenarios = [...summary.matchAll(/^[✓✗] (\S+): (\d+) passed, (\d+) failed/gm)]
        .map(([, name, passed, failed]) => ({ name, passed: Number(passed), failed: Number(failed) }));
    const unscored = new Set([...summary.matchAll(/^ {2}[✓✗] (\S+) \(/gm)].map(([, name]) => name));
    assert.ok(scenarios.length > 0, output.slice(-2000));
    return { code, output, scenarios: scenarios.map((s) => ({ ...s, scored: !unscored.has(s.name) })) };
}

const scores = [];
for (const [revision, count] of Object.entries(REVISIONS)) {
    test(`fixtures: all ${count} scenarios of ${revision}`, async (t) => {
        const run = await conformance(t, await startFixtures(t), revision);
        const scored = run.scenarios.filter((s) => s.scored);
        const failed = scored.filter((s) => s.failed);
        scores.push(`fixtures ${revision}: ${scored.length - failed.length} of ${scored.length}`);
        assert.deepEqual(failed, [], run.output);
        assert.equal(scored.length, count);
        assert.equal(run.code, 0);
    });

    test(`the product: what needs no fixtures of ${revision}`, async (t) => {
        const run = await conformance(t, (await startHttp(t)).url, revision, 'baseline');
        const scored = run.scenarios.filter((s) => s.scored);
        const listed = fs.readFileSync(path.join(here, 'baseline.yml'), 'utf8');
        const meant = scored.filter((s) => !new RegExp(`^  - ${s.name}$`, 'm').test(listed));
        const passed = meant.filter((s) => !s.failed || listed.includes(`  - ${s.name}:`));
        scores.push(`product ${revision}: ${passed.length} of the ${meant.length} without fixtures`);
        assert.equal(run.code, 0, run.output);
        assert.ok(meant.length >= 9, `only ${meant.length} scenarios are asked of the product`);
    });
}

test.after(() => console.log(`conformance: ${scores.join('; ')}`));
