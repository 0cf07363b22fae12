// What the page knows: the computers as the server last told them, five minutes of their figures, and when to ask again.
"use strict";

const WINDOW_MS = 5 * 60 * 1000;
const STEP_MS = 2000; // between polls while somebody looks
const SOON_MS = 1000; // ... while something is going on
const HIDDEN_MS = 10000; // doubles up to
const HIDDEN_MOST_MS = 120000;
const ERROR_MS = 1000; // doubles up to
const ERROR_MOST_MS = 30000;
const POLL_PATIENCE_MS = 10000;
const PAGES_MOST = 64;

class Computer {
    samples = []; // { at, cpu (percent, or null), memory (bytes) }, oldest first
    busy = null; // what the page has asked for and hasn't heard of: "restarting" ...
    #last = null;

    constructor(id) {
        this.id = id;
    }

    // `at`: the server's time.
    update(told, at) {
        this.told = told.paused ? { ...told, state: "paused" } : told;
        const metrics = told.metrics;
        if (metrics) {
            const ms = this.#last ? at - this.#last.at : 0;
            const ns = this.#last ? metrics.cpu_ns - this.#last.cpu_ns : -1; // a new instance counts from 0
            this.samples.push({ at, cpu: ms > 0 && ns >= 0 ? ns / ms / 1e4 : null, memory: metrics.memory_bytes });
            this.#last = { at, cpu_ns: metrics.cpu_ns };
        } else {
            this.#last = null;
        }
        const keep = this.samples.findIndex((s) => s.at >= at - WINDOW_MS);
        this.samples.splice(0, keep < 0 ? this.samples.length : keep);
    }

    get state() {
        return this.busy ?? this.told.state;
    }

    get now() {
        return this.told.metrics ? this.samples.at(-1) : undefined;
    }

    // What the plots reach up to: percent of what it may use, bytes.
    get cpuMost() {
        const cpus = this.told.limits?.cpu?.value ?? 1;
        return Math.max(100 * cpus, ...this.samples.map((s) => s.cpu ?? 0));
    }

    get memoryMost() {
        return Math.max(this.told.limits?.memory?.value ?? 0, ...this.samples.map((s) => s.memory), 1);
    }

    matches(words) {
        if (words.length === 0) return true;
        const c = this.told;
        const text = [c.computer_id, c.description, c.image, c.backend, c.sandbox_id, c.state, stateText(this.state), c.last_command?.text,
            c.temporary ? `temporary ${t("temporary")}` : `permanent ${t("permanent")}`].join("\n").toLowerCase();
        return words.every((word) => text.includes(word));
    }
}

class Model {
    computers = new Map(); // by id, in the order of ids
    about = {};
    receivedAt = null; // of the page's clock
    at = 0; // the server's clock then

    apply(status) {
        this.at = Date.parse(status.now) || Date.now();
        this.receivedAt = Date.now();
        this.about = { backend: status.backend, server: status.server, options: status.options ?? [] };
        const told = status.computers.filter((c) => typeof c.computer_id === "string");
        told.sort((a, b) => (a.computer_id < b.computer_id ? -1 : 1));
        const before = this.computers;
        this.computers = new Map(told.map((c) => [c.computer_id, before.get(c.computer_id) ?? new Computer(c.computer_id)]));
        for (const c of told) this.computers.get(c.computer_id).update(c, this.at);
    }

    // The server's time now, as well as it is known.
    get serverTime() {
        return this.at + (Date.now() - (this.receivedAt ?? Date.now()));
    }

    get all() {
        return [...this.computers.values()];
    }

    get temporary() {
        return this.all.filter((c) => c.told.temporary && c.told.state !== "deleting");
    }

    get lively() {
        return this.all.some((c) => c.busy || c.told.commands_running > 0 || ["creating", "deleting"].includes(c.told.state));
    }
}

// Asks again and again: soon while something happens, rarely while nobody looks, ever more rarely while nobody answers.
class Poller {
    #host;
    #model;
    #onChange;
    #timer;
    #asking = false;
    #again = false;
    #errors = 0;
    #hidden = 0; // polls since the page was seen
    stopped = false;
    onscreen = true;
    error = null;
    nextAt = 0;

    constructor(host, model, onChange) {
        this.#host = host;
        this.#model = model;
        this.#onChange = onChange;
        document.addEventListener("visibilitychange", () => this.seen());
    }

    // It became visible, or ceased to be.
    seen() {
        this.#hidden = 0;
        if (!this.#looksAway) this.now();
        else this.#schedule();
    }

    get #looksAway() {
        return document.visibilityState === "hidden" || !this.onscreen;
    }

    // Asks at once; while it asks already, once more behind that.
    now() {
        if (this.#asking) this.#again = true;
        else this.#ask();
    }

    stop() {
        this.stopped = true;
        clearTimeout(this.#timer);
    }

    async #ask() {
        if (this.stopped) return;
        clearTimeout(this.#timer);
        this.#asking = true;
        try {
            this.#model.apply(await this.#fetch());
            this.#errors = 0;
            this.error = null;
        } catch (error) {
            this.#errors++;
            this.error = error;
        }
        this.#asking = false;
        const again = this.#again && !this.error;
        this.#again = false;
        if (this.#looksAway) this.#hidden++;
        if (again) this.#ask();
        else this.#schedule();
        this.#onChange();
    }

    // All pages of the list as one.
    async #fetch() {
        const status = await this.#host.call("computer_status", {}, POLL_PATIENCE_MS);
        if (!Array.isArray(status.computers)) throw new CallError(t("unusable"), "internal");
        let next = status.next;
        for (let page = 1; next && page < PAGES_MOST; page++) {
            const more = await this.#host.call("computer_status", { after: next }, POLL_PATIENCE_MS);
            status.computers.push(...more.computers);
            next = more.next;
        }
        return status;
    }

    #schedule() {
        clearTimeout(this.#timer);
        if (this.stopped) return;
        const ms = this.#wait();
        this.nextAt = Date.now() + ms;
        this.#timer = setTimeout(() => this.now(), ms);
    }

    #wait() {
        const failing = this.#errors ? Math.min(ERROR_MOST_MS, ERROR_MS * 2 ** (this.#errors - 1)) : 0;
        if (this.#looksAway) return Math.max(failing, Math.min(HIDDEN_MOST_MS, HIDDEN_MS * 2 ** this.#hidden));
        return failing || (this.#model.lively ? SOON_MS : STEP_MS);
    }
}
