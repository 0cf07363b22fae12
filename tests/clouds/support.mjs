// What the suites of the providers' official clients share.
import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';

// The fakes' rooms are namespaces of root's.
const tried = spawnSync('unshare', ['--mount', '--pid', '--fork', 'true']);
export const needsRooms = { skip: process.getuid() === 0 && tried.status === 0 ? false : 'no room for a fake can be made here' };

// What a promise is rejected with.
export async function failure(promise) {
    try {
        await promise;
    } catch (error) {
        return error;
    }
    throw new Error('it went well, where it should have failed');
}

// What a module prints that runs with a fake's certificate as one that is trusted from the start.
export async function printedOverTls(fake, module) {
    const { stdout } = await promisify(execFile)(process.execPath, ['--no-deprecation', '--input-type=module', '-e', module], {
        cwd: import.meta.dirname,
        timeout: 60000,
        env: {
            ...process.env,
            ...fake.environment(),
            NODE_EXTRA_CA_CERTS: fake.ready.ca,
            GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: fake.ready.ca,
        },
    });
    return stdout;
}
