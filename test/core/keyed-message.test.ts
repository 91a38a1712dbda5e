// The MACs of lists of fields, against node's own HMAC.
import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { IntegrityError } from '#bursar/core/errors.js';
import { KeyedMessage } from '#bursar/core/keyed-message.js';

const key = Buffer.alloc(32, 7);
const message = new KeyedMessage();

/** A field as the format has it. */
function field(bytes: Uint8Array | string): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(Buffer.byteLength(bytes));
  return Buffer.concat([length, Buffer.from(bytes)]);
}

function expected(...fields: Buffer[]): Buffer {
  return createHmac('sha256', key).update(Buffer.concat(fields)).digest();
}

describe('a keyed message', () => {
  it('is the HMAC of its fields, each behind its length', () => {
    const number = Buffer.from('0000000100000002', 'hex');
    const mac = message
      .begin(key, 'purpose')
      .text('grün')
      .number(2 ** 32 + 2)
      .bytes(Buffer.of(0, 255))
      .text('')
      .text(null)
      .bytes(null)
      .mac();
    const none = Buffer.from('ffffffff', 'hex');
    const fields = [field('purpose'), field('grün'), field(number), field(Buffer.of(0, 255))];
    expect(mac).toEqual(expected(...fields, field(''), none, none));
  });

  it.each([0, 55, 56, 63, 64, 4095, 4096, 5000, 70_000, 3_000_000])(
    'is right for a field of %i bytes, and for the next message',
    (sizeBytes) => {
      const bytes = Buffer.alloc(sizeBytes, 3);
      expect(message.begin(key, 'p').bytes(bytes).mac()).toEqual(
        expected(field('p'), field(bytes)),
      );
      expect(message.begin(key, 'p').text('short').mac()).toEqual(
        expected(field('p'), field('short')),
      );
    },
  );

  it.each([1, 63, 64, 65])('has texts of %i units in UTF-8, whatever they are', (length) => {
    for (const last of ['x', '\x7f', '\x80', 'ü', '\u20ac', '\ud800', '\0']) {
      const text = 'x'.repeat(length - 1) + last;
      expect(message.begin(key, 'p').text(text).text('next').mac()).toEqual(
        expected(field('p'), field(text), field('next')),
      );
    }
  });

  it('has the same fields when many are added at once', () => {
    const long = 'x'.repeat(70_000);
    const values = [
      '',
      'a',
      null,
      12,
      -3n,
      2n ** 70n,
      '\x7f',
      'grün',
      'é',
      '€uro',
      long,
      'b',
      null,
    ];
    const all = message.begin(key, 'p').text('before').texts(values).text('after').mac();
    message.begin(key, 'p').text('before');
    for (const value of values) message.text(value === null ? null : String(value));
    expect(message.text('after').mac()).toEqual(all);
    const none = Buffer.from('ffffffff', 'hex');
    const fields = values.map((value) => (value === null ? none : field(String(value))));
    expect(all).toEqual(expected(field('p'), field('before'), ...fields, field('after')));
    expect(() => message.begin(key, 'p').texts(['a', Buffer.of(1)])).toThrow(IntegrityError);
    expect(() => message.begin(key, 'p').texts([undefined])).toThrow(IntegrityError);
  });

  it('matches its own MAC, and no other bytes', () => {
    const mac = message.begin(key, 'p').text('a').mac();
    expect(message.begin(key, 'p').text('a').matches(mac)).toBe(true);
    for (let i = 0; i < mac.length; i++) {
      const altered = Buffer.from(mac);
      altered[i] = (altered[i] as number) ^ 1;
      expect(message.begin(key, 'p').text('a').matches(altered)).toBe(false);
      expect(message.begin(key, 'p').text('a').matches(mac.subarray(0, i))).toBe(false);
    }
    const notBytes = mac.toString('latin1') as unknown as Uint8Array;
    expect(message.begin(key, 'p').text('a').matches(notBytes)).toBe(false);
  });

  it('tells apart what would be the same bytes without lengths', () => {
    const macs = [
      message.begin(key, 'p').text('ab').text('c').mac(),
      message.begin(key, 'p').text('a').text('bc').mac(),
      message.begin(key, 'p').text('abc').text('').mac(),
      message.begin(key, 'p').text('abc').text(null).mac(),
      message.begin(key, 'p').text('abc').mac(),
      message.begin(key, 'pabc').mac(),
    ];
    expect(new Set(macs.map((mac) => mac.toString('hex'))).size).toBe(macs.length);
  });

  it('depends on the key', () => {
    const other = Buffer.alloc(32, 8);
    expect(message.begin(other, 'p').mac()).not.toEqual(message.begin(key, 'p').mac());
    expect(() => message.begin(Buffer.alloc(31), 'p')).toThrow('31 bytes');
  });

  it.each([-1, 0.5, 2 ** 53, Number.NaN, '1', undefined, 1n])(
    'does not take %s as a number',
    (value) => {
      expect(() => message.begin(key, 'p').number(value as number)).toThrow(IntegrityError);
    },
  );

  it('does not take bytes as a text, nor a text as bytes', () => {
    const bytes = Buffer.from('a') as unknown as string;
    const text = 'a' as unknown as Buffer;
    expect(() => message.begin(key, 'p').text(bytes)).toThrow(IntegrityError);
    expect(() => message.begin(key, 'p').bytes(text)).toThrow(IntegrityError);
    expect(() => message.begin(key, 'p').text(undefined as unknown as null)).toThrow();
  });
});
