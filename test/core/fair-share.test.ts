// A shared room of bytes: never overfilled, and never one tenant's or principal's alone.
import { describe, expect, it } from 'vitest';
import { type Claim, FairShare } from '#bursar/core/fair-share.js';

interface Held {
  claim: Claim;
  take(bytes: number, isHere?: boolean): string;
}

/** A claim that gives back what it is asked for. */
function open(room: FairShare, who: string): Held {
  const held: Held = {
    claim: room.open(who.split('/')[0] as string, who, {
      get spareBytes() {
        return held.claim.bytes;
      },
      reclaim: (bytes) => held.claim.give(bytes),
    }),
    take: (bytes, isHere) => held.claim.take(bytes, isHere),
  };
  return held;
}

describe('a room whose claims can be taken back', () => {
  it('takes no more than it can hold, and is as large as it is now', () => {
    let capacityBytes = 100;
    const room = new FairShare(() => capacityBytes);
    expect(open(room, 'cms/alice').take(60)).toBe('taken');
    capacityBytes = 70;
    expect(open(room, 'atlas/bob').take(60)).toBe('noRoom');
    expect(open(room, 'atlas/bob').take(10)).toBe('taken');
    expect(room.heldBytes).toBe(70);
  });

  it('gives all there is to who is alone', () => {
    const room = new FairShare(() => 100);
    const alice = open(room, 'cms/alice');
    expect(alice.take(100)).toBe('taken');
    expect(open(room, 'cms/alice').take(1)).toBe('tooMuch');
    alice.claim.close();
    alice.claim.close();
    expect(room.heldBytes).toBe(0);
    expect(open(room, 'cms/alice').take(100)).toBe('taken');
    expect(alice.take(1)).toBe('noRoom');
  });

  it('has an equal part for each tenant, however many principals another has', () => {
    const room = new FairShare(() => 100);
    const evil = Array.from({ length: 50 }, (_, i) => open(room, `evil/mallory${i}`));
    for (const one of evil) expect(one.take(2)).toBe('taken');
    const bob = open(room, 'atlas/bob');
    expect(bob.take(50)).toBe('taken');
    expect(room.heldBytes).toBe(100);
    expect(open(room, 'atlas/carol').take(1)).toBe('taken');
    expect(bob.claim.bytes).toBe(49);
    expect(open(room, 'evil/mallory').take(1)).toBe('taken');
    expect(evil.reduce((sum, { claim }) => sum + claim.bytes, 0)).toBe(49);
    // Where all have the same nobody gives way.
    expect(open(room, 'atlas/bob').take(2)).not.toBe('taken');
    expect(open(room, 'third/dora').take(33)).toBe('taken');
    expect(open(room, 'third/dora').take(2)).not.toBe('taken');
  });

  it('takes nothing back where that would not be enough', () => {
    const room = new FairShare(() => 100);
    const alice = open(room, 'cms/alice');
    alice.take(100);
    expect(open(room, 'atlas/bob').take(51)).toBe('noRoom');
    expect(alice.claim.bytes).toBe(100);
  });

  it('has room for what is here at the cost of what the same principal only waits for', () => {
    const room = new FairShare(() => 100);
    const waiting = open(room, 'cms/alice');
    waiting.take(100);
    const here = open(room, 'cms/alice');
    expect(here.take(10)).toBe('tooMuch');
    expect(here.take(10, true)).toBe('taken');
    expect(waiting.claim.bytes).toBe(90);
  });

  it('grants nothing to anybody, and takes nothing back that nobody had', () => {
    const room = new FairShare(() => 0);
    const { claim } = open(room, 'cms/alice');
    expect(claim.take(0)).toBe('taken');
    expect(claim.take(1)).toBe('noRoom');
    expect(() => claim.give(1)).toThrow('more was given back');
  });

  it('keeps its sums whatever happens', () => {
    const room = new FairShare(() => 1000);
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return Math.floor((seed / 2147483648) * below);
    };
    const all: Held[] = [];
    for (let i = 0; i < 1000; i++) {
      const chosen = all[random(all.length + 5)] ?? open(room, `t${random(4)}/p${random(6)}`);
      if (!all.includes(chosen)) all.push(chosen);
      if (random(3) > 0) chosen.take(random(200), random(2) === 0);
      else if (random(2) === 0) chosen.claim.give(random(chosen.claim.bytes + 1));
      else chosen.claim.close();
      const sum = all.reduce((bytes, { claim }) => bytes + claim.bytes, 0);
      expect(room.heldBytes).toBe(sum);
      expect(sum).toBeLessThanOrEqual(1000);
    }
    for (const { claim } of all) claim.close();
    expect(room.heldBytes).toBe(0);
  });
});

describe('a room whose claims are firm', () => {
  const take = (room: FairShare, who: string, bytes: number): string =>
    room.open(who.split('/')[0] as string, who, null).take(bytes);

  it('gives a principal at most half of what others leave, beyond one claim', () => {
    const room = new FairShare(() => 100);
    for (let i = 0; i < 5; i++) expect(take(room, 'evil/mallory', 10)).toBe('taken');
    expect(take(room, 'evil/mallory', 1)).toBe('tooMuch');
    expect(take(room, 'evil/eve', 25)).toBe('taken');
    expect(take(new FairShare(() => 100), 'cms/alice', 100)).toBe('taken');
  });

  it('gives a tenant at most three quarters of what others leave', () => {
    const room = new FairShare(() => 100);
    const taken = Array.from({ length: 20 }, (_, i) => take(room, `evil/mallory${i}`, 5));
    expect(taken.filter((outcome) => outcome === 'taken')).toHaveLength(15);
    expect(taken.at(-1)).toBe('tooMuch');
    expect(take(room, 'atlas/bob', 25)).toBe('taken');
    expect(take(room, 'atlas/bob', 1)).toBe('noRoom');
  });
});
