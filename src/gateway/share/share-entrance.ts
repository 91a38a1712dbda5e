// How holders of share links come in: `/_/share/TOKEN/PATH`, where the path lies in what the link
// opens. Invariants: nothing of a request but its method, path, range and conditions has a meaning;
// and to who does not know a link's secret, one that was never made, one that has ended and one
// that is alive are the same.
import { findShare, identityOf, isFolder, type Share } from '../../authz/shares.ts';
import { verifyListed } from '../../catalog/authentic.ts';
import { listObjects } from '../../catalog/listing.ts';
import { percentEncode } from '../../core/canonical-request.ts';
import { Refusal } from '../../core/errors.ts';
import { sharePageEntriesMax } from '../../core/limits.ts';
import { principalId } from '../../core/principal.ts';
import type { Directory } from '../../state/directory.ts';
import type { DescribeRefusal, Reply } from '../http/reply.ts';
import { decodeToken, encodeToken } from '../s3/buckets/listing-xml.ts';
import type { AnyOperation, Operation } from '../s3/operation.ts';
import { getObject, headObject } from '../s3/operations/get-object.ts';
import type { Entrance } from '../s3/pipeline.ts';
import {
  checkKeyLength,
  headersOf,
  parameter,
  parseTarget,
  type S3Request,
} from '../s3/request.ts';
import type { Reserved } from '../s3/stages.ts';
import type { RequestServices } from '../services.ts';
import { pagePolicy, renderPage } from './share-page.ts';
import { baseName, inertPolicy, secretHeaders, sharePath, splitSharePath } from './share-url.ts';

export function shareEntrance(
  { read, revocations, sealFaults }: Pick<RequestServices, 'read' | 'revocations' | 'sealFaults'>,
  directory: Directory,
): Entrance {
  return {
    enter: async ({ raw, id, source, isSecure, clock }) => {
      const { method = '' } = raw;
      const { target, path, query } = parseTarget(raw);
      clock.enter('authenticate');
      if (method !== 'GET' && method !== 'HEAD') throw new Refusal('MethodNotAllowed');
      const { token, rest } = splitSharePath(path);
      const find = async () => {
        const share = await findShare(read, token);
        if (!share) throw new Refusal('NoSuchShare');
        const actor = await directory.findActor(principalId(share.tenant, share.principal));
        if (!actor) throw shareEnded('Who made it may share nothing any more.');
        // What was revoked stays so, also where the row that says it was taken away.
        if (revocations.has([share.id])) share.isRevoked = true;
        return { share, who: identityOf(share, actor) };
      };
      const { share, who } = await find();
      const { key, refused: notThere } = findKey(share, rest);
      const cause = sealFaults.ofPrincipal(who.principal);
      const unsealed = cause ? new Refusal('BursarIntegrityError', { cause }) : null;
      const refused = findEnd(share) ?? unsealed ?? notThere;
      const isPage = isFolder({ key });
      const request: S3Request = {
        ...{ raw, id, source, isSecure, method, target, path },
        ...{ rawHeaders: [], expectsContinue: false },
        bucketName: `${share.bucketTenant}:${share.bucket}`,
        key: isPage ? null : key,
        // A page is a listing, as rules see it.
        query: isPage ? [...query.filter(isPosition), ['prefix', key], ['delimiter', '/']] : [],
        headers: Object.fromEntries(
          Object.entries(headersOf(raw)).filter(([name]) => kept.has(name)),
        ),
      };
      const isHead = method === 'HEAD';
      const findOperation = () => operationOf(share, token, { isPage, isHead });
      const renew = async () => {
        const now = await find();
        if (now.share.isRevoked) throw wasRevoked();
        return now.who;
      };
      return { request, who, refused, findOperation, renew };
    },
    describeRefusal: describeInWords,
  };
}

const kept: ReadonlySet<string> = new Set([
  ...['host', 'user-agent', 'referer', 'range', 'if-range'],
  ...['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since'],
]);

function isPosition([name]: readonly [string, string]): boolean {
  return name === 'continuation-token';
}

/** What of the share is asked for, and why it is not to be had. */
function findKey(share: Share, rest: string): { key: string; refused: Refusal | null } {
  if (isFolder(share)) {
    const key = share.key + rest;
    checkKeyLength(key);
    return { key, refused: null };
  }
  // It has one name, and needs none.
  const isNamed = rest === '' || rest === baseName(share.key);
  return { key: share.key, refused: isNamed ? null : new Refusal('NoSuchKey') };
}

function operationOf(
  share: Share,
  token: string,
  { isPage, isHead }: { isPage: boolean; isHead: boolean },
): AnyOperation {
  return isPage ? sharedFolder(share, token) : sharedObject(share, isHead);
}

/** Why it opens nothing, which only who knows the secret gets to see; null: it does. */
function findEnd({ isRevoked, expiresMs, downloads, downloadsMax }: Share): Refusal | null {
  if (isRevoked) return wasRevoked();
  if (Date.now() >= expiresMs) return shareEnded('It has expired.');
  return downloadsMax !== null && downloads >= downloadsMax ? shareEnded('It is used up.') : null;
}

function wasRevoked(): Refusal {
  return shareEnded('It was revoked.');
}

/** Plain words: people read them in browsers. */
export const describeInWords: DescribeRefusal = ({ code, message }, { id }) => ({
  headers: {
    ...secretHeaders,
    'content-type': 'text/plain; charset=utf-8',
    'content-security-policy': inertPolicy,
  },
  text: `${message}\n\n${code}, request ${id}\n`,
});

// What a share link does: it gives an object as a file to save, or shows a folder as a page.
// Invariants: a download is counted, durably, before its first byte goes out, and a range is one;
// and nothing that somebody stored is ever shown as a page of this site.

/** For who proved by the secret that the link was theirs to use. */
function shareEnded(reason: string): Refusal {
  return new Refusal('ShareEnded', { message: `This share link is no longer valid. ${reason}` });
}

function sharedObject(share: Share, isHead: boolean): Operation<'object'> {
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

function sharedFolder(share: Share, token: string): Operation<'listing'> {
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
