// What goes wrong, and when. A table of faults is set as a whole; each fault counts the requests that it matches, from then on.
//
//   match      which requests: a regular expression over "METHOD /path"; all, if left out
//   at, times  from the at-th of them (1 is the first) for `times` of them (1 unless told; 0: for ever)
//   handled    whether the provider does its work although the answer is lost or replaced; false unless told
//
// and what happens, one or several of:
//
//   delay      milliseconds before the answer begins
//   status     the answer is this instead, with `headers` and `body` (text, or a value that goes as JSON) or its bytes in `base64`
//   grpc       the answer is this gRPC status instead, with `message`, and the bytes in `details` (base64)
//   drop       the connection (of HTTP/2: the stream) is closed without an answer
//   hangup     the whole connection is, with all that goes on over it; at once, or where `cut` says
//   cut        after so many bytes of the body the connection (of HTTP/2: the stream) is reset
//   truncate   after so many bytes the body ends as if it were whole
//   bare       its trailers are left out
//   stall      after so many bytes nothing more ever comes
//   open       all of the body comes, and never its end
//   trickle    the body comes in pieces of so many bytes, `pause` milliseconds apart (10 unless told)
//   goaway     HTTP/2: GOAWAY before the answer; HTTP/1.1: "Connection: close"
const KEYS = new Set([
    'match',
    'at',
    'times',
    'handled',
    'delay',
    'status',
    'headers',
    'body',
    'base64',
    'grpc',
    'message',
    'details',
    'drop',
    'hangup',
    'cut',
    'truncate',
    'bare',
    'stall',
    'open',
    'trickle',
    'pause',
    'goaway',
]);

export class Faults {
    #table = [];

    set(table) {
        if (!Array.isArray(table)) throw new Error('faults are an array');
        for (const fault of table) {
            for (const key of Object.keys(fault)) if (!KEYS.has(key)) throw new Error(`no fault has a "${key}"`);
        }
        this.#table = table.map((fault) => ({
            at: 1,
            times: 1,
            ...fault,
            seen: 0,
            hit: 0,
            matches: new RegExp(fault.match ?? ''),
        }));
    }

    // The faults and how often each has struck.
    list() {
        return this.#table.map(({ matches, ...fault }) => fault);
    }

    // What befalls this request, or undefined. Every fault counts it, the first that is due strikes.
    strike(method, path) {
        let due;
        for (const fault of this.#table.filter((one) => one.matches.test(`${method} ${path}`))) {
            const nth = ++fault.seen;
            if (!due && nth >= fault.at && (fault.times === 0 || nth < fault.at + fault.times)) due = fault;
        }
        if (due) due.hit++;
        return due;
    }
}
