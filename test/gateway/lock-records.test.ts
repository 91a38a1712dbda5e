// What the log says of object lock and public access: who set, changed or bypassed what, on which
// version.
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import {
  type Answer,
  callNative,
  type Message,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const until = '2099-01-01T00:00:00.000Z';
const lock = {
  'x-amz-object-lock-mode': 'GOVERNANCE',
  'x-amz-object-lock-retain-until-date': until,
};

let target: Target;
let id: string;

beforeAll(async () => {
  target = await startEmbeddedTarget();
});
afterAll(() => target?.stop());

/** The record of a call, which succeeds. */
async function recordOf(message: Message): Promise<unknown> {
  const answer: Answer = await send(target, message);
  expect([answer.status, answer.text]).toEqual([expect.toSatisfy((one) => one < 300), answer.text]);
  id = answer.headers['x-amz-version-id'] ?? id;
  const query = [['limit', '1000']] as const;
  const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, query);
  const requestId = answer.headers['x-amz-request-id'];
  return records.find((one: { requestId: string }) => one.requestId === requestId);
}

const put = (path: string, name: string, body: string, headers = {}): Message => ({
  ...{ method: 'PUT', path, query: [[name, '']], body, headers },
});

it('says what was locked, with what, and what was bypassed for it', async () => {
  const enabled = { 'x-amz-bucket-object-lock-enabled': 'true' };
  const made = { method: 'PUT', path: '/logged', headers: enabled };
  expect(await recordOf(made)).toMatchObject({ change: { objectLock: true } });
  const written = { method: 'PUT', path: '/logged/k', headers: lock, body: 'x' };
  const retention = { mode: 'GOVERNANCE', until };
  expect(await recordOf(written)).toMatchObject({ versionId: id, change: { retention } });
  const hold = put('/logged/k', 'legal-hold', '<LegalHold><Status>ON</Status></LegalHold>');
  expect(await recordOf(hold)).toMatchObject({ versionId: id, change: { legalHold: true } });
  const bypass = { 'x-amz-bypass-governance-retention': 'true' };
  const freed = put('/logged/k', 'retention', '<Retention/>', bypass);
  expect(await recordOf(freed)).toMatchObject({
    ...{ action: 's3:PutObjectRetention', versionId: id },
    change: { retention: null, bypassGovernance: true },
  });
});

it('says of a deletion that it bypassed governance', async () => {
  await recordOf({ method: 'PUT', path: '/logged/held', headers: lock, body: 'x' });
  const headers = { 'x-amz-bypass-governance-retention': 'true' };
  const query = [['versionId', id]] as const;
  const deleted = await recordOf({ method: 'DELETE', path: '/logged/held', query, headers });
  expect(deleted).toMatchObject({ versionId: id, change: { bypassGovernance: true } });
});

it('says of what was refused which version it was asked of', async () => {
  await recordOf({ method: 'PUT', path: '/logged/refused', headers: lock, body: 'x' });
  const query = [['versionId', id]] as const;
  const answer = await send(target, { method: 'DELETE', path: '/logged/refused', query });
  expect(answer.status).toBe(403);
  const absent = [['versionId', 'f'.repeat(32)]] as const;
  const unnamed = [['versionId', 'no-version']] as const;
  await send(target, { method: 'GET', path: '/logged/refused', query: absent });
  await send(target, { method: 'GET', path: '/logged/refused', query: unnamed });
  const path = [['prefix', 'refused'] as const, ['limit', '1000'] as const];
  await expect
    .poll(async () => {
      const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, path);
      const refused = records.filter(({ status }: { status: number }) => status >= 400);
      return refused.map((one: { versionId?: string }) => one.versionId ?? null).sort();
    })
    .toEqual([id, 'f'.repeat(32), null].sort());
});

it('says what a bucket was told', async () => {
  const rule =
    '<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Years>1</Years></DefaultRetention></Rule>';
  const body =
    '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>' +
    `${rule}</ObjectLockConfiguration>`;
  const DefaultRetention = { Mode: 'COMPLIANCE', Years: 1 };
  expect(await recordOf(put('/logged', 'object-lock', body))).toMatchObject({
    change: { objectLock: { ObjectLockEnabled: 'Enabled', Rule: { DefaultRetention } } },
  });
  const block = '<BlockPublicPolicy>true</BlockPublicPolicy>';
  const blocked = `<PublicAccessBlockConfiguration>${block}</PublicAccessBlockConfiguration>`;
  expect(await recordOf(put('/logged', 'publicAccessBlock', blocked))).toMatchObject({
    change: { publicAccess: { blockPublicPolicy: true, restrictPublicBuckets: false } },
  });
  const removed = {
    method: 'DELETE',
    path: '/logged',
    query: [['publicAccessBlock', '']] as const,
  };
  expect(await recordOf(removed)).toMatchObject({ change: { publicAccess: null } });
  const own = '<Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule>';
  const owned = `<OwnershipControls>${own}</OwnershipControls>`;
  expect(await recordOf(put('/logged', 'ownershipControls', owned))).toMatchObject({
    change: { ownership: 'ObjectWriter' },
  });
});
