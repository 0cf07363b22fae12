// A provider's credential is in requests to the provider, and nowhere else: whatever a client, a command in a computer, a reader of
// logs and records, or another program of the same user can get hold of is searched for it.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { BINARY } from '../integration/support/server.mjs';
import { isRoot, temporaryFolder } from '../integration/support/machine.mjs';
import { NAMES, call, world } from './worlds.mjs';
import { needsRooms } from './support.mjs';

const PART = 12; // letters of a secret that may not be told either
const CUT = 200; // how much of a provider's words errors have
const GRPC_CODES = [3, 7, 9, 16]; // that are told at once

// What a provider says when it shouldn't: the secret alone, amid words, and where they are cut.
function echoes(secret, grpc) {
    const said = [`no ${secret} here`, ...[8, 16, 24].map((before) => 'x'.repeat(CUT - before) + secret), `"${[...secret].join('')}"\n`.repeat(50)];
    if (grpc) return said.flatMap((message) => GRPC_CODES.map((code) => ({ grpc: code, message })));
    return said.flatMap((message) => [
        { body: { code: 400, message, error: message, details: [{ message }] } },
        { body: message },
        { body: message, headers: { 'content-type': `text/plain; ${message.slice(0, 400).replaceAll(/[\n"]/g, '')}`, 'x-said': secret, location: `https://${secret}.example/` } },
    ]).flatMap((fault, nth) => (nth < 3 ? [302, 400, 401, 500] : [302, 400, 401]).map((status) => ({ status, ...fault }))); // 500 is tried again, which takes its time
}

function around(text, at) {
    return text.slice(Math.max(0, at - 200), at + 200);
}

function cmdlines(processes) {
    return processes.map(({ pid }) => {
        try {
            return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        } catch {
            return ''; // it has ended
        }
    });
}

function filesOf(folder) {
    return execFileSync('find', [folder, '-type', 'f', '-exec', 'cat', '{}', '+'], { encoding: 'utf8' });
}

for (const name of NAMES) {
    test(`${name}: the credential is nowhere but in requests`, needsRooms, async (t) => {
        const log = path.join(temporaryFolder(t, 'log-'), 'log');
        const { row, fake, start, server, stateDir, env, args } = await world(t, name, { args: ['--log-level', 'debug', '--log-file', log] });
        const texts = {};

        const look = 'env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n"';
        texts.guest = JSON.stringify(await server.run(look, { computer_id: 'one', temporary: false }));
        texts['arguments of processes'] = cmdlines(server.family()).join('\n');
        texts.answers = JSON.stringify([await call(server, 'computer_list', { metrics: true }), await call(server, 'computer_restart', { computer_id: 'one' })]);

        let n = 0;
        for (const fault of [...echoes(row.secret), ...(row.grpc ? echoes(row.secret, true) : [])]) {
            await fake.faults([{ match: row.given, times: 0, ...fault }]);
            assert.ok((await server.exec({ command: 'true', computer_id: `c${++n % 8}` })).isError, JSON.stringify(fault));
            if (n % 5 === 0) await call(server, 'computer_list', { metrics: true });
        }
        await fake.faults([]);
        const wrong = await start({ env: row.wrong, stateDir: temporaryFolder(t, 'state-') });
        const denied = await wrong.exec({ command: 'true' });
        assert.equal(denied.value.code, 'denied');
        texts['the wrong one'] = JSON.stringify(denied) + wrong.stderr;

        const printed = spawnSync(BINARY, ['--print-config', ...args, '--state-dir', stateDir], { env: { ...process.env, ...env }, encoding: 'utf8' });
        texts.configuration = printed.stdout + printed.stderr;
        texts.records = filesOf(stateDir);
        await server.stop();
        texts['records after the end'] = filesOf(stateDir);
        texts.log = fs.readFileSync(log, 'utf8');
        texts.stderr = server.stderr;
        texts['everything that was answered'] = JSON.stringify(server.messages);
        for (const [what, text] of Object.entries(texts)) {
            assert.ok(text.length > 0 || what === 'stderr', `there is no ${what}`);
            const parts = [row.secret, ...Object.values(row.wrong)].flatMap((one) => [one.slice(0, PART), one.slice(-PART)]);
            for (const part of parts) assert.ok(!text.includes(part), `it is in ${what}: ${around(text, text.indexOf(part))}`);
            assert.ok(!row.tokens.test(text), `the token of a sandbox is in ${what}: ${around(text, text.search(row.tokens))}`);
        }
    });

    test(`${name}: who has no credential is told that before all else`, async (t) => {
        const { row, start } = await world(t, name);
        const server = await start({ env: row.none, stateDir: temporaryFolder(t, 'state-') });
        for (const computer of [{}, { computer_id: 'one', temporary: false }]) {
            const { value } = await server.exec({ command: 'true', ...computer });
            assert.equal(value.code, 'denied');
            assert.match(value.error, /^(E2B|Fly|Modal) needs an? (API key|login|token): /);
            assert.ok(value.error.includes(Object.keys(row.none)[0]), value.error);
        }
    });

    // Whoever could trace the server could read its memory: the kernel asks the same for all of /proc that is private.
    test(`${name}: other processes of its user can't look into the server`, { skip: isRoot ? false : 'needs root, to be another user' }, async (t) => {
        const user = 65534;
        const { server } = await world(t, name, { as: user });
        const read = (file) => spawnSync('setpriv', [`--reuid=${user}`, `--regid=${user}`, '--clear-groups', 'cat', `/proc/${server.pid}/${file}`], { encoding: 'utf8' });
        assert.equal(read('status').status, 0);
        for (const file of ['environ', 'maps', 'mem', 'auxv']) assert.match(read(file).stderr, /Permission denied/, file);
    });

    test(`${name}: a server that crashes leaves no core`, async (t) => {
        const folder = temporaryFolder(t, 'core-');
        const { env, args } = await world(t, name);
        const crash = (...command) =>
            spawnSync('/bin/bash', ['-c', 'ulimit -c unlimited; coproc S { exec "$@"; }; echo "$HELLO" >&"${S[1]}"; read -r line <&"${S[0]}"; kill -ABRT "$S_PID"; wait "$S_PID"', 'crash', ...command], {
                cwd: folder,
                encoding: 'utf8',
                env: { ...process.env, ...env, HELLO: '{"jsonrpc":"2.0","id":1,"method":"ping"}' },
            });
        if (!/core dumped/.test(crash('/bin/cat').stderr)) return t.skip('cores are not written here at all');
        const ended = crash(BINARY, ...args, '--state-dir', temporaryFolder(t, 'state-'));
        assert.match(ended.stderr, /Aborted/);
        assert.doesNotMatch(ended.stderr, /core dumped/);
        return undefined;
    });
}
