// One computer: what it is, what it uses, what runs in it, its terminal, and what can be done to it.
"use strict";

// A figure, its limit, and what shows them: a plot, or a bar where there is no history.
class Meter {
    #now = el("span", { class: "value" });
    #limit = el("span", { class: "quiet limit" });
    #plot;
    #bar = el("i");

    constructor(name, plotted) {
        this.#plot = plotted ? new Plot(name) : null;
        this.node = el("div", { class: `meter ${name}` }, el("span", { class: "name", "data-text": name }), this.#limit, this.#now,
            this.#plot?.node ?? el("span", { class: "bar" }, this.#bar));
    }

    plot(computer, serverTime, now, limit) {
        setText(this.#now, now);
        setText(this.#limit, limit);
        this.#plot.draw(computer, serverTime);
        this.#plot.describe(computer);
    }

    count(value, limit, write) {
        setText(this.#now, value === undefined ? "–" : write(value));
        setText(this.#limit, limitText(limit, write));
        this.#bar.style.width = `${value && limit ? Math.min(100, (100 * value) / limit.value) : 0}%`;
    }
}

class Detail {
    #root = byId("detail");
    #terminals = new Map(); // by id
    #host;
    #poller;
    #actions;
    #title = el("h2", { tabindex: -1 });
    #state = el("span", { class: "chip" });
    #facts = el("p", { class: "facts quiet" });
    #description = el("p", { class: "description" });
    #reason = el("p", { class: "problem" });
    #cpu = new Meter("cpu", true);
    #memory = new Meter("memory", true);
    #processes = new Meter("processes", false);
    #disk = new Meter("disk", false);
    #running = el("ul", { class: "running" });
    #terminalPlace = el("div", { class: "terminal-place" });
    #buttons;

    // actions: { back, change(verb, id), cancel(id, command) }
    constructor(host, poller, actions) {
        this.#host = host;
        this.#poller = poller;
        this.#actions = actions;
        this.#buttons = ["restart", "reset", "remove"].map((verb) =>
            el("button", { type: "button", "data-text": verb, class: verb === "remove" ? "danger" : "",
                on: { click: () => actions.change(verb, this.id) } }));
        this.#root.append(
            el("div", { class: "detail-top" },
                el("button", { type: "button", class: "back", "data-text": "back", on: { click: actions.back } }),
                el("div", { class: "detail-name" }, this.#title, this.#state),
                el("div", { class: "actions" }, ...this.#buttons)),
            this.#facts, this.#description, this.#reason,
            el("div", { class: "meters" }, this.#cpu.node, this.#memory.node, this.#processes.node, this.#disk.node),
            this.#running, this.#terminalPlace);
        this.#root.addEventListener("keydown", (event) => {
            if (event.key === "Escape" && !event.isComposing) actions.back();
        });
    }

    id = null;

    get terminal() {
        if (!this.#terminals.has(this.id)) this.#terminals.set(this.id, new Terminal(this.id, this.#host, this.#poller));
        return this.#terminals.get(this.id);
    }

    open(id) {
        this.id = id;
        this.#terminalPlace.replaceChildren(this.terminal.node);
        setText(this.#title, id);
        setAttribute(this.#root, "aria-label", id);
        show(this.#root, true);
    }

    close() {
        this.id = null;
        show(this.#root, false);
    }

    focus() {
        this.terminal.focus();
    }

    translate() {
        translate(this.#root);
        for (const terminal of this.#terminals.values()) terminal.translate();
    }

    render(model) {
        this.#forget(model);
        if (this.id === null) return;
        const computer = model.computers.get(this.id);
        this.terminal.update(computer);
        setAttribute(this.#root, "data-state", computer?.state ?? "gone");
        setText(this.#state, stateText(computer?.state ?? "gone"));
        for (const b of this.#buttons) setAttribute(b, "aria-disabled", !computer || computer.busy ? "true" : null);
        if (!computer) return this.#renderRunning(this.id, [], model);
        this.#renderFacts(computer, model);
        const { metrics, limits } = computer.told;
        this.#cpu.plot(computer, model.serverTime, cpuText(computer), limitText(limits?.cpu, (n) => `${n} CPU`));
        this.#memory.plot(computer, model.serverTime, memoryText(computer), limitText(limits?.memory, bytesText));
        this.#processes.count(metrics?.pids, limits?.pids, String);
        this.#disk.count(metrics?.disk_bytes, limits?.disk, bytesText);
        this.#renderRunning(computer.id, computer.told.running ?? [], model);
    }

    #renderFacts(computer, model) {
        const c = computer.told;
        const since = (text) => agoText(model.serverTime - Date.parse(text));
        setText(this.#facts, joined([
            t(c.temporary ? "temporary" : "permanent"), c.backend, c.image, c.sandbox_id,
            c.network !== undefined && t(c.network ? "network" : "no_network"),
            c.created_at && t("created_ago", { ago: since(c.created_at) }),
            c.last_used && t("used_ago", { ago: since(c.last_used) }),
            c.sessions > 0 && t("sessions", { n: c.sessions }), expiryText(c)].filter(Boolean).map(unbroken)));
        setText(this.#description, c.description ?? "");
        show(this.#description, Boolean(c.description));
        const reason = joined([c.elsewhere && t("elsewhere"), c.reason]);
        setText(this.#reason, reason);
        show(this.#reason, reason !== "");
    }

    // What runs and wasn't started from this terminal, where it could be cancelled.
    #renderRunning(id, running, model) {
        const own = new Set(this.terminal.running.map((entry) => entry.number));
        const others = running.filter((r) => !own.has(r.command));
        const wanted = new Map(others.map((r) => [String(r.command), r]));
        for (const node of [...this.#running.children]) if (!wanted.has(node.dataset.command)) this.#takeOut(node);
        for (const r of others) {
            let node = [...this.#running.children].find((n) => n.dataset.command === String(r.command));
            if (!node) {
                const cancel = button(t("cancel"), () => this.#actions.cancel(id, r.command), "small");
                setAttribute(cancel, "aria-label", `${t("cancel")}: ${r.text}`);
                node = el("li", {}, el("code", { class: "command", text: r.text }),
                    el("span", { class: "outcome", "data-outcome": "running" }), cancel);
                node.dataset.command = r.command;
                this.#running.append(node);
            }
            const ms = Math.max(0, model.serverTime - Date.parse(r.started_at));
            setText(node.querySelector(".outcome"), t("running_for", { time: secondsText(ms / 1000) }));
        }
        setAttribute(this.#running, "aria-label", t("commands_running"));
        show(this.#running, others.length > 0);
    }

    #takeOut(node) {
        const focused = hasFocus(node);
        node.remove();
        if (focused) this.terminal.focus();
    }

    // Terminals of computers that are gone, and that nobody looks at.
    #forget(model) {
        for (const [id, terminal] of this.#terminals) {
            if (id !== this.id && !model.computers.has(id) && terminal.running.length === 0) this.#terminals.delete(id);
        }
    }
}
