// The host, which shows this page and passes its tool calls on to the server: JSON-RPC by postMessage, MCP Apps 2026-01-26.
"use strict";

const PROTOCOL = "2026-01-26";
const CONNECT_MS = 10000;

// What a tool refused, or what kept it from being asked. `code` is the server's; "offline" and "late" are ours.
class CallError extends Error {
    constructor(message, code) {
        super(message);
        this.code = code;
    }
}

class Host {
    #nextId = 1;
    #waiting = new Map(); // by id: { resolve, reject, timer }
    #handlers; // by method: params => result
    context = {};
    capabilities = {};

    constructor(handlers) {
        this.#handlers = handlers;
        window.addEventListener("message", (event) => {
            if (event.source === window.parent && event.data?.jsonrpc === "2.0") this.#receive(event.data);
        });
    }

    #send(message) {
        window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
    }

    #receive(message) {
        if (typeof message.method === "string") {
            const known = Object.hasOwn(this.#handlers, message.method);
            const result = known ? this.#handlers[message.method](message.params ?? {}) : undefined;
            if (message.id === undefined) return;
            this.#send(known ? { id: message.id, result: result ?? {} }
                : { id: message.id, error: { code: -32601, message: "the page has no such method" } });
            return;
        }
        const waiting = this.#waiting.get(message.id);
        if (!waiting) return;
        this.#waiting.delete(message.id);
        clearTimeout(waiting.timer);
        if (message.error) waiting.reject(hostError(message.error));
        else waiting.resolve(message.result ?? {});
    }

    notify(method, params = {}) {
        this.#send({ method, params });
    }

    request(method, params = {}, ms = 0) {
        const id = this.#nextId++;
        return new Promise((resolve, reject) => {
            const giveUp = () => {
                this.#waiting.delete(id);
                reject(new CallError(t("offline"), "offline"));
            };
            this.#waiting.set(id, { resolve, reject, timer: ms ? setTimeout(giveUp, ms) : undefined });
            this.#send({ id, method, params });
        });
    }

    async connect() {
        const hello = await this.request("ui/initialize", {
            appInfo: { name: "sandbox-computer-dashboard", version: "1" },
            appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
            protocolVersion: PROTOCOL,
        }, CONNECT_MS);
        this.capabilities = hello.hostCapabilities ?? {};
        this.context = hello.hostContext ?? {};
        this.notify("ui/notifications/initialized");
    }

    // A tool's structured content. Throws a CallError.
    async call(name, args, ms = 0) {
        const result = await this.request("tools/call", { name, arguments: args }, ms);
        const value = result.structuredContent ?? parsed(result.content?.find((c) => c.type === "text")?.text);
        if (result.isError || typeof value?.error === "string") {
            throw new CallError(value?.error ?? result.content?.[0]?.text ?? t("unusable"), value?.code ?? "internal");
        }
        return value ?? {};
    }
}

function parsed(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}

const REQUEST_TIMEOUT = -32001; // as the official SDKs have it
const REFUSALS = [-32600, -32601, -32602]; // somebody is there who doesn't like the request

function hostError({ code, message }) {
    const text = String(message ?? "");
    if (code === REQUEST_TIMEOUT && /time/i.test(text)) return new CallError(text, "late");
    return new CallError(text, REFUSALS.includes(code) ? "internal" : "offline");
}
