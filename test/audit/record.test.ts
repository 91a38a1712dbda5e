// Records are canonical JSON: held against a canonicalizer of its own, written from RFC 8785.
import { describe, expect, it } from 'vitest';
import { type RecordDraft, type RecordSeal, renderRecord } from '#bursar/audit/record.js';
import { fuzz, randomBelow, randomOf } from '../fuzz/seeded-random.ts';

const escapes: Record<string, string> = {
  '"': '\\"',
  '\\': '\\\\',
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\f': '\\f',
  '\r': '\\r',
};

/** RFC 8785 section 3.2.2.2. */
function canonicalString(text: string): string {
  let out = '"';
  for (const letter of text) {
    const code = letter.codePointAt(0) as number;
    const short = escapes[letter];
    if (short !== undefined) out += short;
    else if (code < 0x20) out += `\\u${code.toString(16).padStart(4, '0')}`;
    else out += letter;
  }
  return `${out}"`;
}

/** Objects and lists of texts and whole numbers, which are all that a record holds. */
function canonical(value: unknown): string {
  if (typeof value === 'string') return canonicalString(value);
  if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value).toString();
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) {
    throw new Error('a record holds texts and whole numbers only');
  }
  // Section 3.2.3: by UTF-16 code units, which is how JavaScript compares.
  const names = Object.keys(value).sort((a, b) => (a < b ? -1 : 1));
  const members = names.map(
    (name) => `${canonicalString(name)}:${canonical((value as Record<string, unknown>)[name])}`,
  );
  return `{${members.join(',')}}`;
}

const draft: RecordDraft = {
  action: 's3:PutObject',
  tenant: 'cms',
  principal: 'alice',
  accessKeyId: 'KEY',
  evidence: 'shared-secret',
  bucket: 'raw',
  bucketOwner: 'bob',
  key: 'run/1',
  target: 'tenants/cms',
  bytesIn: 1,
  bytesOut: 2,
  sizeBytes: 3,
  etag: 'e',
  sha256: 'f',
  class: 'STANDARD',
  range: '0-1',
  period: '2026-11-21T08:00:00.000Z/2026-11-21T09:00:00.000Z',
  byteMs: '386547056640000000',
  requestId: 'R',
  source: '::1',
  status: 200,
  error: 'AccessDenied',
};
const seal: RecordSeal = {
  index: 7,
  timeMs: 1_700_000_000_123,
  storedBytes: -3,
  storedObjects: -1,
  cost: 5_000_000n,
  storageCost: 2_000_000n,
  storageCosts: new Map([
    ['lab:GLACIER', 1_500_000n],
    ['lab', 500_000n],
  ]),
  priced: { price: 'put', book: 'aws-us-east-1-2026' },
};

describe('a record', () => {
  it('has all that is known of its operation, in canonical form', () => {
    const text = renderRecord(draft, seal);
    const { sizeBytes, ...rest } = draft;
    expect(JSON.parse(text)).toEqual({
      ...rest,
      size: sizeBytes,
      index: 7,
      storedBytes: -3,
      storedObjects: -1,
      cost: '0.000005',
      storageCost: '0.000002',
      storageCosts: { lab: '0.0000005', 'lab:GLACIER': '0.0000015' },
      price: 'put',
      priceBook: 'aws-us-east-1-2026',
      time: '2023-11-14T22:13:20.123Z',
    });
    expect(text).toBe(canonical(JSON.parse(text)));
  });

  it('has limits in canonical form, in whatever order they came', () => {
    const limits = {
      storedObjects: { total: 3 },
      spend: { month: '1.50', day: '1' },
      rate: { requests: 5, bytes: 7 },
      requests: { total: 9, hour: 1, minute: 0 },
    };
    const text = renderRecord({ ...draft, limits }, seal);
    expect(JSON.parse(text).limits).toEqual(limits);
    expect(text).toBe(canonical(JSON.parse(text)));
  });

  it('of many reads, or with evidence, is canonical too', () => {
    const folded = { reads: 3, firstRead: 'a', lastRead: 'b', sources: ['c'], otherReads: 1 };
    const proven = { evidenceHash: 'hash', evidenceAt: 4 };
    const text = renderRecord({ ...draft, ...proven, folded }, seal);
    expect(JSON.parse(text)).toMatchObject({ ...proven, ...folded });
    expect(text).toBe(canonical(JSON.parse(text)));
  });

  it('says what each store was asked for it, and what that cost in all', () => {
    const use = { puts: 3, gets: 1, frees: 2, sentBytes: 900, receivedBytes: 70 };
    const text = renderRecord(draft, {
      ...seal,
      backend: [
        { store: 'near', book: 'none', cost: 0n, ...use },
        { store: 'cloud', book: 'aws-us-east-1-2026', cost: 15_400_000n, ...use },
        { store: 'far', book: 'other', cost: 1n, ...use },
      ],
    });
    const { backend, backendCost } = JSON.parse(text);
    expect(backend[1]).toEqual({
      ...{ store: 'cloud', priceBook: 'aws-us-east-1-2026', cost: '0.0000154', ...use },
    });
    expect(backendCost).toBe('0.000015400001');
    expect(text).toBe(canonical(JSON.parse(text)));
  });

  it('leaves out what there is not', () => {
    const none = Object.fromEntries(
      Object.entries(draft).map(([name, value]) => [name, optional.has(name) ? null : value]),
    ) as unknown as RecordDraft;
    const { storageCosts, ...without } = seal;
    const text = renderRecord(none, without);
    expect(text).not.toContain('null');
    expect(Object.keys(JSON.parse(text))).toHaveLength(30 - optional.size);
    expect(text).toBe(canonical(JSON.parse(text)));
  });

  it('is canonical whatever its texts and numbers are', async () => {
    const letters = [
      'a',
      '"',
      '\\',
      '/',
      '\u0000',
      '\b',
      '\f',
      '\n',
      '\r',
      '\t',
      '\u001f',
      '\u007f',
      '\u0080',
      '\u2028',
      'é',
      '\ud7ff',
      '\ufeff',
      '\uffff',
      '🙂',
      '<',
      '&',
    ];
    await fuzz(1, 2000, (random) => {
      const changed: Record<string, unknown> = { ...draft };
      for (const [name, value] of Object.entries(draft)) {
        if (typeof value === 'number') changed[name] = randomBelow(random, 2 ** 53);
        else changed[name] = Array.from({ length: 4 }, () => randomOf(random, letters)).join('');
      }
      const text = renderRecord(changed as unknown as RecordDraft, {
        index: randomBelow(random, 2 ** 40),
        timeMs: randomBelow(random, 4e12),
        storedBytes: randomBelow(random, 2 ** 50) - 2 ** 49,
        storedObjects: randomBelow(random, 3) - 1,
        cost: BigInt(randomBelow(random, 2 ** 50)),
      });
      const parsed = JSON.parse(text);
      expect(text).toBe(canonical(parsed));
      expect([parsed.key, parsed.size]).toEqual([changed.key, changed.sizeBytes]);
    });
  });
});

const optional = new Set([
  'accessKeyId',
  'bucket',
  'bucketOwner',
  'key',
  'target',
  'sizeBytes',
  'etag',
  'sha256',
  'class',
  'range',
  'period',
  'byteMs',
  'error',
]);
