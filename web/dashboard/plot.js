// A small plot of the last five minutes: x is seconds, y the share of what is possible, so that all of a kind compare.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300;
const HEIGHT = 100;
const TOP = 4; // room for the line at full height
const GAP_MS = 30000; // longer silence is left blank

function svg(tag, attributes, ...children) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
}

const EMPTY_PLOT = svg("svg", { class: "plot", role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none" },
    svg("path", { class: "area" }), svg("path", { class: "line" }));

class Plot {
    #area;
    #line;
    #kind;
    #drawn = "";

    // kind: "cpu" or "memory"
    constructor(kind) {
        this.#kind = kind;
        this.node = EMPTY_PLOT.cloneNode(true);
        [this.#area, this.#line] = this.node.children;
    }

    draw(computer, serverTime) {
        const most = this.#kind === "cpu" ? computer.cpuMost : computer.memoryMost;
        const runs = this.#runs(computer.samples, serverTime, most);
        const line = runs.map((run) => `M${run.join("L")}${run.length > 1 ? "" : "h0"}`).join(""); // a single point: a dot
        if (line === this.#drawn) return;
        this.#drawn = line;
        this.#line.setAttribute("d", line);
        this.#area.setAttribute("d", runs.map((run) =>
            `M${run[0].split(" ")[0]} ${HEIGHT}L${run.join("L")}L${run.at(-1).split(" ")[0]} ${HEIGHT}Z`).join(""));
    }

    // What is heard of it.
    describe(computer) {
        const values = computer.samples.map((s) => s[this.#kind]).filter((v) => v !== null);
        const write = this.#kind === "cpu" ? percentText : bytesText;
        const text = values.length && computer.now
            ? t("plot", { what: t(this.#kind), now: write(values.at(-1)), most: write(Math.max(...values)) })
            : `${t(this.#kind)}: ${t("no_value")}`;
        setAttribute(this.node, "aria-label", text);
    }

    // Points "x y" in runs without a gap.
    #runs(samples, serverTime, most) {
        const runs = [];
        let before = null;
        for (const sample of samples) {
            const value = sample[this.#kind];
            if (value === null) continue;
            const x = WIDTH - Math.max(0, serverTime - sample.at) / 1000;
            const y = HEIGHT - (value / most) * (HEIGHT - TOP);
            if (before === null || sample.at - before > GAP_MS) runs.push([]);
            runs.at(-1).push(`${x.toFixed(1)} ${y.toFixed(1)}`);
            before = sample.at;
        }
        return runs;
    }
}

// The figure beside a plot.
function cpuText(computer) {
    const cpu = computer.now?.cpu;
    return cpu === undefined || cpu === null ? "–" : percentText(cpu);
}

function memoryText(computer) {
    return computer.now ? bytesText(computer.now.memory) : "–";
}

// "512 MiB", and whether anything holds it to that.
function limitText(limit, write) {
    if (!limit) return t("no_limit");
    return limit.enforced ? write(limit.value) : t("not_enforced", { limit: write(limit.value) });
}
