// How far requests are measured, in short periods, one after the other in one process.

/**
 * `all`: by the gateway's settings. `measured`: by stages and metrics alone. `none`: not at all.
 */
export const modes = ['all', 'measured', 'none'];
export const periodMs = 100;
/** Requests that came in before the change are over after this. */
export const settleMs = 20;

/** `ended`, `measured`: requests so far. */
export const state = { mode: 'all', ended: 0, measured: 0 };

export class Periods {
  #done = [];
  #measuredBefore = state.measured;
  #timer = setTimeout(() => this.#change());

  /**
   * @returns {{
   *   periods: {mode: string, ms: number, requests: number, cpuMs: number}[], measured: number
   * }} whole periods, in order, and requests that were measured, in all
   */
  end() {
    clearTimeout(this.#timer);
    state.mode = 'all';
    return { periods: this.#done, measured: state.measured - this.#measuredBefore };
  }

  #change() {
    const number = this.#done.length;
    // Who begins is another each time.
    const round = Math.floor(number / modes.length);
    state.mode = modes[(number + round) % modes.length];
    this.#timer = setTimeout(() => this.#measure(), settleMs);
  }

  #measure() {
    const before = readNow();
    this.#timer = setTimeout(() => {
      const now = readNow();
      this.#done.push({
        mode: state.mode,
        ms: now.ms - before.ms,
        requests: now.ended - before.ended,
        cpuMs: now.cpuMs - before.cpuMs,
      });
      this.#change();
    }, periodMs);
  }
}

/** CPU: of all threads. */
function readNow() {
  const { user, system } = process.cpuUsage();
  return { ms: performance.now(), ended: state.ended, cpuMs: (user + system) / 1000 };
}
