// Access control lists in headers and documents: what they say, and what is none.
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { readAcl } from '#bursar/gateway/s3/buckets/acl.js';
import type { Reserved } from '#bursar/gateway/s3/stages.js';

const owner = 'cms/boss';
const everybody = 'http://acs.amazonaws.com/groups/global/AllUsers';
const known = 'http://acs.amazonaws.com/groups/global/AuthenticatedUsers';

const grant = (grantee: string, permission = 'FULL_CONTROL', kind = kindOf(grantee)) =>
  `<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" ` +
  `xsi:type="${kind}">${grantee}</Grantee><Permission>${permission}</Permission></Grant>`;
function kindOf(grantee: string): string {
  if (grantee.startsWith('<Email')) return 'AmazonCustomerByEmail';
  return grantee.startsWith('<URI>') ? 'Group' : 'CanonicalUser';
}
const id = (text: string) => `<ID>${text}</ID><DisplayName>somebody</DisplayName>`;
const uri = (text: string) => `<URI>${text}</URI>`;
const documentOf = (...grants: string[]) =>
  `<AccessControlPolicy><Owner>${id(owner)}</Owner><AccessControlList>${grants.join('')}</AccessControlList></AccessControlPolicy>`;

function read(body: string, headers: Record<string, string> = {}): unknown {
  const bucket = { tenant: 'cms', owner: 'boss' };
  const context = { request: { headers }, bucket } as unknown as Reserved<'bucket'>;
  try {
    return readAcl(context, Buffer.from(body));
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
}

describe('an access control list', () => {
  const own = [owner, 'FULL_CONTROL'];
  it.each([
    ['of the owner alone', documentOf(grant(id(owner))), { says: 'owner', acl: [own] }],
    ['of nobody', documentOf(), { says: 'more', acl: [] }],
    [
      'of another',
      documentOf(grant(id(owner)), grant(id('cms/bob'), 'READ_ACP')),
      { says: 'more', acl: [own, ['cms/bob', 'READ_ACP']] },
    ],
    [
      'of everybody',
      documentOf(grant(id(owner)), grant(uri(everybody), 'READ')),
      { says: 'more', acl: [own, ['AllUsers', 'READ']] },
    ],
    [
      'of who is known',
      documentOf(grant(uri(known), 'WRITE')),
      { says: 'more', acl: [['AuthenticatedUsers', 'WRITE']] },
    ],
    [
      'of somebody by mail',
      documentOf(grant('<EmailAddress>a@b.c</EmailAddress>')),
      'NotImplemented',
    ],
    ['of everybody, who may write it', documentOf(grant(uri(everybody))), 'NotImplemented'],
    ['of no kind', documentOf(grant(id(owner), 'READ', 'BadType')), 'MalformedACLError'],
    ['of no id', documentOf(grant(id('bob'))), 'InvalidArgument'],
    ['of no group', documentOf(grant(uri('http://x'))), 'InvalidArgument'],
    ['with two grantees in one', documentOf(grant(id(owner) + uri(known))), 'MalformedACLError'],
    ['of another owner', documentOf().replace(owner, 'cms/bob'), 'AccessDenied'],
    ['of no owner', documentOf().replace(/<Owner>.*<.Owner>/, ''), 'MalformedACLError'],
    ['that is too long', documentOf(...Array(101).fill(grant(id(owner)))), 'MalformedACLError'],
    ['with an unknown permission', documentOf(grant(id(owner), 'EVERYTHING')), 'MalformedACLError'],
    ['without a grantee', documentOf('<Grant/>'), 'MalformedACLError'],
    ['with something else in it', documentOf('<Other/>'), 'MalformedACLError'],
    ['that is none', '<Other/>', 'MalformedACLError'],
    ['that is no XML', 'x', 'MalformedACLError'],
  ])('%s', (_title, body, expected) => {
    expect(read(body)).toEqual(expected);
  });

  it.each<[Record<string, string>, unknown]>([
    [{ 'x-amz-acl': 'private' }, { says: 'private', acl: [own] }],
    [{ 'x-amz-acl': 'bucket-owner-full-control' }, { says: 'owner', acl: [own] }],
    [{ 'x-amz-acl': 'public-read' }, { says: 'more', acl: [own, ['AllUsers', 'READ']] }],
    [
      { 'x-amz-acl': 'authenticated-read' },
      { says: 'more', acl: [own, ['AuthenticatedUsers', 'READ']] },
    ],
    [{ 'x-amz-acl': 'Private' }, 'InvalidArgument'],
    [
      { 'x-amz-grant-read': `id="cms/bob", uri="${everybody}"`, 'x-amz-grant-write': 'id=a/b' },
      {
        says: 'more',
        acl: [
          ['cms/bob', 'READ'],
          ['AllUsers', 'READ'],
          ['a/b', 'WRITE'],
        ],
      },
    ],
    [{ 'x-amz-grant-read': 'id="bob"' }, 'InvalidArgument'],
    [{ 'x-amz-grant-read': 'uri="http://x"' }, 'InvalidArgument'],
    [{ 'x-amz-grant-read': 'name="cms/bob"' }, 'InvalidArgument'],
    [{ 'x-amz-grant-read': 'id="cms/bob"x' }, 'InvalidArgument'],
    [{ 'x-amz-grant-write-acp': `uri="${known}"` }, 'NotImplemented'],
    [{ 'x-amz-acl': 'private', 'x-amz-grant-read': 'id="cms/bob"' }, 'InvalidRequest'],
    [{}, 'MissingSecurityHeader'],
  ])('in the headers %o', (headers, expected) => {
    expect(read('', headers)).toEqual(expected);
  });

  it('in headers and in a body is refused', () => {
    const headers = { 'x-amz-acl': 'private' };
    expect(read(documentOf(grant(id(owner))), headers)).toBe('UnexpectedContent');
  });
});
