// The Connect protocol with its JSON codec, as a provider's service speaks it: unary calls, and streams from the server.
const STATUS = {
    canceled: 499,
    unknown: 500,
    invalid_argument: 400,
    deadline_exceeded: 504,
    not_found: 404,
    already_exists: 409,
    permission_denied: 403,
    resource_exhausted: 429,
    failed_precondition: 400,
    aborted: 409,
    unimplemented: 501,
    internal: 500,
    unavailable: 503,
    unauthenticated: 401,
};

export class ConnectError extends Error {
    constructor(code, message) {
        super(message);
        this.code = code;
    }
}

function frame(flags, value) {
    const text = Buffer.from(JSON.stringify(value));
    const head = Buffer.alloc(5);
    head[0] = flags;
    head.writeUInt32BE(text.length, 1);
    return Buffer.concat([head, text]);
}

// A stream of messages to a client. Its head goes with the first of them, as with the original.
class Stream {
    constructor(reply) {
        this.reply = reply;
    }

    #begin() {
        this.reply.head(200, { 'content-type': 'application/connect+json' });
    }

    send(message) {
        this.#begin();
        return this.reply.write(frame(0, message));
    }

    end(error) {
        this.#begin();
        this.reply.end(frame(2, error ? { error: { code: error.code, message: error.message } } : {}));
    }
}

function parse(text) {
    let value;
    try {
        value = JSON.parse(text);
    } catch (error) {
        throw new ConnectError('invalid_argument', `unmarshal message: ${error.message}`);
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value))
        throw new ConnectError('invalid_argument', 'unmarshal message: not an object');
    return value;
}

// An error before any method is reached: as the stream that was asked for, or as a unary answer.
export function refuse(error, request, reply) {
    if ((request.headers['content-type'] ?? '').startsWith('application/connect+')) return new Stream(reply).end(error);
    reply.head(STATUS[error.code], { 'content-type': 'application/json' });
    return reply.end(JSON.stringify({ code: error.code, message: error.message }));
}

// methods: {"/package.Service/Method": {unary: async (message, request) => message} or {stream: async (message, request, stream)}}
export async function serveConnect(methods, request, reply) {
    const method = methods[request.path];
    if (!method) {
        reply.head(404, { 'content-type': 'text/plain; charset=utf-8' });
        return reply.end('404 page not found\n');
    }
    if (request.method !== 'POST') {
        reply.head(405, { allow: 'POST' });
        return reply.end();
    }
    const wants = method.stream ? 'application/connect+json' : 'application/json';
    const type = (request.headers['content-type'] ?? '').split(';')[0].trim().toLowerCase();
    if (type !== wants) {
        reply.head(415, { 'accept-post': wants });
        return reply.end();
    }
    const body = await request.body();
    if (method.stream) return serveStream(method, request, reply, body);
    try {
        const answer = await method.unary(parse(body), request);
        reply.head(200, { 'content-type': 'application/json' });
        reply.end(JSON.stringify(answer ?? {}));
    } catch (error) {
        refuse(error instanceof ConnectError ? error : new ConnectError('internal', String(error.stack)), request, reply);
    }
}

// The request's one message is enveloped as the answer's are.
async function serveStream(method, request, reply, body) {
    const stream = new Stream(reply);
    try {
        if (body.length < 5) throw new ConnectError('invalid_argument', 'protocol error: incomplete envelope: unexpected EOF');
        if (body[0] & 1)
            throw new ConnectError('internal', 'protocol error: sent compressed message without compression support');
        if (body.readUInt32BE(1) !== body.length - 5) {
            throw new ConnectError(
                'invalid_argument',
                `protocol error: promised ${body.readUInt32BE(1)} bytes in enveloped message, got ${body.length - 5} bytes`,
            );
        }
        await method.stream(parse(body.subarray(5)), request, stream);
        stream.end();
    } catch (error) {
        stream.end(error instanceof ConnectError ? error : new ConnectError('internal', String(error.stack)));
    }
}
