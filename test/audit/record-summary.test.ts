// Records added up: who did what, was charged what and was refused what, in bounded memory.
import { expect, it } from 'vitest';
import { others, RecordSummary } from '#bursar/audit/record-summary.js';
import type { AuditRecord } from '#bursar/audit/verify/opening.js';

const record = (more: object): AuditRecord =>
  ({
    ...{ index: 1, time: '2026-11-01T00:00:00.000Z', tenant: 'cms', principal: 'alice' },
    ...{ action: 's3:GetObject', status: 200, evidence: 'shared-secret', source: 'a test' },
    ...{ bytesIn: 0, bytesOut: 0, ...more },
  }) as AuditRecord;

it('adds up operations, bytes, charges and refusals, with the first and the last record', () => {
  const summary = new RecordSummary();
  summary.add(record({ index: 3, bucket: 'raw', bytesOut: 10 }), 1_000_000n);
  summary.add(record({ index: 4, bucket: 'raw', bytesIn: 5 }), 750_000_000_000n);
  const late = { index: 9, time: '2026-11-02T10:00:00.000Z', status: 403, error: 'AccessDenied' };
  summary.add(record({ ...late, bucket: 'raw', bucketTenant: 'atlas', reads: 40 }), 0n);
  expect(summary.records).toBe(3);
  expect(summary.byPrincipal.get('cms/alice')).toEqual({
    ...{ operations: 42, refused: 40, bytesIn: 5, bytesOut: 10, charged: 750_001_000_000n },
    ...{ firstIndex: 3, firstTime: '2026-11-01T00:00:00.000Z' },
    ...{ lastIndex: 9, lastTime: '2026-11-02T10:00:00.000Z' },
  });
  expect([...summary.byBucket.keys()]).toEqual(['cms:raw', 'atlas:raw']);
  expect([...summary.byDay.keys()]).toEqual(['2026-11-01', '2026-11-02']);
  expect([...summary.refusals.keys()]).toEqual(['cms/alice\ns3:GetObject\nAccessDenied']);
  expect([...summary.evidence]).toEqual([['shared-secret', 3]]);
});

it('tells what was changed, and not what was refused', () => {
  const summary = new RecordSummary();
  const grant = { action: 'bursar:PutGrant', target: 'tenants/cms/grants/g', change: {} };
  summary.add(record({ ...grant, index: 7 }), 0n);
  summary.add(record({ ...grant, status: 403, error: 'AccessDenied' }), 0n);
  summary.add(record({ action: 's3:PutBucketPolicy', bucket: 'raw', configures: {} }), 0n);
  summary.add(record({ action: 's3:PutObject', change: { source: { bucket: 'raw' } } }), 0n);
  expect(summary.changes.map(({ action, about }) => [action, about])).toEqual([
    ['bursar:PutGrant', 'tenants/cms/grants/g'],
    ['s3:PutBucketPolicy', 'cms:raw'],
  ]);
  expect(summary.changes[0]).toMatchObject({ index: 7, who: 'cms/alice' });
});

it('holds no more lines than a bound, and adds up all others in one', () => {
  const summary = new RecordSummary();
  const many = 5000;
  for (let i = 0; i < many; i++) {
    summary.add(record({ index: i, principal: `p${i}`, change: {} }), 1_000_000n);
  }
  expect(summary.byPrincipal.size).toBe(2001);
  expect(summary.byPrincipal.get(others)).toMatchObject({ operations: many - 2000 });
  expect(summary.byAction.size).toBe(2001);
  expect(summary.changes.length + summary.changesLeftOut).toBe(many);
  expect(summary.whole).toMatchObject({ operations: many, charged: 5_000_000_000n });
});

it('takes what is no number for nothing', () => {
  const summary = new RecordSummary();
  summary.add(record({ reads: -1, bytesOut: 'many' }), 0n);
  expect(summary.whole).toMatchObject({ operations: 1, bytesOut: 0, charged: 0n });
});
