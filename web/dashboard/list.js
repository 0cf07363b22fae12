// The list of computers: a row each, changed in place. One row at a time is a stop of the Tab key; arrow keys go on from there.
"use strict";

// Copied for each row: quicker than making so many elements one by one.
const ROW = el("li", { class: "row" },
    el("button", { type: "button", class: "open", tabindex: -1 }, el("i", { class: "dot" }),
        el("span", { class: "who" }, el("span", { class: "id" }),
            el("span", { class: "sub" }, el("span", { class: "state" }), el("span", { class: "facts" })))),
    el("span", { class: "figure" }, el("span", { class: "now" })),
    el("span", { class: "figure" }, el("span", { class: "now" })),
    el("span", { class: "last" }, el("code", { class: "command" }), el("span", { class: "outcome" })));

class Row {
    #state;
    #facts;
    #cpu = new Plot("cpu");
    #cpuNow;
    #memory = new Plot("memory");
    #memoryNow;
    #command;
    #outcome;

    constructor(id) {
        this.id = id;
        this.node = ROW.cloneNode(true);
        this.node.dataset.id = id;
        const [open, cpu, memory, last] = this.node.children;
        const [name, sub] = open.lastElementChild.children;
        this.button = open;
        name.textContent = id;
        [this.#state, this.#facts] = sub.children;
        [this.#cpuNow] = cpu.children;
        [this.#memoryNow] = memory.children;
        [this.#command, this.#outcome] = last.children;
        cpu.prepend(this.#cpu.node);
        memory.prepend(this.#memory.node);
    }

    update(computer, serverTime) {
        const c = computer.told;
        setAttribute(this.node, "data-state", computer.state);
        setText(this.#state, stateText(computer.state));
        setText(this.#facts, joined([t(c.temporary ? "temporary" : "permanent"), c.description || c.image, expiryText(c)]));
        this.#cpu.draw(computer, serverTime);
        this.#cpu.describe(computer);
        setText(this.#cpuNow, cpuText(computer));
        this.#memory.draw(computer, serverTime);
        this.#memory.describe(computer);
        setText(this.#memoryNow, memoryText(computer));
        this.#updateCommand(c, problemText(computer), serverTime);
    }

    #updateCommand(c, problem, serverTime) {
        const running = c.running?.[0];
        const command = problem ? null : running ?? c.last_command;
        setText(this.#command, command?.text ?? "");
        show(this.#command, Boolean(command));
        const outcome = problem ? "bad" : running ? "running" : !command ? "none" : command.exit_code === 0 ? "good" : "bad";
        setAttribute(this.#outcome, "data-outcome", outcome);
        setText(this.#outcome, problem || (running ? runningText(c, serverTime) : lastText(c.last_command, serverTime)));
    }

    set selected(selected) {
        setAttribute(this.button, "aria-current", selected ? "true" : null);
    }
}

// Why it can't be used, which matters more than its last command.
function problemText({ state, told }) {
    return ["failed", "missing", "paused"].includes(state) && told.reason ? told.reason : "";
}

function expiryText(c) {
    if (!(c.expires_in_s >= 0)) return "";
    return t(c.on_expiry === "stop" ? "stopped_in" : "removed_in", { time: secondsText(roundedUp(c.expires_in_s)) });
}

// So that it isn't another text with each poll.
function roundedUp(seconds) {
    const step = seconds > 3600 ? 600 : seconds > 60 ? 60 : 10;
    return Math.ceil(seconds / step) * step;
}

function runningText(c, serverTime) {
    const ms = Math.max(0, serverTime - Date.parse(c.running[0].started_at));
    return joined([t("running_for", { time: secondsText(ms / 1000) }),
        c.commands_running > 1 && t("more_running", { n: c.commands_running - 1 })]);
}

function lastText(last, serverTime) {
    if (!last) return t("never_run");
    return joined([t("exit", { code: last.exit_code }), durationText(last.duration_ms), agoText(serverTime - Date.parse(last.ended_at))]);
}

class List {
    #list = byId("list");
    #rows = new Map();
    #stop = null; // the row that Tab stops at

    constructor({ onOpen, onRemove }) {
        this.#list.addEventListener("click", (event) => {
            const id = event.target.closest("li")?.dataset.id;
            if (id !== undefined) onOpen(id);
        });
        this.#list.addEventListener("keydown", (event) => this.#key(event, onRemove));
        this.#list.addEventListener("focusin", (event) => this.#moveStop(this.#rows.get(event.target.closest("li")?.dataset.id)));
    }

    // Gives the number of rows that are shown.
    render(model, words, selectedId) {
        this.#takeOut(model);
        let at = this.#list.firstElementChild;
        let shown = 0;
        for (const computer of model.all) {
            const row = this.#rows.get(computer.id) ?? this.#make(computer.id);
            if (row.node === at) at = at.nextElementSibling;
            else this.#list.insertBefore(row.node, at);
            const matches = computer.matches(words);
            show(row.node, matches);
            row.selected = computer.id === selectedId;
            if (!matches) continue;
            row.update(computer, model.serverTime);
            shown++;
        }
        if (!this.#stop || this.#stop.node.hidden) this.#moveStop(this.#shown[0]);
        return shown;
    }

    focus(id) {
        const row = this.#rows.get(id);
        const target = row && !row.node.hidden ? row : this.#shown[0];
        if (target) target.button.focus();
        return Boolean(target);
    }

    get #shown() {
        return [...this.#list.children].map((node) => this.#rows.get(node.dataset.id)).filter((row) => !row.node.hidden);
    }

    #make(id) {
        const row = new Row(id);
        this.#rows.set(id, row);
        return row;
    }

    // Those that are gone. If the focus was there, the next row has it now; if there is none, the caller finds it lost.
    #takeOut(model) {
        for (const [id, row] of this.#rows) {
            if (model.computers.has(id)) continue;
            const next = row.node.nextElementSibling ?? row.node.previousElementSibling;
            const focused = hasFocus(row.node);
            this.#rows.delete(id);
            row.node.remove();
            if (this.#stop === row) this.#moveStop(this.#rows.get(next?.dataset.id));
            if (focused) this.focus(next?.dataset.id);
        }
    }

    #moveStop(row) {
        if (row === this.#stop) return;
        if (this.#stop) this.#stop.button.tabIndex = -1;
        this.#stop = row ?? null;
        if (row) row.button.tabIndex = 0;
    }

    #key(event, onRemove) {
        if (event.ctrlKey || event.altKey || event.metaKey) return;
        const rows = this.#shown;
        const at = rows.findIndex((row) => hasFocus(row.node));
        const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
        if (to !== undefined) rows[Math.min(rows.length - 1, Math.max(0, to))]?.button.focus();
        else if (event.key === "Delete" && at >= 0) onRemove(rows[at].id);
        else if (event.key === "/") byId("search").focus();
        else return;
        event.preventDefault();
    }
}
