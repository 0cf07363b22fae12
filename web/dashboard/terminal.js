// The terminal of one computer: what was run from here, what came of it, and a line for the next command. It lives as long as
// the page, so that one can look at another computer and come back.
"use strict";

const OUTPUT_LIMIT = 256 * 1024; // bytes of one command that are shown; the computer keeps a file with the rest
const ENTRIES_MOST = 100;
const HISTORY_MOST = 200;
const SPOKEN_MOST = 200; // characters of output that are read out

// What colours and moves the cursor of a real terminal.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\^_])/g;
const GAP_MARK = /^\n?\[\.\.\. \d+ bytes omitted[^\]]*\]\n?/;

function plain(text) {
    return text.replace(ESCAPES, "").replace(/\r\n/g, "\n");
}

// A stream's text as the parts before and behind the gap, if it was cut.
function parts(text, headBytes) {
    if (headBytes === undefined) return [text];
    const bytes = new TextEncoder().encode(text);
    const decode = (from, to) => new TextDecoder().decode(bytes.subarray(from, to));
    return [decode(0, headBytes), decode(headBytes, bytes.length).replace(GAP_MARK, "")];
}

// One command and what came of it.
class Entry {
    #outcome = el("span", { class: "outcome" });
    #cancel;
    #body = el("div", { class: "outputs" });
    number = null; // by which the server knows it while it runs
    state = "is_running";

    constructor(command, known, onCancel) {
        this.command = command;
        this.known = known; // numbers of commands that ran before it
        this.startedAt = Date.now();
        this.#cancel = button(t("cancel"), () => onCancel(this), "small");
        this.node = el("article", { class: "entry" },
            el("header", {}, el("code", { class: "command", text: command }), this.#outcome, this.#cancel), this.#body);
        this.#set("is_running", "running", t("is_running"));
    }

    #set(state, outcome, text) {
        this.state = state;
        setAttribute(this.node, "data-state", state);
        setAttribute(this.#outcome, "data-outcome", outcome);
        setText(this.#outcome, text);
    }

    get running() {
        return this.state === "is_running" || this.state === "cancelling";
    }

    tick() {
        if (this.state !== "is_running") return;
        this.#set("is_running", "running", t("running_for", { time: secondsText((Date.now() - this.startedAt) / 1000) }));
    }

    cancelling() {
        this.#set("cancelling", "running", t("cancelling"));
        this.#cancel.disabled = true;
    }

    // It goes on after all.
    notCancelled() {
        if (this.state !== "cancelling") return;
        this.#set("is_running", "running", t("is_running"));
        this.#cancel.disabled = false;
    }

    finish(r) {
        show(this.#cancel, false);
        const how = r.timed_out ? t("timed_out") : this.state === "cancelling" ? t("cancelled")
            : r.signal ? t("by_signal", { signal: r.signal }) : "";
        const text = joined([how, t("exit", { code: r.exit_code }), r.oom_killed && t("oom"), r.disk_full && t("disk_full"),
            durationText(r.exec_duration_ms)]);
        this.#set("done", r.exit_code === 0 ? "good" : "bad", text);
        const both = r.stdout !== "" && r.stderr !== "";
        this.#stream(r, "stdout", both);
        this.#stream(r, "stderr", true);
        if (r.stdout === "" && r.stderr === "") this.#note(t("no_output"));
        if (r.created) this.#note(t("new_empty"));
        if (r.invalid_utf8) this.#note(t("replaced"));
        if (r.background?.length) this.#note(t("left_running", { pids: r.background.join(", ") + (r.background_more ? " …" : "") }));
        if (r.note) this.#note(r.note);
        announce(joined([t("finished", { what: text }), plain(r.stdout + r.stderr).slice(0, SPOKEN_MOST)]));
    }

    fail(error) {
        show(this.#cancel, false);
        const cancelled = error.code === "cancelled";
        const text = { cancelled: t("cancelled"), late: t("late"), offline: joined([error.message, t("lost")]) }[error.code] ?? error.message;
        this.#set("failed", cancelled ? "none" : "bad", t(cancelled ? "cancelled" : "refused"));
        if (!cancelled) this.#body.append(el("p", { class: "problem", text }));
        announce(text);
    }

    #note(text) {
        this.#body.append(el("p", { class: "note", text }));
    }

    #stream(r, name, labelled) {
        if (r[name] === "") return;
        const cut = r.truncated?.[`${name}_omitted_bytes`] === undefined ? undefined : {
            head: r.truncated[`${name}_head_bytes`] ?? 0,
            omitted: bytesText(r.truncated[`${name}_omitted_bytes`]),
            total: bytesText(r.truncated[`${name}_bytes`]),
            path: r.truncated[`${name}_path`],
        };
        const block = el("div", { class: `stream ${name}` });
        if (labelled) block.append(el("span", { class: "label", text: t(name) }));
        parts(r[name], cut?.head).forEach((part, i) => {
            if (i > 0) block.append(el("p", { class: "cut", text: t(cut.path ? "cut_path" : "cut", cut) }));
            if (part !== "") block.append(el("pre", { text: plain(part).replace(/\n$/, "") }));
        });
        this.#body.append(block);
    }
}

class Terminal {
    #entries = [];
    #history = [];
    #recalled = 0; // index in the history; its length: what is being written
    #draft = "";
    #numbers = []; // of the commands that ran at the last poll
    #host;
    #poller;
    #hint = el("p", { class: "hint quiet" });
    #empty = el("p", { class: "quiet blank-line" });
    #log = el("div", { class: "log", role: "log", tabindex: 0, "aria-live": "off" });
    #input = el("textarea", { rows: 1, autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
    #run = button("", () => this.submit(), "primary");

    constructor(id, host, poller) {
        this.id = id;
        this.#host = host;
        this.#poller = poller;
        this.#input.id = "terminal-input";
        this.#hint.id = "terminal-hint";
        setAttribute(this.#input, "aria-describedby", "terminal-hint");
        this.#input.addEventListener("keydown", (event) => this.#key(event));
        this.#input.addEventListener("input", () => this.#fit());
        this.#log.append(this.#empty);
        this.node = el("div", { class: "terminal" }, this.#log,
            el("div", { class: "prompt" }, el("span", { class: "sign", text: "$", "aria-hidden": "true" }), this.#input, this.#run),
            this.#hint);
        this.translate();
    }

    translate() {
        setAttribute(this.#log, "aria-label", t("terminal", { id: this.id }));
        setAttribute(this.#input, "aria-label", t("terminal_input", { id: this.id }));
        setText(this.#run, t("run"));
        setText(this.#empty, t("terminal_empty"));
    }

    // computer: undefined when it is gone.
    update(computer) {
        const usable = computer && !computer.busy && ["running", "stopped"].includes(computer.told.state) && !computer.told.elsewhere;
        this.#input.readOnly = !usable; // not disabled: that would take the focus away
        setAttribute(this.#run, "aria-disabled", usable ? null : "true");
        setText(this.#hint, usable ? t("terminal_hint") : !computer ? t("terminal_gone")
            : t("terminal_off", { state: computer.told.elsewhere ? t("elsewhere") : stateText(computer.state) }));
        const atEnd = this.#log.scrollTop + this.#log.clientHeight >= this.#log.scrollHeight - 4;
        for (const entry of this.#entries) entry.tick();
        if (atEnd) this.#log.scrollTop = this.#log.scrollHeight;
        if (computer) this.#recognise(computer.told.running ?? []);
    }

    focus() {
        this.#input.focus();
        this.#log.scrollTop = this.#log.scrollHeight;
    }

    get running() {
        return this.#entries.filter((entry) => entry.running);
    }

    async submit() {
        const command = this.#input.value;
        if (command.trim() === "" || this.#input.readOnly) return;
        this.#remember(command);
        this.#write("");
        const entry = new Entry(command, new Set(this.#numbers), (which) => this.#cancel(which));
        this.#add(entry);
        this.#poller.now();
        try {
            entry.finish(await this.#host.call("terminal_execute", { computer_id: this.id, command, output_limit: OUTPUT_LIMIT }));
        } catch (error) {
            entry.fail(error);
        }
        this.#follow();
        this.#poller.now();
    }

    // Gives commands of ours the numbers under which the server runs them.
    #recognise(running) {
        this.#numbers = running.map((r) => r.command);
        const taken = new Set(this.#entries.map((entry) => entry.number));
        for (const entry of this.running.filter((e) => e.number === null)) {
            const found = running.find((r) => !taken.has(r.command) && !entry.known.has(r.command) && entry.command.startsWith(r.text));
            if (!found) continue;
            entry.number = found.command;
            taken.add(found.command);
        }
    }

    async #cancel(entry) {
        entry.cancelling();
        try {
            if (entry.number === null) await this.#lookForIt();
            if (entry.number === null) throw new CallError(t("cant_cancel"), "computer_not_found");
            const { cancelled } = await this.#host.call("computer_cancel", { computer_id: this.id, command: entry.number });
            if (!cancelled) throw new CallError(t("cant_cancel"), "computer_not_found");
        } catch (error) {
            entry.notCancelled();
            if (entry.running) announce(joined([t("failed_cancel"), error.message]));
        }
    }

    // It was started after the last poll.
    async #lookForIt() {
        const status = await this.#host.call("computer_status", {});
        this.#recognise(status.computers.find((c) => c.computer_id === this.id)?.running ?? []);
    }

    #add(entry) {
        this.#empty.remove();
        this.#entries.push(entry);
        this.#log.append(entry.node);
        while (this.#entries.length > ENTRIES_MOST && !this.#entries[0].running) this.#entries.shift().node.remove();
        this.#log.scrollTop = this.#log.scrollHeight;
    }

    // Keeps the end in sight, unless somebody reads further up.
    #follow() {
        const last = this.#log.lastElementChild;
        if (last && this.#log.scrollTop + this.#log.clientHeight >= last.offsetTop - this.#log.offsetTop - 8) {
            this.#log.scrollTop = Math.min(this.#log.scrollHeight, last.offsetTop - this.#log.offsetTop);
        }
    }

    #clear() {
        for (const entry of this.#entries.filter((e) => !e.running)) entry.node.remove();
        this.#entries = this.running;
        if (this.#entries.length === 0) this.#log.append(this.#empty);
    }

    #remember(command) {
        if (this.#history.at(-1) !== command) this.#history.push(command);
        if (this.#history.length > HISTORY_MOST) this.#history.shift();
        this.#recalled = this.#history.length;
        this.#draft = "";
    }

    #recall(step) {
        const to = this.#recalled + step;
        if (to < 0 || to > this.#history.length) return;
        if (this.#recalled === this.#history.length) this.#draft = this.#input.value;
        this.#recalled = to;
        this.#write(this.#history[to] ?? this.#draft);
    }

    #write(text) {
        this.#input.value = text;
        this.#input.setSelectionRange(text.length, text.length);
        this.#fit();
    }

    // As many lines as the command has, up to a bound.
    #fit() {
        this.#input.rows = Math.min(8, this.#input.value.split("\n").length);
    }

    #key(event) {
        if (event.isComposing) return; // Enter takes a character of an input method
        const { value, selectionStart, selectionEnd } = this.#input;
        const last = this.running.at(-1);
        const plainKey = !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey;
        if (event.key === "Enter" && plainKey) this.submit();
        else if (event.key === "ArrowUp" && plainKey && !value.slice(0, selectionStart).includes("\n")) this.#recall(-1);
        else if (event.key === "ArrowDown" && plainKey && !value.slice(selectionEnd).includes("\n")) this.#recall(1);
        else if (event.key === "c" && event.ctrlKey && selectionStart === selectionEnd && last) this.#cancel(last);
        else if (event.key === "l" && event.ctrlKey) this.#clear();
        else return;
        event.preventDefault();
    }
}
