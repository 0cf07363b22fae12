// The official JSON schemas, a revision each, and what of them a message of ours has to satisfy.
//
// No package ships the schemas as files; the conformance suite has them inside its one bundle, as object literals, and that is
// where they are taken from. It has none for 2024-11-05: that revision's messages are checked against its successor's, which
// only added to it.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import vm from 'node:vm';
import Ajv from 'ajv';
import Ajv2020 from 'ajv/dist/2020.js';

export const LEGACY = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];
export const MODERN = '2026-07-28';

const RESULTS = {
    initialize: 'InitializeResult',
    ping: 'EmptyResult',
    'server/discover': 'DiscoverResult',
    'tools/list': 'ListToolsResult',
    'tools/call': 'CallToolResult',
    'prompts/list': 'ListPromptsResult',
    'resources/list': 'ListResourcesResult',
    'resources/read': 'ReadResourceResult',
    'resources/templates/list': 'ListResourceTemplatesResult',
};
const CACHEABLE = ['server/discover', 'tools/list', 'prompts/list', 'resources/list', 'resources/read', 'resources/templates/list'];
const MODERN_ONLY = ['resultType', 'ttlMs', 'cacheScope'];

// The text of the object literal that begins at `at`.
function literalAt(text, at) {
    let depth = 0;
    for (let i = at; i < text.length; i++) {
        const c = text[i];
        if (c === '"' || c === "'" || c === '`') {
            for (i++; text[i] !== c; i++) {
                if (text[i] === '\\') i++;
            }
        } else if (c === '{') {
            depth++;
        } else if (c === '}' && --depth === 0) {
            return text.slice(at, i + 1);
        }
    }
    throw new Error('the literal has no end');
}

function loadSchemas() {
    const entry = createRequire(import.meta.url).resolve('@modelcontextprotocol/conformance/package.json');
    const bundle = fs.readFileSync(path.join(path.dirname(entry), 'dist/index.js'), 'utf8');
    const table = /\{"2025-03-26":([\w$]+),"2025-06-18":([\w$]+),"2025-11-25":([\w$]+),\[[\w$]+\]:([\w$]+)\}/.exec(bundle);
    if (!table) throw new Error('the conformance package holds its schemas in another way than the pinned version did');
    const schemas = new Map();
    for (const [i, revision] of [...LEGACY.slice(1), MODERN].entries()) {
        const start = `${table[i + 1]}=`;
        const literal = literalAt(bundle, bundle.indexOf(`${start}{$schema:`) + start.length);
        schemas.set(revision, JSON.parse(JSON.stringify(vm.runInNewContext(`(${literal})`))));
    }
    schemas.set(LEGACY[0], schemas.get(LEGACY[1]));
    return schemas;
}

const options = { strict: false, validateFormats: false, allErrors: true };
const schemas = loadSchemas();
const compiled = new Map();

function validator(revision, definition) {
    const key = `${revision} ${definition}`;
    if (!compiled.has(key)) {
        const schema = schemas.get(revision);
        const place = schema.$defs ? '$defs' : 'definitions';
        const ajv = schema.$defs ? new Ajv2020(options) : new Ajv(options);
        const found = [definition].flat().find((name) => schema[place][name]);
        compiled.set(key, ajv.compile({ ...schema, $ref: `#/${place}/${found}` }));
    }
    return compiled.get(key);
}

function faultsOf(validate, value, what) {
    if (validate(value)) return [];
    return validate.errors.slice(0, 5).map((e) => `${what}: ${e.instancePath || '/'} ${e.message}`);
}

// What a later revision brought has no place in an older one's results, and must be there in its own.
function eraFaults(result, revision, method) {
    if (revision !== MODERN) {
        return MODERN_ONLY.filter((name) => name in result).map((name) => `${method}: ${name} in a result of ${revision}`);
    }
    const needed = CACHEABLE.includes(method) ? MODERN_ONLY : ['resultType'];
    return needed.filter((name) => !(name in result)).map((name) => `${method}: no ${name} in a result of ${revision}`);
}

// Everything that is wrong with a message of the server's. `method` is that of the request it answers, if it answers one.
export function messageFaults(message, revision, method) {
    if (Array.isArray(message)) {
        return revision === '2025-03-26' ? [] : [`a batch in ${revision}`];
    }
    if (message.error && message.id === null) {
        // JSON-RPC's way to say that the request's id couldn't be read; the schemas have no word for it.
        message = revision >= '2025-11-25' ? { ...message, id: undefined } : { ...message, id: 0 };
        if (message.id === undefined) delete message.id;
    }
    const faults = faultsOf(validator(revision, 'JSONRPCMessage'), message, `message of ${revision}`);
    if (message.error) {
        faults.push(...faultsOf(validator(revision, ['JSONRPCErrorResponse', 'JSONRPCError']), message, `error of ${revision}`));
    } else if (message.method) {
        faults.push(...faultsOf(validator(revision, 'ServerNotification'), message, `${message.method} of ${revision}`));
    } else if (RESULTS[method]) {
        faults.push(...faultsOf(validator(revision, RESULTS[method]), message.result, `result of ${method}, ${revision}`));
        faults.push(...eraFaults(message.result, revision, method));
    } else {
        faults.push(`a result for ${method ?? 'no request'}`);
    }
    return faults;
}

const ofTools = new WeakMap(); // compiling takes longer than most calls

export function structuredFaults(outputSchema, value) {
    if (!ofTools.has(outputSchema)) ofTools.set(outputSchema, new Ajv2020(options).compile(outputSchema));
    return faultsOf(ofTools.get(outputSchema), value, 'structuredContent');
}
