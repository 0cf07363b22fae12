// The two dialogs: one asks before what can't be undone, and names what it is about; the other creates. They are <dialog>s, which
// keep the focus and give it back; the page's own, since a sandboxed frame has no confirm() and submits no forms.
"use strict";

// Opens one with what `fill` makes, given the function that ends it: its argument is the answer, nothing if it was given up.
function ask(id, fill) {
    return new Promise((resolve) => {
        const finish = (answer) => {
            dialog.close(); // which gives the focus back
            dialog.remove();
            resolve(answer);
        };
        const dialog = el("dialog", { id, "aria-labelledby": `${id}-title`, on: { close: () => finish() } }, ...fill(finish));
        document.body.append(dialog);
        dialog.showModal();
        dialog.querySelector("[data-first]").focus();
    });
}

// Whether it was confirmed. lines: what will happen; names: whom it concerns.
async function confirmed({ title, lines, names = [], action, danger }) {
    const answer = await ask("confirm", (finish) => {
        const keep = button(t("cancel"), () => finish());
        keep.dataset.first = "";
        return [el("h2", { id: "confirm-title", text: title }),
            ...lines.filter(Boolean).map((text) => el("p", { text })),
            names.length > 0 && el("ul", { class: "names", tabindex: 0, "aria-label": title },
                ...names.map((name) => el("li", { text: name }))),
            el("div", { class: "buttons" }, keep, button(action, () => finish("yes"), danger ? "primary danger" : "primary"))];
    });
    return answer === "yes";
}

let fieldNumber = 0;

// A labelled control of the creation dialog, with a hint below it.
function field(label, control, hint) {
    control.id = `field-${++fieldNumber}`;
    if (hint) setAttribute(control, "aria-describedby", `${control.id}-hint`);
    return el("div", { class: control.tagName === "TEXTAREA" ? "field wide" : "field" }, el("label", { for: control.id, text: label }), control,
        hint && el("span", { class: "quiet hint", id: `${control.id}-hint`, text: hint }));
}

function textControl(attributes = {}) {
    return el("input", { type: "text", autocomplete: "off", spellcheck: "false", ...attributes });
}

function choiceControl(choices) {
    return el("select", {}, ...choices.map(([value, text]) => el("option", { value, text })));
}

// What creation can be given: the tool's argument, its label, its control, and how its text becomes the argument. Those of the
// first group are offered only if the backend has them.
const numeric = (text) => (Number.isNaN(Number(text)) ? text : Number(text)); // what isn't one the server refuses in its words
const CREATE_OPTIONS = [
    ["image", "image", () => textControl({ placeholder: "debian:bookworm-slim" }), String],
    ["cpu", "cpus", () => textControl({ inputmode: "decimal", placeholder: "0.5" }), numeric],
    ["memory", "memory", () => textControl({ placeholder: "512m" }), String],
    ["pids", "pids", () => textControl({ inputmode: "numeric", placeholder: "256" }), numeric],
    ["disk", "disk", () => textControl({ placeholder: "1g" }), String],
    ["network", "network_choice", () => choiceControl([["", t("as_server")], ["on", t("on")], ["off", t("off")]]), (text) => text === "on"],
    ["env", "env", () => el("textarea", { rows: 2, spellcheck: "false", autocomplete: "off" }), environment, "env_hint"],
];
const CREATE_TERMS = [
    ["ttl", "ttl", () => textControl({ inputmode: "numeric" }), numeric, "seconds"],
    ["idle_timeout", "idle_timeout", () => textControl({ inputmode: "numeric" }), numeric, "seconds"],
    ["on_idle", "on_idle", () => choiceControl([["", t("as_server")], ["stop", t("on_idle_stop")], ["delete", t("on_idle_delete")]]), String],
];

function environment(text) {
    const env = {};
    for (const line of text.split("\n").filter((l) => l.trim() !== "")) {
        const equals = line.indexOf("=");
        if (equals < 1) throw new CallError(t("env_wrong", { line }), "invalid_argument");
        env[line.slice(0, equals).trim()] = line.slice(equals + 1);
    }
    return env;
}

function controlsOf(rows) {
    return rows.map(([argument, label, make, read, hint]) => {
        const control = make();
        return { argument, control, read, node: field(t(label), control, hint && t(hint)) };
    });
}

function lifetimeChoice() {
    const choice = (value, text, hint, checked) => el("label", { class: "choice" },
        el("input", { type: "radio", name: "lifetime", value, checked }), el("span", { text }), el("span", { class: "quiet hint", text: hint }));
    return el("fieldset", {}, el("legend", { text: t("create_kind") }),
        choice("temporary", t("create_temporary"), t("create_temporary_hint"), true),
        choice("permanent", t("create_permanent"), t("create_permanent_hint"), false));
}

// Asks for everything and creates: what the tool says, or nothing if it was given up. A refusal is shown where it can be mended.
function create(host, options) {
    const name = textControl({ maxlength: 63, "data-first": true });
    const description = textControl({ maxlength: 200 });
    const lifetime = lifetimeChoice();
    const possible = controlsOf(CREATE_OPTIONS.filter(([argument]) => options.includes(argument)));
    const terms = controlsOf(CREATE_TERMS);
    const problem = el("p", { class: "problem", role: "alert", hidden: true });

    const argumentsGiven = () => {
        const args = { temporary: lifetime.querySelector("input:checked").value === "temporary" };
        if (name.value.trim()) args.computer_id = name.value.trim();
        if (description.value.trim()) args.description = description.value.trim();
        for (const { argument, control, read } of [...possible, ...terms]) {
            if (control.value.trim() !== "") args[argument] = read(control.value.trim());
        }
        return args;
    };
    return ask("create", (finish) => {
        const submit = async () => {
            if (go.hasAttribute("aria-disabled")) return;
            setAttribute(go, "aria-disabled", "true");
            setText(go, t("creating_now"));
            try {
                finish(await host.call("computer_create", argumentsGiven()));
            } catch (error) {
                setText(problem, error.message);
                show(problem, true);
            }
            setAttribute(go, "aria-disabled", null);
            setText(go, t("create_do"));
        };
        const go = button(t("create_do"), submit, "primary");
        const keydown = (event) => {
            if (event.key === "Enter" && !event.isComposing && event.target.matches("input")) submit();
        };
        return [el("h2", { id: "create-title", text: t("create_title") }),
            el("div", { class: "fields", on: { keydown } },
                field(t("create_name"), name, t("create_name_hint")), lifetime, field(t("description"), description),
                possible.length > 0 && folded("create_more", possible), folded("create_life", terms), problem),
            el("div", { class: "buttons" }, button(t("cancel"), () => finish()), go)];
    });
}

function folded(label, controls) {
    return el("details", {}, el("summary", { text: t(label) }), el("div", { class: "grid" }, ...controls.map((c) => c.node)));
}
