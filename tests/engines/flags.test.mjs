// Flags of docker run, seen from inside; limits; and what a network may reach.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import test from 'node:test';
import { defer, eventually, temporaryFolder } from '../integration/support/machine.mjs';
import { BINARY } from '../integration/support/server.mjs';
import { image, inspect, kind, record, refused, startServer } from './support/engine.mjs';

const flags = (...all) => all.map((flag) => `--docker-run-flag=${flag}`);

test('flags of docker run are seen inside', async (t) => {
    const folder = temporaryFolder(t, 'volume-');
    fs.chmodSync(folder, 0o755);
    fs.writeFileSync(path.join(folder, 'theirs'), 'from outside\n');
    fs.writeFileSync(path.join(folder, 'env'), 'FROM_FILE=1\n# a remark\n');
    const server = await startServer(t, {
        args: flags('-e', 'GREETING=hello there', `--env-file=${folder}/env`, `-v=${folder}:/mnt/volume`, `--mount=type=bind,src=${folder},dst=/mnt/ro,readonly`,
            '--user=1000:1000', '--workdir=/home/user', '--hostname=flagship', '--pids-limit=64', '--shm-size=2m', '--tmpfs=/scratch:size=1m,mode=1777',
            '--ulimit=nofile=123:456', '--ulimit=nproc=4096', '--label=team=red', '--sysctl=net.ipv4.ip_default_ttl=17', '--group-add=2000', '--memory=64m', '--cpus=0.5'),
    });
    const see = async (command) => (await server.run(command)).stdout.trim();
    assert.equal(await see('echo "$GREETING $FROM_FILE"'), 'hello there 1');
    assert.equal(await see('cat /mnt/volume/theirs /mnt/ro/theirs'), 'from outside\nfrom outside');
    assert.match((await server.run('echo x >/mnt/ro/x')).stderr, /Read-only/);
    assert.equal(await see('id -u; id -g; id -G; pwd; hostname'), '1000\n1000\n1000 2000\n/home/user\nflagship');
    assert.equal(await see('ulimit -n; ulimit -Hn'), '123\n456');
    assert.equal(await see('cat /proc/sys/net/ipv4/ip_default_ttl'), '17');
    assert.match(await see("grep ' /scratch ' /proc/mounts"), /size=1024k/);
    assert.match(await see("grep ' /dev/shm ' /proc/mounts"), /size=2048k/);
    const { computer_id: id } = await server.run('true');
    const { Config, HostConfig } = await inspect(id);
    assert.equal(Config.Labels.team, 'red');
    assert.deepEqual([HostConfig.PidsLimit, HostConfig.Memory, HostConfig.NanoCpus], [64, 64 << 20, 500_000_000]);
});

test('a flag that is not known refuses the start, and names the near miss', () => {
    const { status, stderr } = spawnSync(BINARY, ['--backend', kind, ...flags('--memroy=1g')], { input: '', encoding: 'utf8' });
    assert.equal(status, 1);
    assert.match(stderr, /--memroy.*--memory/s);
});

test('a read-only root: where our program is kept out, commands by the engine itself, which the record says', async (t) => {
    const server = await startServer(t, { args: flags('--read-only', '--tmpfs=/tmp') });
    const value = await server.run('echo out; echo err >&2; touch /file; exit 3', { computer_id: 'keeper', temporary: false });
    assert.equal(value.stdout, 'out\n');
    assert.match(value.stderr, /^err\n.*Read-only/);
    assert.equal(value.exit_code, 3);
    const { data } = record(server, 'keeper');
    assert.equal(data.commands, kind === 'docker' ? 'engine exec' : 'stream');
    if (kind === 'docker') assert.match(data.why, /read-?only/);
});

test('the same with an image that has a shell and little else; and with one that has none', async (t) => {
    const readOnly = { args: flags('--read-only') };
    const server = await startServer(t, { ...readOnly, from: image('notail') });
    assert.equal((await server.run('echo works')).stdout, 'works\n');
    const bare = await startServer(t, { ...readOnly, from: image('noshell') });
    if (kind === 'podman') { // puts our program into a read-only root
        assert.equal((await bare.exec({ args: ['true'] })).value.exit_code, 0);
        return;
    }
    const error = await refused(bare, { args: ['true'] });
    assert.equal(error.code, 'unavailable');
    assert.match(error.error, /needs \/bin\/sh/);
});

test('a network that is not there, and an entrypoint that does not run our program', async (t) => {
    const server = await startServer(t, { network: true, args: flags('--network=nowhere') });
    const error = await refused(server, { command: 'true' });
    assert.ok(['unavailable', 'invalid_argument'].includes(error.code), JSON.stringify(error));
    assert.match(error.error, /nowhere/);
    const other = await startServer(t, { args: flags('--entrypoint=/bin/true') });
    const { code, error: words } = await refused(other, { command: 'true' });
    assert.equal(code, 'unavailable');
    assert.match(words, /--entrypoint.*exec "\$@"/);
});

// A file of the computer's control group, of either version.
const limit = (...files) => `cat ${files.map((file) => `/sys/fs/cgroup/${file}`).join(' ')} 2>/dev/null`;

test('B43: limits are in force, or said not to be', async (t) => {
    const server = await startServer(t, { args: ['--memory', '64m', '--pids', '32'] });
    await server.run('true');
    const { tools } = (await server.request('tools/list')).result;
    const unenforced = /not enforced by this engine: ?([^)]*)/.exec(tools[0].description)?.[1] ?? '';
    const memory = await server.run(limit('memory.max', 'memory/memory.limit_in_bytes'));
    const pids = await server.run(limit('pids.max', 'pids/pids.max'));
    assert.ok(memory.stdout.trim() === String(64 << 20) || /memory/.test(unenforced), `${memory.stdout} ${unenforced}`);
    assert.ok(pids.stdout.trim() === '32' || /processes/.test(unenforced), `${pids.stdout} ${unenforced}`);
    // More processes than the limit: those that were refused say so, and the computer goes on.
    const flood = await server.run('i=0; while [ $i -lt 40 ]; do sleep 2 & i=$((i + 1)); done; wait', { timeout: 20 });
    assert.match(flood.stderr, /fork/);
    await eventually('it is usable once they have ended', async () => {
        const { isError, value } = await server.exec({ command: 'echo usable' });
        assert.ok(!isError || value.code === 'limit', JSON.stringify(value));
        return value.stdout === 'usable\n';
    });
});

test('B52: a list of allowed networks is refused, not ignored', () => {
    const { status, stderr } = spawnSync(BINARY, ['--backend', kind, '--allow-cidr', '10.0.0.0/8'], { input: '', encoding: 'utf8' });
    assert.equal(status, 1);
    assert.match(stderr, /--allow-cidr/);
});

test('B54: a folder of this machine, whoever owns it, from both sides', async (t) => {
    for (const uid of [0, 1234]) {
        const folder = temporaryFolder(t, 'workspace-');
        fs.chownSync(folder, uid, uid);
        fs.writeFileSync(path.join(folder, 'ours'), 'one\n');
        fs.chownSync(path.join(folder, 'ours'), uid, uid);
        const server = await startServer(t, { args: flags(`--volume=${folder}:/workspace`, `--user=${uid}:${uid}`, '--workdir=/workspace') });
        const value = await server.run('cat ours; echo two >>ours; echo new >theirs; mkdir folder');
        assert.equal(value.stdout, 'one\n');
        assert.equal(value.exit_code, 0, value.stderr);
        assert.equal(fs.readFileSync(path.join(folder, 'ours'), 'utf8'), 'one\ntwo\n');
        assert.equal(fs.statSync(path.join(folder, 'theirs')).uid, uid);
        fs.appendFileSync(path.join(folder, 'theirs'), 'more\n');
        assert.equal((await server.run('cat theirs; rm ours theirs; rmdir folder')).stdout, 'new\nmore\n');
        assert.deepEqual(fs.readdirSync(folder), []);
    }
});

// Answers on a port of all addresses of the engine's machine, one of which is that of a metadata service.
async function listenLikeCloud(t) {
    const metadata = '169.254.169.254';
    execFileSync('ip', ['address', 'add', `${metadata}/32`, 'dev', 'lo']);
    defer(t, () => execFileSync('ip', ['address', 'del', `${metadata}/32`, 'dev', 'lo']));
    const listener = net.createServer((socket) => socket.on('error', () => {}).end('reached\n')).listen(0, '0.0.0.0');
    defer(t, () => listener.close());
    await once(listener, 'listening');
    return { metadata, port: listener.address().port };
}

const connect = (address, port) => `timeout 3 nc ${address} ${port} </dev/null`;
const GATEWAY = "ip route | while read -r word via address rest; do [ $word = default ] && echo $address; done";

test('B53: with a network, metadata services and the engine are closed; the rest is open', async (t) => {
    const { metadata, port } = await listenLikeCloud(t);
    const server = await startServer(t, { network: true });
    await Promise.all(['one', 'two'].map((id) => server.run('true', { computer_id: id, temporary: false })));
    const gateway = (await server.run(GATEWAY, { computer_id: 'one' })).stdout.trim();
    assert.ok(net.isIPv4(gateway), gateway);
    assert.ok(!('firewall' in record(server, 'one').data), 'nothing is missing');
    for (const address of [metadata, gateway]) {
        const value = await server.run(connect(address, port), { computer_id: 'one' });
        assert.equal(value.stdout, '', address);
        assert.notEqual(value.exit_code, 0);
    }
    // The network as such works: between two computers.
    const address = (await server.run('hostname -i', { computer_id: 'two' })).stdout.trim();
    await server.run('nc -l -p 7000 -e echo neighbour >/dev/null 2>&1 &', { computer_id: 'two' });
    await eventually('the neighbour answers', async () => (
        (await server.run(connect(address, 7000), { computer_id: 'one' })).stdout === 'neighbour\n'));
    // Nor can it be opened from inside, nor is the engine's socket there.
    const caps = await server.run('grep CapEff /proc/self/status; ls /var/run/docker.sock /run/podman 2>/dev/null', { computer_id: 'one' });
    assert.match(caps.stdout, /^CapEff:\t[0-9a-f]{16}\n$/);
    assert.equal(BigInt(`0x${caps.stdout.trim().split('\t')[1]}`) & (1n << 12n), 0n, 'no NET_ADMIN');
});

test('B53: a network that is shared with the machine is open, which is reported', async (t) => {
    const { metadata, port } = await listenLikeCloud(t);
    const server = await startServer(t, { network: true, args: flags('--network=host') });
    const value = await server.run(connect(metadata, port), { computer_id: 'one', temporary: false });
    assert.equal(value.stdout, 'reached\n', 'so that the other test means something');
    assert.match(record(server, 'one').data.firewall, /namespace/);
});

test('B53: the same after a restart of the server, and for an image of another user', async (t) => {
    const { metadata, port } = await listenLikeCloud(t);
    const first = await startServer(t, { network: true });
    await first.run('true', { computer_id: 'keeper', temporary: false });
    await first.stop();
    const second = await startServer(t, { network: true, stateDir: first.stateDir });
    assert.equal((await second.run(connect(metadata, port), { computer_id: 'keeper' })).stdout, '');
    const other = await startServer(t, { network: true, from: image('user') });
    await other.run('true', { computer_id: 'user', temporary: false });
    assert.match(record(other, 'user').data.firewall, /not root/);
});

test('without a network there is none', async (t) => {
    const { metadata, port } = await listenLikeCloud(t);
    const server = await startServer(t);
    assert.equal((await server.run('ls /sys/class/net')).stdout.trim(), 'lo');
    assert.equal((await server.run(connect(metadata, port))).stdout, '');
});
