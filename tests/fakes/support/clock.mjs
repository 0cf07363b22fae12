// A provider's time: it runs `scale` times as fast as ours (0: it stands still) and can be moved on, so that an hour's lifetime
// passes in a test.
export class Clock {
    #origin = Date.now();
    #ahead = 0;
    #alarms = new Set();

    constructor(scale = 1) {
        this.scale = scale;
    }

    // Milliseconds since 1970, of the provider.
    now() {
        return this.#origin + (Date.now() - this.#origin) * this.scale + this.#ahead;
    }

    // Calls ring() once `time` has come. Returns what takes the alarm back.
    at(time, ring) {
        const alarm = { time, ring };
        this.#alarms.add(alarm);
        this.#arm(alarm);
        return () => {
            clearTimeout(alarm.timer);
            this.#alarms.delete(alarm);
        };
    }

    advance(milliseconds) {
        this.#ahead += milliseconds;
        for (const alarm of [...this.#alarms].sort((a, b) => a.time - b.time)) this.#arm(alarm);
    }

    #arm(alarm) {
        clearTimeout(alarm.timer);
        const left = Math.max(0, (alarm.time - this.now()) / this.scale);
        if (left === 0 && alarm.time <= this.now()) {
            this.#alarms.delete(alarm);
            setImmediate(alarm.ring);
            return;
        }
        alarm.timer = setTimeout(() => this.#arm(alarm), Math.min(left, 2 ** 31 - 1));
        alarm.timer.unref();
    }
}
