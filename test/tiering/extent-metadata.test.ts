// What extents say of themselves: whole and unchanged, or not at all.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { IntegrityError } from '#bursar/core/errors.js';
import { Keyring } from '#bursar/core/keyring.js';
import {
  countTrailerBytes,
  type ExtentMetadata,
  openExtentMetadata,
  readExtentMetadata,
  sealExtentMetadata,
} from '#bursar/tiering/extent-metadata.js';
import type { RemoteStore } from '#bursar/tiering/stores/store.js';
import { unmeasured } from '#bursar/tiering/stores/store-meter.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomBytesOf } from '../fuzz/seeded-random.ts';
import { makeKeyring } from './rig.ts';

const keyring = makeKeyring(2);
const id = Buffer.alloc(16, 3);

const metadata: ExtentMetadata = {
  tenant: 'cms',
  bucket: 'data',
  bucketId: 12,
  key: 'a/ключ/\u0001"',
  write: 'ab'.repeat(16),
  index: 3,
  offset: 3 * 8 * 2 ** 20,
  extentBytes: 77,
  algorithm: 2,
  epoch: 1,
  last: {
    extentCount: 4,
    sizeBytes: 3 * 8 * 2 ** 20 + 77,
    etag: 'cd'.repeat(16),
    sha256: 'ef'.repeat(32),
    class: 'STANDARD',
    owner: 'alice',
    attributes: '{"headers":{},"metadata":{"a":"b"}}',
    timeMs: 1_700_000_000_000,
  },
};

/** A store that has one extent, for its end. */
function storeOf(bytes: Buffer): RemoteStore {
  const readEnd = async (_id: Buffer, maxBytes: number) => ({
    bytes: bytes.subarray(Math.max(0, bytes.length - maxBytes)),
    sizeBytes: bytes.length,
  });
  return { readEnd, meter: unmeasured } as unknown as RemoteStore;
}

it('opens to what was sealed, of objects and of parts', () => {
  for (const one of [
    metadata,
    { ...metadata, last: undefined, upload: { id: 'upload', part: 10_000 } },
  ]) {
    const { last, ...own } = one;
    const given = last ? one : own;
    expect(openExtentMetadata(keyring, id, sealExtentMetadata(keyring, id, given))).toEqual(given);
  }
});

it('tells by its length neither the key nor the attributes, and nothing in clear', () => {
  const short = sealExtentMetadata(keyring, id, { ...metadata, key: 'k' });
  const long = sealExtentMetadata(keyring, id, { ...metadata, key: 'k'.repeat(40) });
  expect(short.length).toBe(long.length);
  for (const text of ['cms', 'data', 'kkkk', 'alice']) expect(long.includes(text)).toBe(false);
});

it('the largest headers that a client can send fit', () => {
  const attributes = JSON.stringify({ headers: { 'content-type': '"'.repeat(32 * 1024) } });
  const last = { ...(metadata.last as NonNullable<ExtentMetadata['last']>), attributes };
  const trailer = sealExtentMetadata(keyring, id, {
    ...metadata,
    key: '\u0001'.repeat(1024),
    last,
  });
  expect(openExtentMetadata(keyring, id, trailer).last).toEqual(last);
});

describe('is refused', () => {
  const trailer = sealExtentMetadata(keyring, id, metadata);
  const open =
    (bytes: Buffer, extent = id, keys = keyring) =>
    () =>
      openExtentMetadata(keys, extent, bytes);

  it('with any bit changed', () => {
    for (let at = 0; at < trailer.length; at++) {
      const changed = Buffer.from(trailer);
      changed[at] = (changed[at] as number) ^ (1 << (at % 8));
      expect(open(changed)).toThrow(IntegrityError);
    }
  });

  it('behind another extent, and under other keys', () => {
    expect(open(trailer, Buffer.alloc(16, 4))).toThrow(IntegrityError);
    const others = new Keyring([
      { epoch: 1, key: Buffer.alloc(32, 1) },
      { epoch: 2, key: Buffer.alloc(32, 2) },
    ]);
    expect(open(trailer, id, others)).toThrow(IntegrityError);
    expect(open(trailer, id, makeKeyring(1))).toThrow(IntegrityError);
  });

  it('when it is cut, or longer, wherever', () => {
    for (const n of [1, 8, 9, 100, trailer.length - 1, trailer.length]) {
      expect(open(trailer.subarray(n))).toThrow(IntegrityError);
      expect(open(trailer.subarray(0, trailer.length - n))).toThrow(IntegrityError);
    }
    expect(open(Buffer.concat([Buffer.alloc(1), trailer]))).toThrow(IntegrityError);
  });

  it.each<[string, object]>([
    ['no tenant', { tenant: undefined }],
    ['a key that is no text', { key: 5 }],
    ['a negative offset', { offset: -1 }],
    ['an extent of nothing', { extentBytes: 0 }],
    ['an extent above 16 MiB', { extentBytes: 16 * 2 ** 20 + 1 }],
    ['half a byte too many in the write', { write: `${'ab'.repeat(16)}a` }],
    ['a part that is no number', { upload: { id: 'u', part: '1' } }],
    ['an upload that is a list', { upload: [] }],
    ['an end without a digest', { last: { ...metadata.last, sha256: '' } }],
    ['an end that is null', { last: null }],
  ])('with %s, though it is sealed rightly', (_name, lie) => {
    const sealed = sealExtentMetadata(keyring, id, { ...metadata, ...lie } as ExtentMetadata);
    expect(open(sealed)).toThrow(IntegrityError);
  });

  it(
    'random ends of extents never are metadata, nor an error of another kind',
    () =>
      fuzz(91, 300, (random) => {
        const bytes = randomBytesOf(random, randomBelow(random, 200));
        const cut = trailer.subarray(randomBelow(random, trailer.length));
        const end = randomBelow(random, 2) === 0 ? bytes : Buffer.concat([bytes, cut]);
        expect(() => openExtentMetadata(keyring, id, end)).toThrow(IntegrityError);
      }),
    fuzzTimeoutMs,
  );
});

describe('read from a store', () => {
  const trailer = sealExtentMetadata(keyring, id, metadata);
  const chunks = Buffer.alloc(77 + 32);

  it('is found behind the chunks, with the sizes', async () => {
    const extent = Buffer.concat([chunks, trailer]);
    const found = await readExtentMetadata(storeOf(extent), keyring, id);
    const sizeBytes = extent.length;
    expect(found).toEqual({ metadata, trailerBytes: trailer.length, sizeBytes });
    expect(countTrailerBytes(extent)).toBe(trailer.length);
  });

  it('is found when it is longer than what is read at first', async () => {
    const attributes = JSON.stringify('a'.repeat(20_000));
    const last = { ...(metadata.last as NonNullable<ExtentMetadata['last']>), attributes };
    const long = sealExtentMetadata(keyring, id, { ...metadata, last });
    const found = await readExtentMetadata(storeOf(Buffer.concat([chunks, long])), keyring, id);
    expect(found?.metadata.last).toEqual(last);
  });

  it('is refused when the extent is of another size than it says', async () => {
    for (const extent of [trailer, Buffer.concat([chunks, Buffer.alloc(1), trailer])]) {
      await expect(readExtentMetadata(storeOf(extent), keyring, id)).rejects.toThrow(
        IntegrityError,
      );
    }
  });

  it('an extent that is not there is no error', async () => {
    const store = { readEnd: async () => undefined } as unknown as RemoteStore;
    expect(await readExtentMetadata(store, keyring, id)).toBeUndefined();
  });
});

it('the documented vector of another implementation opens', () => {
  const document = readFileSync(new URL('../../docs/formats/extent.md', import.meta.url), 'utf8');
  const block = [...document.matchAll(/```json\n([\s\S]*?)```/g)].at(-1)?.[1];
  const vector = JSON.parse(block ?? '');
  const keys = new Keyring([{ epoch: 1, key: Buffer.from(vector.rootKey, 'hex') }]);
  expect(keys.extentMetadataKey(1).toString('hex')).toBe(vector.metadataKey);
  const extent = Buffer.from(vector.extentId, 'hex');
  const trailer = Buffer.from(vector.trailer, 'hex');
  expect(openExtentMetadata(keys, extent, trailer)).toEqual(vector.metadata);
});
