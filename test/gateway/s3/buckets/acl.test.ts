// ACL documents: only the list that every bucket and object has is taken for what it is.
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { readAcl } from '#bursar/gateway/s3/buckets/acl.js';
import type { Reserved } from '#bursar/gateway/s3/stages.js';

const owner = 'cms/boss';
const everybody = 'http://acs.amazonaws.com/groups/global/AllUsers';
const known = 'http://acs.amazonaws.com/groups/global/AuthenticatedUsers';

const grant = (grantee: string, permission = 'FULL_CONTROL') =>
  `<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" ` +
  `xsi:type="x">${grantee}</Grantee><Permission>${permission}</Permission></Grant>`;
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
  it.each([
    ['of the owner alone', documentOf(grant(id(owner))), 'owner'],
    ['of the owner twice', documentOf(grant(id(owner)), grant(id(owner))), 'owner'],
    ['of the owner, who may only read', documentOf(grant(id(owner), 'READ')), 'others'],
    ['of nobody', documentOf(), 'others'],
    ['of another', documentOf(grant(id(owner)), grant(id('cms/bob'))), 'others'],
    ['of somebody by mail', documentOf(grant('<EmailAddress>a@b.c</EmailAddress>')), 'others'],
    ['of everybody', documentOf(grant(id(owner)), grant(uri(everybody), 'READ')), 'public'],
    ['of who is known', documentOf(grant(uri(known), 'READ')), 'public'],
    ['with an unknown permission', documentOf(grant(id(owner), 'EVERYTHING')), 'MalformedACLError'],
    ['without a grantee', documentOf('<Grant/>'), 'MalformedACLError'],
    ['with something else in it', documentOf('<Other/>'), 'MalformedACLError'],
    ['that is none', '<Other/>', 'MalformedACLError'],
    ['that is no XML', 'x', 'MalformedACLError'],
  ])('%s', (_title, body, expected) => {
    expect(read(body)).toBe(expected);
  });

  it.each<[Record<string, string>, string]>([
    [{ 'x-amz-acl': 'private' }, 'private'],
    [{ 'x-amz-acl': 'bucket-owner-full-control' }, 'owner'],
    [{ 'x-amz-acl': 'bucket-owner-read' }, 'others'],
    [{ 'x-amz-acl': 'public-read' }, 'public'],
    [{ 'x-amz-acl': 'authenticated-read' }, 'public'],
    [{ 'x-amz-acl': 'Private' }, 'InvalidArgument'],
    [{ 'x-amz-grant-read': 'id="cms/bob"' }, 'others'],
    [{ 'x-amz-grant-read': `uri="${everybody}"` }, 'public'],
    [{ 'x-amz-acl': 'private', 'x-amz-grant-read': 'id="cms/bob"' }, 'InvalidRequest'],
    [{}, 'MissingSecurityHeader'],
  ])('in the headers %o', (headers, expected) => {
    expect(read('', headers)).toBe(expected);
  });

  it('in headers and in a body is refused', () => {
    const headers = { 'x-amz-acl': 'private' };
    expect(read(documentOf(grant(id(owner))), headers)).toBe('UnexpectedContent');
  });
});
