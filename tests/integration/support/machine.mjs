// Looking at the machine from outside: who is whose child, what still runs, waiting for something to become true.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export const isRoot = process.getuid() === 0;
export const needsRoot = { skip: isRoot ? false : 'these are about computers as root of the machine has them' };

// Waits until probe() gives something true, and returns it. The bound is a guard against hanging, not a measurement.
export async function eventually(what, probe, seconds = 60) {
    for (const end = Date.now() + seconds * 1000; Date.now() < end; await sleep(20)) {
        const value = await probe();
        if (value) return value;
    }
    throw new Error(`still not so after ${seconds} s: ${what}`);
}

function stat(pid) {
    try {
        const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
        const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
        return { pid: Number(pid), state: fields[0], parent: Number(fields[1]), start: fields[19] };
    } catch {
        return null;
    }
}

function everyone() {
    return fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(stat).filter(Boolean);
}

// A file of /proc/PID; '' once the process is gone.
export function procFile(pid, name) {
    try {
        return fs.readFileSync(`/proc/${pid}/${name}`, 'utf8');
    } catch {
        return '';
    }
}

// All that descends from a process, the process itself included.
export function family(pid) {
    const all = everyone();
    const found = all.filter((p) => p.pid === pid);
    for (let i = 0; i < found.length; i++) {
        found.push(...all.filter((p) => p.parent === found[i].pid));
    }
    return found;
}

export function survivors(processes) {
    return processes.filter((p) => {
        const now = stat(p.pid); // once: it may be gone the next time
        return now?.start === p.start && now.state !== 'Z';
    });
}

export async function allGone(processes, what = 'the processes are gone') {
    await eventually(what, () => survivors(processes).length === 0);
}

const deferred = new WeakMap();

// Runs at the test's end, whatever came of it; what was deferred last runs first.
export function defer(t, cleanUp) {
    if (!deferred.has(t)) {
        deferred.set(t, []);
        t.after(async () => {
            const failures = [];
            for (const one of deferred.get(t).reverse()) {
                await Promise.resolve().then(one).catch((error) => failures.push(error));
            }
            if (failures.length) throw failures[0];
        });
    }
    deferred.get(t).push(cleanUp);
}

// A figure of /proc/PID/status, in KiB.
export function memoryKiB(pid, field) {
    return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
}

// A folder that is gone at the test's end.
export function temporaryFolder(t, prefix) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), prefix));
    defer(t, () => fs.rmSync(folder, { recursive: true, force: true }));
    return folder;
}

// The folders of computers that a state directory has, permanent and temporary, ended ones' records left out.
export function computersIn(stateDir) {
    const top = path.join(stateDir, 'computers');
    const principals = fs.existsSync(top) ? fs.readdirSync(top) : [];
    return principals.flatMap((principal) => fs.readdirSync(path.join(top, principal), { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map((entry) => entry.name)).sort();
}

function ownerIsDead(record) {
    return record.temporary && !fs.existsSync(`/proc/${record.owner.pid}`);
}

// Until a server that runs has removed what dead ones have left. It doesn't wait for that when it ends, and so its folder might be
// gone before, and control groups be there for good.
export async function untilReaped(stateDir) {
    const records = () => fs.globSync(path.join(stateDir, 'computers/*/{*,.*}/record.json')).flatMap((file) => {
        try {
            return [JSON.parse(fs.readFileSync(file))];
        } catch {
            return []; // it was being removed
        }
    });
    await eventually('what dead servers have left is removed', () => !records().some(ownerIsDead));
}

// Those with an id: a server that runs may have made a folder for the next one ahead, and be removing another.
export function namedComputersIn(stateDir) {
    return computersIn(stateDir).filter((name) => !name.startsWith('.'));
}
