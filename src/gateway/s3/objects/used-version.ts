// What a request reads of a class with tiers, which is moved by how it is read.
import type { Bucket } from '../../../catalog/buckets.ts';
import type { Version } from '../../../catalog/versions.ts';
import { isOwnClass } from '../../../core/own-class.ts';
import type { ReservedRequest } from '../reserved.ts';

/** To be called before it is recorded: the ledger notes it with the record. */
export function noteUsed(
  context: Pick<ReservedRequest, 'services' | 'used'>,
  {
    bucket: { id: bucketId, tenant },
    version: { key, seq, class: of },
  }: { bucket: Pick<Bucket, 'id' | 'tenant'>; version: Pick<Version, 'key' | 'seq' | 'class'> },
): void {
  const { classes, dayMs } = context.services;
  if (!isOwnClass(of) || !classes.chainOf(tenant, of)) return;
  context.used = { bucketId, key, seq, dayMs };
}
