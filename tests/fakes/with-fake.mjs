// Runs a program beside a fake of a provider, with the environment that the provider's official client needs to find it:
//
//   node tests/fakes/with-fake.mjs e2b [the fake's options] -- PROGRAM [ARGUMENT...]
//
// FAKE_ADMIN in it is where the fake is driven, see support/serve.mjs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { RunningFake } from './support/start.mjs';

const [name, ...rest] = process.argv.slice(2);
const end = rest.indexOf('--');
if (!name || end < 0 || end === rest.length - 1) {
    process.stderr.write('usage: node tests/fakes/with-fake.mjs FAKE [OPTION...] -- PROGRAM [ARGUMENT...]\n');
    process.exit(2);
}
const fake = await RunningFake.start(name, rest.slice(0, end));
const program = spawn(rest[end + 1], rest.slice(end + 2), { stdio: 'inherit', env: { ...process.env, ...fake.environment() } });
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => program.kill(signal));
const [code, signal] = await once(program, 'exit');
await fake.stop();
process.exit(signal ? 1 : code);
