// What the server takes for a container engine, as far as the choice of a backend goes: a socket where it looks for one.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { defer, temporaryFolder } from './machine.mjs';

// Of an engine that this machine may have; it comes before all other places but a named one.
export const hasEngine = fs.existsSync('/var/run/docker.sock');

// The environment of a server that sees no engine of the user who runs the tests.
function seeing(folder) {
    return { XDG_RUNTIME_DIR: folder, HOME: folder, DOCKER_CONFIG: folder, DOCKER_HOST: '', CONTAINER_HOST: '', DOCKER_CONTEXT: '' };
}

export function noEngine(t) {
    return { env: seeing(temporaryFolder(t, 'run-')) };
}

// One that sees just this socket: by a docker context.
function seeingOnly(folder, socket) {
    const place = path.join(folder, 'contexts/meta', createHash('sha256').update('fake').digest('hex'));
    fs.mkdirSync(place, { recursive: true });
    fs.writeFileSync(path.join(place, 'meta.json'), JSON.stringify({ Name: 'fake', Endpoints: { docker: { Host: `unix://${socket}` } } }));
    fs.writeFileSync(path.join(folder, 'config.json'), JSON.stringify({ currentContext: 'fake' }));
    return seeing(folder);
}

export function absentEngine(t) {
    const folder = temporaryFolder(t, 'run-');
    return { env: seeingOnly(folder, path.join(folder, 'nothing.sock')) };
}

function place(t) {
    const folder = temporaryFolder(t, 'run-');
    const socket = path.join(folder, 'docker.sock');
    return { socket, env: seeingOnly(folder, socket), usual: seeing(folder) };
}

async function placed(t, listener) {
    const { socket, env } = place(t);
    await new Promise((resolve) => listener.listen(socket, resolve));
    defer(t, () => listener.close());
    return { env };
}

// Takes connections and says nothing. `asked` resolves with the first of them.
export async function silentEngine(t) {
    let asked;
    const connected = new Promise((resolve) => (asked = resolve));
    const sockets = [];
    const listener = net.createServer((socket) => {
        sockets.push(socket);
        socket.on('error', () => {});
        socket.once('data', () => asked(socket));
    });
    const { env } = await placed(t, listener);
    defer(t, () => sockets.forEach((socket) => socket.destroy()));
    return { env, asked: connected };
}

// Takes connections and closes them.
export async function brokenEngine(t) {
    return placed(t, net.createServer((socket) => socket.on('error', () => {}).destroy()));
}

// Answers the ping, and nothing else. In a thread of its own: a server waits 0.3 s for it, and a test may be at something else
// for longer.
const ANSWERING = `
const { parentPort, workerData } = require('node:worker_threads');
require('node:http').createServer((request, response) => {
    const ping = request.url.endsWith('/_ping');
    response.writeHead(ping ? 200 : 404, { 'Content-Type': 'text/plain', 'Api-Version': '1.41' });
    response.end(ping ? 'OK' : 'not in this fake');
}).listen(workerData, () => parentPort.postMessage('listening'));
`;

// `usual`: an environment in which it is found without a context.
export async function answeringEngine(t) {
    const { socket, ...environments } = place(t);
    const worker = new Worker(ANSWERING, { eval: true, workerData: socket });
    defer(t, () => worker.terminate());
    await once(worker, 'message');
    // The first answer of a program takes long on a slow machine, and a server doesn't wait for long.
    await new Promise((done) => http.get({ socketPath: socket, path: '/_ping' }, (answer) => answer.resume().on('end', done)));
    return environments;
}
