// Strangers on a raw socket. Whatever they send, they get a 4xx (505 for another HTTP) or are cut off, no call comes of it,
// and a client that was there before is served as ever.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import test from 'node:test';
import { startHttp, tokenFile } from './support/http.mjs';
import { computersIn, defer, eventually, isRoot } from './support/machine.mjs';
import { BINARY } from './support/server.mjs';

const CRLF = '\r\n';

// A connection that records what comes. Bytes are written as latin1.
class Raw {
    received = '';
    closed = false;
    #changed = [];

    constructor(server) {
        this.socket = net.connect({ ...server.address, allowHalfOpen: true });
        this.socket.setEncoding('latin1');
        this.socket.on('data', (chunk) => {
            this.received += chunk;
            this.#wake();
        });
        for (const event of ['end', 'error', 'close']) {
            this.socket.on(event, () => {
                this.closed = true;
                this.socket.destroy();
                this.#wake();
            });
        }
    }

    #wake() {
        for (const resolve of this.#changed.splice(0)) resolve();
    }

    send(text) {
        this.socket.write(text, 'latin1');
        return this;
    }

    async until(probe) {
        while (!probe(this)) {
            if (this.closed) throw new Error(`the connection ended: ${this.received.slice(0, 300)}`);
            await new Promise((resolve) => this.#changed.push(resolve));
        }
        return this;
    }

    async end() {
        while (!this.closed) await new Promise((resolve) => this.#changed.push(resolve));
        return this;
    }

    // Of the first answer; 0: cut off without one.
    get status() {
        return Number(/^HTTP\/1\.1 (\d{3})/.exec(this.received)?.[1] ?? 0);
    }

    get content() {
        return this.received.slice(this.received.indexOf(CRLF + CRLF) + 4);
    }
}

const CALL = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'terminal_execute', arguments: { command: 'touch /tmp/evil' } } });

// A head for /mcp that would be served, and what to put into it.
function request(server, { line = 'POST /mcp HTTP/1.1', host = 'localhost', headers = [], body = CALL, length = true } = {}) {
    const head = [line, ...(host ? [`Host: ${host}`] : []), 'Content-Type: application/json', 'Accept: application/json, text/event-stream',
        ...(length ? [`Content-Length: ${body.length}`] : []), ...headers];
    return head.join(CRLF) + CRLF + CRLF + body;
}

const chunked = (body) => `${body.length.toString(16)}${CRLF}${body}${CRLF}0${CRLF}${CRLF}`;

// What is sent, by name. Each ends the connection.
const malformed = {
    'length and chunked': (s) => request(s, { headers: ['Transfer-Encoding: chunked'], body: chunked(CALL) }),
    'a length of two numbers': (s) => request(s, { length: false, headers: ['Content-Length: 1 2'] }),
    'two lengths': (s) => request(s, { headers: ['Content-Length: 1'] }),
    'one length twice': (s) => request(s, { headers: [`Content-Length: ${CALL.length}`] }),
    'a list of lengths': (s) => request(s, { length: false, headers: [`Content-Length: ${CALL.length}, ${CALL.length}`] }),
    'a signed length': (s) => request(s, { length: false, headers: [`Content-Length: +${CALL.length}`] }),
    'a negative length': (s) => request(s, { length: false, headers: ['Content-Length: -1'] }),
    'a hexadecimal length': (s) => request(s, { length: false, headers: [`Content-Length: 0x${CALL.length.toString(16)}`] }),
    'no digits in a length': (s) => request(s, { length: false, headers: ['Content-Length: a'] }),
    'a length beyond 64 bits': (s) => request(s, { length: false, headers: ['Content-Length: 99999999999999999999999999'] }),
    'a length beyond the limit': (s) => request(s, { length: false, headers: ['Content-Length: 9999999999'] }),
    'a blank before the length\'s colon': (s) => request(s, { length: false, headers: [`Content-Length : ${CALL.length}`] }),
    'chunked twice': (s) => request(s, { length: false, headers: Array(2).fill('Transfer-Encoding: chunked'), body: chunked(CALL) }),
    xchunked: (s) => request(s, { length: false, headers: ['Transfer-Encoding: xchunked'], body: chunked(CALL) }),
    'gzip, chunked': (s) => request(s, { length: false, headers: ['Transfer-Encoding: gzip, chunked'], body: chunked(CALL) }),
    identity: (s) => request(s, { length: false, headers: ['Transfer-Encoding: identity'] }),
    'a vertical tab before chunked': (s) => request(s, { length: false, headers: ['Transfer-Encoding: \x0bchunked'], body: chunked(CALL) }),
    'a blank before the encoding\'s colon': (s) => request(s, { headers: ['Transfer-Encoding : chunked'], body: chunked(CALL) }),
    'an encoding on a folded line': (s) => request(s, { headers: ['Transfer-Encoding:', ' chunked'], body: chunked(CALL) }),
    'chunked in HTTP/1.0': (s) => request(s, { line: 'POST /mcp HTTP/1.0', length: false, headers: ['Transfer-Encoding: chunked'], body: chunked(CALL) }),
    'chunk size 0x3': (s) => request(s, { length: false, headers: ['Transfer-Encoding: chunked'], body: `0x3${CRLF}abc${CRLF}0${CRLF}${CRLF}` }),
    'a negative chunk size': (s) => request(s, { length: false, headers: ['Transfer-Encoding: chunked'], body: `-3${CRLF}abc${CRLF}0${CRLF}${CRLF}` }),
    'no chunk size': (s) => request(s, { length: false, headers: ['Transfer-Encoding: chunked'], body: `${CRLF}abc${CRLF}0${CRLF}${CRLF}` }),
    'a chunk size beyond 64 bits': (s) => request(s, { length: false, headers: ['Transfer-Encoding: chunked'], body: `${'f'.repeat(17)}${CRLF}abc` }),
    'a chunk without an end': (s) => request(s, { length: false, headers: ['Transfer-Encoding: chunked'], body: `3${CRLF}abcd${CRLF}0${CRLF}${CRLF}` }),
    'no Host': (s) => request(s, { host: '' }),
    'two Hosts': (s) => request(s, { headers: ['Host: localhost'] }),
    'two Hosts of which one is foreign': (s) => request(s, { headers: ['Host: evil.example'] }),
    'a folded header': (s) => request(s, { headers: ['X-A: b', ' c'] }),
    'a header folded by a tab': (s) => request(s, { headers: ['X-A: b', '\tc'] }),
    'a folded first header': (s) => request(s, { line: `POST /mcp HTTP/1.1${CRLF} X-A: b` }),
    'bare LFs': (s) => request(s).replaceAll(CRLF, '\n'),
    'one bare LF': (s) => request(s).replace(CRLF, '\n'),
    'a bare LF in a header': (s) => request(s, { headers: ['X-A: b\nX-B: c'] }),
    'a bare CR in a header': (s) => request(s, { headers: ['X-A: b\rX-B: c'] }),
    'CR CR LF': (s) => request(s, { headers: ['X-A: b\r'] }),
    'a NUL in a header': (s) => request(s, { headers: ['X-A: b\0c'] }),
    'a NUL at a header\'s end': (s) => request(s, { headers: ['X-A: b\0'] }),
    'a NUL in a header\'s name': (s) => request(s, { headers: ['X\0A: b'] }),
    'a NUL where the head could end': (s) => request(s, { headers: ['\0'] }),
    'a control character in a header': (s) => request(s, { headers: ['X-A: \x01'] }),
    'a name that is no token': (s) => request(s, { headers: ['X(A): b'] }),
    'a name in latin1': (s) => request(s, { headers: ['\xe4: b'] }),
    'an empty name': (s) => request(s, { headers: [': b'] }),
    'a header without a colon': (s) => request(s, { headers: ['X-A'] }),
    'a blank in the path': (s) => request(s, { line: 'POST /mcp x HTTP/1.1' }),
    'two blanks': (s) => request(s, { line: 'POST  /mcp HTTP/1.1' }),
    'a blank at the end': (s) => request(s, { line: 'POST /mcp HTTP/1.1 ' }),
    'tabs for blanks': (s) => request(s, { line: 'POST\t/mcp\tHTTP/1.1' }),
    'a NUL in the path': (s) => request(s, { line: 'POST /mcp\0x HTTP/1.1' }),
    'latin1 in the path': (s) => request(s, { line: 'POST /mcp\xe4 HTTP/1.1' }),
    'a method that is no token': (s) => request(s, { line: 'PO(ST /mcp HTTP/1.1' }),
    'HTTP/0.9': (s) => request(s, { line: 'POST /mcp' }),
    'HTTP/2.0': (s) => request(s, { line: 'POST /mcp HTTP/2.0' }),
    'HTTP/1.10': (s) => request(s, { line: 'POST /mcp HTTP/1.10' }),
    'the preface of HTTP/2': () => `PRI * HTTP/2.0${CRLF}${CRLF}SM${CRLF}${CRLF}`,
    TLS: () => `\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03${CRLF}${CRLF}`,
    'a header of a MiB': (s) => request(s, { headers: [`X-A: ${'a'.repeat(1 << 20)}`] }),
    '100 000 headers': (s) => request(s, { headers: Array(100000).fill('X-A: b') }),
    'a path of a MiB': (s) => request(s, { line: `POST /${'a'.repeat(1 << 20)} HTTP/1.1` }),
    'a head without an end': () => 'a'.repeat(1 << 20),
    'a trailer of a MiB': (s) => request(s, { length: false, headers: ['Transfer-Encoding: chunked'], body: `0${CRLF}X-A: ${'a'.repeat(1 << 20)}` }),
    'a request within the body of another': (s) => request(s, { headers: ['Transfer-Encoding: chunked'], body: `0${CRLF}${CRLF}${request(s)}` }),
};

// Well-formed, and yet not to be served. The connection may stay.
const unwelcome = {
    'a foreign Host': (s) => request(s, { host: 'evil.example' }),
    'a Host with a user': (s) => request(s, { host: 'localhost@evil.example' }),
    'a Host that begins like ours': (s) => request(s, { host: 'localhost.evil.example' }),
    'an empty Host': (s) => request(s, { host: '', headers: ['Host:'] }),
    'a foreign Origin': (s) => request(s, { headers: ['Origin: http://evil.example'] }),
    'Origin: null': (s) => request(s, { headers: ['Origin: null'] }),
    'two Origins': (s) => request(s, { headers: ['Origin: http://localhost', 'Origin: http://evil.example'] }),
    '//mcp': (s) => request(s, { line: 'POST //mcp HTTP/1.1' }),
    '/mcp//': (s) => request(s, { line: 'POST /mcp// HTTP/1.1' }),
    '/x/../mcp': (s) => request(s, { line: 'POST /x/../mcp HTTP/1.1' }),
    '/./mcp': (s) => request(s, { line: 'POST /./mcp HTTP/1.1' }),
    '/%6dcp': (s) => request(s, { line: 'POST /%6dcp HTTP/1.1' }),
    '/mcp%00': (s) => request(s, { line: 'POST /mcp%00 HTTP/1.1' }),
    '/mcp%2f': (s) => request(s, { line: 'POST /mcp%2f HTTP/1.1' }),
    '/MCP': (s) => request(s, { line: 'POST /MCP HTTP/1.1' }),
    '/mcp;x': (s) => request(s, { line: 'POST /mcp;x HTTP/1.1' }),
    '/mcp\\': (s) => request(s, { line: 'POST /mcp\\ HTTP/1.1' }),
    'another\'s address as the target': (s) => request(s, { line: 'POST http://evil.example/mcp HTTP/1.1' }),
    'our address as the target, as a user of another\'s': (s) => request(s, { line: 'POST http://localhost@evil.example/mcp HTTP/1.1' }),
    'nobody\'s address as the target': (s) => request(s, { line: 'POST http:///mcp HTTP/1.1' }),
    'CONNECT': (s) => request(s, { line: 'CONNECT evil.example:443 HTTP/1.1' }),
    'TRACE': (s) => request(s, { line: 'TRACE /mcp HTTP/1.1' }),
    '*': (s) => request(s, { line: 'OPTIONS * HTTP/1.1' }),
    'no session': (s) => request(s),
    'a session id of 8 KiB': (s) => request(s, { headers: [`Mcp-Session-Id: ${'a'.repeat(8192)}`] }),
    'a session id with blanks': (s) => request(s, { headers: ['Mcp-Session-Id: a b'] }),
    'a session id in latin1': (s) => request(s, { headers: ['Mcp-Session-Id: \xff\xfe'] }),
    'an empty session id': (s) => request(s, { headers: ['Mcp-Session-Id:'] }),
    'a path as a session id': (s) => request(s, { headers: ['Mcp-Session-Id: ../../etc/passwd'] }),
    'a form of printf as a session id': (s) => request(s, { headers: ['Mcp-Session-Id: %n%s%x'] }),
    'a stream from nowhere': (s) => request(s, { line: 'GET /mcp HTTP/1.1', headers: ['Mcp-Session-Id: a', 'Last-Event-ID: \xff\xfe/../1'], body: '' }),
    'a body that is no JSON': (s) => request(s, { body: '\xff\xfe{' }),
    'a body of brackets': (s) => request(s, { body: '['.repeat(100000) }),
    'a body of quotes': (s) => request(s, { body: '"'.repeat(100000) }),
    'an empty body': (s) => request(s, { body: '' }),
    'an expectation that nobody has': (s) => request(s, { headers: ['Expect: 200-maybe'] }),
    'a body in gzip': (s) => request(s, { headers: ['Content-Encoding: gzip'] }),
    'another type': (s) => request(s).replace('application/json', 'text/plain'),
};

// The client that was there before.
async function checkUnharmed(session) {
    assert.equal((await session.start('ping').whole()).status, 200);
}

async function refusals(t, cases, staysOpen) {
    const server = await startHttp(t);
    const session = await server.session();
    for (const [what, make] of Object.entries(cases)) {
        const raw = new Raw(server).send(make(server));
        if (staysOpen) await raw.until((r) => r.status);
        else await raw.end();
        const { status } = raw;
        raw.socket.destroy();
        // A malformed request may be cut off without a word, or its answer be lost in a reset; one that is understood is answered.
        assert.ok(raw.received.split('HTTP/1.1 ').length <= 2, `${what}: not one answer: ${raw.received.slice(0, 300)}`);
        assert.ok((!staysOpen && status === 0) || (status >= 400 && status < 500) || status === 505, `${what}: ${raw.received.slice(0, 300)}`);
        await checkUnharmed(session);
    }
    assert.deepEqual(computersIn(server.stateDir).filter((name) => !name.startsWith('.')), [], 'nobody has run anything');
}

test(`${Object.keys(malformed).length} malformed requests`, (t) => refusals(t, malformed, false));

test(`${Object.keys(unwelcome).length} requests that are understood and refused`, (t) => refusals(t, unwelcome, true));

const tokens = {
    'no token': [],
    'another token': ['Authorization: Bearer another-token-than-that'],
    'a part of the token': ['Authorization: Bearer t\xc3\xb6ken-with-\xf0\x9f\x94'],
    'the token and more': ['Authorization: Bearer t\xc3\xb6ken-with-\xf0\x9f\x94\x91x'],
    'the token as latin1': ['Authorization: Bearer t\xf6ken-with-\xf0\x9f\x94\x91'],
    'the token, encoded': ['Authorization: Bearer t%C3%B6ken-with-%F0%9F%94%91'],
    'the token, otherwise composed': ['Authorization: Bearer to\xcc\x88ken-with-\xf0\x9f\x94\x91'],
    'another scheme': ['Authorization: Basic t\xc3\xb6ken-with-\xf0\x9f\x94\x91'],
    'no scheme': ['Authorization: t\xc3\xb6ken-with-\xf0\x9f\x94\x91'],
    'an empty token': ['Authorization: Bearer '],
    'bytes that are no text': ['Authorization: Bearer \xff\xfe\xfd'],
    'a token of 16 KiB': [`Authorization: Bearer ${'a'.repeat(16384)}`],
};

test(`a token in UTF-8, and ${Object.keys(tokens).length} that are not it`, async (t) => {
    const server = await startHttp(t, { args: ['--auth-token-file', tokenFile(t, { alice: 'töken-with-🔑' })] });
    await Promise.all(Object.entries(tokens).map(async ([what, headers]) => {
        const raw = await new Raw(server).send(request(server, { headers })).until((r) => r.status);
        raw.socket.destroy();
        assert.equal(raw.status, 401, `${what}: ${raw.received}`);
        assert.match(raw.received, /\r\nWWW-Authenticate: Bearer/i, what);
    }));
    const right = await new Raw(server).send(request(server, { headers: ['Authorization: Bearer t\xc3\xb6ken-with-\xf0\x9f\x94\x91'] })).until((r) => r.status);
    right.socket.destroy();
    assert.equal(right.status, 400, 'it only lacks a session');
});

test('headers of which there can be one only, and that say what nobody takes', async (t) => {
    const file = tokenFile(t, { alice: 'the-token-of-alice', bob: 'the-token-of-bob-too' });
    const server = await startHttp(t, { args: ['--auth-token-file', file] });
    const alice = 'Authorization: Bearer the-token-of-alice';
    const twice = { 'Mcp-Session-Id': 'a', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'terminal_execute', 'MCP-Protocol-Version': '2025-11-25',
        'Last-Event-ID': '1-0', Origin: 'http://localhost', 'Content-Encoding': 'identity', Expect: '100-continue' };
    const cases = [
        ...Object.entries(twice).map(([name, value]) => [400, [alice, `${name}: ${value}`, `${name.toLowerCase()}: ${value}`]]),
        [400, [alice, 'Authorization: Bearer the-token-of-bob-too']],
        [400, [alice, alice]],
        [400, ['Authorization: Bearer x', alice]],
        [400, [alice, 'Content-Type: application/json']],
        [415, [alice, 'Content-Encoding: gzip']],
        [415, [alice, 'Content-Encoding: identity, gzip']],
        [417, [alice, 'Expect: 200-maybe']],
        [417, [alice, 'Expect: 100-continue, 200-maybe']],
    ];
    await Promise.all(cases.map(async ([status, headers]) => {
        const raw = await new Raw(server).send(request(server, { headers: [...headers, 'Connection: close'] })).end();
        assert.equal(raw.status, status, `${headers}: ${raw.received}`);
        assert.match(raw.content, status === 400 ? /^A header came twice/ : /can only be/);
    }));
    const fine = await new Raw(server).send(request(server, { headers: [alice, 'Content-Encoding: Identity', 'Connection: close'] })).end();
    assert.match(fine.content, /session|MCP-Protocol-Version/i, 'it only lacks a session');
});

test('what a client names is never found in a header of the answer', async (t) => {
    const server = await startHttp(t);
    for (const id of ['"\\r\\nX-Evil: 1\\r\\n\\r\\n"', '"a\\u000d\\u000aX-Evil: 1"']) {
        const body = `{"jsonrpc":"2.0","id":${id},"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":${id},"version":${id}}}}`;
        const raw = await new Raw(server).send(request(server, { body, headers: ['Connection: close', 'Mcp-Session-Id: X-Evil', 'X-Evil: 1'] })).end();
        assert.equal(raw.status, 200);
        assert.doesNotMatch(raw.received.slice(0, -raw.content.length), /evil/i);
        assert.doesNotMatch(raw.received, /\r\nX-Evil/i);
        assert.equal(JSON.stringify(JSON.parse(raw.content).id), JSON.stringify(JSON.parse(id)));
    }
});

test('pipelined requests are answered in order, and none after a malformed one', async (t) => {
    const server = await startHttp(t);
    const health = (line = 'GET /healthz HTTP/1.1') => `${line}${CRLF}Host: localhost${CRLF}${CRLF}`;
    const raw = await new Raw(server).send(health() + health('HEAD /healthz HTTP/1.1') + health('GET /none HTTP/1.1') + health() +
        health('GET /healthz HTTP/3') + health()).end();
    assert.deepEqual([...raw.received.matchAll(/HTTP\/1\.1 (\d+)/g)].map((m) => m[1]), ['200', '200', '404', '200', '400']);
});

test('a connection that is closed at each byte of a request', async (t) => {
    const server = await startHttp(t);
    const session = await server.session();
    const text = request(server, { headers: [`Mcp-Session-Id: ${session.id}`], body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }) });
    await Promise.all(Array.from(text, async (_, n) => {
        const raw = new Raw(server).send(text.slice(0, n));
        raw.socket.end();
        await raw.end();
        assert.equal(raw.received, '', `after ${n} bytes`);
    }));
    const whole = new Raw(server).send(text);
    whole.socket.end();
    assert.equal((await whole.end()).status, 200, 'whoever has said all may close this side');
    await checkUnharmed(session);
});

test('a result of 20 MiB for a reader that does not read, and others meanwhile', async (t) => {
    const server = await startHttp(t, { args: ['--output-limit', '8m'] });
    const session = await server.session();
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call',
        params: { name: 'terminal_execute', arguments: { command: 'yes | head -c 7000000' } } });
    const raw = new Raw(server);
    raw.socket.pause();
    raw.send(request(server, { body, headers: [`Mcp-Session-Id: ${session.id}`, 'Connection: close'] }));
    const other = await server.session();
    for (let i = 0; i < 20; i++) assert.equal((await other.run('echo served')).stdout, 'served\n');
    raw.socket.resume();
    await raw.end();
    assert.equal(raw.status, 200);
    assert.ok(raw.received.length > 20e6, `${raw.received.length} bytes`);
    assert.match(raw.received.slice(-100), /\}(\n\n\r\n0\r\n\r\n)?$/, 'to its last byte');
    await checkUnharmed(session);
});

test('a thousand sessions that are opened and forgotten', async (t) => {
    const server = await startHttp(t, { args: ['--max-sessions', '200'] });
    const bystander = await server.session();
    const initialize = { jsonrpc: '2.0', id: 1, method: 'initialize',
        params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } } };
    const statuses = {};
    for (let i = 0; i < 20; i++) {
        const done = await Promise.all(Array.from({ length: 50 }, () => server.post(initialize).whole()));
        for (const { status } of done) statuses[status] = (statuses[status] ?? 0) + 1;
    }
    assert.equal(statuses[200] + (statuses[429] ?? 0) + (statuses[503] ?? 0), 1000, JSON.stringify(statuses));
    await checkUnharmed(bystander);
});

const CROWD = Number(process.env.HOSTILE_CROWD ?? 2000);

test(`${CROWD} connections that say nothing, and as many that say half`, async (t) => {
    const server = await startHttp(t);
    const session = await server.session();
    const crowd = [];
    defer(t, () => crowd.forEach((raw) => raw.socket.destroy()));
    for (let i = 0; i < 2 * CROWD; i++) {
        crowd.push(new Raw(server));
        if (i % 2) crowd.at(-1).send(`POST /mcp HTTP/1.1${CRLF}Host: local`);
        if (i % 200 === 0) await new Promise((resolve) => crowd.at(-1).socket.once('connect', resolve));
    }
    const before = Date.now();
    assert.equal((await session.run('echo served')).stdout, 'served\n');
    t.diagnostic(`a call took ${Date.now() - before} ms`);
    crowd.forEach((raw) => raw.socket.destroy());
    await eventually('the connections are gone', () => fs.readdirSync(`/proc/${server.pid}/fd`).length < 200);
    await checkUnharmed(session);
});

test('without libmicrohttpd: what to install', (t) => {
    const library = spawnSync('sh', ['-c', 'ldconfig -p | sed -n "s/.*libmicrohttpd\\.so\\.12.*=> //p" | head -n 1'], { encoding: 'utf8' }).stdout.trim();
    if (!isRoot || !library) return t.skip('it takes a mount to hide it');
    const done = spawnSync('unshare', ['-m', 'sh', '-c', `mount --bind /dev/null "${library}" && exec "${BINARY}" --transport http --port 0 --backend native`],
        { encoding: 'utf8' });
    assert.equal(done.status, 1, done.stderr);
    assert.match(done.stderr, /apt-get install libmicrohttpd12/);
});
