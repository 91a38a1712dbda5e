// Each operation at the largest input that it takes.
import { delegate } from '#bursar/authz/tokens/delegate.js';
import { generatePrivateKey } from '#bursar/authz/tokens/keys.js';
import { nativeMessage } from './asking.mjs';
import {
  bucketTags,
  completion,
  cors,
  deletion,
  escapedPart,
  escapedParts,
  lifecycle,
  longKey,
  metadata,
  objectTags,
  policyOf,
  postForm,
  preflightHeaders,
  sessionPolicy,
  shortCors,
  withDigest,
} from './documents.mjs';
import { bucket, listed, ruled } from './state.mjs';

/**
 * @typedef {object} Largest
 * @property {string} title
 * @property {number} [status] 200 where it is absent
 * @property {(i: number) => import('./asking.mjs').Message | undefined} messageAt the i-th request;
 *   undefined: there are no more
 * @property {number} [perSecond] no more than so many
 * @property {boolean} [isWhole] is asked until there are no more, and not for a time
 */

const listAll = 'max-keys=1000';
const linksMax = 8;

/** @returns {Promise<Largest[]>} in an order in which each finds what it asks for */
export async function largestInputs({ asker, target, begun }) {
  const { etag } = (await asker.ask({ method: 'HEAD', path: `/${bucket}/source` })).headers;
  const [first] = begun;
  const fewer = begun.at(-1);
  const completed = begun.filter((upload) => upload !== fewer);
  const partsOf = new Map();
  const listOf = ({ parts }) => {
    if (!partsOf.has(parts)) partsOf.set(parts, completion(parts, etag));
    return partsOf.get(parts);
  };
  const complete = (upload, body = listOf(upload)) => ({
    ...{ method: 'POST', path: `/${bucket}/${upload.key}`, query: [['uploadId', upload.id]], body },
  });
  // A legal list that is not the upload's: of parts, and of one part, with tags that are none.
  const escaped = [escapedParts, escapedPart].map((body) => complete(fewer, body));
  const about = (method, name, search, more) => {
    const query = [...new URLSearchParams(search)];
    return { method, path: `/${name}`, query, ...more };
  };
  const always = (title, message, status = 200) => ({ title, status, messageAt: () => message });
  const native = (title, ...asked) => always(title, nativeMessage(...asked));
  const once = (title, uploads) => ({
    ...{ title, isWhole: true },
    messageAt: (i) => uploads[i] && complete(uploads[i]),
  });
  const preflight = { ...about('OPTIONS', ruled), isUnsigned: true, headers: preflightHeaders };
  // One address is not let ask for more.
  const preflights = (title) => ({ ...always(title, preflight), perSecond: 150 });
  const inTenant = 'tenants/default';
  return [
    { title: 'completion, escaped ETags', status: 400, messageAt: (i) => escaped[i % 2] },
    always(
      `ListParts, of ${first.parts}`,
      about('GET', `${bucket}/${first.key}`, `uploadId=${first.id}`),
    ),
    once(`completion, ${first.parts} parts`, completed),
    once(`completion, ${fewer.parts} parts`, [fewer]),
    always(`completion again, ${first.parts} parts`, complete(first)),
    always(
      'GetObjectAttributes, of parts',
      about('GET', `${bucket}/${first.key}`, 'attributes', {
        headers: { 'x-amz-object-attributes': 'ETag,Checksum,ObjectParts,StorageClass,ObjectSize' },
      }),
    ),
    always('HEAD, of parts', about('HEAD', `${bucket}/${first.key}`)),
    always(
      'GET of a byte, of parts',
      { ...about('GET', `${bucket}/${first.key}`), headers: { range: 'bytes=5242880-5242880' } },
      206,
    ),
    {
      title: `CopyObject, ${fewer.parts} parts`,
      messageAt: (i) => ({
        ...about('PUT', `${bucket}/copies/${i}`),
        headers: { 'x-amz-copy-source': `${bucket}/${fewer.key}` },
      }),
    },
    always(
      'ListObjectsV2, of parts',
      about('GET', bucket, `list-type=2&prefix=copies/&${listAll}`),
    ),
    always('DeleteObjects', about('POST', ruled, 'delete', withDigest(deletion))),
    always('ListObjectsV2, long keys', about('GET', listed, `list-type=2&${listAll}`)),
    always(
      'ListObjectsV2, folded',
      about(
        'GET',
        listed,
        `list-type=2&delimiter=/&start-after=${encodeURIComponent(longKey(0))}0&${listAll}`,
      ),
    ),
    always('ListObjectVersions', about('GET', listed, `versions&${listAll}`)),
    always('ListMultipartUploads', about('GET', listed, 'uploads&max-uploads=1000')),
    always('PutBucketLifecycle', about('PUT', ruled, 'lifecycle', withDigest(lifecycle))),
    always('GetBucketLifecycle', about('GET', ruled, 'lifecycle')),
    always('PutBucketCors', about('PUT', ruled, 'cors', withDigest(cors))),
    preflights('preflight, 100 of 1,850 allowed headers'),
    always('PutBucketCors, any header', about('PUT', ruled, 'cors', withDigest(shortCors))),
    preflights('preflight, 100 of any headers'),
    always('PutBucketTagging', about('PUT', ruled, 'tagging', withDigest(bucketTags)), 204),
    always('PutBucketPolicy', about('PUT', ruled, 'policy', { body: policyOf(ruled) }), 204),
    always(
      'GET under that policy',
      { ...about('GET', `${ruled}/${'a'.repeat(1000)}`), isUnsigned: true },
      403,
    ),
    always('PutObject, metadata', { ...about('PUT', `${bucket}/m`), headers: metadata, body: 'x' }),
    always('PutObjectTagging', about('PUT', `${bucket}/m`, 'tagging', withDigest(objectTags))),
    always(
      'POST form',
      { ...about('POST', bucket), isUnsigned: true, ...postForm(target, 'form') },
      204,
    ),
    always('AssumeRoleWithWebIdentity', await roleMessage(asker)),
    native('list of grants', 'GET', `${inTenant}/grants`),
    native('list of principals', 'GET', `${inTenant}/principals`),
    native('list of records', 'GET', 'records?limit=1000'),
    native('search of records', 'GET', `records?limit=1000&bucket=${listed}&prefix=k`),
    native('verification', 'POST', 'verifications', { bucket: listed }),
  ];
}

/** The longest chain of delegations, with the longest policy. */
async function roleMessage(asker) {
  const key = generatePrivateKey('EdDSA');
  const scope = Array.from({ length: 20 }, (_, i) => `storage.read:/${bucket}/${i}`).join(' ');
  const asked = { scope, expiresIn: 3600, cnf: { jwk: key.publicKey.jwk } };
  let { token } = await asker.demandNative('POST', 'tokens', asked);
  for (let links = 2; links <= linksMax; links++) {
    const holder = links < linksMax ? key.publicKey : undefined;
    ({ token } = delegate(token, { key, holder, nowMs: Date.now() }));
  }
  const form = {
    ...{ Action: 'AssumeRoleWithWebIdentity', Version: '2011-06-15', WebIdentityToken: token },
    ...{ RoleArn: 'arn:aws:iam::default:role/bench', RoleSessionName: 'bench' },
    Policy: sessionPolicy,
  };
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  const body = new URLSearchParams(form).toString();
  return { method: 'POST', path: '/', isUnsigned: true, headers, body };
}
