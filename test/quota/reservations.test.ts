// Reservations: what is set aside counts against the disk until it is resolved, once.
import { describe, expect, it } from 'vitest';
import { Reservations } from '#bursar/quota/reservations.js';

const upload = (ingressBytes: number) => ({ ingressBytes, egressBytes: 0 });

describe('a reservation', () => {
  it('is refused when the store has no room for it beside the others', () => {
    const reservations = new Reservations(() => 100);
    const first = reservations.reserve(upload(60));
    expect(() => reservations.reserve(upload(41))).toThrow('no room');
    reservations.reserve(upload(40));
    expect(reservations.open).toBe(2);
    first.post();
    reservations.reserve(upload(60));
  });

  it('that was refused sets nothing aside', () => {
    const reservations = new Reservations(() => 100);
    expect(() => reservations.reserve(upload(101))).toThrow('no room');
    expect(reservations.open).toBe(0);
    reservations.reserve(upload(100));
  });

  it('without a body is never refused: a full store can still be read and emptied', () => {
    const reservations = new Reservations(() => 0);
    reservations.reserve({ ingressBytes: 0, egressBytes: 1000 });
    expect(() => reservations.reserve(upload(1))).toThrow('no room');
  });

  it('is resolved once: a void after it does nothing, a second post is a bug', () => {
    const reservations = new Reservations(() => 100);
    const posted = reservations.reserve(upload(60));
    posted.post();
    posted.void();
    expect(reservations.open).toBe(0);
    expect(() => posted.post()).toThrow('resolved twice');
    const voided = reservations.reserve(upload(100));
    voided.void();
    voided.void();
    expect(() => voided.post()).toThrow('resolved twice');
    expect(reservations.open).toBe(0);
    reservations.reserve(upload(100));
  });

  it('sees the store shrink', () => {
    let freeBytes = 100;
    const reservations = new Reservations(() => freeBytes);
    reservations.reserve(upload(50));
    freeBytes = 60;
    expect(() => reservations.reserve(upload(20))).toThrow('no room');
    reservations.reserve(upload(10));
  });
});
