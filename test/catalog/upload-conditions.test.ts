// Conditional completions of uploads: the key must have been left alone since they were begun.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { computeUploadMac, sealObject } from '#bursar/catalog/authentic.js';
import { findUpload } from '#bursar/catalog/uploads.js';
import { newUploadId } from '#bursar/core/ids.js';
import { commitOf, keyring, type LedgerFixture, openLedger, putOf } from '../ledger/fixture.ts';

const bucket = { id: 1, tenant: 'one', name: 'data' };
const exists = { ifMatch: ['*'], ifNoneMatch: null };
const isAbsent = { ifMatch: null, ifNoneMatch: ['*'] };
let fixture: LedgerFixture;

beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(() => fixture.close());

const put = (key = 'k') => fixture.ledger.commit(commitOf(putOf(key).change, key));

function remove(versionId?: string) {
  const conditions = { ifMatch: null, ifNoneMatch: null };
  const change = { kind: 'deleteObject', bucketId: 1, key: 'k', versionId, conditions } as const;
  return fixture.ledger.commit(commitOf(change, 'k'));
}

async function begin(): Promise<string> {
  const id = newUploadId();
  const upload = { id, bucketId: 1, key: 'k', initiator: 'one/alice', class: 'STANDARD', epoch: 1 };
  const change = { kind: 'createUpload', ...upload, attributes: '{}' } as const;
  await fixture.ledger.commit(commitOf(change, 'k'));
  return id;
}

/** As version 0.1.0 did, whose rows do not say what was current. */
async function beginAsBefore(createdMs: number): Promise<string> {
  const id = await begin();
  const row = await findUpload({ read: fixture.read, keyring }, bucket, { id, key: 'k' });
  expect(JSON.parse(row?.attributes ?? '')).toEqual({
    begunSeq: expect.any(Number),
    currentSeq: expect.any(Number),
  });
  const before = { ...row, attributes: '{}', createdMs, completed: null } as NonNullable<
    typeof row
  >;
  const mac = Buffer.from(computeUploadMac(keyring, bucket, before)).toString('hex');
  fixture.edit(
    `UPDATE uploads SET attributes = '{}', created_ms = ${createdMs}, mac = x'${mac}'
       WHERE id = '${id}'`,
  );
  return id;
}

async function complete(
  uploadId: string,
  conditions: { ifMatch: string[] | null; ifNoneMatch: string[] | null },
): Promise<string> {
  const object = sealObject(keyring, {
    ...{ tenant: 'one', sizeBytes: 0, etag: 'joined-1', sha256: null, class: 'STANDARD' },
    ...{ owner: 'alice', attributes: '{}', manifest: Buffer.alloc(0) },
  });
  const result = await fixture.ledger.commit(
    commitOf(
      {
        ...{ kind: 'completeUpload', bucketId: 1, key: 'k', uploadId, object },
        parts: { numbers: new Uint32Array(), manifestBytes: new Uint32Array() },
        ...{ fingerprint: '', conditions },
      },
      'k',
    ),
  );
  return result.ok ? 'done' : result.code;
}

const listNotes = () => fixture.read.all('SELECT key FROM deleted_during_uploads');

describe('a conditional completion', () => {
  it('of an upload of 0.1.0 is decided by the time of what is current', async () => {
    await put();
    const old = await beginAsBefore(Date.now() - 60_000);
    expect(await complete(old, exists)).toBe('ConditionalRequestConflict');
    expect(await complete(await beginAsBefore(Date.now() + 60_000), exists)).toBe('done');
  });

  it('notices a write that was deleted again, and nothing from before the upload', async () => {
    const first = await begin();
    await put('another');
    await remove();
    expect(await listNotes()).toEqual([]);
    await put();
    await remove();
    expect(await listNotes()).toEqual([{ key: 'k' }]);
    expect(await complete(first, isAbsent)).toBe('ConditionalRequestConflict');
    const second = await begin();
    expect(await complete(second, isAbsent)).toBe('done');
    expect(await complete(first, { ifMatch: null, ifNoneMatch: null })).toBe('done');
    expect(await listNotes()).toEqual([{ key: 'k' }]);
    await fixture.ledger.maintain({
      kind: 'forgetCompleted',
      beforeMs: Date.now() + 60_000,
      max: 1,
    });
    expect(await listNotes()).toEqual([{ key: 'k' }]);
    await fixture.ledger.maintain({
      kind: 'forgetCompleted',
      beforeMs: Date.now() + 60_000,
      max: 1,
    });
    expect(await listNotes()).toEqual([]);
  });

  it('notices a newer version that was deleted again', async () => {
    const versioning = { kind: 'setVersioning', bucketId: 1, versioning: 'Enabled' } as const;
    await fixture.ledger.commit(commitOf(versioning, ''));
    await put();
    const upload = await begin();
    await put();
    const [newer] = await fixture.read.all<{ id: string }>('SELECT version_id AS id FROM versions');
    await remove(newer?.id);
    expect(await complete(upload, exists)).toBe('ConditionalRequestConflict');
    const abort = { kind: 'abortUpload', tenant: 'one', bucketId: 1, key: 'k' } as const;
    await fixture.ledger.commit(commitOf({ ...abort, uploadId: upload }, 'k'));
    expect(await listNotes()).toEqual([]);
  });
});
