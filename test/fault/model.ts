// What a gateway must hold, as its clients know it. Invariant: a name's settled value is what the
// last acknowledged operation made; an operation that was sent and not answered leaves a doubt:
// afterwards the old value or the new one is right, and nothing else.
import type { Digest } from './s3-client.ts';

/** Null: there is no such object. */
export type Value = Digest | null;

export interface OpenUpload {
  bucket: string;
  key: string;
  /** Sizes of the acknowledged parts, bytes, by number. */
  parts: Map<number, number>;
}

export class Model {
  readonly settled = new Map<string, Value>();
  /** The value that an unanswered operation may have made. */
  readonly doubts = new Map<string, Value>();
  readonly uploads = new Map<string, OpenUpload>();
  acknowledged = 0;

  /** Value of a name that is in no doubt. */
  valueOf(name: string): Value {
    return this.settled.get(name) ?? null;
  }

  /** Runs one operation that makes `values`, acknowledged when `act` resolves. */
  async change(values: [name: string, value: Value][], act: () => Promise<void>): Promise<void> {
    for (const [name, value] of values) this.doubts.set(name, value);
    await act();
    for (const [name, value] of values) {
      this.doubts.delete(name);
      this.settled.set(name, value);
    }
    this.acknowledged++;
  }

  /** Whether `found` may be what is there; settles the doubt, if it was one. */
  accept(name: string, found: Value): boolean {
    const doubt = this.doubts.get(name);
    const isNew = doubt !== undefined && sameValue(doubt, found);
    const isRight = isNew || sameValue(this.valueOf(name), found);
    this.doubts.delete(name);
    // After a violation the model follows the gateway, so that one loss is told once.
    this.settled.set(name, found);
    return isRight;
  }

  names(): string[] {
    return [...new Set([...this.settled.keys(), ...this.doubts.keys()])];
  }
}

export function sameValue(a: Value, b: Value): boolean {
  if (a === null || b === null) return a === b;
  return a.sizeBytes === b.sizeBytes && a.sha256 === b.sha256;
}

export function describeValue(value: Value): string {
  return value ? `${value.sizeBytes} bytes ${value.sha256.slice(0, 12)}` : 'nothing';
}
