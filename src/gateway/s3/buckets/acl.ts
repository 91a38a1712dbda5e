// Access control lists. They count where a bucket's ownership controls allow them; a new bucket
// allows none, which is S3's default (BucketOwnerEnforced). Invariants: a list that is taken counts
// as it reads, so one that could not is refused; and an object belongs to its bucket's owner, who
// has every right in it whatever a list says.
// Specification: "Controlling ownership of objects and disabling ACLs" and "Access control list
// (ACL) overview" of the Amazon S3 user guide.
import { recordedChange } from '../../../audit/recorded-change.ts';
import type { Bucket } from '../../../catalog/buckets.ts';
import type { Attributes } from '../../../catalog/versions.ts';
import {
  type Acl,
  type AclGrant,
  type Group,
  groups,
  isPublicAcl,
  type Permission,
  permissions,
} from '../../../core/acl.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { namePart } from '../../../core/names.ts';
import { principalId } from '../../../core/principal.ts';
import { type Reply, xmlReply } from '../../http/reply.ts';
import {
  childOf,
  escapeXml,
  onlyChildren,
  parseXml,
  textOf,
  type XmlNode,
} from '../../http/xml.ts';
import type { S3Request } from '../request.ts';
import type { Reserved } from '../stages.ts';
import { ownerElement } from './listing-xml.ts';

const aclHeader = 'x-amz-acl';
const grantHeaders: readonly (readonly [header: string, permission: Permission])[] =
  permissions.map((permission) => [
    `x-amz-grant-${permission.toLowerCase().replace('_', '-')}`,
    permission,
  ]);

/** What the canned lists give besides the owner's every right. */
const canned: ReadonlyMap<string, Acl> = new Map<string, Acl>([
  ['private', []],
  ['bucket-owner-full-control', []],
  ['bucket-owner-read', []],
  // Amazon's EC2, which nobody here is.
  ['aws-exec-read', []],
  ['authenticated-read', [['AuthenticatedUsers', 'READ']]],
  ['public-read', [['AllUsers', 'READ']]],
  [
    'public-read-write',
    [
      ['AllUsers', 'READ'],
      ['AllUsers', 'WRITE'],
    ],
  ],
  [
    'log-delivery-write',
    [
      ['LogDelivery', 'WRITE'],
      ['LogDelivery', 'READ_ACP'],
    ],
  ],
]);

/** Of a list, at most. */
const grantsMax = 100;

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
  const message = `Invalid x-amz-object-ownership header: ${text}`;
  throw new Refusal('InvalidArgument', { message, fields: { ArgumentName: name } });
}

/** Does the bucket allow lists? */
export function allowsAcls(ownership: Ownership): boolean {
  return ownership !== null && ownership !== enforced;
}

/** A list that a request names. */
export interface NamedAcl {
  acl: Acl;
  /** The owner alone has rights: by the word `private`, or as the owner of the bucket. */
  says: 'private' | 'owner' | 'more';
}

// Headers ---------------------------------------------------------------------------------------

/** The list that the headers of a request name; null: they name none. Throws `Refusal`. */
export function readAclHeaders(request: S3Request, owner: string): NamedAcl | null {
  const name = request.headers[aclHeader];
  const given = grantHeaders.filter(([header]) => request.headers[header]);
  if (name !== undefined) {
    if (given.length > 0) {
      const message = 'Specifying both Canned ACLs and Header Grants is not allowed';
      throw new Refusal('InvalidRequest', { message });
    }
    const acl = canned.get(name);
    if (!acl) throw invalidArgument(aclHeader, name, '');
    const isPlain = name === 'private' || name === 'bucket-owner-full-control';
    const says = isPlain ? (name === 'private' ? 'private' : 'owner') : 'more';
    return { acl: [[owner, 'FULL_CONTROL'], ...acl], says };
  }
  if (given.length === 0) return null;
  const acl = given.flatMap(([header, permission]) =>
    parseGrantHeader(header, request.headers[header] as string).map(
      (grantee): AclGrant => [grantee, permission],
    ),
  );
  return { acl: checkAcl(acl), says: 'more' };
}

const granteeForm = /^\s*([A-Za-z]+)\s*=\s*(?:"([^"]*)"|([^\s",]*))\s*$/;

/** `id="tenant/name", uri="http://…"`. Throws `Refusal` InvalidArgument or NotImplemented. */
export function parseGrantHeader(header: string, text: string): string[] {
  return text.split(',').map((one) => {
    const [, kind, quoted, plain] = granteeForm.exec(one) ?? [];
    const value = quoted ?? plain ?? '';
    switch (kind?.toLowerCase()) {
      case 'id':
        return readId(value, 'id');
      case 'uri':
        return readGroup(value, 'uri');
      case 'emailaddress':
        throw noEmails();
      default:
        throw invalidArgument(header, text, 'Argument format not recognized');
    }
  });
}

const idForm = new RegExp(`^${namePart}/${namePart}$`);

/**
 * A principal by its id. Whether there is one is not asked: that is not everybody's to know, and
 * names are not given again.
 */
function readId(id: string, argument: string): string {
  if (idForm.test(id)) return id;
  throw invalidArgument(argument, id, 'Invalid id');
}

const groupUris: ReadonlyMap<string, Group> = new Map(groups.map((group) => [uriOf(group), group]));

function uriOf(group: Group): string {
  const place = group === 'LogDelivery' ? 's3' : 'global';
  return `http://acs.amazonaws.com/groups/${place}/${group}`;
}

function readGroup(uri: string, argument: string): Group {
  const group = groupUris.get(uri);
  if (group) return group;
  throw invalidArgument(argument, uri, 'Invalid group uri');
}

function noEmails(): Refusal {
  const message = 'Principals have no e-mail addresses: name them by their ids.';
  return new Refusal('NotImplemented', { message });
}

/** Throws `Refusal` for a list that is too long, or lets everybody write lists. */
function checkAcl(acl: Acl): Acl {
  if (acl.length > grantsMax) throw malformed();
  // Whoever comes could take the bucket from its owner.
  const isOpen = acl.some(
    ([grantee, permission]) =>
      isPublicAcl([[grantee, permission]]) &&
      (permission === 'FULL_CONTROL' || permission === 'WRITE_ACP'),
  );
  if (!isOpen) return acl;
  const message = 'Lists that let everybody write lists are not implemented.';
  throw new Refusal('NotImplemented', { message });
}

// What is allowed -------------------------------------------------------------------------------

/**
 * The list of an object that is written; undefined: only its owner has rights in it. Throws
 * `Refusal` for a list that cannot be; and where lists are allowed, for the object of another
 * tenant, which on S3 would belong to that one.
 */
export async function readWrittenAcl(
  context: Reserved<'object'>,
): Promise<Pick<Attributes, 'acl'>> {
  const { request, bucket, tenant } = context;
  const { ownership } = bucket;
  const named = readAclHeaders(request, ownerOf(bucket));
  if (named) checkMayHave(bucket, named);
  if (!allowsAcls(ownership)) return {};
  const isGiven = request.headers[aclHeader] === 'bucket-owner-full-control';
  if (tenant !== bucket.tenant && !(isGiven && ownership === 'BucketOwnerPreferred')) {
    const message = "Objects belong to the bucket's owner: writing one's own is not implemented.";
    throw new Refusal('NotImplemented', { message });
  }
  const kept = keptAcl(named);
  if (!kept.acl) return kept;
  await context.asked.authorizeKey('s3:PutObjectAcl', { isWritten: true });
  const change = { ...context.detail.change, ...recordedChange({ acl: kept.acl }) };
  context.detail = { ...context.detail, change };
  return kept;
}

/** Is there anything to ask of a write's list? */
export function mayNameAcl({ request: { headers }, bucket }: Reserved<'object'>): boolean {
  if (allowsAcls(bucket.ownership) || headers[aclHeader] !== undefined) return true;
  return grantHeaders.some(([header]) => headers[header] !== undefined);
}

/** What is kept of a list: nothing of one that says what is the case without it. */
export function keptAcl(named: NamedAcl | null): Pick<Attributes, 'acl'> {
  return named?.says === 'more' ? { acl: named.acl } : {};
}

/** Throws `Refusal` unless the bucket may be given, or objects in it, this list. */
export function checkMayHave({ ownership, publicAccess }: Bucket, { acl, says }: NamedAcl): void {
  if (!allowsAcls(ownership)) {
    // Of a bucket that was told nothing `private` says what is the case.
    if (says === 'owner' || (says === 'private' && ownership === null)) return;
    throw new Refusal('AccessControlListNotSupported');
  }
  if (publicAccess?.blockPublicAcls && isPublicAcl(acl)) throw new Refusal('AccessDenied');
}

/**
 * The list that the headers of CreateBucket name. Throws `Refusal` unless such a bucket can have
 * it.
 */
export function readNewBucketAcl(
  request: S3Request,
  owner: string,
  { ownership, publicAccess }: Pick<Bucket, 'ownership' | 'publicAccess'>,
): Pick<Attributes, 'acl'> {
  const named = readAclHeaders(request, owner);
  if (named?.says !== 'more') return {};
  if (!allowsAcls(ownership)) throw new Refusal('InvalidBucketAclWithObjectOwnership');
  if (publicAccess?.blockPublicAcls && isPublicAcl(named.acl)) {
    throw new Refusal('InvalidBucketAclWithBlockPublicAccessError');
  }
  return keptAcl(named);
}

// Documents -------------------------------------------------------------------------------------

/** The list that a request brings, in its headers or its body. Throws `Refusal`. */
export function readAcl({ request, bucket }: Reserved<'bucket'>, body: Buffer): NamedAcl {
  const owner = ownerOf(bucket);
  const named = readAclHeaders(request, owner);
  if (named !== null && body.length > 0) throw new Refusal('UnexpectedContent');
  if (named !== null) return named;
  if (body.length === 0) {
    throw new Refusal('MissingSecurityHeader', { fields: { MissingHeaderName: aclHeader } });
  }
  return parseAcl(body, owner);
}

function parseAcl(body: Buffer, owner: string): NamedAcl {
  try {
    const root = parseXml(body, 'AccessControlPolicy');
    const [ownerNode, list] = onlyChildren(root, ['Owner', 'AccessControlList']);
    if (!ownerNode || !list || list.children.some(({ name }) => name !== 'Grant')) {
      throw malformed();
    }
    const acl = checkAcl(list.children.map(readGrant));
    const ownerId = textOf(ownerNode, 'ID')?.trim() ?? '';
    // As on S3, an owner is not changed by a list.
    if (readId(ownerId, 'CanonicalUser/ID') !== owner) throw new Refusal('AccessDenied');
    const isOwners = acl.every(([grantee, has]) => grantee === owner && has === 'FULL_CONTROL');
    return { acl, says: acl.length > 0 && isOwners ? 'owner' : 'more' };
  } catch (error) {
    if (error instanceof Refusal && error.code === 'MalformedXML') throw malformed();
    throw error;
  }
}

const granteeKinds = ['CanonicalUser', 'Group', 'AmazonCustomerByEmail'];

function readGrant(grant: XmlNode): AclGrant {
  const grantee = childOf(grant, 'Grantee');
  const text = textOf(grant, 'Permission')?.trim();
  const permission = permissions.find((one) => one === text);
  if (!grantee || !permission) throw malformed();
  if (grantee.kind !== undefined && !granteeKinds.includes(grantee.kind)) throw malformed();
  const id = textOf(grantee, 'ID')?.trim();
  const uri = textOf(grantee, 'URI')?.trim();
  if (textOf(grantee, 'EmailAddress') !== undefined) throw noEmails();
  if ((id === undefined) === (uri === undefined)) throw malformed();
  if (uri !== undefined) return [readGroup(uri, 'Group/URI'), permission];
  return [readId(id ?? '', 'CanonicalUser/ID'), permission];
}

function malformed(): Refusal {
  return new Refusal('MalformedACLError');
}

/** The list of a bucket, or of an object in it: that the owner has every right, or what was set. */
export function aclReply(bucket: Bucket, set: Acl | undefined): Reply {
  const owner = ownerOf(bucket);
  const acl: Acl = set && allowsAcls(bucket.ownership) ? set : [[owner, 'FULL_CONTROL']];
  const grants = acl.map(
    ([grantee, permission]) =>
      `<Grant>${granteeElement(grantee)}<Permission>${permission}</Permission></Grant>`,
  );
  const reply = xmlReply('AccessControlPolicy', { Owner: ownerElement(owner) });
  // The kind of a grantee is in an attribute, which nothing else of S3's has.
  const list = `<AccessControlList>${grants.join('')}</AccessControlList>`;
  reply.body = String(reply.body).replace(/(?=<\/AccessControlPolicy>$)/, () => list);
  return reply;
}

function granteeElement(grantee: string): string {
  const group = groups.find((one) => one === grantee);
  const [kind, content] = group
    ? ['Group', `<URI>${uriOf(group)}</URI>`]
    : ['CanonicalUser', `<ID>${escapeXml(grantee)}</ID>`];
  const namespace = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"';
  return `<Grantee ${namespace} xsi:type="${kind}">${content}</Grantee>`;
}

export function ownerOf({ tenant, owner }: Pick<Bucket, 'tenant' | 'owner'>): string {
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
