// Starts a fake for a test, or for another program's time, and drives it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before } from 'node:test';

const FOLDER = path.resolve(import.meta.dirname, '..');

// A fake that runs. What it printed is in `ready`; see serve.mjs for what it can be told.
export class RunningFake {
    static async start(name, options = []) {
        const fake = new RunningFake();
        fake.child = spawn(process.execPath, [path.join(FOLDER, `${name}.mjs`), ...options], {
            stdio: ['pipe', 'pipe', 'inherit'],
        });
        fake.gone = once(fake.child, 'exit');
        const lines = createInterface({ input: fake.child.stdout });
        const [line] = await Promise.race([once(lines, 'line'), fake.gone.then(() => [])]);
        if (!line) throw new Error(`the fake ${name} didn't start: exit code ${fake.child.exitCode}`);
        fake.ready = JSON.parse(line);
        return fake;
    }

    // What the official client, and ours, is to be run with.
    environment() {
        return { ...this.ready.environment, FAKE_ADMIN: this.ready.admin, ...(this.ready.ca ? { FAKE_CA: this.ready.ca } : {}) };
    }

    async #ask(method, where, value) {
        const answer = await fetch(`${this.ready.admin}/${where}`, {
            method,
            body: value === undefined ? undefined : JSON.stringify(value),
        });
        const told = await answer.json();
        if (!answer.ok) throw new Error(told.error);
        return told;
    }

    state() {
        return this.#ask('GET', 'state');
    }

    requests() {
        return this.#ask('GET', 'requests');
    }

    forgetRequests() {
        return this.#ask('DELETE', 'requests');
    }

    faults(table) {
        return table ? this.#ask('PUT', 'faults', table) : this.#ask('GET', 'faults');
    }

    options(changed) {
        return this.#ask('PUT', 'options', changed);
    }

    advance(seconds) {
        return this.#ask('POST', 'clock', { advance: seconds });
    }

    goaway() {
        return this.#ask('POST', 'goaway');
    }

    async stop() {
        this.child.stdin.end();
        await this.gone;
    }
}

// A fake that ends with the test.
export async function startFake(t, name, options) {
    const fake = await RunningFake.start(name, options);
    t.after(() => fake.stop());
    return fake;
}

// A fake that the tests of a file share: called with nothing it is that fake. For tests that change nothing the others see.
export function shareFake(name, options) {
    let fake;
    before(async () => {
        fake = await RunningFake.start(name, options);
    });
    after(() => fake?.stop());
    return () => fake;
}
