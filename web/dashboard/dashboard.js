// Puts the parts together: host, model, list, one computer's view, dialogs.
"use strict";

const HEIGHT_MOST = 720; // asked for, unless the host says what there is

const model = new Model();
const host = new Host({
    "ui/notifications/tool-result": takeResult,
    "ui/notifications/host-context-changed": (change) => useContext(change),
    "ui/resource-teardown": () => poller.stop(),
    ping: () => ({}),
});
const poller = new Poller(host, model, afterPoll);
const detail = new Detail(host, poller, { back: closeDetail, change: changeComputer, cancel: cancelCommand });
const list = new List({ onOpen: openDetail, onRemove: (id) => changeComputer("remove", id) });
let phase = "connecting"; // then "live", "read only" (no tools), or "alone" (no host)

// -- The host's surroundings.

// A partial context: what it doesn't name stays.
function useContext(change) {
    Object.assign(host.context, change);
    const context = host.context;
    const root = document.documentElement;
    if (["light", "dark"].includes(context.theme)) root.style.colorScheme = context.theme;
    for (const [name, value] of Object.entries(context.styles?.variables ?? {})) {
        if (/^--[\w-]+$/.test(name) && typeof value === "string") root.style.setProperty(name, value);
    }
    const box = context.containerDimensions ?? {};
    const filled = box.height !== undefined || context.displayMode === "fullscreen";
    root.toggleAttribute("data-filled", filled);
    show(byId("expand"), context.displayMode !== "fullscreen" && Boolean(context.availableDisplayModes?.includes("fullscreen")));
    root.style.setProperty("--most", `${Math.min(box.maxHeight ?? HEIGHT_MOST, HEIGHT_MOST)}px`);
    for (const [side, px] of Object.entries(context.safeAreaInsets ?? {})) {
        if (["top", "right", "bottom", "left"].includes(side) && px >= 0) root.style.setProperty(`--inset-${side}`, `${px}px`);
    }
    if (setLanguage(context.locale ?? navigator.language)) speak();
    render();
}

// All texts anew, in another language.
function speak() {
    translate(document);
    setText(retry, t("retry"));
    detail.translate();
    blankKind = "";
}

// The call that opened the dashboard has a list, which is there before the first poll is.
function takeResult(result) {
    const status = result.structuredContent;
    if (model.receivedAt !== null || !Array.isArray(status?.computers)) return;
    model.apply(status);
    render();
}

// -- What is seen.

let blankKind = "";

// In place. What had the focus has it afterwards, or if it is gone, what is nearest.
function render() {
    const before = document.activeElement;
    renderAll();
    if (before !== document.body && !before.checkVisibility()) focusBack();
}

function renderAll() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = list.render(model, words, detail.id);
    detail.render(model);
    const n = model.computers.size;
    const running = model.all.filter((c) => c.told.state === "running").length;
    setText(byId("summary"), n === 0 ? "" : joined([t("summary", { n }), t("summary_running", { n: running }),
        words.length > 0 && t("shown", { n: shown, all: n })]));
    show(byId("new"), phase === "live" && n > 0); // without any, there is one in the middle
    show(byId("bulk"), phase === "live" && model.temporary.length > 0);
    show(byId("search"), n > 0);
    show(byId("columns"), shown > 0);
    show(byId("list"), shown > 0);
    renderBlank(shown, n);
    renderLink();
}

function blankFor(shown, n) {
    if (shown > 0) return "";
    if (phase === "alone") return "no_host";
    if (model.receivedAt !== null) return n > 0 ? "nothing" : "empty";
    if (poller.error) return "offline";
    return phase === "read only" ? "no_tools" : "waiting";
}

// What stands where no rows are.
function renderBlank(shown, n) {
    const blank = byId("blank");
    const kind = blankFor(shown, n);
    show(blank, kind !== "");
    if (kind === "nothing" && blankKind === kind) setText(blank.firstElementChild, t("nothing_found", { what: byId("search").value }));
    if (kind === blankKind) return;
    blankKind = kind;
    blank.replaceChildren(...blankContent(kind));
}

function blankContent(kind) {
    const words = (title, ...lines) => [el("h2", { text: title }), ...lines.map((text) => el("p", { text }))];
    switch (kind) {
    case "empty":
        return [...words(t("empty_title"), t("empty_what")),
            el("figure", {}, el("figcaption", { text: t("empty_ask_label") }), el("blockquote", { text: t("empty_ask") })),
            el("p", { text: t("empty_or") }),
            ...(phase === "live" ? [button(t("create"), createComputer, "primary")] : []),
            el("ul", {}, ...["empty_temporary", "empty_permanent", "empty_here"].map((key) => el("li", { text: t(key) })))];
    case "nothing":
        return [...words(t("nothing_found", { what: byId("search").value }), t("nothing_found_what")),
            button(t("clear_search"), clearSearch)];
    case "no_host":
        return words(t("no_host"), t("no_host_what"));
    case "no_tools":
        return words(t("no_tools"), t("no_tools_what"));
    case "offline":
        return words(t("offline"), poller.error.code === "offline" ? t("offline_do") : poller.error.message);
    case "waiting":
        return [el("p", { class: "quiet", text: t("connecting") })];
    default:
        return [];
    }
}

// How fresh it all is. The first failure may be chance; of the second the notice speaks.
function renderLink() {
    const age = model.receivedAt === null ? null : Date.now() - model.receivedAt;
    const stale = poller.error !== null || (phase === "live" && age > 15000 && document.visibilityState === "visible");
    setAttribute(byId("app"), "data-stale", stale && age !== null ? "" : null);
    setAttribute(byId("link"), "data-link", poller.error ? "down" : phase === "live" && age !== null ? "live" : "waiting");
    setText(byId("link-text"), poller.error || stale ? (age === null ? t("offline") : t("stale", { ago: agoText(age) }))
        : phase === "live" && age !== null ? t("live") : phase === "connecting" || phase === "live" ? t("connecting") : "");
    setText(byId("about"), model.about.backend ? t("about", model.about) : "");
    if (poller.error) {
        const time = unbroken(secondsText(Math.max(1, (poller.nextAt - Date.now()) / 1000)));
        const when = age === null ? t("offline_never", { time }) : t("offline_what", { ago: agoText(age), time });
        offlineNotice.update(poller.error.code === "offline" ? t("offline") : t("unusable"),
            poller.error.code === "offline" ? when : poller.error.message, t("offline_do"));
    } else {
        offlineNotice.clear();
    }
    if (phase === "read only") noToolsNotice.update(t("no_tools"), t("no_tools_what"));
}

// -- Notices: what went wrong, and what to do.

// A notice that is there as long as what it tells of. It is spoken once, though it changes every second.
class StandingNotice {
    #title = el("strong");
    #what = el("span");
    #do = el("span");
    #node;

    constructor(action) {
        this.#node = el("div", { class: "notice" }, el("div", {}, this.#title, this.#what, this.#do), action);
    }

    update(title, what, todo = "") {
        setText(this.#title, title);
        setText(this.#what, what);
        setText(this.#do, todo);
        if (this.#node.isConnected) return;
        byId("notices").append(this.#node);
        announce(`${title}. ${what} ${todo}`);
    }

    clear() {
        if (!this.#node.isConnected) return;
        const focused = hasFocus(this.#node);
        this.#node.remove();
        if (focused) focusBack();
        announce(t("live"));
    }
}

const retry = button("", () => poller.now());
const offlineNotice = new StandingNotice(retry);
const noToolsNotice = new StandingNotice();

function complain(title, error) {
    const node = el("div", { class: "notice bad", role: "alert" }, el("div", {}, el("strong", { text: title }), el("span", { text: error.message })),
        button(t("dismiss"), () => {
            node.remove();
            focusBack();
        }));
    byId("notices").append(node);
}

// -- Going about.

function focusBack() {
    if (detail.id !== null) detail.focus();
    else if (!list.focus()) byId("blank").querySelector("button")?.focus();
}

function openDetail(id) {
    detail.open(id);
    byId("app").dataset.open = id;
    render();
    detail.focus();
}

function closeDetail() {
    const id = detail.id;
    detail.close();
    delete byId("app").dataset.open;
    render();
    if (!list.focus(id)) focusBack();
}

function clearSearch() {
    byId("search").value = "";
    render();
    byId("search").focus();
}

// -- Changing computers.

const CHANGES = {
    restart: { tool: "computer_restart", busy: "restarting" },
    reset: { tool: "computer_factory_reset", busy: "resetting", danger: true },
    remove: { tool: "computer_delete", busy: "deleting", danger: true },
};

async function changeComputer(verb, id) {
    const computer = model.computers.get(id);
    if (!computer || computer.busy || phase !== "live") return;
    const running = computer.told.commands_running;
    const sure = await confirmed({
        title: t(`confirm_${verb}`, { id }),
        lines: [t(`confirm_${verb}_what`), running > 0 && t("confirm_busy", { n: running }),
            CHANGES[verb].danger && !computer.told.temporary && t("confirm_permanent")],
        action: t(`do_${verb}`, { id }),
        danger: CHANGES[verb].danger,
    });
    if (sure) await carryOut(verb, computer);
}

// Gives whether it succeeded, which is spoken, as is that it didn't.
async function carryOut(verb, computer) {
    const { tool, busy } = CHANGES[verb];
    computer.busy = busy;
    render();
    try {
        await host.call(tool, { computer_id: computer.id });
        announce(t(`done_${verb}`, { id: computer.id }));
        if (verb === "remove") model.computers.delete(computer.id);
        if (verb === "remove" && detail.id === computer.id) closeDetail();
    } catch (error) {
        complain(t(`failed_${verb}`, { id: computer.id }), error);
    }
    computer.busy = null;
    poller.now();
}

async function removeTemporary() {
    const some = model.temporary;
    const sure = await confirmed({
        title: t("confirm_bulk", { n: some.length }),
        lines: [t("confirm_bulk_what")],
        names: some.map((c) => c.id),
        action: t("do_bulk", { n: some.length }),
        danger: true,
    });
    if (!sure) return;
    const queue = [...some];
    const worker = async () => {
        for (let one; (one = queue.shift()); ) await carryOut("remove", one);
    };
    await Promise.all([worker(), worker(), worker(), worker()]);
}

async function createComputer() {
    const made = await create(host, model.about.options);
    if (!made) return;
    announce(t(made.created === false ? "found_create" : "done_create", { id: made.computer_id }));
    awaited = made.computer_id;
    poller.now();
}

async function cancelCommand(id, command) {
    try {
        const { cancelled } = await host.call("computer_cancel", { computer_id: id, command });
        announce(t(cancelled ? "cancelled" : "cant_cancel"));
    } catch (error) {
        complain(t("failed_cancel"), error);
    }
    poller.now();
}

// A computer that was just created is opened when a poll tells of it.
let awaited = null;

function afterPoll() {
    const id = awaited;
    if (id === null || !model.computers.has(id)) {
        render();
        return;
    }
    awaited = null;
    openDetail(id);
}

// -- The beginning.

function reportSize() {
    let reported = 0;
    new ResizeObserver(() => {
        const height = Math.ceil(byId("app").getBoundingClientRect().height);
        if (height === reported || document.documentElement.hasAttribute("data-filled")) return;
        reported = height;
        host.notify("ui/notifications/size-changed", { height });
    }).observe(byId("app"));
}

// Asks the server for as long as somebody may see it: not the same as the document's being visible, in a page that scrolls.
function watch() {
    poller.now();
    new IntersectionObserver(([entry]) => {
        if (poller.onscreen === entry.isIntersecting) return;
        poller.onscreen = entry.isIntersecting;
        poller.seen();
    }).observe(byId("app"));
}

async function expand() {
    try {
        const { mode } = await host.request("ui/request-display-mode", { mode: "fullscreen" });
        useContext({ displayMode: mode });
    } catch {
        show(byId("expand"), false);
    }
}

async function begin() {
    setLanguage(navigator.language);
    speak();
    byId("new").addEventListener("click", createComputer);
    byId("bulk").addEventListener("click", removeTemporary);
    byId("search").addEventListener("input", render);
    byId("search").addEventListener("keydown", (event) => {
        if (event.key === "ArrowDown" && list.focus()) event.preventDefault();
    });
    byId("expand").addEventListener("click", expand);
    setInterval(() => {
        if (document.visibilityState === "visible" && (poller.error || model.lively)) render();
    }, 1000);
    render();
    try {
        await host.connect();
    } catch {
        phase = "alone";
        render();
        return;
    }
    phase = host.capabilities.serverTools ? "live" : "read only";
    useContext({});
    reportSize();
    if (phase === "live") watch();
}

begin();
