// Forms at random: however a body comes in, it is read in one way only; what is damaged is refused,
// and only by a Refusal; and no form passes a policy that does not name each of its fields.
import { describe, expect, it } from 'vitest';
import { checkPostPolicy, parsePostPolicy } from '#bursar/authz/post-policy.js';
import { Refusal } from '#bursar/core/errors.js';
import { boundaryOf, FormFileDecoder, FormReader } from '#bursar/gateway/http/multipart-form.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomBytesOf, randomOf } from './seeded-random.ts';

type Random = () => number;

const boundaries = ['b', '----WebKitFormBoundaryAbC123', "'()+_,-./:=?", '--', 'a b'];

/** What may look like a delimiter. */
const nearDelimiters = [
  '\r',
  '\n',
  '\r\n',
  '\r\n-',
  '\r\n--',
  '--',
  '\r\n--b',
  '\r\r\n--',
  'x',
  'é',
];

function pieces(random: Random, boundary: string, countMax: number): Buffer {
  const parts = Array.from({ length: randomBelow(random, countMax) }, () =>
    randomBelow(random, 4) === 0
      ? randomBytesOf(random, randomBelow(random, 40))
      : Buffer.from(randomOf(random, [...nearDelimiters, boundary.slice(0, -1)])),
  );
  const bytes = Buffer.concat(parts);
  // The delimiter itself ends a part, wherever it stands.
  return bytes.includes(`\r\n--${boundary}`) || `\r\n${bytes}`.includes(`\r\n--${boundary}`)
    ? Buffer.from('plain')
    : bytes;
}

interface Form {
  fields: [string, string][];
  filename: string;
  file: Buffer;
}

function someForm(random: Random, boundary: string): Form {
  const names = [
    'key',
    'Policy',
    'x-amz-meta-a',
    'acl',
    'tagging',
    'success_action_status',
    '__proto__',
  ];
  const fields = names
    .filter(() => randomBelow(random, 2) === 0)
    .map((name): [string, string] => [
      name,
      // Text: what is no UTF-8 is refused.
      new TextDecoder().decode(pieces(random, boundary, 6)).replaceAll('\ufffd', '!'),
    ]);
  const filename = randomOf(random, ['', 'a.txt', 'ä b', '\\"q\\"', '$&', 'a;b=c']);
  return { fields, filename, file: pieces(random, boundary, 300) };
}

function bodyOf({ fields, filename, file }: Form, boundary: string): Buffer {
  const heads = fields.map(
    ([name, value]) =>
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`,
  );
  const head =
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; ` +
    `filename="${filename}"\r\n\r\n`;
  return Buffer.concat([
    Buffer.from(heads.join('') + head),
    file,
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ]);
}

interface Read {
  fields: [string, string][];
  filename: string;
  /** Latin-1. */
  file: string;
}

/** All that is read of a body that comes in such pieces, or the code by which it is refused. */
function readForm(body: Buffer, boundary: string, sizeOf: () => number): Read | string {
  try {
    const reader = new FormReader(boundary);
    let decoder: FormFileDecoder | null = null;
    let read: Read | null = null;
    const kept: Buffer[] = [];
    const emit = (data: Buffer): void => void kept.push(Buffer.from(data));
    for (let at = 0; at < body.length; ) {
      // A copy that is spoilt afterwards: nothing may be kept of it by reference.
      const end = at + Math.max(1, sizeOf());
      const chunk = Buffer.from(body.subarray(at, end));
      at = end;
      if (decoder) decoder.push(chunk, emit);
      else {
        const form = reader.push(chunk);
        if (form) {
          decoder = new FormFileDecoder(boundary);
          read = { fields: [...form.fields], filename: form.filename, file: '' };
          decoder.push(form.rest, emit);
        }
      }
      chunk.fill(0);
    }
    if (!decoder || !read) return 'unfinished';
    decoder.finish();
    return { ...read, file: Buffer.concat(kept).toString('latin1') };
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
}

const whole = () => Number.MAX_SAFE_INTEGER;

describe('the reader of forms', () => {
  it(
    'reads what was written, however it is cut',
    () =>
      fuzz(1, 1000, (random) => {
        const boundary = randomOf(random, boundaries);
        const form = someForm(random, boundary);
        const body = bodyOf(form, boundary);
        const expected = {
          fields: form.fields.map(([name, value]) => [name.toLowerCase(), value]),
          filename: form.filename.replaceAll('\\"', '"'),
          file: form.file.toString('latin1'),
        };
        expect(readForm(body, boundary, whole)).toEqual(expected);
        const small = 1 + randomBelow(random, 30);
        const cut = readForm(body, boundary, () => randomBelow(random, small));
        expect(cut).toEqual(expected);
      }),
    fuzzTimeoutMs,
  );

  it(
    'reads a damaged one in one way only, or refuses it',
    () =>
      fuzz(100_000, 1000, (random) => {
        const boundary = randomOf(random, boundaries);
        let body = bodyOf(someForm(random, boundary), boundary);
        for (let i = 1 + randomBelow(random, 3); i > 0; i--) {
          const at = randomBelow(random, body.length);
          const more = randomOf(random, [
            ...nearDelimiters,
            `\r\n--${boundary}`,
            `\r\n--${boundary}--`,
            '\r\n\r\n',
            'Content-Disposition: form-data; name="key"',
            '"',
            ';',
            '\\',
            randomBytesOf(random, 3).toString('latin1'),
          ]);
          const rest = body.subarray(at + randomBelow(random, 6));
          body = Buffer.concat([body.subarray(0, at), Buffer.from(more, 'latin1'), rest]);
        }
        const outcome = readForm(body, boundary, whole);
        const small = 1 + randomBelow(random, 50);
        expect(readForm(body, boundary, () => randomBelow(random, small))).toEqual(outcome);
        if (typeof outcome !== 'string') return;
        expect(['MalformedPOSTRequest', 'InvalidArgument', 'unfinished']).toContain(outcome);
      }),
    fuzzTimeoutMs,
  );

  it('holds no more than 20 KiB of fields, however they come', () => {
    const name = 'x'.repeat(30_000);
    for (const text of [
      name,
      `--b\r\n${name}`,
      `--b\r\nContent-Disposition: form-data; name="${name}`,
    ]) {
      for (const size of [1000, 100_000]) {
        expect(readForm(Buffer.from(text), 'b', () => size)).toBe(
          'MaxPostPreDataLengthExceededError',
        );
      }
    }
  });

  it('finds the boundary of a Content-Type, or refuses it', () => {
    expect(boundaryOf('multipart/form-data; boundary=abc')).toBe('abc');
    expect(boundaryOf('Multipart/Form-Data; charset=x; BOUNDARY="a b:c"')).toBe('a b:c');
    expect(boundaryOf('application/x-www-form-urlencoded')).toBeNull();
    expect(boundaryOf(undefined)).toBeNull();
    for (const bad of [
      '',
      '; boundary=',
      '; boundary="',
      '; boundary=""',
      `; boundary=${'x'.repeat(71)}`,
    ]) {
      expect(() => boundaryOf(`multipart/form-data${bad}`)).toThrow(Refusal);
    }
  });
});

const fieldNames = [
  'key',
  'acl',
  'bucket',
  'content-type',
  'x-amz-meta-a',
  'success_action_status',
];
const exempt = ['policy', 'x-amz-signature', 'x-ignore-a', 'x-amz-checksum-crc32'];
const values = [
  '',
  'a',
  'ab',
  'b',
  'image/png',
  'image/png,image/gif',
  'text/a,image/b',
  '$',
  '\\',
];

function someValue(random: Random): unknown {
  return randomOf<unknown>(random, [...values, ...values, 1, null, {}, ['a'], true]);
}

function someCondition(random: Random): unknown {
  const name = randomOf(random, fieldNames);
  const cased = randomBelow(random, 3) === 0 ? name.toUpperCase() : name;
  switch (randomBelow(random, 8)) {
    case 0:
      return { [cased]: someValue(random), ...(randomBelow(random, 5) === 0 && { b: 'x' }) };
    case 1:
    case 2:
      return ['eq', `$${cased}`, someValue(random)];
    case 3:
    case 4:
      return ['starts-with', `$${cased}`, someValue(random)];
    case 5:
      return ['content-length-range', randomBelow(random, 9), randomBelow(random, 9) - 1];
    case 6:
      return { [cased]: randomOf(random, values) };
    default:
      return someValue(random);
  }
}

describe('the policy of a form', () => {
  it(
    'lets no form pass with a field that it does not name, or with another value',
    () =>
      fuzz(200_000, 5000, (random) => {
        const conditions = Array.from({ length: randomBelow(random, 6) }, () =>
          someCondition(random),
        );
        const expiration = new Date(1000 + randomBelow(random, 3) * 1000).toISOString();
        const text = Buffer.from(JSON.stringify({ expiration, conditions })).toString('base64');
        const fields = new Map(
          [...fieldNames, ...exempt]
            .filter(() => randomBelow(random, 3) === 0)
            .map((name): [string, string] => [name, randomOf(random, values)]),
        );
        try {
          const policy = parsePostPolicy(text);
          checkPostPolicy(policy, fields, 2000);
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          expect(['InvalidPolicyDocument', 'AccessDenied']).toContain(error.code);
          return;
        }
        expect(Date.parse(expiration)).toBeGreaterThan(2000);
        const named = new Set<string>();
        for (const condition of conditions) {
          const list: unknown[] = Array.isArray(condition) ? condition : [];
          if (list[0] === 'content-length-range') continue;
          const [[name, value] = ['', '']] = Object.entries(condition as object);
          const field = (Array.isArray(condition) ? String(list[1]).slice(1) : name).toLowerCase();
          const given = fields.get(field) ?? '';
          named.add(field);
          if (list[0] !== 'starts-with') expect(given).toBe(list[2] ?? value);
          else if (field !== 'content-type') expect(given.startsWith(String(list[2]))).toBe(true);
        }
        for (const field of fields.keys()) {
          if (!exempt.includes(field)) expect(named).toContain(field);
        }
      }),
    fuzzTimeoutMs,
  );

  it(
    'is refused, and only by a Refusal, where it is damaged',
    () =>
      fuzz(300_000, 3000, (random) => {
        const conditions = Array.from({ length: 3 }, () => someCondition(random));
        const expiration = new Date().toISOString();
        const text = JSON.stringify({ expiration, conditions });
        const at = randomBelow(random, text.length);
        const damage = randomOf(random, [
          '',
          '\\',
          '\\v',
          '\\$',
          '"',
          '[',
          '}',
          '\u0000',
          'é',
          '\\u12',
        ]);
        const damaged = text.slice(0, at) + damage + text.slice(at + randomBelow(random, 3));
        const bytes = Buffer.from(damaged, randomBelow(random, 4) === 0 ? 'latin1' : 'utf8');
        try {
          parsePostPolicy(bytes.toString('base64'));
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          expect(error.code).toBe('InvalidPolicyDocument');
        }
      }),
    fuzzTimeoutMs,
  );
});
