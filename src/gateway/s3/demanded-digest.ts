// Bodies that S3 wants protected by a digest: lists of keys to delete, configurations, objects that
// are to be locked ("Content-MD5" of the S3 API reference, and "Checking object integrity" of the
// user guide). Here a signed payload protects a body as well.
import { Refusal } from '../../core/errors.ts';
import { receiveSmall } from './body.ts';
import type { Asked, Reserved } from './stages.ts';

const digestForm = /^(?:content-md5|x-amz-trailer|x-amz-checksum-(?:crc|sha)\w+)$/;
const missing = 'Missing required header for this request: Content-MD5';

/** Throws `Refusal` InvalidRequest where nothing says what the body has to be. */
export function demandDigest({ request, who }: Asked | Reserved, message = missing): void {
  const { kind } = who.payload;
  if (kind === 'sha256' || kind === 'signed-chunks') return;
  for (const name in request.headers) {
    if (digestForm.test(name)) return;
  }
  throw new Refusal('InvalidRequest', { message });
}

/** A small document, whole, with its digest compared. Throws `Refusal`. */
export async function receiveDocument(
  context: Asked | Reserved,
  whenEmpty: 'MissingRequestBodyError' | 'MalformedXML' = 'MissingRequestBodyError',
): Promise<Buffer> {
  demandDigest(context);
  const body = await receiveSmall(context);
  if (body.length === 0) throw new Refusal(whenEmpty);
  return body;
}
