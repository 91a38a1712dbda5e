// MACs against node's own HMAC.
import { createHmac, randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { macBehindPad, macOfText, padBytes, padsOf, writeMac } from '#bursar/core/hmac.js';

const key = Buffer.alloc(32, 7);

function nodeHmac(by: Buffer, message: Buffer | string): string {
  return createHmac('sha256', by).update(message).digest('hex');
}

function expected(message: Buffer | string): string {
  return nodeHmac(key, message);
}

it.each([
  ...['', 'a', 'grün €', '\ud800', 'a'.repeat(1024), '€'.repeat(1024)],
  ...['a'.repeat(1025), '€'.repeat(70_000)],
])('is the HMAC of a text in UTF-8 (case %#), and of the next', (text) => {
  expect(macOfText(key, text)).toBe(expected(text));
  expect(macOfText(key, 'short')).toBe(expected('short'));
});

it('is that of another key, by another key', () => {
  const other = Buffer.alloc(32, 8);
  expect(macOfText(other, 'a')).toBe(nodeHmac(other, 'a'));
  expect(macOfText(key, 'a')).toBe(expected('a'));
});

it('is of what lies behind the room for the pad', () => {
  const message = Buffer.alloc(padBytes + 5, 3);
  expect(macBehindPad(padsOf(key), message, 'hex')).toBe(expected(Buffer.alloc(5, 3)));
});

it('takes no key of another length', () => {
  expect(() => macOfText(Buffer.alloc(31), 'a')).toThrow('31 bytes');
});

function ours(key: Buffer, message: Buffer): Buffer {
  const into = Buffer.alloc(32);
  writeMac(key, message, into);
  return into;
}

describe('writeMac', () => {
  it('is HMAC-SHA256 for keys and messages of all lengths that it takes', () => {
    for (let keyBytes = 0; keyBytes <= 64; keyBytes++) {
      for (const messageBytes of [0, 1, 16, 32, 62, 64]) {
        const [key, message] = [randomBytes(keyBytes), randomBytes(messageBytes)];
        expect(ours(key, message)).toEqual(Buffer.from(nodeHmac(key, message), 'hex'));
      }
    }
  });

  it('may write over its key', () => {
    const key = randomBytes(32);
    const message = randomBytes(17);
    const mac = Buffer.from(nodeHmac(key, message), 'hex');
    writeMac(key, message, key);
    expect(key).toEqual(mac);
  });

  it('refuses what is longer', () => {
    expect(() => ours(Buffer.alloc(65), Buffer.alloc(1))).toThrow('65 bytes');
    expect(() => ours(Buffer.alloc(32), Buffer.alloc(65))).toThrow(RangeError);
  });
});
