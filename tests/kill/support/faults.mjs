// The file through which processes under test tell where they are, and are held there: struct fault_file of src/base/fault.c.
import fs from 'node:fs';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { eventually } from '../../integration/support/machine.mjs';

const NAME_SIZE = 48, REACHED_MAX = 255;
const STATE_AT = NAME_SIZE, COUNT_AT = NAME_SIZE + 4, REACHED_AT = NAME_SIZE + 8;
const SIZE = REACHED_AT + REACHED_MAX * NAME_SIZE;
const AFTERMATH_MS = 2000;
const NONE = 0, ARMED = 1, HELD = 2;

const root = path.resolve(path.dirname(new URL(import.meta.url).pathname), '../../..');

// Every point that the source names, a container's or the others.
export function namedPoints({ ofEngine = false } = {}) {
    const where = ofEngine ? ['src/backends/engine'] : ['--exclude-dir=engine', 'src', 'guest'];
    const found = execFileSync('grep', ['-rhoP', 'FAULT_POINT\\("\\K[^"]+', ...where], { encoding: 'utf8', cwd: root });
    return [...new Set(found.trim().split('\n'))].sort();
}

export class Faults {
    constructor(file) {
        this.file = file;
        this.fd = fs.openSync(file, 'w+');
        fs.ftruncateSync(this.fd, SIZE);
    }

    close() {
        this.letGo();
        fs.closeSync(this.fd);
    }

    #state() {
        const word = Buffer.alloc(4);
        fs.readSync(this.fd, word, 0, 4, STATE_AT);
        return word.readInt32LE();
    }

    #set(state) {
        const word = Buffer.alloc(4);
        word.writeInt32LE(state);
        fs.writeSync(this.fd, word, 0, 4, STATE_AT);
    }

    // Holds the next one that comes to the point.
    arm(point) {
        const name = Buffer.alloc(NAME_SIZE);
        name.write(point);
        this.#set(NONE);
        fs.writeSync(this.fd, name, 0, NAME_SIZE, 0);
        this.#set(ARMED);
    }

    // Somebody is held: before the operation is over, or a little later. False: nobody came.
    async holds(operation) {
        let over = Infinity;
        operation.then(() => (over = Date.now()));
        await eventually('somebody comes to the point, or the operation ends',
            () => this.#state() === HELD || Date.now() > over + AFTERMATH_MS);
        return this.#state() === HELD;
    }

    letGo() {
        this.#set(NONE);
    }

    // What was reached, in order of the first time.
    reached() {
        const count = Buffer.alloc(4), names = Buffer.alloc(REACHED_MAX * NAME_SIZE);
        fs.readSync(this.fd, count, 0, 4, COUNT_AT);
        fs.readSync(this.fd, names, 0, names.length, REACHED_AT);
        const list = Array.from({ length: Math.min(count.readUInt32LE(), REACHED_MAX) }, (_, i) =>
            names.toString('latin1', i * NAME_SIZE, (i + 1) * NAME_SIZE).replace(/\0.*$/s, ''));
        return [...new Set(list.filter(Boolean))];
    }

    forget() {
        fs.writeSync(this.fd, Buffer.alloc(4 + REACHED_MAX * NAME_SIZE), 0, 4 + REACHED_MAX * NAME_SIZE, COUNT_AT);
    }
}
