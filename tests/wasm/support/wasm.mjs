// Servers whose computers are modules, and the modules of tests/wasm/guests.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { startServer } from '../../integration/support/server.mjs';

const here = path.dirname(new URL(import.meta.url).pathname);
const build = path.resolve(here, '../../../build');
const installed = process.env.SANDBOX_WASM_DIR ?? path.join(build, 'wasm');
const modules = path.join(build, 'wasm-guests');

export const LIBRARY = path.join(installed, 'libwasmtime.so');
export const BUSYBOX = path.join(installed, 'busybox.wasm');

// Why nothing of this can be tested here.
function obstacle() {
    for (const file of [LIBRARY, BUSYBOX]) {
        if (!fs.existsSync(file)) return `there is no ${file}: make wasm`;
    }
    const made = spawnSync(path.join(here, '../build-guests'), [modules], { encoding: 'utf8' });
    return made.status === 0 ? false : made.stderr.trim().split('\n').at(-1) || `build-guests: ${made.error ?? made.status}`;
}
export const needsWasm = { skip: obstacle() };

export function guest(name) {
    return path.join(modules, `${name}.wasm`);
}

// A server of the backend `wasm` with a module of ours, or a file of any kind; 'go_busybox' for that backend.
export async function startWasm(t, { module = guest('guest'), args = [], env = {}, ...settings } = {}) {
    const which = module === 'go_busybox' ? ['--backend', 'go_busybox'] : ['--backend', 'wasm', '--wasm-path', module];
    return startServer(t, { args: [...which, ...args], env: { SANDBOX_WASM_DIR: installed, ...env }, ...settings });
}

// A call by `args`: its structured content, error or not.
export async function call(server, args, more = {}) {
    return (await server.exec({ args, ...more })).value;
}

// One that is to run.
export async function run(server, args, more = {}) {
    const value = await call(server, args, more);
    assert.ok(!value.error, `refused: ${JSON.stringify(value)}`);
    return value;
}

// One that is to go well, and what it says.
export async function says(server, args, more = {}) {
    const value = await run(server, args, more);
    assert.equal(value.exit_code, 0, JSON.stringify(value));
    return value.stdout;
}

// What a result says of how its command ended, whether beside its error output or in it.
export function told(value) {
    return [value.error, value.note, value.stderr].join('\n');
}
