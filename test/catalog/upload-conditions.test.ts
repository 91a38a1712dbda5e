// Conditional completions of uploads that version 0.1.0 began, whose rows do not say what was current.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { computeUploadMac, sealObject } from '#bursar/catalog/authentic.js';
import { findUpload } from '#bursar/catalog/uploads.js';
import { newUploadId } from '#bursar/core/ids.js';
import { commitOf, keyring, type LedgerFixture, openLedger, putOf } from '../ledger/fixture.ts';

const bucket = { id: 1, tenant: 'one', name: 'data' };
let fixture: LedgerFixture;

beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(() => fixture.close());

async function beginAsBefore(createdMs: number): Promise<string> {
  const id = newUploadId();
  const upload = { id, bucketId: 1, key: 'k', initiator: 'one/alice', class: 'STANDARD', epoch: 1 };
  const change = { kind: 'createUpload', ...upload, attributes: '{}' } as const;
  await fixture.ledger.commit(commitOf(change, 'k'));
  const row = await findUpload({ read: fixture.read, keyring }, bucket, { id, key: 'k' });
  expect(JSON.parse(row?.attributes ?? '')).toEqual({ currentSeq: expect.any(Number) });
  const before = { ...upload, attributes: '{}', createdMs, completed: null };
  const mac = Buffer.from(computeUploadMac(keyring, bucket, before)).toString('hex');
  fixture.edit(
    `UPDATE uploads SET attributes = '{}', created_ms = ${createdMs}, mac = x'${mac}'
       WHERE id = '${id}'`,
  );
  return id;
}

async function complete(uploadId: string): Promise<string> {
  const object = sealObject(keyring, {
    ...{ tenant: 'one', sizeBytes: 0, etag: 'joined-1', sha256: null, class: 'STANDARD' },
    ...{ owner: 'alice', attributes: '{}', manifest: Buffer.alloc(0) },
  });
  const result = await fixture.ledger.commit(
    commitOf(
      {
        ...{ kind: 'completeUpload', bucketId: 1, key: 'k', uploadId, object },
        parts: { numbers: new Uint32Array(), manifestBytes: new Uint32Array() },
        ...{ fingerprint: '', conditions: { ifMatch: ['*'], ifNoneMatch: null } },
      },
      'k',
    ),
  );
  return result.ok ? 'done' : result.code;
}

it('are decided by the time of what is current', async () => {
  await fixture.ledger.commit(commitOf(putOf('k').change, 'k'));
  expect(await complete(await beginAsBefore(Date.now() - 60_000))).toBe(
    'ConditionalRequestConflict',
  );
  expect(await complete(await beginAsBefore(Date.now() + 60_000))).toBe('done');
});
