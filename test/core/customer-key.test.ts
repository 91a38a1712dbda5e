// Keys of customers, against docs/formats/extent.md: what is kept of a key, and what it encrypts.
import { createCipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { CustomerSecret } from '#bursar/core/customer-key.js';
import { Keyring } from '#bursar/core/keyring.js';

const root = Buffer.alloc(32, 7);
const keyring = new Keyring([{ epoch: 1, key: root }]);
const key = randomBytes(32);

it('is known again by its verifier alone, in its tenant alone', () => {
  const { seal } = CustomerSecret.create(keyring, 'cms', key);
  expect(CustomerSecret.open(keyring, 'cms', { seal, key })).not.toBeNull();
  for (let bit = 0; bit < 256; bit += 51) {
    const other = Buffer.from(key);
    other[bit >> 3] = (other[bit >> 3] as number) ^ (1 << (bit & 7));
    expect(CustomerSecret.open(keyring, 'cms', { seal, key: other })).toBeNull();
  }
  expect(CustomerSecret.open(keyring, 'atlas', { seal, key })).toBeNull();
  const short = { ...seal, verifier: '' };
  expect(CustomerSecret.open(keyring, 'cms', { seal: short, key })).toBeNull();
  const later = { ...seal, epoch: 2 };
  expect(() => CustomerSecret.open(keyring, 'cms', { seal: later, key })).toThrow('epoch 2');
  const kept = JSON.stringify(seal);
  for (const form of ['base64', 'hex'] as const) expect(kept).not.toContain(key.toString(form));
  expect(CustomerSecret.create(keyring, 'cms', key).seal.verifier).not.toBe(seal.verifier);
});

it('encrypts as the format says, and decrypts any range across parts', () => {
  const { secret, seal } = CustomerSecret.create(keyring, 'cms', key);
  const parts = [1, 0, 37, 4096].map((bytes) => randomBytes(bytes));
  const nonces = parts.map(() => randomBytes(16));
  const stored = parts.map((part, i) => {
    const encrypt = secret.encrypt(nonces[i] as Buffer);
    return Buffer.concat([encrypt(part.subarray(0, 13)), encrypt(part.subarray(13))]);
  });
  const tenantKey = Buffer.from(hkdfSync('sha256', root, '', 'bursar/customer/v1\0cms', 32));
  const salt = Buffer.from(seal.salt, 'base64');
  const both = Buffer.concat([tenantKey, key]);
  const derived = Buffer.from(hkdfSync('sha256', both, salt, 'bursar/customer/v1', 32));
  const mac = (text: string, more = Buffer.alloc(0)) =>
    createHmac('sha256', derived).update(text).update(more).digest();
  expect(seal.verifier).toBe(mac('bursar/customer-verifier/v1\0').toString('base64'));
  const partKey = mac('bursar/customer-cipher/v1\0', nonces[3]);
  const cipher = createCipheriv('aes-256-ctr', partKey, Buffer.alloc(16));
  expect(cipher.update(parts[3] as Buffer).equals(stored[3] as Buffer)).toBe(true);

  const [whole, sealed] = [Buffer.concat(parts), Buffer.concat(stored)];
  const of = { ...seal, nonces: Buffer.concat(nonces).toString('base64') };
  const sizes = parts.map(({ length }) => length);
  for (const [from, to, step] of [
    [0, whole.length, 1],
    [0, whole.length, 4096],
    [1, 38, 5],
    [37, 39, 2],
    [38, 200, 100],
    [whole.length, whole.length, 1],
  ] as const) {
    const decrypt = secret.decrypt(of, sizes, from);
    const pieces: Buffer[] = [];
    for (let at = from; at < to; at += step) {
      pieces.push(decrypt(sealed.subarray(at, Math.min(at + step, to))));
    }
    expect(Buffer.concat(pieces).equals(whole.subarray(from, to)), `${from}`).toBe(true);
  }
  expect(() => secret.decrypt(seal, sizes, 0)).toThrow('without a nonce');
  expect(() => secret.decrypt(of, sizes, 0)(Buffer.alloc(whole.length + 1))).toThrow('longer');
});
