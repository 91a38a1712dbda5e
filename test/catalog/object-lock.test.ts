// What retention and legal holds forbid, from each state and for each who asks.
import { describe, expect, it } from 'vitest';
import {
  type Lock,
  mayAmend,
  mayEnd,
  type Retention,
  withDefaultRetention,
} from '#bursar/catalog/object-lock.js';

const nowMs = Date.UTC(2026, 0, 31, 12);
const hourMs = 3_600_000;
const until = (mode: Retention['mode'], hours: number): Retention => ({
  mode,
  untilMs: nowMs + hours * hourMs,
});
const plain = { timeMs: nowMs, bypassGovernance: false };
const bypass = { timeMs: nowMs, bypassGovernance: true };

describe('a version', () => {
  it.each<[string, Lock, boolean, boolean]>([
    ['without a lock', {}, true, true],
    ['under compliance', { retention: until('COMPLIANCE', 1) }, false, false],
    ['under governance', { retention: until('GOVERNANCE', 1) }, false, true],
    ['whose compliance is over', { retention: until('COMPLIANCE', -1) }, true, true],
    ['whose compliance ends now', { retention: until('COMPLIANCE', 0) }, true, true],
    ['under a legal hold', { legalHold: true }, false, false],
    ['whose legal hold was ended', { legalHold: false }, true, true],
    [
      'under a legal hold and governance',
      { legalHold: true, retention: until('GOVERNANCE', 1) },
      false,
      false,
    ],
  ])('%s ends for who may: %o', (_title, lock, plainly, bypassing) => {
    expect(mayEnd(lock, plain)).toBe(plainly);
    expect(mayEnd(lock, bypass)).toBe(bypassing);
  });
});

describe('a retention', () => {
  const changes: [string, Retention | null][] = [
    ['longer governance', until('GOVERNANCE', 3)],
    ['the same governance', until('GOVERNANCE', 2)],
    ['shorter governance', until('GOVERNANCE', 1)],
    ['longer compliance', until('COMPLIANCE', 3)],
    ['the same compliance', until('COMPLIANCE', 2)],
    ['shorter compliance', until('COMPLIANCE', 1)],
    ['none', null],
  ];
  const allowed = (from: Lock, moment: typeof plain) =>
    changes.filter(([, to]) => mayAmend(from, to, moment)).map(([name]) => name);
  const all = changes.map(([name]) => name);

  it('of compliance only gets longer, whoever asks', () => {
    const from = { retention: until('COMPLIANCE', 2) };
    const longer = ['longer compliance', 'the same compliance'];
    expect(allowed(from, plain)).toEqual(longer);
    expect(allowed(from, bypass)).toEqual(longer);
  });

  it('of governance only gets longer, but for who bypasses it', () => {
    const from = { retention: until('GOVERNANCE', 2) };
    expect(allowed(from, plain)).toEqual(['longer governance', 'the same governance']);
    expect(allowed(from, bypass)).toEqual(all);
  });

  it('that is over, or was never there, becomes any', () => {
    expect(allowed({ retention: until('COMPLIANCE', -2) }, plain)).toEqual(all);
    expect(allowed({}, plain)).toEqual(all);
  });
});

describe('the default retention of a bucket', () => {
  const made = (config: object | null, attributes: object = { headers: {} }) =>
    JSON.parse(
      withDefaultRetention(JSON.stringify(attributes), config && JSON.stringify(config), nowMs),
    );
  const day = { default: { mode: 'GOVERNANCE', days: 30 } };

  it('runs for whole days from the moment at which a version is made', () => {
    const untilMs = Date.UTC(2026, 2, 2, 12);
    expect(made(day)).toEqual({ headers: {}, retention: { mode: 'GOVERNANCE', untilMs } });
  });

  it('runs for years of the calendar', () => {
    const untilMs = Date.UTC(2126, 0, 31, 12);
    expect(made({ default: { mode: 'COMPLIANCE', years: 100 } }).retention).toEqual({
      ...{ mode: 'COMPLIANCE', untilMs },
    });
  });

  it('leaves a retention that a version has of its own, and a legal hold', () => {
    const own = { retention: until('GOVERNANCE', 1), legalHold: true };
    expect(made(day, own)).toEqual(own);
    expect(made(day, { legalHold: true })).toMatchObject({ legalHold: true, retention: {} });
  });

  it('is none where the bucket has none, or no lock', () => {
    expect(made({})).toEqual({ headers: {} });
    expect(made(null)).toEqual({ headers: {} });
  });
});
