// The sealed format against vectors of another implementation, and against tampering.
import { createHash, createSecretKey, type KeyObject } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { IntegrityError } from '#bursar/core/errors.js';
import { Keyring } from '#bursar/core/keyring.js';
import {
  chunkLength,
  chunkPosition,
  deriveExtentCipher,
  deriveExtentKey,
  openChunk,
  plainAlgorithm,
  sealChunk,
  sealedBytes,
} from '#bursar/tiering/chunk-format.js';
import { C, makeBytes } from './rig.ts';

interface EncryptedVectors extends Vectors {
  rootKey: string;
  tenantSecret: string;
  tenant: string;
  cipherKey: string;
  extentCipherKey: string;
}

interface Vectors {
  tenantKey: string;
  extentId: string;
  extentKey: string;
  extents: { algorithm: number; plainBytes: number; tags: string[]; sealedSha256: string }[];
}

const document = readFileSync(new URL('../../docs/formats/extent.md', import.meta.url), 'utf8');
const vectors = JSON.parse(/```json\n([\s\S]*?)```/.exec(document)?.[1] ?? '') as Vectors;

const id = Buffer.from(vectors.extentId, 'hex');
const key = deriveExtentKey(Buffer.from(vectors.tenantKey, 'hex'), id);

const [, encrypted] = [...document.matchAll(/```json\n([\s\S]*?)```/g)].map(([, json]) =>
  JSON.parse(json as string),
) as [Vectors, EncryptedVectors, unknown];
const cipher = createSecretKey(encrypted.extentCipherKey, 'hex');

function sealExtent(
  plain: Buffer,
  algorithm: number,
  seal: { id: Buffer; key: Buffer; cipher: KeyObject } = { id, key, cipher },
): Buffer {
  const out = Buffer.alloc(sealedBytes(plain.length));
  const extent = { ...seal, algorithm };
  for (let i = 0; i * C < plain.length; i++) {
    const length = chunkLength(plain.length, i);
    plain.copy(out, chunkPosition(i), i * C, i * C + length);
    const place = { index: i, last: (i + 1) * C >= plain.length };
    sealChunk(extent, place, out.subarray(chunkPosition(i), chunkPosition(i) + length + 32));
  }
  return out;
}

function openExtent(sealed: Buffer, extentBytes: number, algorithm: number, extentId = id): Buffer {
  const extent = { id: extentId, key, algorithm, extentBytes, cipher };
  const pieces: Buffer[] = [];
  for (let i = 0; i * C < extentBytes; i++) {
    const at = chunkPosition(i);
    const end = at + chunkLength(extentBytes, i) + 32;
    // It opens in place.
    pieces.push(openChunk(extent, i, Buffer.from(sealed.subarray(at, end))));
  }
  return Buffer.concat(pieces);
}

describe('the documented vectors', () => {
  it('derive the extent key', () => {
    expect(key.toString('hex')).toBe(vectors.extentKey);
  });

  it('cover both algorithms', () => {
    expect(new Set(vectors.extents.map((extent) => extent.algorithm))).toEqual(new Set([1, 2]));
  });

  it.each(vectors.extents)('algorithm $algorithm, $plainBytes bytes', (vector) => {
    const plain = Buffer.from(Uint8Array.from({ length: vector.plainBytes }, (_, k) => k % 251));
    const sealed = sealExtent(plain, vector.algorithm);
    vector.tags.forEach((tag, i) => {
      const end = chunkPosition(i) + chunkLength(plain.length, i);
      expect(sealed.subarray(end, end + 32).toString('hex')).toBe(tag);
    });
    expect(createHash('sha256').update(sealed).digest('hex')).toBe(vector.sealedSha256);
    expect(openExtent(sealed, plain.length, vector.algorithm).equals(plain)).toBe(true);
  });
});

describe('the documented vectors of encrypted extents', () => {
  const { rootKey, tenantSecret, tenant } = encrypted;
  const keyring = new Keyring([{ epoch: 1, key: Buffer.from(rootKey, 'hex') }]);
  keyring.useSecrets(() => Buffer.from(tenantSecret, 'hex'));
  const own = {
    id: Buffer.from(encrypted.extentId, 'hex'),
    key: deriveExtentKey(keyring.tenantKey(tenant, 1).key, id),
    cipher: deriveExtentCipher(keyring.cipherKey(tenant, 1), id),
  };

  it('derive the keys', () => {
    expect(keyring.tenantKey(tenant, 1).key.toString('hex')).toBe(encrypted.tenantKey);
    expect(keyring.cipherKey(tenant, 1).toString('hex')).toBe(encrypted.cipherKey);
    expect(own.key.toString('hex')).toBe(encrypted.extentKey);
    expect(own.cipher.export().toString('hex')).toBe(encrypted.extentCipherKey);
  });

  it.each(encrypted.extents)('$plainBytes bytes', (vector) => {
    const plain = Buffer.from(Uint8Array.from({ length: vector.plainBytes }, (_, k) => k % 251));
    const sealed = sealExtent(plain, 3, own);
    vector.tags.forEach((tag, i) => {
      const end = chunkPosition(i) + chunkLength(plain.length, i);
      expect(sealed.subarray(end, end + 32).toString('hex')).toBe(tag);
    });
    expect(createHash('sha256').update(sealed).digest('hex')).toBe(vector.sealedSha256);
  });
});

it('each chunk of an encrypted extent, and each extent, has its own key stream', () => {
  const zeros = Buffer.alloc(2 * C);
  const one = sealExtent(zeros, 3);
  const otherId = Buffer.from(id).fill(8, 0, 1);
  const keyOfOther = deriveExtentCipher(Buffer.from(encrypted.cipherKey, 'hex'), otherId);
  const other = sealExtent(zeros, 3, { id: otherId, key, cipher: keyOfOther });
  const streams = [one, other].flatMap((sealed) => [
    sealed.subarray(0, 64).toString('hex'),
    sealed.subarray(C + 32, C + 96).toString('hex'),
  ]);
  expect(new Set(streams).size).toBe(4);
});

it('BLAKE3 is the default where its native module loads', () => {
  expect(plainAlgorithm).toBe(2);
});

describe.each([1, 2, 3])('what algorithm %i detects', (algorithm) => {
  const plain = makeBytes(2 * C + 1000);
  const sealed = sealExtent(plain, algorithm);
  const open = (bytes: Buffer) => openExtent(bytes, plain.length, algorithm);

  it('a flipped bit anywhere', () => {
    for (const at of [0, 1, C - 1, C, C + 31, C + 32, 2 * C + 63, 2 * C + 64, sealed.length - 1]) {
      for (const bit of [1, 128]) {
        const changed = Buffer.from(sealed);
        changed[at] = (changed[at] as number) ^ bit;
        expect(() => open(changed)).toThrow(IntegrityError);
      }
    }
  });

  it('two chunks that changed places', () => {
    const swapped = Buffer.from(sealed);
    sealed.copy(swapped, 0, C + 32, 2 * (C + 32));
    sealed.copy(swapped, C + 32, 0, C + 32);
    expect(() => open(swapped)).toThrow(IntegrityError);
  });

  it('an extent cut after a whole chunk', () => {
    const shorter = sealed.subarray(0, 2 * (C + 32));
    expect(() => openExtent(shorter, 2 * C, algorithm)).toThrow(IntegrityError);
  });

  it('an extent cut inside a chunk', () => {
    const shorter = sealed.subarray(0, sealed.length - 1);
    expect(() => open(shorter)).toThrow(IntegrityError);
    expect(() => openExtent(shorter, plain.length - 1, algorithm)).toThrow(IntegrityError);
  });

  it('a chunk put behind the last one', () => {
    const longer = Buffer.concat([sealed.subarray(0, 2 * (C + 32)), sealed.subarray(C + 32)]);
    expect(() => openExtent(longer, 3 * C + 1000, algorithm)).toThrow(IntegrityError);
  });

  it("another extent's chunk of the same tenant and place", () => {
    const otherId = Buffer.from(id).fill(7, 15);
    const other = { id: otherId, key: deriveExtentKey(Buffer.alloc(32), otherId), cipher };
    const sameKey = { id: otherId, key, cipher };
    expect(() => open(sealExtent(plain, algorithm, other))).toThrow(IntegrityError);
    expect(() => open(sealExtent(plain, algorithm, sameKey))).toThrow(IntegrityError);
  });

  it('the other algorithm claimed for it', () => {
    for (const other of [1, 2, 3].filter((one) => one !== algorithm)) {
      expect(() => openExtent(sealed, plain.length, other)).toThrow(IntegrityError);
    }
  });

  it('an algorithm that does not exist', () => {
    expect(() => openExtent(sealed, plain.length, 4)).toThrow(IntegrityError);
  });
});

it('a chunk is sealed only at a length that its place can have', () => {
  const extent = { id, key, cipher: null, algorithm: 1 };
  const seal = (length: number, last: boolean) =>
    sealChunk(extent, { index: 0, last }, Buffer.alloc(length + 32));
  expect(() => seal(0, true)).toThrow('cannot have');
  expect(() => seal(C + 1, true)).toThrow('cannot have');
  expect(() => seal(C - 1, false)).toThrow('cannot have');
  seal(C, false);
  seal(1, true);
});

it('sealed sizes count one tag a chunk', () => {
  expect([0, 1, C, C + 1, 64 * C].map(sealedBytes)).toEqual([
    0,
    33,
    C + 32,
    C + 65,
    64 * C + 64 * 32,
  ]);
});
