// The same calls by another engine: node's own WASI, which shares no code with the server's.
import fs from 'node:fs';
import path from 'node:path';
import { WASI } from 'node:wasi';

export class Oracle {
    constructor(module, name) {
        this.module = module;
        this.name = name;
    }

    static async of(file) {
        return new Oracle(await WebAssembly.compile(fs.readFileSync(file)), path.basename(file, '.wasm'));
    }

    // One run with `folder` as its `/`: { stdout, stderr, code, trap }.
    run(folder, args, { stdin = Buffer.alloc(0), env = {} } = {}) {
        const scratch = fs.mkdtempSync(`${folder}-streams-`);
        const place = (name) => path.join(scratch, name);
        fs.writeFileSync(place('in'), stdin);
        const streams = [fs.openSync(place('in'), 'r'), fs.openSync(place('out'), 'w'), fs.openSync(place('err'), 'w')];
        try {
            const wasi = new WASI({ version: 'preview1', args: [this.name, ...args], returnOnExit: true, preopens: { '/': folder },
                env: { PATH: '/bin', HOME: '/', TMPDIR: '/tmp', PWD: '/', ...env }, stdin: streams[0], stdout: streams[1], stderr: streams[2] });
            let code = 1, trap = null;
            try {
                code = wasi.start(new WebAssembly.Instance(this.module, wasi.getImportObject()));
            } catch (error) {
                if (!(error instanceof WebAssembly.RuntimeError)) throw error;
                trap = error.message;
            }
            return { stdout: fs.readFileSync(place('out'), 'utf8'), stderr: fs.readFileSync(place('err'), 'utf8'), code, trap };
        } finally {
            streams.forEach((fd) => fs.closeSync(fd));
            fs.rmSync(scratch, { recursive: true });
        }
    }
}
