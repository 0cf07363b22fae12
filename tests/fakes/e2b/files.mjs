// envd's files: filesystem.Filesystem, and /files with its signed URLs. The fake writes as root does and gives files to the user.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { USERS } from '../support/room.mjs';
import { ConnectError } from './connect.mjs';
import { resolve, userOf } from './process.mjs';

const TYPES = [
    ['isFile', 'FILE_TYPE_FILE'],
    ['isDirectory', 'FILE_TYPE_DIRECTORY'],
];

function permissions(stats) {
    const letters = [...'rwxrwxrwx'].map((letter, i) => (stats.mode & (0o400 >> i) ? letter : '-')).join('');
    return (stats.isDirectory() ? 'd' : stats.isSymbolicLink() ? 'L' : '-') + letters;
}

function nameOf(id) {
    return Object.keys(USERS).find((name) => USERS[name].uid === id) ?? String(id);
}

function entryOf(room, inside) {
    const stats = fs.lstatSync(room.host(inside), { throwIfNoEntry: false });
    if (!stats) throw new ConnectError('not_found', `file not found: lstat ${inside}: no such file or directory`);
    const symlinkTarget = stats.isSymbolicLink() ? room.follow(inside) : undefined;
    const meant = fs.statSync(room.host(inside, true), { throwIfNoEntry: false }); // type and mode are those of a link's target
    return {
        name: path.posix.basename(inside),
        path: inside,
        type: TYPES.find(([is]) => meant?.[is]())?.[1],
        symlinkTarget,
        size: String(stats.size),
        mode: (meant?.mode ?? 0) & 0o777,
        permissions: permissions(stats),
        owner: nameOf(stats.uid),
        group: nameOf(stats.gid),
        modifiedTime: stats.mtime.toISOString(),
    };
}

function give(room, inside, user) {
    fs.lchownSync(room.host(inside), USERS[user].uid, USERS[user].uid);
}

// Makes a folder and those above it; the new ones are the user's.
function makeFolders(room, inside, user) {
    if (inside === '/' || fs.existsSync(room.host(inside))) return;
    makeFolders(room, path.posix.dirname(inside), user);
    fs.mkdirSync(room.host(inside));
    give(room, inside, user);
}

function listBelow(room, inside, depth) {
    return fs
        .readdirSync(room.host(inside, true))
        .sort()
        .flatMap((name) => {
            const entry = entryOf(room, path.posix.join(inside, name));
            return depth > 1 && entry.type === 'FILE_TYPE_DIRECTORY'
                ? [entry, ...listBelow(room, entry.path, depth - 1)]
                : [entry];
        });
}

// The parts of a multipart/form-data body that are called "file".
function partsOf(body, type) {
    const boundary = /boundary="?([^";]+)"?/i.exec(type)?.[1];
    if (!boundary) throw new FileError(500, 'error parsing multipart form: no multipart boundary param in Content-Type');
    const parts = [];
    const mark = Buffer.from(`--${boundary}`);
    for (let at = body.indexOf(mark); at >= 0;) {
        const next = body.indexOf(mark, at + mark.length);
        if (next < 0) break;
        const head = body.indexOf('\r\n\r\n', at);
        const disposition = /content-disposition:(.*)/i.exec(body.subarray(at, head).toString())?.[1] ?? '';
        if (/\bname="?file"?/.test(disposition)) {
            parts.push({ name: /filename="([^"]*)"/.exec(disposition)?.[1], data: body.subarray(head + 4, next - 2) });
        }
        at = next;
    }
    return parts;
}

class FileError extends Error {
    constructor(status, message) {
        super(message);
        this.status = status;
    }
}

export class Files {
    constructor(sandbox) {
        this.sandbox = sandbox;
    }

    // A user's call on a path.
    async #at(request, given) {
        const user = userOf(request);
        return { user, room: await this.sandbox.room(), inside: resolve(given ?? '', user) };
    }

    methods() {
        const call = (run) => ({ unary: async (message, request) => run(await this.#at(request, message.path), message) });
        return {
            '/filesystem.Filesystem/Stat': call(({ room, inside }) => ({ entry: entryOf(room, inside) })),
            '/filesystem.Filesystem/MakeDir': call(({ room, inside, user }) => {
                const stats = fs.statSync(room.host(inside, true), { throwIfNoEntry: false });
                if (stats?.isDirectory()) throw new ConnectError('already_exists', `directory already exists: ${inside}`);
                if (stats) throw new ConnectError('invalid_argument', `path already exists but it is not a directory: ${inside}`);
                makeFolders(room, inside, user);
                return { entry: entryOf(room, inside) };
            }),
            '/filesystem.Filesystem/Move': {
                unary: async (message, request) => {
                    const { room, inside: from, user } = await this.#at(request, message.source);
                    const to = resolve(message.destination ?? '', user);
                    if (!fs.lstatSync(room.host(from), { throwIfNoEntry: false }))
                        throw new ConnectError(
                            'not_found',
                            `source file not found: rename ${from} ${to}: no such file or directory`,
                        );
                    makeFolders(room, path.posix.dirname(to), user);
                    fs.renameSync(room.host(from), room.host(to));
                    return { entry: entryOf(room, to) };
                },
            },
            '/filesystem.Filesystem/ListDir': call(({ room, inside }, message) => {
                const stats = fs.statSync(room.host(inside, true), { throwIfNoEntry: false });
                if (!stats) throw new ConnectError('not_found', `path not found: lstat ${inside}: no such file or directory`);
                if (!stats.isDirectory()) throw new ConnectError('invalid_argument', `path is not a directory: ${inside}`);
                return { entries: listBelow(room, inside, message.depth || 1) };
            }),
            '/filesystem.Filesystem/Remove': call(({ room, inside }) => {
                fs.rmSync(room.host(inside), { recursive: true, force: true });
                return {};
            }),
        };
    }

    #mayUse(request, operation) {
        const { query, headers } = request;
        const token = headers['x-access-token'];
        if (token !== undefined) {
            if (token !== this.sandbox.envdAccessToken)
                throw new FileError(401, 'access token present in header but does not match');
            return;
        }
        if (!query.get('signature')) throw new FileError(401, 'missing signature query parameter');
        const expires = query.get('signature_expiration');
        const signed = [
            query.get('path') ?? '',
            operation,
            query.get('username') ?? '',
            this.sandbox.envdAccessToken,
            ...(expires ? [expires] : []),
        ].join(':');
        const right = `v1_${createHash('sha256').update(signed).digest('base64').replace(/=+$/, '')}`;
        if (query.get('signature') !== right) throw new FileError(401, 'invalid signature');
        if (expires && Number(expires) < Date.now() / 1000) throw new FileError(401, 'signature is already expired');
    }

    async serve(request, reply) {
        try {
            const user = request.query.get('username') || 'user';
            this.#mayUse(request, request.method === 'GET' ? 'read' : 'write');
            if (!USERS[user]) throw new FileError(401, `error looking up user '${user}': user: unknown user ${user}`);
            if (request.method === 'GET') await this.#read(request, reply, user);
            else await this.#write(request, reply, user);
        } catch (error) {
            const status = error.status ?? (error instanceof ConnectError ? 400 : error.code === 'ENOSPC' ? 507 : 500);
            reply.head(status, { 'content-type': 'application/json; charset=utf-8', 'x-content-type-options': 'nosniff' });
            reply.end(`${JSON.stringify({ code: status, message: error.message })}\n`);
        }
    }

    async #read(request, reply, user) {
        const room = await this.sandbox.room();
        const inside = resolve(request.query.get('path') ?? '', user);
        const stats = fs.statSync(room.host(inside, true), { throwIfNoEntry: false });
        if (!stats) throw new FileError(404, `path '${inside}' does not exist`);
        if (stats.isDirectory()) throw new FileError(400, `path '${inside}' is a directory`);
        const data = fs.readFileSync(room.host(inside, true));
        reply.head(200, {
            'content-type': 'application/octet-stream',
            'content-length': data.length,
            'accept-ranges': 'bytes',
            vary: 'Accept-Encoding',
            'last-modified': stats.mtime.toUTCString(),
        });
        for (let i = 0; i < data.length; i += 1 << 16) reply.write(data.subarray(i, i + (1 << 16)));
        reply.end();
    }

    async #write(request, reply, user) {
        const type = request.headers['content-type'] ?? '';
        const given = request.query.get('path');
        const body = await request.body();
        let parts;
        if (type.startsWith('multipart/form-data'))
            parts = partsOf(body, type).map(({ name, data }) => ({ name: given ?? name, data }));
        else if (type.startsWith('application/octet-stream')) parts = [{ name: given, data: body }];
        else
            throw new FileError(
                400,
                `unsupported content type: ${type}, expected multipart/form-data or application/octet-stream`,
            );
        if (parts.some(({ name }) => !name)) throw new FileError(400, 'path query parameter is required for raw body upload');

        const wanted = parts.map(({ name, data }) => ({ inside: resolve(name, user), data, user }));
        if (!this.sandbox.putLater(wanted)) {
            const room = await this.sandbox.room();
            for (const one of wanted) this.put(room, one);
        }
        reply.head(200, { 'content-type': 'application/json' });
        reply.end(JSON.stringify(wanted.map(({ inside }) => ({ path: inside, name: path.posix.basename(inside), type: 'file' }))));
    }

    put(room, { inside, data, user }) {
        const stats = fs.statSync(room.host(inside, true), { throwIfNoEntry: false });
        if (stats?.isDirectory()) throw new FileError(400, `path is a directory: ${inside}`);
        makeFolders(room, path.posix.dirname(inside), user);
        fs.writeFileSync(room.host(inside, true), data);
        give(room, inside, user);
    }
}
