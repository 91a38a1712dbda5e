// Whatever `bursar apply` is given is understood, or refused with its line; and what is understood
// comes back from its own document.
import { expect, it } from 'vitest';
import { readDocument, writeDocument } from '#bursar/cli/collaboration/document.js';
import { Gathered, isSame } from '#bursar/cli/collaboration/entries.js';
import { readPeople } from '#bursar/cli/collaboration/people.js';
import { CommandFailure } from '#bursar/core/command-failure.js';
import { randomBelow, seededRandom } from './seeded-random.ts';

const seconds = Number(process.env.BURSAR_FUZZ_SECONDS ?? 2);

const pieces = [
  ...['tenants', 'limits', 'cms', 'groups', 'principals', 'grants', 'buckets', 'mounts', 'issuers'],
  ...[': ', ':', '\n', '\n  ', '\n    ', '\n      ', '{', '}', '[', ']', ', ', '- ', '"', "'"],
  ...['&a ', '*a', '<<', '!!js ', '? ', '| ', '> ', '# ', '---\n', '...', '\t', '\u0000', '\ufeff'],
  ...['role', 'member', 'active', 'true', 'null', '~', '1e999', '0x10', '__proto__', 'constructor'],
  ...[
    'subjects',
    'actions',
    's3:GetObject',
    'tenant:cms',
    'spend',
    'month',
    '50GiB',
    '{{{{',
    '[[[[',
  ],
];

const rows = [
  ...['principal', 'kind', 'role', 'groups', 'active', 'cms/alice', 'cms/bob', 'a b', 'yes', 'no'],
  ...[',', ',', '\r\n', '\n', '"', '""', '\ufeff', '\u0000', '=1+1', '\r'],
];

type Read = (file: string, text: string, into: Gathered) => void;

function understood(read: Read, text: string): Gathered | null {
  const into = new Gathered();
  try {
    read('file', text, into);
    into.completeGroups();
    into.finish();
    return into;
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    expect(error.message).toMatch(/^file(?::\d+)?: ./s);
    return null;
  }
}

it('documents and tables are understood or refused with their line', () => {
  const random = seededRandom(107);
  const below = (bound: number) => randomBelow(random, bound);
  const text = (of: string[]) =>
    Array.from({ length: below(24) }, () => of[below(of.length)]).join('');
  const base =
    'tenants:\n  cms:\n    groups: [g]\n    principals:\n      a: {role: admin, groups: [g]}\n' +
    '    grants:\n      r: {subjects: [anyone], actions: [x]}\n' +
    'limits:\n  tenant:cms: {spend: {month: 1}}\n';
  let count = 0;
  const endMs = Date.now() + seconds * 1000;
  for (let i = 0; i < 2_000 || Date.now() < endMs; i++) {
    const at = below(base.length);
    const altered = base.slice(0, at) + text(pieces) + base.slice(at + below(4));
    const found = understood(readDocument, below(3) === 0 ? text(pieces) : altered);
    understood(readPeople, `principal,groups\n${text(rows)}`);
    understood(readPeople, text(rows));
    if (!found) continue;
    count++;
    const again = understood(readDocument, writeDocument(found.entries.values()));
    const valuesOf = (one: Gathered | null) =>
      Object.fromEntries([...(one?.entries ?? [])].map(([key, { value }]) => [key, value]));
    expect(isSame(valuesOf(again), valuesOf(found)), altered).toBe(true);
  }
  expect(count).toBeGreaterThan(20);
  expect(Object.keys({}.constructor.prototype)).toEqual([]);
});

it('what is very deep, or very long, is refused', () => {
  for (const text of ['['.repeat(100_000), '{a: '.repeat(50_000), `a: ${'- '.repeat(50_000)}`]) {
    expect(understood(readDocument, text)).toBeNull();
  }
  const many = Array.from({ length: 100_001 }, (_, i) => `cms/p${i}`).join('\n');
  expect(understood(readPeople, `principal\n${many}`)).toBeNull();
  expect(understood(readPeople, `principal\n"${'a'.repeat(1_000_000)}`)).toBeNull();
});
