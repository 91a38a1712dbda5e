// `x-amz-expected-bucket-owner` and its twin for copy sources: the client's safeguard against
// writing into somebody else's bucket ("Verifying bucket ownership" of the Amazon S3 user guide).
import type { Bucket } from '../catalog/buckets.ts';
import { Refusal } from '../core/errors.ts';
import { principalId } from '../core/principal.ts';
import { header, type S3Request } from './request.ts';

/** Throws `Refusal` AccessDenied unless the bucket's owner is whom the header, if any, names. */
export function checkExpectedOwner(request: S3Request, headerName: string, bucket: Bucket): void {
  const expected = header(request, headerName);
  if (expected === undefined || expected === principalId(bucket.tenant, bucket.owner)) return;
  throw new Refusal('AccessDenied', { cause: 'the bucket has another owner' });
}
