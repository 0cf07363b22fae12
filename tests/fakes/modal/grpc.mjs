// gRPC as a server speaks it over HTTP/2: unary calls, streams from the server, and streams from the client taken as a whole.
export const CODE = {
    CANCELLED: 1,
    UNKNOWN: 2,
    INVALID_ARGUMENT: 3,
    DEADLINE_EXCEEDED: 4,
    NOT_FOUND: 5,
    ALREADY_EXISTS: 6,
    PERMISSION_DENIED: 7,
    RESOURCE_EXHAUSTED: 8,
    FAILED_PRECONDITION: 9,
    OUT_OF_RANGE: 11,
    UNIMPLEMENTED: 12,
    INTERNAL: 13,
    UNAVAILABLE: 14,
    UNAUTHENTICATED: 16,
};

export class GrpcError extends Error {
    // details: bytes for grpc-status-details-bin
    constructor(code, message, details) {
        super(message);
        Object.assign(this, { code: CODE[code], details });
    }
}

function framed(bytes) {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(bytes.length, 1);
    return Buffer.concat([head, bytes]);
}

function messagesOf(body) {
    const found = [];
    for (let at = 0; at < body.length;) {
        if (body[at] !== 0) throw new GrpcError('UNIMPLEMENTED', 'compressed messages are not taken');
        const length = at + 5 <= body.length ? body.readUInt32BE(at + 1) : Infinity;
        if (at + 5 + length > body.length) throw new GrpcError('INTERNAL', 'incomplete message');
        found.push(body.subarray(at + 5, at + 5 + length));
        at += 5 + length;
    }
    return found;
}

// "100m" and so on, in milliseconds.
function timeoutOf(text) {
    const [, number, unit] = /^(\d{1,8})([HMSmun])$/.exec(text ?? '') ?? [];
    return number === undefined ? Infinity : Number(number) * { H: 3600e3, M: 60e3, S: 1000, m: 1, u: 1e-3, n: 1e-6 }[unit];
}

function trailersOf(error) {
    if (!error) return { 'grpc-status': '0' };
    return {
        'grpc-status': String(error.code ?? CODE.UNKNOWN),
        'grpc-message': encodeURIComponent(error.message),
        ...(error.details ? { 'grpc-status-details-bin': error.details.toString('base64').replace(/=+$/, '') } : {}),
    };
}

// Ends an answer. One that hasn't begun is of trailers alone.
function finish(reply, error) {
    if (!reply.status && error) return reply.headOnly(200, { 'content-type': 'application/grpc+proto', ...trailersOf(error) });
    if (!reply.status) reply.head(200, { 'content-type': 'application/grpc+proto' });
    return reply.end('', trailersOf(error));
}

// methods: {"/package.Service/Method": {in, out, unary: async (message, call) => message}}, or `stream` instead of `unary`: async
// (message, call) with call.send(message), or `collect`: async (messages, call) => message.
export async function serveGrpc(methods, messages, request, reply) {
    if (!/^application\/grpc(\+proto)?$/.test(request.headers['content-type'] ?? '')) {
        reply.head(415);
        return reply.end();
    }
    const method = methods[request.path];
    const call = {
        headers: request.headers,
        closed: new Promise((gone) => reply.onClose(gone)),
        isClosed: () => reply.closed,
        send: async (message) => {
            if (!reply.status) reply.head(200, { 'content-type': 'application/grpc+proto' });
            if (!reply.write(framed(messages.encode(method.out, message)))) await new Promise((then) => reply.drained(then));
        },
    };
    let late;
    try {
        const body = await request.body();
        if (!method) throw new GrpcError('UNIMPLEMENTED', `unknown method ${request.path}`);
        const limit = timeoutOf(request.headers['grpc-timeout']);
        const deadline = new Promise((_, failed) => {
            if (limit < 2 ** 31) late = setTimeout(() => failed(new GrpcError('DEADLINE_EXCEEDED', 'deadline exceeded')), limit);
        });
        const parts = messagesOf(body).map((bytes) => messages.decode(method.in, bytes));
        if (!method.collect && parts.length !== 1)
            throw new GrpcError('INTERNAL', `${parts.length} messages where one is expected`);
        const work = method.collect
            ? method.collect(parts, call)
            : method.stream
              ? method.stream(parts[0], call)
              : method.unary(parts[0], call);
        work.catch?.(() => {});
        const answer = await Promise.race([work, deadline]);
        if (!method.stream) await call.send(answer ?? {});
        return finish(reply);
    } catch (error) {
        if (!(error instanceof GrpcError)) process.stderr.write(`${request.path}: ${error.stack}\n`);
        return finish(reply, error instanceof GrpcError ? error : new GrpcError('INTERNAL', error.message));
    } finally {
        clearTimeout(late);
    }
}
