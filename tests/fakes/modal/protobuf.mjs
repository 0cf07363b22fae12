// Protocol buffers as far as the fake of Modal needs them: messages described by a line of text, "name=number type", where the type is
// a scalar, "map" (of strings) or another message; "*" after it: repeated. What isn't described is skipped.
const VARINTS = new Set(['bool', 'int32', 'int64', 'uint32', 'uint64', 'enum']);
const WIRE = { double: 1, float: 5 };
const EMPTY = {
    bool: false,
    int32: 0,
    int64: 0,
    uint32: 0,
    uint64: 0,
    enum: 0,
    double: 0,
    float: 0,
    string: '',
    bytes: Buffer.alloc(0),
};

function varint(value) {
    const bytes = [];
    let left = BigInt.asUintN(64, BigInt(value));
    do {
        const low = Number(left & 127n);
        left >>= 7n;
        bytes.push(left ? low | 128 : low);
    } while (left);
    return Buffer.from(bytes);
}

export class Messages {
    #types = {};

    // descriptions: {Name: "field=1 string, other=2 Name*"}
    constructor(descriptions) {
        for (const [name, text] of Object.entries(descriptions)) {
            this.#types[name] = text
                .split(',')
                .map((one) => one.trim())
                .filter(Boolean)
                .map((one) => {
                    const [, field, number, type, repeated] = /^(\w+)=(\d+) (\w+)(\*?)$/.exec(one);
                    return { field, number: Number(number), type, repeated: Boolean(repeated) };
                });
        }
        for (const fields of Object.values(this.#types)) {
            for (const { type } of fields)
                if (!(type in EMPTY) && type !== 'map' && !this.#types[type]) throw new Error(`no message ${type}`);
        }
    }

    encode(name, value) {
        const out = [];
        for (const { field, number, type, repeated } of this.#types[name]) {
            const given = value?.[field];
            if (given === undefined || given === null) continue;
            if (type === 'map')
                for (const [key, text] of Object.entries(given)) out.push(this.#field(number, 'bytes', this.#pair(key, text)));
            else for (const one of repeated ? given : [given]) out.push(this.#field(number, type, one));
        }
        return Buffer.concat(out);
    }

    #pair(key, text) {
        return Buffer.concat([this.#field(1, 'string', key), this.#field(2, 'string', text)]);
    }

    #field(number, type, value) {
        if (VARINTS.has(type))
            return Buffer.concat([varint(number * 8), varint(typeof value === 'boolean' ? Number(value) : Math.trunc(value))]);
        if (WIRE[type]) {
            const bytes = Buffer.alloc(type === 'double' ? 8 : 4);
            if (type === 'double') bytes.writeDoubleLE(value);
            else bytes.writeFloatLE(value);
            return Buffer.concat([varint(number * 8 + WIRE[type]), bytes]);
        }
        const bytes = type in EMPTY ? Buffer.from(value) : this.encode(type, value);
        return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
    }

    // What isn't there: the type's empty value for scalars, [] and {} for repeated ones and maps, nothing for messages. `has` names
    // what was there.
    decode(name, bytes) {
        const fields = this.#types[name];
        const value = {};
        const has = new Set();
        for (const { field, type, repeated } of fields) {
            if (repeated) value[field] = [];
            else if (type === 'map') value[field] = {};
            else if (type in EMPTY) value[field] = EMPTY[type];
        }
        for (const { number, wire, raw } of this.#parts(bytes)) {
            const known = fields.find((one) => one.number === number);
            if (!known) continue;
            has.add(known.field);
            for (const one of this.#values(known, wire, raw)) {
                if (known.type === 'map') value[known.field][one.key] = one.text;
                else if (known.repeated) value[known.field].push(one);
                else value[known.field] = one;
            }
        }
        Object.defineProperty(value, 'has', { value: has });
        return value;
    }

    #values({ type, repeated }, wire, raw) {
        if (type === 'map') {
            const pair = { key: '', text: '' };
            for (const { number, raw: text } of this.#parts(raw)) pair[number === 1 ? 'key' : 'text'] = text.toString();
            return [pair];
        }
        if (VARINTS.has(type)) {
            if (wire === 2 && repeated) throw new Error('packed numbers are not described here');
            return [type === 'bool' ? raw !== 0n : Number(BigInt.asIntN(type.startsWith('u') ? 65 : 64, raw))];
        }
        if (type === 'double') return [raw.readDoubleLE()];
        if (type === 'float') return [raw.readFloatLE()];
        if (type === 'string') return [raw.toString()];
        return [type === 'bytes' ? raw : this.decode(type, raw)];
    }

    *#parts(bytes) {
        let at = 0;
        const number = () => {
            let value = 0n;
            for (let shift = 0n; ; shift += 7n) {
                if (at >= bytes.length || shift > 63n) throw new Error('a message ends too early');
                const byte = bytes[at++];
                value |= BigInt(byte & 127) << shift;
                if (byte < 128) return value;
            }
        };
        while (at < bytes.length) {
            const tag = Number(number());
            const wire = tag & 7;
            let raw;
            if (wire === 0) {
                raw = number();
            } else {
                const length = wire === 1 ? 8 : wire === 5 ? 4 : wire === 2 ? Number(number()) : NaN;
                if (!(at + length <= bytes.length)) throw new Error('a message ends too early');
                raw = bytes.subarray(at, (at += length));
            }
            yield { number: tag >> 3, wire, raw };
        }
    }
}
