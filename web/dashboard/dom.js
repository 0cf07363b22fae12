// Making and changing elements. Whatever comes from the server gets in as text: nothing here, or anywhere in the page, parses
// markup (the page's policy of trusted types would refuse it). What is the same already is left alone, so that a poll disturbs
// neither focus nor selection nor a screen reader.
"use strict";

function byId(id) {
    return document.getElementById(id);
}

// el("button", { class: "quiet", text: "Go", type: "button", on: { click } }, ...children)
function el(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
        if (name === "text") node.textContent = value;
        else if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
        else if (value === true) node.setAttribute(name, "");
        else if (value !== false && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter(Boolean));
    return node;
}

function button(text, listener, className) {
    return el("button", { type: "button", text, class: className, on: { click: listener } });
}

function setText(node, text) {
    if (node.textContent !== text) node.textContent = text;
}

function setAttribute(node, name, value) {
    if (value === null || value === undefined || value === false) node.removeAttribute(name);
    else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

function show(node, shown) {
    if (node.hidden === shown) node.hidden = !shown;
}

function hasFocus(node) {
    return node.contains(document.activeElement);
}

// Speaks to screen readers, when they have said what they are at. The same words twice are heard twice.
function announce(text) {
    const announcer = byId("announcer");
    announcer.textContent = announcer.textContent === text ? `${text}\u00a0` : text;
}

// Puts the language's words where the page's own markup has a place for them.
function translate(root) {
    for (const node of root.querySelectorAll("[data-text]")) setText(node, t(node.dataset.text));
    for (const node of root.querySelectorAll("[data-label]")) setAttribute(node, "aria-label", t(node.dataset.label));
    for (const node of root.querySelectorAll("[data-placeholder]")) setAttribute(node, "placeholder", t(node.dataset.placeholder));
}
