// Writes into several stores at once: the same sealed buffers go to as many of them as a write is
// acknowledged by, the first in order that take them; a store that fails is replaced by the next.
// Invariants: an extent counts as written only when so many stores have it durable, one of them
// such that it can be read at once, if there is one among the legs, or the write fails; and what is
// not known to be durable in a store is not said to be there.
import { Refusal } from '../core/errors.ts';
import type { ExtentRun } from '../core/manifest.ts';
import type { Digests, ObjectDescription, ObjectSink, WrittenObject } from './object-sink.ts';
import type { LegStore } from './stores/store.ts';
import type { StoreMeter } from './stores/store-meter.ts';
import type { StoreTally } from './stores/store-tally.ts';

/** What a sink needs of where it writes to. */
export type WriteTarget = Pick<
  LegStore,
  'number' | 'meter' | 'archive' | 'extentBytesMax' | 'put' | 'discard'
>;

export interface MirrorOptions {
  /** In order; at least two. */
  legs: readonly WriteTarget[];
  /** How many have an extent before it counts as written. */
  ack: number;
  /** Counts what is asked of each. */
  tallyOf: (store: number) => StoreTally | undefined;
}

/** Several stores as one, as far as a sink knows. */
export class Mirror implements WriteTarget {
  readonly #options: MirrorOptions;
  /** By extent, hex: the stores that may have something of it, and those that have all. */
  readonly #tried = new Map<string, Set<WriteTarget>>();
  readonly #placed = new Map<string, number[]>();

  constructor(options: MirrorOptions) {
    this.#options = options;
  }

  get number(): number {
    return this.#first.number;
  }

  get meter(): StoreMeter {
    return this.#first.meter;
  }

  /** Throws Refusal ServiceUnavailable when too few are up, so that no body is asked for. */
  get extentBytesMax(): number {
    const { legs, ack } = this.#options;
    const up: WriteTarget[] = [];
    let least = Number.POSITIVE_INFINITY;
    let failure: unknown;
    for (const leg of legs) {
      try {
        least = Math.min(least, leg.extentBytesMax);
        up.push(leg);
      } catch (error) {
        failure = error;
      }
    }
    if (up.length < ack || !this.#canBeRead(up)) throw failure;
    return least;
  }

  async put(id: Buffer, pieces: readonly Buffer[]): Promise<void> {
    const { ack } = this.#options;
    const name = id.toString('hex');
    // With one copy it is one that can be read at once.
    const online = this.#online;
    const asked = ack === 1 && online.length > 0 ? online : this.#options.legs;
    const waiting = asked.values();
    const places: number[] = [];
    const tried = new Set<WriteTarget>();
    this.#tried.set(name, tried);
    // The buffers are given back when this settles: so all have settled by then.
    const settled = await Promise.allSettled(
      Array.from({ length: ack }, () => this.#putOnce({ id, pieces, waiting, places, tried })),
    );
    const failed = settled.find(({ status }) => status === 'rejected');
    if (failed) throw (failed as PromiseRejectedResult).reason;
    const has = this.#options.legs.filter(({ number }) => places.includes(number));
    if (!this.#canBeRead(has)) throw tooFew();
    const order = this.#options.legs.map(({ number }) => number);
    this.#placed.set(
      name,
      places.sort((a, b) => order.indexOf(a) - order.indexOf(b)),
    );
  }

  async discard(ids: readonly Buffer[]): Promise<void> {
    const { legs, tallyOf } = this.#options;
    await Promise.all(
      legs.map((leg) => {
        const own = ids.filter((id) => this.#tried.get(id.toString('hex'))?.has(leg));
        return own.length > 0 ? leg.discard(own, tallyOf(leg.number)) : null;
      }),
    );
  }

  /** The stores that have an extent, in order. */
  placesOf(id: Buffer): number[] {
    const places = this.#placed.get(id.toString('hex'));
    if (!places) throw new Error(`extent ${id.toString('hex')} was not written`);
    return places;
  }

  /** Puts into the next leg that takes it. Throws what the last one said. */
  async #putOnce(put: {
    id: Buffer;
    pieces: readonly Buffer[];
    waiting: Iterator<WriteTarget>;
    places: number[];
    tried: Set<WriteTarget>;
  }): Promise<void> {
    const { id, pieces, waiting, places, tried } = put;
    let failure: unknown = tooFew();
    for (let next = waiting.next(); !next.done; next = waiting.next()) {
      const leg = next.value;
      tried.add(leg);
      try {
        await leg.put(id, pieces, this.#options.tallyOf(leg.number));
        places.push(leg.number);
        return;
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        failure = error;
      }
    }
    throw failure;
  }

  #canBeRead(legs: readonly WriteTarget[]): boolean {
    const online = this.#online;
    return online.length === 0 || legs.some((leg) => online.includes(leg));
  }

  /**
   * Those that are read at once; of an archive alone nothing could be read for hours. A store that
   * is away may turn out to be one when it is back.
   */
  get #online(): WriteTarget[] {
    return this.#options.legs.filter(({ archive }) => !archive);
  }

  get #first(): WriteTarget {
    return this.#options.legs[0] as WriteTarget;
  }
}

function tooFew(): Refusal {
  const message = 'Too few of the stores of this class are available.';
  return new Refusal('ServiceUnavailable', { message });
}

/** A sink whose target is a mirror: what was written says where each extent is. */
export class MirroredSink implements ObjectSink {
  readonly #sink: ObjectSink;
  readonly #mirror: Mirror;

  constructor(sink: ObjectSink, mirror: Mirror) {
    this.#sink = sink;
    this.#mirror = mirror;
  }

  write(bytes: Buffer): Promise<void> | null {
    return this.#sink.write(bytes);
  }

  digest(): Promise<Digests> | Digests {
    return this.#sink.digest();
  }

  async seal(digests: Digests, description: ObjectDescription | null): Promise<WrittenObject> {
    const written = await this.#sink.seal(digests, description);
    const places = written.runs.map(({ id }) => this.#mirror.placesOf(id));
    const runs = written.runs.map(
      (run, i): ExtentRun => ({ ...run, store: (places[i] as number[])[0] as number }),
    );
    return { ...written, runs, places };
  }

  abort(): Promise<void> {
    return this.#sink.abort();
  }
}
