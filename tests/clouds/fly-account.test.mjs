// Which token and which app the server uses at Fly, and how flyctl is found and installed: fly_account.c, at the fake.
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import test from 'node:test';
import { promisify } from 'node:util';
import { startFake } from '../fakes/support/start.mjs';
import { BINARY, startServer } from '../integration/support/server.mjs';
import { defer, temporaryFolder } from '../integration/support/machine.mjs';
import { needsRooms } from './support.mjs';

const PROGRAM = process.env.FLY_ACCOUNT ?? path.resolve(import.meta.dirname, '../../build/tests/clouds/fly_account');
const ARCHIVE = '^GET /releases/.*tar.gz$';

// A home, and a fake. open() says what came of it, once per caller.
async function world(t, options = []) {
    const fake = await startFake(t, 'fly', options);
    const home = temporaryFolder(t, 'fly-home-');
    const bin = path.join(home, 'bin');
    fs.mkdirSync(bin);
    const env = {
        PATH: `${bin}:/usr/bin:/bin`,
        HOME: home,
        FLY_FLAPS_BASE_URL: fake.ready.api,
        FLY_API_BASE_URL: fake.ready.api,
        ...(fake.ready.ca ? { SSL_CERT_FILE: fake.ready.ca } : {}),
    };
    const token = { FLY_API_TOKEN: fake.ready.token };
    const record = path.join(home, '.mcp-sandbox-computer-vm-for-ai/fly.json');
    const open = async (more = {}, { callers = 1, seconds = 60 } = {}) => {
        const options = { env: { ...env, ...more }, encoding: 'utf8' };
        const { stdout } = await promisify(execFile)(PROGRAM, [String(callers), String(seconds)], options).catch((failed) => failed);
        const all = stdout.trim().split('\n').map((line) => JSON.parse(line));
        return callers === 1 ? all[0] : all;
    };
    const program = (where, script) => {
        fs.mkdirSync(path.dirname(where), { recursive: true });
        fs.writeFileSync(where, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
        return where;
    };
    const login = (text, folder = path.join(home, '.fly')) => {
        fs.mkdirSync(folder, { recursive: true });
        fs.writeFileSync(path.join(folder, 'config.yml'), text);
    };
    return { fake, home, bin, env, token, record, open, program, login };
}

async function asked(fake) {
    return (await fake.requests()).map(({ method, path: where }) => `${method} ${where}`);
}

test('a named app that is there is used as it is, also with a deploy token', async (t) => {
    const { fake, token, record, open } = await world(t, ['--app', 'mine', '--app', 'other', '--deploy-token', 'fm2_deploy:mine']);
    assert.deepEqual(await open({ ...token, FLY_APP_NAME: 'mine' }), { app: 'mine', authorization: 'FlyV1 fm2_fake' });
    assert.equal((await open({ FLY_API_TOKEN: 'Bearer fm2_deploy', FLY_APP_NAME: 'mine' })).app, 'mine');
    assert.deepEqual(await asked(fake), ['GET /v1/apps/mine', 'GET /v1/apps/mine']);
    const foreign = await open({ FLY_API_TOKEN: 'fm2_deploy', FLY_APP_NAME: 'other' });
    assert.equal(foreign.code, 'denied');
    assert.match(foreign.error, /may not use the app other .*FLY_APP_NAME/);
    const absent = await open({ FLY_API_TOKEN: 'fm2_deploy', FLY_APP_NAME: 'absent' });
    assert.equal(absent.code, 'denied');
    assert.match(absent.error, /may make no app .*FLY_APP_NAME/);
    assert.equal(fs.existsSync(record), false);
    assert.equal((await fake.state()).totals.apps, 0);
});

test('a named app that is not there is made, in the organisation that is meant', async (t) => {
    const { fake, token, record, open } = await world(t);
    assert.equal((await open({ ...token, FLY_APP_NAME: 'first' })).app, 'first');
    assert.equal((await open({ ...token, FLY_APP_NAME: 'second', FLY_ORG: 'company' })).app, 'second');
    const { apps } = await fake.state();
    assert.deepEqual(
        apps.map((app) => [app.name, app.organization.slug, app.network]),
        [
            ['first', 'personal', 'first'],
            ['second', 'company', 'second'],
        ],
    );
    assert.equal((await asked(fake)).filter((one) => one === 'POST /graphql').length, 1, 'FLY_ORG needs no question');
    assert.match((await open({ ...token, FLY_APP_NAME: 'third', FLY_ORG: 'nobodys' })).error, /third.*nobodys.*404: Could not find Org/);
    assert.match((await open({ ...token, FLY_APP_NAME: 'Upper' })).error, /Upper.*lowercase/);
    assert.equal(fs.existsSync(record), false);
});

test('an app is made once and recorded', async (t) => {
    const { fake, token, record, open } = await world(t);
    const { app } = await open(token);
    assert.match(app, /^mcp-computers-[0-9a-f]{12}$/);
    assert.equal(fs.readFileSync(record, 'utf8'), `{"app": "${app}"}`);
    assert.equal(fs.statSync(record).mode & 0o7777, 0o600);
    await fake.forgetRequests();
    assert.equal((await open(token)).app, app);
    assert.deepEqual(await asked(fake), [`GET /v1/apps/${app}`]);
    assert.equal((await fake.state()).apps[0].organization.slug, 'personal');
});

test('a recorded app is used if the account sees it, else there is a new one', async (t) => {
    const { fake, token, record, open } = await world(t, ['--app', 'theirs']);
    fs.mkdirSync(path.dirname(record));
    fs.writeFileSync(record, '{"app": "theirs"}');
    assert.equal((await open(token)).app, 'theirs');
    fs.writeFileSync(record, '{"app": "long-gone"}');
    const { app } = await open(token);
    assert.match(app, /^mcp-computers-/);
    assert.deepEqual(JSON.parse(fs.readFileSync(record)), { app });
    const elsewhere = path.join(path.dirname(record), 'new/folder/state');
    assert.notEqual((await open({ ...token, KILNTAINERS_FLY_STATE_FILE: elsewhere })).app, app);
    assert.equal((await fake.state()).totals.apps, 2);
});

test('a record that is not understood, or cannot be kept, stops it, and nothing is left at Fly', async (t) => {
    const { fake, token, record, open } = await world(t);
    fs.mkdirSync(path.dirname(record));
    for (const text of ['', 'not ours', '{"app": "../v1/apps"}']) {
        fs.writeFileSync(record, text);
        const { code, error } = await open(token);
        assert.equal(code, 'invalid_argument');
        assert.ok(error.includes(record) && error.includes('--fly-app'));
        assert.equal(fs.readFileSync(record, 'utf8'), text);
    }
    fs.rmSync(record);
    fs.mkdirSync(`${record}.tmp`); // where it would be written
    assert.match((await open(token)).error, /can't be recorded.*fly\.json/);
    assert.deepEqual((await fake.state()).apps, []);
});

test('servers and threads that start at once make one app', async (t) => {
    const { fake, token, record, open } = await world(t, ['--latency', '20']);
    const all = (await Promise.all(Array.from({ length: 4 }, () => open(token, { callers: 3 })))).flat();
    assert.equal(new Set(all.map(({ app }) => app)).size, 1, JSON.stringify(all));
    assert.equal((await fake.state()).totals.apps, 1);
    assert.equal(JSON.parse(fs.readFileSync(record)).app, all[0].app);
    await fake.forgetRequests();
    await open(token, { callers: 8 });
    assert.equal((await asked(fake)).length, 1, 'threads share what one of them finds');
});

test('an app whose making was not answered is not made twice', async (t) => {
    for (const fault of [{ drop: true }, { status: 503 }, { status: 500, body: '<html>' }]) {
        const { fake, token, open } = await world(t);
        await fake.faults([{ match: '^POST /v1/apps$', handled: true, ...fault }]);
        const { app } = await open(token);
        assert.deepEqual((await fake.state()).apps.map(({ name }) => name), [app]);
    }
    const { fake, token, open } = await world(t);
    for (const match of ['graphql', '^GET /v1/apps/']) {
        for (const fault of [{ drop: true }, { cut: 5 }, { truncate: 5 }, { status: 502, body: 'busy' }, { status: 429 }, { delay: 300 }]) {
            await fake.faults([{ match, ...fault }]);
            const first = await open(token);
            const { app, error } = first.app ? first : await open(token);
            assert.ok(app, `${match} ${JSON.stringify(fault)}: ${error}`);
        }
    }
    assert.equal((await fake.state()).totals.apps, 1);
});

test('an app that Fly will not make', async (t) => {
    const { fake, token, open } = await world(t);
    await fake.faults([{ match: '^POST /v1/apps$', times: 0, status: 500 }]);
    assert.match((await open(token)).error, /can't make the app/);
    assert.deepEqual((await fake.state()).apps, []);
});

test('a name that others have is not insisted on', async (t) => {
    const { fake, token, open } = await world(t);
    const taken = { match: '^POST /v1/apps$', status: 422, body: { error: 'Name has already been taken', status: 'name_taken' } };
    await fake.faults([{ ...taken, times: 2 }]);
    assert.match((await open(token)).app, /^mcp-computers-/);
    await fake.faults([{ ...taken, times: 0 }]);
    const { error } = await open({ ...token, FLY_APP_NAME: 'everybodys' });
    assert.match(error, /everybodys.*already been taken/);
});

test('what Fly answers is not believed', async (t) => {
    const { fake, token, record, open } = await world(t);
    for (const body of [{}, { data: null }, { data: { organizations: { nodes: [] } } }, { data: { organizations: { nodes: [{ slug: 1 }, null, 'x'] } } }]) {
        await fake.faults([{ match: 'graphql', status: 200, body }]);
        assert.match((await open(token)).error, /no organisation.*FLY_ORG/);
    }
    for (const body of ['<html>', '[]'.repeat(40000)]) {
        await fake.faults([{ match: 'graphql', times: 0, status: 200, body }]);
        assert.equal((await open(token)).code, 'unavailable');
    }
    await fake.faults([{ match: 'graphql', status: 200, body: { data: { organizations: { nodes: [{ slug: 'company', type: 'SHARED' }] } } } }]);
    const { app } = await open(token);
    assert.equal((await fake.state()).apps.find(({ name }) => name === app).organization.slug, 'company', 'the first, if none is personal');
    assert.ok(fs.existsSync(record));
});

test('tokens: what was given wins, then the login, then what flyctl says', async (t) => {
    const { fake, home, bin, token, open, program, login } = await world(t, ['--app', 'app', '--deploy-token', 'fm2_b:app']);
    const named = { FLY_APP_NAME: 'app' };
    program(path.join(bin, 'fly'), `echo "$*" >>${home}/calls; echo deprecated >&2; echo fm2_b`);
    assert.equal((await open(named)).authorization, 'FlyV1 fm2_b');
    login('access_token: FlyV1 fm2_fake,fm2_more\n');
    assert.equal((await open(named)).authorization, 'FlyV1 fm2_fake,fm2_more');
    assert.equal((await open({ ...named, FLY_API_TOKEN: 'fm2_b' })).authorization, 'FlyV1 fm2_b');
    assert.equal(fs.readFileSync(path.join(home, 'calls'), 'utf8'), 'auth token\n');
    login('access_token: fm2_fake\n', path.join(home, 'other'));
    assert.equal((await open({ ...named, FLY_CONFIG_DIR: path.join(home, 'other') })).authorization, 'FlyV1 fm2_fake');
    login('access_token: fm2_old\n');
    assert.equal((await open(named)).authorization, 'FlyV1 fm2_b', 'one that is not taken any more is asked for again');
    assert.deepEqual(Object.values(await open({ ...named, FLY_API_TOKEN: 'one two' }))[0], 'invalid_argument');
    const refused = await open({ ...named, FLY_API_TOKEN: 'fm2_geheim' });
    assert.equal(refused.code, 'denied');
    assert.match(refused.error, /refuses the token .*FLY_API_TOKEN/);
    assert.doesNotMatch(refused.error, /geheim/);
    assert.ok(token.FLY_API_TOKEN && !(await asked(fake)).some((one) => /releases/.test(one)));
});

test('who is not logged in is told the command', async (t) => {
    const { fake, home, bin, open, program, login } = await world(t, ['--app', 'app']);
    const none = await open({ AUTO_INSTALL_FLYCTL: 'false' });
    assert.equal(none.code, 'denied');
    assert.match(none.error, /FLY_API_TOKEN.*install flyctl.*`fly auth login`.*AUTO_INSTALL_FLYCTL/);
    for (const [where, env] of [
        [path.join(home, 'own/bin/flyctl'), { FLYCTL_INSTALL: path.join(home, 'own') }],
        [path.join(home, '.fly/bin/flyctl'), {}],
        [path.join(bin, 'flyctl'), {}],
        [path.join(home, 'elsewhere/my-fly'), { FLY_CLI: path.join(home, 'elsewhere/my-fly') }],
    ]) {
        program(where, 'echo not logged in >&2; exit 1');
        const { code, error } = await open({ AUTO_INSTALL_FLYCTL: 'true', ...env });
        assert.equal(code, 'denied');
        assert.ok(error.includes(`run \`${where} auth login\`, or set FLY_API_TOKEN`), error);
    }
    assert.match((await open({ AUTO_INSTALL_FLYCTL: 'true', FLY_CLI: 'no-such-fly' })).error, /no-such-fly \(--fly-cli\)/);
    login('access_token: fm2_old\n');
    assert.match((await open({ FLY_APP_NAME: 'app' })).error, /doesn't take the login any more: run `.*\/flyctl auth login`/);
    assert.ok(!(await asked(fake)).some((one) => /releases/.test(one)), 'nothing was downloaded');
});

const onX86 = { skip: process.arch === 'x64' ? false : 'the fake has releases for x86_64' };
const AUTO = { AUTO_INSTALL_FLYCTL: 'true' };

test('flyctl is installed where a login is needed', onX86, async (t) => {
    const { fake, home, token, open } = await world(t, ['--tls', '--app', 'app']);
    const folder = path.join(home, '.fly/bin');
    assert.equal((await open({ ...token, ...AUTO, FLY_APP_NAME: 'app' })).app, 'app');
    assert.equal(fs.existsSync(folder), false, 'not where there is a token');
    const { code, error } = await open(AUTO);
    assert.equal(code, 'denied');
    assert.ok(error.includes(`run \`${folder}/fly auth login\``), error);
    assert.match(execFileSync(path.join(folder, 'flyctl'), { encoding: 'utf8' }), /^flyctl v/);
    assert.equal(fs.readlinkSync(path.join(folder, 'fly')), 'flyctl');
    assert.deepEqual(fs.readdirSync(folder).sort(), ['.flyctl.lock', 'fly', 'flyctl']);
    await fake.forgetRequests();
    await open(AUTO);
    assert.deepEqual(await asked(fake), [], 'once');
});

test('several servers at once install it once', onX86, async (t) => {
    const { fake, home, open } = await world(t, ['--latency', '20']);
    const told = (await Promise.all(Array.from({ length: 4 }, () => open({ ...AUTO, FLYCTL_INSTALL: path.join(home, 'own') }, { callers: 2 })))).flat();
    for (const { error } of told) assert.ok(error.includes(`run \`${home}/own/bin/fly auth login\``), error);
    assert.equal((await asked(fake)).filter((one) => /tar\.gz$/.test(one)).length, 1);
});

test('what is not what its checksum says is not installed', onX86, async (t) => {
    const { fake, home, open } = await world(t);
    const folder = path.join(home, '.fly/bin');
    fs.mkdirSync(folder, { recursive: true });
    fs.writeFileSync(path.join(folder, '.flyctl.new'), 'of a server that was killed');
    const wrong = `${'0'.repeat(64)}  flyctl_0.3.200_Linux_x86_64.tar.gz\n`;
    for (const [fault, words] of [
        [{ match: 'checksums', status: 200, body: wrong }, /not what its checksum says/],
        [{ match: 'checksums', status: 200, body: 'nothing' }, /no checksum of flyctl_/],
        [{ match: 'checksums', status: 404 }, /checksums\.txt: the answer is 404/],
        [{ match: 'checksums', status: 200, body: 'x'.repeat(300000) }, /longer than/],
        [{ match: ARCHIVE, truncate: 100 }, /./],
        [{ match: ARCHIVE, cut: 100 }, /./],
        [{ match: ARCHIVE, status: 200, body: 'not the archive' }, /not what its checksum says/],
        [{ match: ARCHIVE, status: 500 }, /the answer is 500/],
        [{ match: 'latest', status: 200, body: 'none' }, /no release for Linux\/x86_64/],
        [{ match: 'latest', status: 200, body: 'http://example.com/a.tar.gz' }, /http:\/\/ is for this machine/],
        [{ match: 'latest', status: 200, body: 'file:///etc/a.tar.gz' }, /https:/],
        [{ match: ARCHIVE, status: 302, headers: { location: 'http://example.com/' } }, /http:\/\/ is for this machine/],
        [{ match: ARCHIVE, status: 302 }, /the answer is 302/],
        [{ match: ARCHIVE, times: 0, status: 302, headers: { location: '/releases/again.tar.gz' } }, /redirects/],
    ]) {
        await fake.faults([fault]);
        const { code, error } = await open(AUTO);
        assert.equal(code, 'denied');
        assert.match(error, /FLY_API_TOKEN.*fly auth login.*can't be installed from here/);
        assert.match(error, words, JSON.stringify(fault));
        assert.equal(fs.existsSync(path.join(folder, 'flyctl')), false);
        assert.equal(fs.existsSync(path.join(folder, '.flyctl.tar.gz')), false);
    }
    await fake.faults([{ match: ARCHIVE, status: 307, headers: { location: '/other' } }]);
    assert.match((await open(AUTO)).error, /\/other: the answer is 401/);
    await fake.faults([]);
    assert.match((await open(AUTO)).error, /fly auth login`, or/);
    assert.deepEqual(fs.readdirSync(folder).sort(), ['.flyctl.lock', 'fly', 'flyctl']);
});

// Another place for releases, with what its archive holds.
async function releases(t, files) {
    const folder = temporaryFolder(t, 'release-');
    for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(folder, name), text, { mode: 0o755 });
    const archive = execFileSync('tar', ['-czf', '-', '-C', folder, ...Object.keys(files)]);
    const sum = createHash('sha256').update(archive).digest('hex');
    const server = http.createServer((request, reply) => {
        const own = `http://127.0.0.1:${server.address().port}`;
        if (/latest$/.test(request.url)) reply.end(`${own}/v1/flyctl.tar.gz\n`);
        else if (request.url === '/v1/flyctl.tar.gz') reply.writeHead(302, { location: `${own}/far/away?signed=a%20b` }).end();
        else if (request.url === '/far/away?signed=a%20b') reply.end(archive);
        else reply.end(`${sum}  flyctl.tar.gz\n`);
    });
    await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
    defer(t, () => server.close());
    return { FLY_API_BASE_URL: `http://127.0.0.1:${server.address().port}` };
}

test('an archive without the program, or with more than it', async (t) => {
    const { home, open } = await world(t);
    const without = await open({ ...AUTO, ...(await releases(t, { README: 'nothing here' })) });
    assert.match(without.error, /can't be installed.*tar can't unpack it/);
    const more = await open({ ...AUTO, ...(await releases(t, { README: 'more', flyctl: '#!/bin/sh\necho here\n' })) });
    assert.match(more.error, /fly auth login`, or/);
    assert.equal(execFileSync(path.join(home, '.fly/bin/flyctl'), { encoding: 'utf8' }), 'here\n');
    assert.deepEqual(fs.readdirSync(path.join(home, '.fly/bin')).sort(), ['.flyctl.lock', 'fly', 'flyctl']);
});

test('nobody waits for a slow download longer than they want, and the next one finds it done', onX86, async (t) => {
    const { fake, home, open } = await world(t);
    await fake.faults([{ match: ARCHIVE, stall: 10 }]);
    const impatient = await open(AUTO, { callers: 2, seconds: 0.5 });
    for (const { code } of impatient) assert.equal(code, 'timeout');
    assert.equal(fs.existsSync(path.join(home, '.fly/bin/flyctl')), false, 'what was under way has ended with the process');
    await fake.faults([{ match: ARCHIVE, trickle: 50, pause: 5 }]);
    assert.match((await open(AUTO)).error, /fly auth login`, or/);
    assert.ok(fs.existsSync(path.join(home, '.fly/bin/flyctl')));
});

test('the server takes the login, from when there is one', needsRooms, async (t) => {
    const { fake, home, env, record, login } = await world(t, ['--no-rate-limits']);
    const log = path.join(home, 'log');
    const server = await startServer(t, { args: ['--backend', 'fly', '--fly-rate', '1000', '--log-level', 'debug', '--log-file', log], env });
    const { isError, value } = await server.exec({ command: 'true' });
    assert.ok(isError);
    assert.equal(value.code, 'denied');
    assert.match(value.error, process.arch === 'x64' ? /run `\S+\/\.fly\/bin\/fly auth login`/ : /flyctl/);
    login('access_token: fm2_geheim,fm2_fake\n');
    assert.equal((await server.run('echo here')).stdout, 'here\n');
    assert.equal((await fake.state()).apps[0].name, JSON.parse(fs.readFileSync(record)).app);
    await server.stop();
    for (const text of [fs.readFileSync(log, 'utf8'), server.stderr, JSON.stringify(server.messages), fs.readFileSync(record, 'utf8')])
        assert.doesNotMatch(text, /geheim/);
});

test('what the server is told wrong is told at its start', (t) => {
    for (const [told, words] of [
        [{ FLY_API_TOKEN: 'geheim one' }, /FLY_API_TOKEN, is no token/],
        [{ FLY_APP_NAME: '../apps' }, /--fly-app \.\.\/apps is the name of no app/],
        [{ FLY_ORG: 'a/b' }, /FLY_ORG=a\/b is no organisation/],
        [{ FLY_FLAPS_BASE_URL: 'http://example.com' }, /FLY_FLAPS_BASE_URL.*https/],
        [{ FLY_API_BASE_URL: 'example.com' }, /FLY_API_BASE_URL.*https/],
    ]) {
        const env = { PATH: process.env.PATH, HOME: temporaryFolder(t, 'fly-home-'), ...told };
        const { status, stderr } = spawnSync(BINARY, ['--backend', 'fly'], { env, input: '', encoding: 'utf8' });
        assert.equal(status, 1);
        assert.match(stderr, words);
        assert.doesNotMatch(stderr, /geheim/);
    }
});
