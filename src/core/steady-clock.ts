// The time that records, windows of limits and deadlines go by. Invariant: it follows the system's
// clock as long as that goes like the monotonic one, and does not follow a step of more than
// `stepMsMax`, forwards or backwards, until the clock is back or an operator confirms the step:
// what was once dated in the future cannot be dated anew. It never stops: meanwhile it goes on by
// the monotonic clock.
import { uptime } from 'node:os';
import { monotonicMs, stepMsMax } from './clock.ts';

/** How old what is known of the time since the system's start may be. */
const bootKnownMs = 1000;

export interface ClockSources {
  /** The system's clock: milliseconds since the Unix epoch. */
  wallMs(): number;
  /** This clock may stand still while the machine is suspended. */
  monotonicMs(): number;
  /** Goes on while the machine is suspended; null where there is no such clock. */
  bootMs(): number | null;
}

/**
 * Linux counts time in suspension; elsewhere the system's start is told by the very clock in doubt.
 */
const systemSources: ClockSources = {
  wallMs: () => Date.now(),
  monotonicMs,
  bootMs: () => (process.platform === 'linux' ? uptime() * 1000 : null),
};

export class SteadyClock {
  readonly #sources: ClockSources;
  /** Two clocks at the last reading that was believed. */
  #wallMs: number;
  #monotonicMs: number;
  /** The same of that which counts suspensions, looked at now and then. */
  #boot: { wallMs: number; bootMs: number; knownMs: number } | null = null;
  #stepMs = 0;

  constructor(sources: ClockSources = systemSources) {
    this.#sources = sources;
    this.#wallMs = sources.wallMs();
    this.#monotonicMs = sources.monotonicMs();
    this.#believe(this.#wallMs, this.#monotonicMs);
  }

  /** How far the system's clock has stepped from this one; 0: not beyond the bound. */
  get stepMs(): number {
    this.nowMs();
    return this.#stepMs;
  }

  /** Milliseconds since the Unix epoch. */
  nowMs(): number {
    const { wallMs, monotonicMs: readMonotonic } = this.#sources;
    const wall = wallMs();
    const monotonic = readMonotonic();
    const expected = this.#wallMs + (monotonic - this.#monotonicMs);
    if (Math.abs(wall - expected) <= stepMsMax || this.#wasSuspended(wall)) {
      this.#believe(wall, monotonic);
      return wall;
    }
    this.#stepMs = Math.round(wall - expected);
    return Math.floor(expected);
  }

  /** From now on the system's clock is right. Gives how far it had stepped. */
  confirm(): number {
    const { stepMs } = this;
    this.#believe(this.#sources.wallMs(), this.#sources.monotonicMs(), true);
    return stepMs;
  }

  #wasSuspended(wallMs: number): boolean {
    const bootMs = this.#sources.bootMs();
    if (bootMs === null || this.#boot === null) return false;
    return Math.abs(wallMs - (this.#boot.wallMs + bootMs - this.#boot.bootMs)) <= stepMsMax;
  }

  #believe(wallMs: number, monotonicNow: number, isConfirmed = false): void {
    this.#wallMs = wallMs;
    this.#monotonicMs = monotonicNow;
    this.#stepMs = 0;
    if (!isConfirmed && this.#boot && monotonicNow - this.#boot.knownMs < bootKnownMs) return;
    const bootMs = this.#sources.bootMs();
    this.#boot = bootMs === null ? null : { wallMs, bootMs, knownMs: monotonicNow };
  }
}

/** That of this thread. */
export const steadyClock = new SteadyClock();
