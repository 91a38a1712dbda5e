// The nonces of proofs that were used. Invariant: while a proof is young enough to be taken, its
// nonce is remembered; memory is bounded, and when it is full new proofs are refused rather than
// old nonces forgotten. One owner can fill only a part of it, so nobody can lock out the others.

import { Refusal } from '../../core/errors.ts';
import { getOrMake } from '../../core/maps.ts';
import { noncesMax, noncesPerOwnerMax, proofWindowMs } from './bounds.ts';
import { proofRefusal } from './faults.ts';

export interface NonceStoreOptions {
  /** How far from now a proof's time may be, as `verifyProof` has it. */
  windowMs?: number;
  countMax?: number;
  /** How many nonces one owner may have. */
  ownerCountMax?: number;
  /** Since when nonces are remembered; undefined: since ever. */
  sinceMs?: number;
}

export interface UsedNonce {
  /** The owner of the proof: the chain's subject. */
  owner: string;
  /** The thumbprint of the key that signed it. Keys choose their nonces on their own. */
  key: string;
  nonce: string;
  createdMs: number;
}

/** Nonces of proofs that were created in one stretch of time, one window long. */
type Stretch = Map<string, Set<string>>;

export class NonceStore {
  readonly #windowMs: number;
  readonly #countMax: number;
  readonly #ownerCountMax: number;
  readonly #sinceMs: number;
  readonly #stretches = new Map<number, Stretch>();
  #count = 0;

  constructor(options: NonceStoreOptions = {}) {
    this.#windowMs = options.windowMs ?? proofWindowMs;
    this.#countMax = options.countMax ?? noncesMax;
    this.#ownerCountMax = options.ownerCountMax ?? noncesPerOwnerMax;
    // Proofs tell their time in whole seconds.
    this.#sinceMs = Math.floor((options.sinceMs ?? 0) / 1000) * 1000;
  }

  /** How many nonces are remembered. */
  get count(): number {
    return this.#count;
  }

  /**
   * Uses a nonce up. Throws Refusal InvalidProof (`Replayed`) when it was used before, or is too
   * old to tell; SlowDown when there is no room, or it is older than what is remembered.
   */
  use({ owner, key, nonce, createdMs }: UsedNonce, nowMs: number): void {
    this.#forget(nowMs);
    if (Math.abs(nowMs - createdMs) > this.#windowMs) {
      throw proofRefusal('Time', 'is too old or in the future');
    }
    if (createdMs < this.#sinceMs) {
      const message = 'The gateway has just started and cannot tell whether the proof was used.';
      throw new Refusal('SlowDown', { message });
    }
    const number = Math.floor(createdMs / this.#windowMs);
    const name = `${key} ${nonce}`;
    if (this.#stretches.get(number)?.get(owner)?.has(name)) {
      throw proofRefusal('Replayed', 'was used before: each request needs one of its own');
    }
    if (this.#count >= this.#countMax || this.#countOf(owner) >= this.#ownerCountMax) {
      throw new Refusal('SlowDown');
    }
    this.#add(number, owner, name);
  }

  /** Forgets nonces that are older than the window, in which alone proofs are accepted. */
  #forget(nowMs: number): void {
    const oldest = Math.floor((nowMs - this.#windowMs) / this.#windowMs);
    for (const [number, owners] of this.#stretches) {
      if (number >= oldest) continue;
      for (const names of owners.values()) this.#count -= names.size;
      this.#stretches.delete(number);
    }
  }

  #countOf(owner: string): number {
    let count = 0;
    for (const owners of this.#stretches.values()) count += owners.get(owner)?.size ?? 0;
    return count;
  }

  #add(number: number, owner: string, name: string): void {
    const owners = getOrMake(this.#stretches, number, () => new Map());
    const names = getOrMake(owners, owner, () => new Set());
    names.add(name);
    this.#count++;
  }
}
