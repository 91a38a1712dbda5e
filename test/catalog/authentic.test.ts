// The catalog's MACs against vectors of another implementation, and against every altered field.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  type BucketName,
  computeRowMac,
  computeUploadMac,
  sealAgain,
  sealObject,
  sealPart,
  verifyListed,
  verifyPart,
  verifyUpload,
  verifyVersion,
} from '#bursar/catalog/authentic.js';
import type { Part, Upload } from '#bursar/catalog/uploads.js';
import type { Version } from '#bursar/catalog/versions.js';
import { IntegrityError } from '#bursar/core/errors.js';
import { Keyring } from '#bursar/core/keyring.js';

/** Rows with their bytes in hexadecimal. */
type Vector = Record<string, string | number | null>;

interface Vectors {
  rootKey: string;
  keys: Record<string, string>;
  bucket: BucketName;
  versions: Vector[];
  parts: Vector[];
  uploads: Vector[];
}

const document = readFileSync(
  new URL('../../docs/formats/catalog-macs.md', import.meta.url),
  'utf8',
);
const vectors = JSON.parse(/```json\n([\s\S]*?)```/.exec(document)?.[1] ?? '') as Vectors;
const { bucket } = vectors;
const keyring = new Keyring([{ epoch: 7, key: Buffer.from(vectors.rootKey, 'hex') }]);

const bytesColumns = new Set(['sha256', 'manifest', 'manifestMac', 'rowMac', 'mac']);

/** A row as the database gives it. */
function rowOf<R>(vector: Vector, more: object = {}): R {
  const entries = Object.entries(vector).map(([name, value]) =>
    bytesColumns.has(name) && value !== null
      ? [name, Buffer.from(value as string, 'hex')]
      : [name, value],
  );
  return { ...Object.fromEntries(entries), ...more } as R;
}

const versions = vectors.versions.map((one) =>
  rowOf<Version>(one, { bucketId: bucket.id, isStale: 0 }),
);
const parts = vectors.parts.map((one) => rowOf<Part & { uploadId: string }>(one));
const uploads = vectors.uploads.map((one) => rowOf<Upload>(one, { bucketId: bucket.id }));
const [version] = versions as [Version];
const [part] = parts as [Part & { uploadId: string }];
const [upload] = uploads as [Upload];
const place = { tenant: bucket.tenant, uploadId: part.uploadId };

/** The same row but for one member; what it was first is another value of its type. */
function altered<R extends object>(row: R, name: keyof R & string): R {
  const value: unknown = row[name];
  const other =
    typeof value === 'number'
      ? value + 1
      : typeof value === 'string'
        ? `${value}x`
        : value === null
          ? 'x'
          : Buffer.from(value as Buffer).map((byte) => byte ^ 1);
  return { ...row, [name]: other };
}

describe('the documented vectors', () => {
  it('derive the keys', () => {
    const { tenant } = bucket;
    expect({
      tenant: keyring.tenantKey(tenant, 7).key.toString('hex'),
      manifest: keyring.manifestKey(tenant, 7).toString('hex'),
      row: keyring.rowKey(7).toString('hex'),
      seal: keyring.sealKey(7).toString('hex'),
      sealDigest: keyring.sealDigestKey(7).toString('hex'),
      sealHead: keyring.sealHeadKey(7).toString('hex'),
      extentMetadata: keyring.extentMetadataKey(7).toString('hex'),
      journal: keyring.journalKey(7).toString('hex'),
      secrets: keyring.secretsKey(7).toString('hex'),
      sessions: keyring.sessionsKey(7).toString('hex'),
      tokens: keyring.tokensKey(7).toString('hex'),
      proof: keyring.proofKey(7).toString('hex'),
    }).toEqual(vectors.keys);
  });

  it.each(versions)('version $seq is made so, and verifies', (row) => {
    const { manifestMac } = sealObject(keyring, { ...row, tenant: bucket.tenant });
    expect(manifestMac).toEqual(row.manifestMac);
    expect(computeRowMac(keyring, bucket, row, row)).toEqual(row.rowMac);
    verifyVersion(keyring, bucket, row);
    verifyListed(keyring, bucket, row);
  });

  it.each(parts)('part with checksum $checksum is made so, and verifies', (row) => {
    expect(sealPart(keyring, place, row).mac).toEqual(row.mac);
    verifyPart(keyring, place, row);
  });

  it.each(uploads)('upload with the answer $completed is made so, and verifies', (row) => {
    expect(computeUploadMac(keyring, bucket, row)).toEqual(row.mac);
    verifyUpload(keyring, bucket, row);
  });
});

const columns = Object.keys(version).filter((name) => name !== 'bucketId') as (keyof Version)[];

describe('a version is not authentic', () => {
  it.each(columns.filter((name) => name !== 'isStale'))('with another %s', (name) => {
    expect(() => verifyVersion(keyring, bucket, altered(version, name))).toThrow(IntegrityError);
  });

  it.each(columns.filter((name) => name !== 'isStale' && name !== 'manifest'))(
    'in a listing with another %s',
    (name) => {
      expect(() => verifyListed(keyring, bucket, altered(version, name))).toThrow(IntegrityError);
    },
  );

  it.each(['id', 'tenant', 'name'] as const)('in a bucket with another %s', (name) => {
    expect(() => verifyVersion(keyring, altered(bucket, name), version)).toThrow(IntegrityError);
  });

  it.each(columns.filter((name) => name !== 'isStale'))(
    'when %s has a value of another type',
    (name) => {
      for (const value of [null, 1.5, -1, 'text', Buffer.from('bytes'), Buffer.alloc(0)]) {
        if (value === version[name]) continue;
        const row = { ...version, [name]: value };
        expect(() => verifyVersion(keyring, bucket, row)).toThrow(IntegrityError);
      }
    },
  );

  it('when the catalog knows better where it belongs', () => {
    const row = { ...version, isStale: 1 };
    expect(() => verifyVersion(keyring, bucket, row)).toThrow('belongs');
    expect(() => verifyListed(keyring, bucket, row)).toThrow('belongs');
  });

  it('when it is sealed again, but for another place, other attributes or another epoch', () => {
    const keys = new Keyring([
      { epoch: 7, key: Buffer.from(vectors.rootKey, 'hex') },
      { epoch: 8, key: Buffer.alloc(32, 1) },
    ]);
    const moved = { ...version, supersededSeq: version.seq + 1, supersededMs: 5, attributes: '{}' };
    const sealed = { ...moved, ...sealAgain(keys, bucket, moved) };
    expect(sealed.epoch).toBe(8);
    verifyVersion(keys, bucket, sealed);
    for (const name of ['supersededSeq', 'supersededMs', 'attributes', 'epoch'] as const) {
      const row = { ...sealed, [name]: version[name] };
      expect(() => verifyVersion(keys, bucket, row)).toThrow(IntegrityError);
    }
  });

  it('with MACs of another epoch', () => {
    const keys = new Keyring([
      { epoch: 7, key: Buffer.alloc(32, 1) },
      { epoch: 8, key: Buffer.from(vectors.rootKey, 'hex') },
    ]);
    expect(() => verifyVersion(keys, bucket, version)).toThrow(IntegrityError);
    expect(() => verifyVersion(keys, bucket, { ...version, epoch: 8 })).toThrow(IntegrityError);
  });
});

describe('a part is not authentic', () => {
  const names = Object.keys(part).filter((name) => name !== 'uploadId') as (keyof Part)[];

  it.each(names)('with another %s', (name) => {
    expect(() => verifyPart(keyring, place, altered<Part>(part, name))).toThrow(IntegrityError);
  });

  it.each(['tenant', 'uploadId'] as const)('in an upload of another %s', (name) => {
    expect(() => verifyPart(keyring, altered(place, name), part)).toThrow(IntegrityError);
  });
});

describe('an upload is not authentic', () => {
  const names = Object.keys(upload).filter((name) => name !== 'bucketId') as (keyof Upload)[];

  it.each(names)('with another %s', (name) => {
    expect(() => verifyUpload(keyring, bucket, altered(upload, name))).toThrow(IntegrityError);
  });

  it.each(['id', 'tenant', 'name'] as const)('in a bucket with another %s', (name) => {
    expect(() => verifyUpload(keyring, altered(bucket, name), upload)).toThrow(IntegrityError);
  });
});
