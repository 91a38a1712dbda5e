// Requester pays: who reads a bucket from another tenant says that they pay, and they alone are
// charged. Who writes into it pays as in any bucket, and so does its owner, whose the bytes are.
// Invariant: nobody is charged alone who has not said so.
// Specification: "Using Requester Pays buckets for storage transfers and usage" of the Amazon S3
// user guide.
import type { Bucket } from '../../../catalog/buckets.ts';
import { Refusal } from '../../../core/errors.ts';
import type { ReadPayer } from '../../../core/read-payer.ts';
import { onlyChildren, parseXml } from '../../http/xml.ts';
import type { AskedRequest } from '../asked.ts';

const payerHeader = 'x-amz-request-payer';

/** Does who asks pay for the bucket's answer in its owner's place? `tenant`: of who asks. */
export function paysAsRequester(
  { who, tenant }: Pick<AskedRequest, 'who' | 'tenant'>,
  bucket: Bucket | null,
): boolean {
  if (!bucket?.publicAccess?.requesterPays) return false;
  return who.isAnonymous || tenant !== bucket.tenant;
}

/** Throws `Refusal` AccessDenied for who would have to pay, and has not said that they do. */
export function checkPayer(asked: AskedRequest, bucket: Bucket | null): void {
  if (!paysAsRequester(asked, bucket)) return;
  const { who, request } = asked;
  // Nobody can be charged that is nobody.
  if (!who.isAnonymous && request.headers[payerHeader]?.toLowerCase() === 'requester') return;
  throw new Refusal('AccessDenied');
}

/** Says that the requester was charged. */
export const chargedHeader = { 'x-amz-request-charged': 'requester' } as const;

/** S3 knows no third. Throws `Refusal` MalformedXML. */
export function parsePayment(body: Buffer): ReadPayer {
  const root = parseXml(body, 'RequestPaymentConfiguration');
  const [payer] = onlyChildren(root, ['Payer']);
  const text = payer?.text.trim();
  if (text !== 'Requester' && text !== 'BucketOwner') throw new Refusal('MalformedXML');
  return text === 'Requester' ? 'requester' : 'owner';
}
