// What a share link does: it gives an object as a file to save, or shows a folder as a page.
// Invariants: a download is counted, durably, before its first byte goes out, and a range is one;
// and nothing that somebody stored is ever shown as a page of this site.
import { isFolder, type Share } from '../../authz/shares.ts';
import { verifyListed } from '../../catalog/authentic.ts';
import { listObjects } from '../../catalog/listing.ts';
import { percentEncode } from '../../core/canonical-request.ts';
import { Refusal } from '../../core/errors.ts';
import { sharePageEntriesMax } from '../../core/limits.ts';
import type { Reply } from '../http/reply.ts';
import { decodeToken, encodeToken } from '../s3/buckets/listing-xml.ts';
import type { Operation } from '../s3/operation.ts';
import { getObject, headObject } from '../s3/operations/get-object.ts';
import { parameter } from '../s3/request.ts';
import type { Reserved } from '../s3/stages.ts';
import { pagePolicy, renderPage } from './share-page.ts';
import { baseName, inertPolicy, secretHeaders, sharePath } from './share-url.ts';

/** For who proved by the secret that the link was theirs to use. */
export function shareEnded(reason: string): Refusal {
  return new Refusal('ShareEnded', { message: `This share link is no longer valid. ${reason}` });
}

export function sharedObject(share: Share, isHead: boolean): Operation<'object'> {
  return {
    ...(isHead ? headObject : getObject),
    run: async (context) => {
      checkSame(context, share);
      const { status, headers, body } = await getObject.run(context);
      if (body !== null) await count(context, share.id);
      return { status, headers: fileHeaders(headers, baseName(context.key)), body };
    },
  };
}

/** Throws `Refusal` ShareEnded where the bucket is another one that was given the name. */
function checkSame({ bucket }: Reserved<'listing'>, { bucketId }: Share): void {
  if (bucket.id !== bucketId) throw shareEnded('What it opened was deleted.');
}

/** Throws `Refusal` ShareEnded where the link allows no more. */
async function count({ services }: Reserved<'listing'>, id: string): Promise<void> {
  const counted = await services.ledger.maintain({ kind: 'countDownload', id });
  if (counted === 0) throw shareEnded('It is used up.');
}

const given: readonly string[] = [
  ...['etag', 'last-modified', 'accept-ranges', 'content-length', 'content-range'],
  ...['content-type', 'content-encoding', 'content-language'],
];

/** Of what the object's owner stored with it, only what it takes to read it. */
function fileHeaders(headers: Reply['headers'], name: string): Reply['headers'] {
  const kept = Object.entries(headers).filter(([header]) => given.includes(header));
  return {
    ...Object.fromEntries(kept),
    ...secretHeaders,
    'content-security-policy': inertPolicy,
    // RFC 6266: the name in UTF-8, percent-encoded.
    'content-disposition': `attachment; filename*=UTF-8''${percentEncode(name, false)}`,
  };
}

export function sharedFolder(share: Share, token: string): Operation<'listing'> {
  return {
    name: 'ShowSharedFolder',
    action: 's3:ListBucket',
    resource: 'listing',
    price: 'put',
    run: (context) => showFolder(context, share, token),
  };
}

async function showFolder(
  context: Reserved<'listing'>,
  share: Share,
  token: string,
): Promise<Reply> {
  checkSame(context, share);
  const { services, bucket, request } = context;
  const prefix = parameter(request, 'prefix') ?? '';
  const after = parameter(request, 'continuation-token');
  const query = {
    bucketId: bucket.id,
    prefix,
    delimiter: '/',
    max: sharePageEntriesMax,
    after: after === undefined ? null : decodeToken(after),
  };
  const listing = await listObjects(services.read, query, (entry) => {
    verifyListed(services.keyring, bucket, entry);
    const { key, sizeBytes, createdMs } = entry;
    return { key, sizeBytes, createdMs };
  });
  const rest = prefix.slice(share.key.length);
  const pathTo = (key: string) => sharePath(token, key.slice(share.key.length));
  const here = pathTo(prefix);
  const { next } = listing;
  const text = renderPage({
    title: baseName(share.key.slice(0, -1)) || share.bucket,
    rest,
    share,
    up: rest === '' ? null : pathTo(prefix.slice(0, -baseName(prefix.slice(0, -1)).length - 1)),
    folders: listing.prefixes.map((key) => ({ name: key.slice(prefix.length), path: pathTo(key) })),
    files: listing.entries
      // The folder itself, which some clients store as an object.
      .filter(({ key }) => !isFolder({ key }))
      .map(({ key, sizeBytes, createdMs }) => ({
        ...{ name: key.slice(prefix.length), path: pathTo(key) },
        ...{ sizeBytes, createdMs },
      })),
    next: next && `${here}?continuation-token=${encodeToken(next)}`,
  });
  const headers = {
    ...secretHeaders,
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': pagePolicy,
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
  };
  return { status: 200, headers, body: text };
}
