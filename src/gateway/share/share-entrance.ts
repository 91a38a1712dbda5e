// How holders of share links come in: `/_/share/TOKEN/PATH`, where the path lies in what the link
// opens. Invariants: nothing of a request but its method, path, range and conditions has a meaning;
// and to who does not know a link's secret, one that was never made, one that has ended and one
// that is alive are the same.

import { findShare, identityOf, isFolder, type Share } from '../../authz/shares.ts';
import { Refusal } from '../../core/errors.ts';
import { principalId } from '../../core/principal.ts';
import type { Directory } from '../../state/directory.ts';
import type { DescribeRefusal } from '../http/reply.ts';
import type { AnyOperation } from '../s3/operation.ts';
import type { Entrance } from '../s3/pipeline.ts';
import { checkKeyLength, headersOf, parseTarget, type S3Request } from '../s3/request.ts';
import type { RequestServices } from '../services.ts';
import { sharedFolder, sharedObject, shareEnded } from './share-operations.ts';
import { baseName, inertPolicy, secretHeaders, splitSharePath } from './share-url.ts';

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
      const refused = cause ? new Refusal('BursarIntegrityError', { cause }) : notThere;
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

/** Throws `Refusal` ShareEnded, which only who knows the secret gets to see. */
function operationOf(
  share: Share,
  token: string,
  { isPage, isHead }: { isPage: boolean; isHead: boolean },
): AnyOperation {
  const { isRevoked, expiresMs, downloads, downloadsMax } = share;
  if (isRevoked) throw wasRevoked();
  if (Date.now() >= expiresMs) throw shareEnded('It has expired.');
  if (downloadsMax !== null && downloads >= downloadsMax) throw shareEnded('It is used up.');
  return isPage ? sharedFolder(share, token) : sharedObject(share, isHead);
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
