// Lifecycle documents at random: they are taken or refused, what is taken comes back the same, and
// what is not enabled, or fits nothing, never has anything due.
import { describe, expect, it } from 'vitest';
import {
  calendarDayMs,
  coveredPrefixes,
  Lifecycle,
  type LifecycleRule,
  type LifecycleVersion,
} from '#bursar/catalog/lifecycle.js';
import { Refusal } from '#bursar/core/errors.js';
import { parseXml, renderXml } from '#bursar/gateway/http/xml.js';
import { lifecycleElements, parseLifecycle } from '#bursar/gateway/s3/buckets/lifecycle-xml.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;

const prefixes = ['', 'a', 'a/', 'a/b', 'ab', 'b', 'é', '\u{1f600}', 'a&lt;'];
const numbers = ['1', '2', '100', '101', '0', '-1', '1.5', '', 'x', '99999999999', ' 3 '];
const dates = ['2030-01-01', '2015-01-01T00:00:00Z', '2030-01-01T01:00:00Z', '20300101', 'never'];
const mostly = (random: Random, one: string, other: string) => (random() < 0.9 ? one : other);

function element(name: string, inner: string): string {
  return `<${name}>${inner}</${name}>`;
}

/** Mostly a number that fits. */
function numberOf(random: Random): string {
  return random() < 0.9 ? randomOf(random, numbers.slice(0, 3)) : randomOf(random, numbers);
}

function conditionOf(random: Random): string {
  switch (randomBelow(random, 4)) {
    case 0:
      return element('Prefix', randomOf(random, prefixes));
    case 1: {
      const name = randomOf(random, ['k', 'l', 'm']);
      return element('Tag', element('Key', name) + element('Value', randomOf(random, ['', 'v'])));
    }
    case 2:
      return element('ObjectSizeGreaterThan', numberOf(random));
    default:
      return element('ObjectSizeLessThan', numberOf(random));
  }
}

function filterOf(random: Random): string {
  if (random() < 0.2) return element('Prefix', randomOf(random, prefixes));
  const conditions = Array.from({ length: randomBelow(random, 4) }, () => conditionOf(random));
  const inner = conditions.join('');
  return element('Filter', conditions.length > 1 ? element('And', inner) : inner);
}

function actionOf(random: Random): string {
  switch (randomBelow(random, 7)) {
    case 0:
      return element('Expiration', element('Days', numberOf(random)));
    case 1:
      return element('Expiration', element('Date', randomOf(random, dates)));
    case 2: {
      const is = mostly(random, 'true', 'TRUE');
      return element('Expiration', element('ExpiredObjectDeleteMarker', is));
    }
    case 3: {
      const newer = element('NewerNoncurrentVersions', numberOf(random));
      const noncurrent = element('NoncurrentDays', numberOf(random));
      return element(
        'NoncurrentVersionExpiration',
        random() < 0.5 ? noncurrent : noncurrent + newer,
      );
    }
    case 4: {
      const when = random() < 0.7 ? ['Days', numberOf(random)] : ['Date', randomOf(random, dates)];
      const inner = element(when[0] as string, when[1] as string);
      return element('Transition', inner + classOf(random));
    }
    case 5: {
      const inner = element('NoncurrentDays', numberOf(random)) + classOf(random);
      return element('NoncurrentVersionTransition', inner);
    }
    default:
      return element(
        'AbortIncompleteMultipartUpload',
        element('DaysAfterInitiation', numberOf(random)),
      );
  }
}

function classOf(random: Random): string {
  return element('StorageClass', mostly(random, randomOf(random, ['derived', 'GLACIER']), ''));
}

const targetOf = (name: string) =>
  name === 'GLACIER' ? { class: 'cold', isArchive: true as const } : { class: name };
const shown = (name: string) => (name === 'cold' ? 'GLACIER' : name);

function documentOf(random: Random): string {
  const rules = Array.from({ length: 1 + randomBelow(random, 3) }, () => {
    const status = randomOf(random, ['Enabled', 'Enabled', 'Disabled']);
    const id = random() < 0.5 ? element('ID', randomOf(random, ['r', 's', 't', 'u'])) : '';
    const inner = id + filterOf(random) + element('Status', status) + actionOf(random);
    return element('Rule', inner);
  });
  return element('LifecycleConfiguration', rules.join(''));
}

/** With a piece of it gone, doubled or another. */
function damage(random: Random, text: string): string {
  const from = randomBelow(random, text.length);
  const to = Math.min(text.length, from + 1 + randomBelow(random, 20));
  const other = randomOf(random, ['', text.slice(from, to).repeat(2), '<', '&x;', '<Rule/>', '\0']);
  return text.slice(0, from) + other + text.slice(to);
}

/** The rules, or undefined where it was refused; nothing else is thrown. */
function attempt(text: string): LifecycleRule[] | undefined {
  try {
    return parseLifecycle(parseXml(Buffer.from(text), 'LifecycleConfiguration'), targetOf);
  } catch (error) {
    if (error instanceof Refusal && error.status < 500) return undefined;
    if (error instanceof Refusal && error.code === 'NotImplemented') return undefined;
    throw error;
  }
}

function versionOf(random: Random): LifecycleVersion {
  const tags = ['k', 'l'].filter(() => random() < 0.5).map((name) => [name, 'v'] as const);
  return {
    key: randomOf(random, prefixes) + randomOf(random, ['', 'x', 'b']),
    sizeBytes: randomBelow(random, 200),
    createdMs: randomBelow(random, 10 * calendarDayMs),
    isMarker: random() < 0.2,
    tags: () => tags,
  };
}

describe('lifecycle documents, fuzzed', () => {
  it('are taken or refused, and come back as they went in', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    const seen = { taken: 0, refused: 0 };
    await fuzz(710_000, 3000, (random) => {
      const text = documentOf(random);
      const rules = attempt(random() < 0.5 ? text : damage(random, text));
      if (!rules) {
        seen.refused++;
        return;
      }
      seen.taken++;
      const written = renderXml('LifecycleConfiguration', lifecycleElements(rules, shown));
      expect(attempt(written)).toEqual(rules);
      expect(JSON.parse(JSON.stringify(rules))).toEqual(rules);
    });
    expect(seen.taken).toBeGreaterThan(300);
    expect(seen.refused).toBeGreaterThan(500);
  });

  it('have nothing due outside of the prefixes that are walked, nor before a day has passed', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    let dues = 0;
    await fuzz(720_000, 3000, (random) => {
      const rules = attempt(documentOf(random));
      if (!rules) return;
      const lifecycle = new Lifecycle({ rules, transitionMinimum: 'varies_by_storage_class' });
      const version = versionOf(random);
      const isWalked = (of: readonly LifecycleRule[]) =>
        coveredPrefixes(of).some((prefix) => version.key.startsWith(prefix));
      const due = lifecycle.expirationOf(version, calendarDayMs);
      if (due) {
        dues++;
        const rule = rules.find(({ id }) => id === due.ruleId);
        expect(rule?.isEnabled).toBe(true);
        expect(isWalked(lifecycle.expiring)).toBe(true);
        expect(due.dueMs % calendarDayMs).toBe(0);
        if (rule?.expiration && 'days' in rule.expiration) {
          const agedMs = due.dueMs - version.createdMs - rule.expiration.days * calendarDayMs;
          expect(agedMs).toBeGreaterThanOrEqual(0);
          expect(agedMs).toBeLessThan(calendarDayMs);
        }
      }
      const at = version.createdMs;
      const timeMs = at + 9 * calendarDayMs;
      const move = lifecycle.transitionOf(version, timeMs, calendarDayMs);
      if (move) {
        expect(isWalked(lifecycle.moving)).toBe(true);
        expect(move.dueMs).toBeLessThanOrEqual(timeMs);
      }
      for (const one of lifecycle.noncurrentExpirationsOf(version, at, calendarDayMs)) {
        expect(isWalked(lifecycle.noncurrent)).toBe(true);
        expect(one.dueMs).toBeGreaterThanOrEqual(at + calendarDayMs);
      }
    });
    expect(dues).toBeGreaterThan(100);
  });
});
