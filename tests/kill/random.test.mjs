// kill -9 at random: two servers on one state directory make, use and end computers, while one of them, its zygote or the first
// process of a computer is killed, KILL_ROUNDS times. KILL_SEED repeats what was chosen, though not when it happened.
import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { needsRoot } from '../integration/support/machine.mjs';
import { World, report } from './support/world.mjs';

const ROUNDS = Number(process.env.KILL_ROUNDS ?? 60);
const ROUNDS_PER_TEST = 60;
const CLIENTS = 2; // of each server
const PAUSE_MS = 40; // at most, between two kills
const BATTLE_MS = 300_000;
const seed = Number(process.env.KILL_SEED ?? Date.now() % 1_000_000);

// What a call may be answered with when somebody was killed, or another server has the computer.
const EXCUSES = ['busy', 'computer_gone', 'unavailable'];
const KEEPERS = ['keeper-0', 'keeper-1', 'keeper-2'];
const IDS = [...KEEPERS, 'passing-0', 'passing-1', 'passing-2', 'passing-3'];

// mulberry32
function chance(state) {
    return () => {
        state = (state + 0x6d2b79f5) | 0;
        let t = Math.imul(state ^ (state >>> 15), 1 | state);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

class Battle {
    tally = {};
    #written = new Map(KEEPERS.map((id) => [id, []])); // what a server said to have been written
    #next = 0;
    #over = false;

    constructor(t, random) {
        this.world = new World(t);
        this.random = random;
        this.pick = (list) => list[Math.floor(random() * list.length)];
    }

    count(what) {
        this.tally[what] = (this.tally[what] ?? 0) + 1;
    }

    // One call; false if the server is no more.
    async #call(server, id) {
        const line = `line-${this.#next++}`;
        const before = [...this.#written.get(id) ?? []];
        const permanent = KEEPERS.includes(id);
        const background = this.random() < 0.2 ? 'sleep 300 >/dev/null 2>&1 & ' : '';
        const command = permanent ? `${background}echo ${line} >>/root/log && cat /root/log` : `cat /root/log; echo ${line} >/root/log`;
        let result;
        try {
            result = await server.exec({ command, computer_id: id, temporary: !permanent });
        } catch (error) {
            if (!/the server has ended/.test(error.message)) throw error;
            this.count('no answer');
            return false;
        }
        this.count(result.isError ? result.value.code : 'done');
        if (result.isError) {
            assert.ok(EXCUSES.includes(result.value.code), `no excuse: ${JSON.stringify(result.value)}`);
            return true;
        }
        if (!permanent) return true;
        const lines = result.value.stdout.trim().split('\n');
        assert.deepEqual(before.filter((l) => !lines.includes(l)), [], `${id} has lost what was written`);
        this.#written.get(id).push(line);
        return true;
    }

    async #client(slot) {
        while (!this.#over) {
            const server = this.servers[slot];
            if (!await this.#call(server, this.pick(IDS))) await this.begun[slot];
        }
    }

    async #start(slot) {
        this.begun[slot] = this.world.start({ args: ['--warm-pool', String(slot)] });
        this.servers[slot] = await this.begun[slot];
    }

    // The server of that slot is of use again: a computer that only it uses, at once, or after what it has lost was told.
    async #recovered(slot) {
        const what = { command: 'echo here', computer_id: `own-${slot}` };
        let result = await this.servers[slot].exec(what);
        for (let i = 0; i < 2 && ['computer_gone', 'unavailable'].includes(result.value.code); i++) result = await this.servers[slot].exec(what);
        assert.equal(result.value.stdout, 'here\n', JSON.stringify(result.value));
    }

    async #round() {
        const slot = Math.floor(this.random() * 2);
        const server = this.servers[slot];
        const victim = this.pick(['server', 'server', 'zygote', 'init', 'init']);
        await sleep(this.random() * PAUSE_MS);
        if (victim === 'server') {
            await this.world.killed(server);
            await this.#start(slot);
        } else {
            const pid = victim === 'zygote' ? this.world.zygoteOf(server) : this.pick(this.world.inits());
            if (pid) this.world.kill(pid);
        }
        this.count(`killed: ${victim}`);
        this.world.checkRanges();
        await this.#recovered(slot);
    }

    async fight(rounds) {
        this.begun = [];
        this.servers = [];
        await this.#start(0);
        await this.#start(1);
        const clients = Array.from({ length: 2 * CLIENTS }, (_, i) => this.#client(i % 2));
        const all = Promise.all(clients);
        try {
            for (let i = 0; i < rounds; i++) await Promise.race([this.#round(), all]);
        } finally {
            this.#over = true;
        }
        await all;
        for (const server of this.servers) await this.world.killed(server);
    }

    // Every id is there for who asks, with all that was written.
    async peace() {
        this.world.faults.forget();
        const last = await this.world.start({ args: ['--warm-pool', '0'] });
        for (const id of IDS) {
            const result = await last.exec({ command: 'cat /root/log', computer_id: id });
            assert.ok(!result.isError, `${id} can be used at once: ${JSON.stringify(result.value)}`);
            const lines = result.value.stdout.split('\n');
            assert.deepEqual((this.#written.get(id) ?? []).filter((line) => !lines.includes(line)), [], `${id} has lost what was written`);
        }
        const kept = KEEPERS.filter((id) => this.#written.get(id).length > 0);
        await this.world.quiet(last, kept);
        await this.world.end(last);
        await this.world.settle(kept);
    }
}

for (let first = 0; first < ROUNDS; first += ROUNDS_PER_TEST) {
    const rounds = Math.min(ROUNDS_PER_TEST, ROUNDS - first);
    test(`${rounds} kills at random, seed ${seed + first}`, { ...needsRoot, timeout: BATTLE_MS }, async (t) => {
        const battle = new Battle(t, chance(seed + first));
        await battle.fight(rounds);
        await battle.peace();
        report(`${rounds} kills, seed ${seed + first}: ${Object.entries(battle.tally).sort().map(([what, count]) => `${what} ${count}`).join(', ')}`);
    });
}
