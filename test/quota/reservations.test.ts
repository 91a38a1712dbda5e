// Reservations: what is set aside counts against the disk until it is resolved, once.
import { describe, expect, it } from 'vitest';
import { Reservations } from '#bursar/quota/reservations.js';

const upload = (ingressBytes: number) => ({ ingressBytes, egressBytes: 0 });

describe('a reservation', () => {
  it('is refused when the store has no room for it beside the others', () => {
    const reservations = new Reservations(() => 100);
    const first = reservations.reserve('cms/alice', upload(60));
    expect(() => reservations.reserve('cms/bob', upload(41))).toThrow('no room');
    reservations.reserve('cms/bob', upload(40));
    expect(reservations.open).toBe(2);
    first.post();
    reservations.reserve('atlas/carol', upload(60));
  });

  it('that was refused sets nothing aside', () => {
    const reservations = new Reservations(() => 100);
    expect(() => reservations.reserve('cms/alice', upload(101))).toThrow('no room');
    expect(reservations.open).toBe(0);
    reservations.reserve('cms/alice', upload(100));
  });

  it('without a body is never refused: a full store can still be read and emptied', () => {
    const reservations = new Reservations(() => 0);
    reservations.reserve('cms/alice', { ingressBytes: 0, egressBytes: 1000 });
    expect(() => reservations.reserve('cms/alice', upload(1))).toThrow('no room');
  });

  it('is resolved once: a void after it does nothing, a second post is a bug', () => {
    const reservations = new Reservations(() => 100);
    const posted = reservations.reserve('cms/alice', upload(60));
    posted.post();
    posted.void();
    expect(reservations.open).toBe(0);
    expect(() => posted.post()).toThrow('resolved twice');
    const voided = reservations.reserve('cms/alice', upload(100));
    voided.void();
    voided.void();
    expect(() => voided.post()).toThrow('resolved twice');
    expect(reservations.open).toBe(0);
    reservations.reserve('cms/alice', upload(100));
  });

  it('sees the store shrink', () => {
    let freeBytes = 100;
    const reservations = new Reservations(() => freeBytes);
    reservations.reserve('cms/alice', upload(50));
    freeBytes = 60;
    expect(() => reservations.reserve('cms/bob', upload(20))).toThrow('no room');
    reservations.reserve('cms/bob', upload(10));
  });

  it('is refused to a principal who holds half of what the others leave, and to nobody else', () => {
    const GiB = 2 ** 30;
    const reservations = new Reservations(() => 100 * GiB);
    const reserve = (who: string) => reservations.reserve(who, upload(5 * GiB));
    const stalled = Array.from({ length: 10 }, () => reserve('evil/mallory'));
    expect(() => reserve('evil/mallory')).toThrow(
      expect.objectContaining({ code: 'SlowDown', status: 503 }),
    );
    for (let i = 0; i < 5; i++) reserve('cms/alice');
    expect(() => reserve('cms/alice')).toThrow(expect.objectContaining({ code: 'SlowDown' }));
    reserve('atlas/bob');
    // What nobody may store at once is not refused as too much at once.
    expect(() => reservations.reserve('atlas/carol', upload(80 * GiB))).toThrow('no room');
    for (const one of stalled) one.void();
    reserve('evil/mallory').post();
  });
});
