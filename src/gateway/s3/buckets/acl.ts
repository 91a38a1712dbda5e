// Access control lists, as far as buckets have them that do not allow any, which is S3's default
// (BucketOwnerEnforced). Invariant: an object belongs to its bucket's owner, and lists give nobody
// anything; so one that would is refused, and never kept without effect. Where ownership controls
// allow lists, those that say what is the case anyway are taken, and all else is not implemented.
// Specification: "Controlling ownership of objects and disabling ACLs" and "Access control list
// (ACL) overview" of the Amazon S3 user guide.
import type { Bucket } from '../../../catalog/buckets.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { principalId } from '../../../core/principal.ts';
import type { Reply } from '../../http/reply.ts';
import {
  childOf,
  onlyChildren,
  parseXml,
  renderXml,
  textOf,
  type XmlNode,
} from '../../http/xml.ts';
import type { S3Request } from '../request.ts';
import type { Reserved } from '../stages.ts';
import { ownerElement } from './listing-xml.ts';

const aclHeader = 'x-amz-acl';
const grantHeaders = ['full-control', 'read', 'read-acp', 'write', 'write-acp'].map(
  (right) => `x-amz-grant-${right}`,
);

/** Whom a list lets in: the bucket's owner, who wrote the object, others, or everybody. */
type Reach = 'owner' | 'private' | 'others' | 'public';

const cannedReach: ReadonlyMap<string, Reach> = new Map([
  ['private', 'private'],
  ['bucket-owner-full-control', 'owner'],
  ['bucket-owner-read', 'others'],
  ['aws-exec-read', 'others'],
  ['log-delivery-write', 'others'],
  ['authenticated-read', 'public'],
  ['public-read', 'public'],
  ['public-read-write', 'public'],
]);

/**
 * What a bucket's row has of its ownership controls: null is BucketOwnerEnforced too, of a bucket
 * that was told nothing; `none`, that they were deleted, which on S3 is as ObjectWriter.
 */
type Ownership = Bucket['ownership'];
export const enforced = 'BucketOwnerEnforced';
export const noControls = 'none';
const ownerships = [enforced, 'BucketOwnerPreferred', 'ObjectWriter'];

/** Throws `Refusal` InvalidArgument for a word that names no ownership. */
export function checkOwnership(text: string, name: string): void {
  if (ownerships.includes(text)) return;
  throw invalidArgument(name, text, 'Invalid x-amz-object-ownership header');
}

/** Does the bucket allow lists? */
export function allowsAcls(ownership: Ownership): boolean {
  return ownership !== null && ownership !== enforced;
}

/** The list that the headers of a request name; null: they name none. Throws `Refusal`. */
export function readAclHeaders(request: S3Request): Reach | null {
  const canned = request.headers[aclHeader];
  const grants: string[] = [];
  for (const name of grantHeaders) {
    const grant = request.headers[name];
    if (grant) grants.push(grant);
  }
  if (canned === undefined) {
    if (grants.length === 0) return null;
    return grants.some(isPublicGroup) ? 'public' : 'others';
  }
  if (grants.length > 0) {
    const message = 'Specifying both Canned ACLs and Header Grants is not allowed';
    throw new Refusal('InvalidRequest', { message });
  }
  const reach = cannedReach.get(canned);
  if (reach === undefined) throw invalidArgument(aclHeader, canned);
  return reach;
}

/**
 * Throws `Refusal` for a list in the headers of a write of an object; and where lists are allowed,
 * for the object of another tenant, which on S3 would belong to that one.
 */
export function checkWrittenAcl({ request, bucket, who, tenant }: Reserved<'bucket'>): void {
  const { ownership } = bucket;
  const reach = readAclHeaders(request);
  if (reach !== null) checkReach(bucket, reach);
  if (!allowsAcls(ownership) || (!who.isAnonymous && tenant === bucket.tenant)) return;
  const isGiven = request.headers[aclHeader] === 'bucket-owner-full-control';
  if (isGiven && ownership === 'BucketOwnerPreferred') return;
  const message = "Objects belong to the bucket's owner: writing one's own is not implemented.";
  throw new Refusal('NotImplemented', { message });
}

/**
 * Throws `Refusal` unless the bucket may be given, or objects in it, a list that reaches so far.
 */
export function checkReach({ ownership, publicAccess }: Bucket, reach: Reach): void {
  // Of a bucket that was told nothing `private` says what is the case.
  if (reach === 'owner' || (reach === 'private' && ownership !== enforced)) return;
  if (!allowsAcls(ownership)) throw new Refusal('AccessControlListNotSupported');
  if (reach === 'public' && publicAccess?.blockPublicAcls) throw new Refusal('AccessDenied');
  throw notKept();
}

function notKept(): Refusal {
  const message = 'Lists that let others in are not implemented; use policies or grants.';
  return new Refusal('NotImplemented', { message });
}

/** Throws `Refusal` unless the headers of CreateBucket name a list that such a bucket can have. */
export function checkNewBucketAcl(request: S3Request, ownership: Ownership): void {
  const reach = readAclHeaders(request);
  if (reach === null || reach === 'owner' || reach === 'private') return;
  throw allowsAcls(ownership) ? notKept() : new Refusal('InvalidBucketAclWithObjectOwnership');
}

// Documents -------------------------------------------------------------------------------------

/** The list that a request brings, in its headers or its body. Throws `Refusal`. */
export function readAcl({ request, bucket }: Reserved<'bucket'>, body: Buffer): Reach {
  const named = readAclHeaders(request);
  if (named !== null && body.length > 0) throw new Refusal('UnexpectedContent');
  if (named !== null) return named;
  if (body.length === 0) {
    const message = 'Your request was missing a required header: x-amz-acl';
    throw new Refusal('MissingSecurityHeader', { message });
  }
  return parseAcl(body, ownerOf(bucket));
}

function parseAcl(body: Buffer, owner: string): Reach {
  try {
    const root = parseXml(body, 'AccessControlPolicy');
    const [, list] = onlyChildren(root, ['Owner', 'AccessControlList']);
    if (!list || list.children.some(({ name }) => name !== 'Grant')) throw malformed();
    const reaches = list.children.map((grant) => reachOf(grant, owner));
    if (reaches.includes('public')) return 'public';
    // A list without the owner's own right takes it away, which nothing can here.
    return reaches.length === 0 || reaches.includes('others') ? 'others' : 'owner';
  } catch (error) {
    if (error instanceof Refusal && error.code === 'MalformedXML') throw malformed();
    throw error;
  }
}

const permissions = new Set(['FULL_CONTROL', 'READ', 'READ_ACP', 'WRITE', 'WRITE_ACP']);

function reachOf(grant: XmlNode, owner: string): Reach {
  const grantee = childOf(grant, 'Grantee');
  const permission = textOf(grant, 'Permission')?.trim() ?? '';
  if (!grantee || !permissions.has(permission)) throw malformed();
  const group = textOf(grantee, 'URI');
  if (group !== undefined && isPublicGroup(group)) return 'public';
  const isOwner = textOf(grantee, 'ID')?.trim() === owner;
  return isOwner && permission === 'FULL_CONTROL' ? 'owner' : 'others';
}

/** All users, and all who are known to anybody: S3 counts both as the public. */
function isPublicGroup(text: string): boolean {
  return /\/groups\/global\/(?:AllUsers|AuthenticatedUsers)\b/.test(text);
}

function malformed(): Refusal {
  return new Refusal('MalformedACLError');
}

/** The one list that there is: the owner of the bucket has every right. */
export function aclReply(bucket: Bucket): Reply {
  const owner = ownerElement(ownerOf(bucket));
  const text = renderXml('AccessControlPolicy', {
    Owner: owner,
    AccessControlList: { Grant: { Grantee: owner, Permission: 'FULL_CONTROL' } },
  });
  // Texts are escaped, so this is the element itself: the kind of a grantee is in an attribute.
  const body = text.replace('<Grantee>', granteeTag);
  return { status: 200, headers: { 'content-type': 'application/xml' }, body };
}

const granteeTag =
  '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">';

function ownerOf({ tenant, owner }: Bucket): string {
  return principalId(tenant, owner);
}

/** The ownership that an OwnershipControls document names. Throws `Refusal` MalformedXML. */
export function parseOwnership(body: Buffer): string {
  const root = parseXml(body, 'OwnershipControls');
  const [rule] = onlyChildren(root, ['Rule']);
  const text = (rule && textOf(rule, 'ObjectOwnership')?.trim()) ?? '';
  if (!ownerships.includes(text)) throw new Refusal('MalformedXML');
  return text;
}
