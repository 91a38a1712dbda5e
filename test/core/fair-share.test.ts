// A shared room of bytes: never overfilled, and never one principal's alone.
import { describe, expect, it } from 'vitest';
import { FairShare } from '#bursar/core/fair-share.js';

describe('a shared room', () => {
  it('takes no more than it can hold', () => {
    const room = new FairShare(() => 100);
    expect(room.take('alice', 60)).toBe('taken');
    expect(room.take('bob', 41)).toBe('noRoom');
    expect(room.take('bob', 40)).toBe('taken');
    room.give('alice', 60);
    expect(room.take('carol', 60)).toBe('taken');
  });

  it('gives one principal at most half of what the others leave', () => {
    const room = new FairShare(() => 100);
    for (let i = 0; i < 5; i++) expect(room.take('mallory', 10)).toBe('taken');
    expect(room.take('mallory', 1)).toBe('tooMuch');
    for (let i = 0; i < 2; i++) expect(room.take('bob', 10)).toBe('taken');
    expect(room.take('bob', 10)).toBe('tooMuch');
    expect(room.take('bob', 5)).toBe('taken');
    room.give('mallory', 10);
    expect(room.take('mallory', 1)).toBe('tooMuch');
    room.give('mallory', 10);
    expect(room.take('mallory', 7)).toBe('taken');
  });

  it('gives all there is to a single claim', () => {
    const room = new FairShare(() => 100);
    expect(room.take('alice', 100)).toBe('taken');
    expect(room.take('alice', 1)).toBe('noRoom');
    room.give('alice', 100);
    expect(room.take('alice', 100)).toBe('taken');
  });

  it('sees its capacity change', () => {
    let capacityBytes = 100;
    const room = new FairShare(() => capacityBytes);
    expect(room.take('alice', 50)).toBe('taken');
    capacityBytes = 60;
    expect(room.take('bob', 20)).toBe('noRoom');
    expect(room.take('bob', 10)).toBe('taken');
  });

  it('grants nothing to anybody, also when it is full', () => {
    const room = new FairShare(() => 0);
    expect(room.take('alice', 0)).toBe('taken');
    room.give('alice', 0);
    expect(room.take('alice', 1)).toBe('noRoom');
  });

  it('takes nothing back that nobody had', () => {
    const room = new FairShare(() => 100);
    room.take('alice', 10);
    expect(() => room.give('alice', 11)).toThrow('more was given back');
    expect(() => room.give('bob', 1)).toThrow('more was given back');
  });
});
