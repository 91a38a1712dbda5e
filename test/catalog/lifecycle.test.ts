// What rules say is due, and from when on.
import { describe, expect, it } from 'vitest';
import {
  calendarDayMs,
  coveredPrefixes,
  Lifecycle,
  type LifecycleRule,
  type LifecycleVersion,
  versionOf as rowAsVersion,
} from '#bursar/catalog/lifecycle.js';
import { findDueRule } from '#bursar/catalog/lifecycle-due.js';
import { findDueMove } from '#bursar/catalog/lifecycle-moves.js';

const dayMs = calendarDayMs;
const at = (text: string): number => Date.parse(text);
const createdMs = at('2026-01-15T10:30:00Z');

function rulesOf(...rules: Partial<LifecycleRule>[]): Lifecycle {
  const whole = rules.map((rule, i) => ({ id: `r${i}`, isEnabled: true, filter: {}, ...rule }));
  return new Lifecycle({ rules: whole, transitionMinimum: 'varies_by_storage_class' });
}

function versionOf(given: Partial<LifecycleVersion> = {}): LifecycleVersion {
  return { key: 'a/b', sizeBytes: 100, createdMs, isMarker: false, tags: () => [], ...given };
}

const dueOf = (rules: Lifecycle, version: LifecycleVersion, day = dayMs) =>
  rules.expirationOf(version, day);

describe('when an object expires', () => {
  it('is the midnight at which it is as old as its rule says', () => {
    const rules = rulesOf({ expiration: { days: 3 } });
    const due = (created: string) => dueOf(rules, versionOf({ createdMs: at(created) }))?.dueMs;
    expect(due('2026-01-15T10:30:00Z')).toBe(at('2026-01-19T00:00:00Z'));
    expect(due('2026-01-15T23:59:59.999Z')).toBe(at('2026-01-19T00:00:00Z'));
    expect(due('2026-01-15T00:00:00Z')).toBe(at('2026-01-18T00:00:00Z'));
    expect(due('2026-01-15T00:00:00.001Z')).toBe(at('2026-01-19T00:00:00Z'));
  });

  it('is the end of a shorter day where days are shorter', () => {
    const rules = rulesOf({ expiration: { days: 2 } });
    expect(dueOf(rules, versionOf({ createdMs: 10_001 }), 2000)?.dueMs).toBe(16_000);
    expect(dueOf(rules, versionOf({ createdMs: 10_000 }), 2000)?.dueMs).toBe(14_000);
  });

  it('is a date, whenever it was made and however long a day is', () => {
    const dateMs = at('2020-01-01T00:00:00Z');
    const rules = rulesOf({ expiration: { dateMs } });
    expect(dueOf(rules, versionOf(), 2000)).toEqual({ ruleId: 'r0', dueMs: dateMs });
  });

  it('is the earliest of the rules that fit', () => {
    const rules = rulesOf(
      { expiration: { days: 9 } },
      { expiration: { days: 1 }, filter: { prefix: 'other/' } },
      { expiration: { days: 2 }, isEnabled: false },
      { expiration: { days: 4 } },
      { expiration: { loneMarkers: true } },
      { noncurrent: { days: 1 } },
    );
    expect(dueOf(rules, versionOf())).toEqual({ ruleId: 'r3', dueMs: at('2026-01-20T00:00:00Z') });
  });

  it('is never, where no rule fits', () => {
    expect(dueOf(rulesOf(), versionOf())).toBeNull();
    expect(dueOf(rulesOf({ noncurrent: { days: 1 } }), versionOf())).toBeNull();
  });
});

describe('a filter', () => {
  const fits = (filter: LifecycleRule['filter'], version: Partial<LifecycleVersion> = {}) =>
    dueOf(rulesOf({ expiration: { days: 1 }, filter }), versionOf(version)) !== null;

  it('demands its prefix', () => {
    expect(fits({ prefix: '' })).toBe(true);
    expect(fits({ prefix: 'a/' })).toBe(true);
    expect(fits({ prefix: 'a/b' })).toBe(true);
    expect(fits({ prefix: 'a/bc' })).toBe(false);
    expect(fits({ prefix: 'A/' })).toBe(false);
  });

  it('demands more, or fewer, bytes than it says', () => {
    expect(fits({ sizeAbove: 99 })).toBe(true);
    expect(fits({ sizeAbove: 100 })).toBe(false);
    expect(fits({ sizeBelow: 101 })).toBe(true);
    expect(fits({ sizeBelow: 100 })).toBe(false);
  });

  it('demands all of its tags, with their values', () => {
    const tags = () => [['kind', 'raw'] as const, ['run', '7'] as const];
    expect(fits({ tags: [['kind', 'raw']] }, { tags })).toBe(true);
    expect(fits({ tags: tags() }, { tags })).toBe(true);
    expect(fits({ tags: [['kind', 'Raw']] }, { tags })).toBe(false);
    expect(fits({ tags: [...tags(), ['x', '']] }, { tags })).toBe(false);
    expect(fits({ tags: [['kind', 'raw']] })).toBe(false);
  });

  it('demands all that it says', () => {
    const tags = () => [['kind', 'raw'] as const];
    const filter = { prefix: 'a/', sizeAbove: 10, sizeBelow: 1000, tags: tags() };
    expect(fits(filter, { tags })).toBe(true);
    expect(fits(filter, { tags, sizeBytes: 10 })).toBe(false);
    expect(fits(filter, { tags, key: 'b/b' })).toBe(false);
  });

  it('of tags or a size fits no delete marker', () => {
    const marker = versionOf({ isMarker: true, sizeBytes: 0 });
    const dueBy = (filter: LifecycleRule['filter']) =>
      rulesOf({ expiration: { days: 1 }, filter }).markerExpirationOf(marker, dayMs);
    expect(dueBy({ prefix: 'a/' })).not.toBeNull();
    expect(dueBy({ sizeBelow: 10 })).toBeNull();
    expect(dueBy({ sizeAbove: 0 })).toBeNull();
    expect(dueBy({ tags: [['a', 'b']] })).toBeNull();
  });
});

describe('a delete marker that is alone', () => {
  const marker = versionOf({ isMarker: true, sizeBytes: 0 });
  const due = (...expirations: LifecycleRule['expiration'][]) =>
    rulesOf(
      ...expirations.map((expiration) => (expiration ? { expiration } : {})),
    ).markerExpirationOf(marker, dayMs)?.dueMs;

  it('goes at once where a rule says so, else when it is as old as objects that expire', () => {
    expect(due({ loneMarkers: true })).toBe(createdMs);
    expect(due({ days: 2 }, { loneMarkers: true })).toBe(createdMs);
    expect(due({ days: 2 })).toBe(at('2026-01-18T00:00:00Z'));
    expect(due({ loneMarkers: false })).toBeUndefined();
    expect(due(undefined)).toBeUndefined();
  });
});

describe('a noncurrent version', () => {
  it('is due by the time at which it became noncurrent, by each rule that fits', () => {
    const rules = rulesOf(
      { noncurrent: { days: 1, newerVersions: 5 } },
      { noncurrent: { days: 30 } },
      { noncurrent: { days: 1 }, filter: { prefix: 'x' } },
      { expiration: { days: 1 } },
    );
    const supersededMs = at('2026-03-01T12:00:00Z');
    expect(rules.noncurrentExpirationsOf(versionOf(), supersededMs, dayMs)).toEqual([
      { ruleId: 'r0', dueMs: at('2026-03-03T00:00:00Z'), newerVersions: 5 },
      { ruleId: 'r1', dueMs: at('2026-04-01T00:00:00Z'), newerVersions: 0 },
    ]);
  });
});

describe('an upload', () => {
  it('is aborted by the earliest rule of its prefix', () => {
    const rules = rulesOf({ abortDays: 7 }, { abortDays: 2, filter: { prefix: 'a/' } });
    const due = (key: string) => rules.abortOf({ key, createdMs }, dayMs);
    expect(due('a/b')).toEqual({ ruleId: 'r1', dueMs: at('2026-01-18T00:00:00Z') });
    expect(due('b')).toEqual({ ruleId: 'r0', dueMs: at('2026-01-23T00:00:00Z') });
    expect(rulesOf({ expiration: { days: 1 } }).abortOf({ key: 'b', createdMs }, dayMs)).toBeNull();
  });
});

describe('a move into another class', () => {
  const large = { sizeBytes: 200_000 };
  const to = (name: string, days: number) => ({ class: name, days });
  const moved = (rules: Lifecycle, days: number, given: Partial<LifecycleVersion> = large) =>
    rules.transitionOf(versionOf(given), createdMs + (days + 1) * dayMs, dayMs)?.class;

  it('is the one that came due last, of several at once that of the last rule', () => {
    const rules = rulesOf(
      { transitions: [to('second', 60), to('first', 30)] },
      { transitions: [to('other', 30)] },
      { transitions: [to('never', 1)], isEnabled: false },
    );
    expect(moved(rules, 29)).toBeUndefined();
    expect(moved(rules, 30)).toBe('other');
    expect(moved(rules, 60)).toBe('second');
  });

  it('is of what is large enough, unless its rule says how large', () => {
    const small = { sizeBytes: 128 * 1024 - 1 };
    const whole = (more: object, transitionMinimum: 'all_storage_classes_128K' | undefined) => {
      const rule = { id: 'r', isEnabled: true, filter: {}, transitions: [], ...more };
      const minimum = transitionMinimum ?? 'varies_by_storage_class';
      return new Lifecycle({ rules: [rule], transitionMinimum: minimum });
    };
    const online = { transitions: [to('online', 0)] };
    const archive = { transitions: [{ ...to('archive', 0), isArchive: true as const }] };
    expect(moved(whole(online, undefined), 1, small)).toBeUndefined();
    expect(moved(whole(online, undefined), 1, { sizeBytes: 128 * 1024 })).toBe('online');
    expect(moved(whole(archive, undefined), 1, small)).toBe('archive');
    expect(moved(whole(archive, 'all_storage_classes_128K'), 1, small)).toBeUndefined();
    const sized = { ...online, filter: { sizeAbove: 10 } };
    expect(moved(whole(sized, undefined), 1, small)).toBe('online');
  });

  it('asks for newer versions of a noncurrent one no oftener than it may learn from', async () => {
    const many = Array.from({ length: 1000 }, (_, i) => ({
      noncurrentTransitions: [{ ...to('cold', 1), newerVersions: 1 + ((i * 37) % 100) }],
    }));
    const terms = {
      ...{ chains: new Map(), tierings: [] },
      ...{ bucket: { id: 1, versioning: 'Enabled' as const }, rules: rulesOf(...many) },
      ...{ timeMs: at('2027-01-01T00:00:00Z'), dayMs },
    };
    const row = {
      ...{ key: 'k', seq: 7, class: 'STANDARD', sizeBytes: 200_000, createdMs, isMarker: 0 },
      ...{ supersededMs: createdMs, attributes: JSON.stringify({ headers: {}, metadata: {} }) },
    };
    let asked = 0;
    const readerOf = (newer: number) => ({
      get: async <T>(_sql: string, ...given: unknown[]) => {
        asked++;
        return (newer > (given.at(-1) as number) ? {} : undefined) as T | undefined;
      },
      all: async () => [],
    });
    expect(await findDueMove(readerOf(0), terms, row)).toBeNull();
    expect(asked).toBeLessThanOrEqual(100);
    expect(await findDueMove(readerOf(1), terms, row)).toMatchObject({ class: 'cold' });
    expect(await findDueMove(readerOf(1), terms, { ...row, class: 'cold' })).toBeNull();
    expect(await findDueMove(readerOf(1), terms, { ...row, isMarker: 1 })).toBeNull();
  });
});

describe('the prefixes that are walked through', () => {
  const covered = (...prefixes: (string | undefined)[]) =>
    coveredPrefixes(
      prefixes.map((prefix, i) => ({
        ...{ id: `r${i}`, isEnabled: true },
        filter: prefix === undefined ? {} : { prefix },
      })),
    );

  it('are the fewest that have all keys of all rules', () => {
    expect(covered('logs/', 'logs/a', 'logs', 'tmp/', 'tmp/')).toEqual(['logs', 'tmp/']);
    expect(covered('a', 'b', undefined)).toEqual(['']);
    expect(covered('ab', 'a-', 'a0')).toEqual(['a-', 'a0', 'ab']);
    expect(covered()).toEqual([]);
  });
});

describe('a thousand rules', () => {
  it('take the attributes of a version apart once, however many ask for tags', () => {
    const tagged = (i: number) => ({ expiration: { days: 1 }, filter: { tags: [['a', `${i}`]] } });
    const rules = rulesOf(...(Array.from({ length: 1000 }, (_, i) => tagged(i)) as object[]));
    let reads = 0;
    const row = {
      ...{ key: 'k', sizeBytes: 1, createdMs, isMarker: 0 },
      get attributes() {
        reads += 1;
        return JSON.stringify({ headers: {}, metadata: {}, tags: [['a', '999']] });
      },
    };
    expect(dueOf(rules, rowAsVersion(row))?.ruleId).toBe('r999');
    expect(reads).toBe(1);
  });

  it('count the newer versions of a noncurrent one once, by the strictest rule', async () => {
    const many = Array.from({ length: 1000 }, (_, i) => ({
      noncurrent: { days: 1, newerVersions: i === 700 ? 3 : 50 },
    }));
    const terms = {
      ...{ bucket: { id: 1, versioning: 'Enabled' as const }, rules: rulesOf(...many) },
      ...{ timeMs: at('2027-01-01T00:00:00Z'), dayMs },
    };
    const row = {
      ...{
        key: 'k',
        seq: 7,
        class: 'STANDARD',
        sizeBytes: 1,
        createdMs,
        supersededMs: createdMs,
        isMarker: 0,
      },
      attributes: JSON.stringify({ headers: {}, metadata: {} }),
    };
    const asked: unknown[] = [];
    const readerOf = (newer: number) => ({
      get: async <T>(_sql: string, ...given: unknown[]) => {
        asked.push(given.at(-1));
        return (newer > (given.at(-1) as number) ? {} : undefined) as T | undefined;
      },
      all: async () => [],
    });
    expect(await findDueRule(readerOf(3), terms, row)).toBe('r700');
    expect(await findDueRule(readerOf(2), terms, row)).toBeNull();
    expect(asked).toEqual([2, 2]);
  });
});
