// ACLs where there are none and where there are, ownership controls, and what keeps a bucket from
// being opened to everybody.
import {
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketOwnershipControlsCommand,
  DeletePublicAccessBlockCommand,
  GetBucketAclCommand,
  GetBucketOwnershipControlsCommand,
  GetBucketPolicyStatusCommand,
  GetObjectAclCommand,
  GetPublicAccessBlockCommand,
  type ObjectCannedACL,
  type ObjectOwnership,
  PutBucketAclCommand,
  PutBucketOwnershipControlsCommand,
  PutBucketPolicyCommand,
  PutObjectAclCommand,
  PutObjectCommand,
  PutPublicAccessBlockCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  as,
  callNative,
  clientOf,
  exchange,
  newBucket,
  newName,
  newOpenBucket,
  newPrincipal,
  refusalOf,
  send,
  type Target,
} from '../target.ts';

const denied = { code: 'AccessDenied', status: 403 };
const noAcls = { code: 'AccessControlListNotSupported', status: 400 };
const notImplemented = { code: 'NotImplemented', status: 501 };
const everybody = 'http://acs.amazonaws.com/groups/global/AllUsers';

export function describePublicAccess(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  let owner: { ID: string };
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
    await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'x' }));
    const { tenant, principal } = await callNative(target, 'GET', '/_/v1/whoami');
    const ID = `${tenant}/${principal}`;
    owner = { ID };
  });

  const put = (bucket: string, more: object = {}, by = client) =>
    by.send(new PutObjectCommand({ Bucket: bucket, Key: 'k', Body: 'x', ...more }));
  const putAcl = (bucket: string, more: object) =>
    client.send(new PutObjectAclCommand({ Bucket: bucket, Key: 'k', ...more }));
  const putBucketAcl = (bucket: string, more: object) =>
    client.send(new PutBucketAclCommand({ Bucket: bucket, ...more }));
  const owned = async (ObjectOwnership: ObjectOwnership) => {
    const name = newName('owned');
    await client.send(new CreateBucketCommand({ Bucket: name, ObjectOwnership }));
    await client.send(new DeletePublicAccessBlockCommand({ Bucket: name }));
    return name;
  };
  const ownershipOf = async (bucket: string) =>
    (await client.send(new GetBucketOwnershipControlsCommand({ Bucket: bucket })))
      .OwnershipControls;
  const own = (bucket: string, ObjectOwnership: ObjectOwnership) =>
    client.send(
      new PutBucketOwnershipControlsCommand({
        Bucket: bucket,
        OwnershipControls: { Rules: [{ ObjectOwnership }] },
      }),
    );

  describe('access control lists', () => {
    it('say that the owner of the bucket has every right', async () => {
      const Grantee = { ...owner, Type: 'CanonicalUser' };
      const expected = { Owner: owner, Grants: [{ Grantee, Permission: 'FULL_CONTROL' }] };
      expect(await client.send(new GetBucketAclCommand({ Bucket }))).toMatchObject(expected);
      expect(await client.send(new GetObjectAclCommand({ Bucket, Key: 'k' }))).toMatchObject(
        expected,
      );
      expect(await refusalOf(client.send(new GetObjectAclCommand({ Bucket, Key: 'no' })))).toEqual({
        ...{ code: 'NoSuchKey', status: 404 },
      });
    });

    it('are taken with what is written where they say what is so, and else refused', async () => {
      for (const ACL of ['private', 'bucket-owner-full-control']) await put(Bucket, { ACL });
      for (const ACL of [
        'public-read',
        'public-read-write',
        'authenticated-read',
        'aws-exec-read',
      ]) {
        expect(await refusalOf(put(Bucket, { ACL }))).toEqual(noAcls);
      }
      expect(await refusalOf(put(Bucket, { GrantRead: `id=${owner.ID}` }))).toEqual(noAcls);
      const place = { Bucket, Key: 'other' };
      const ofUpload = (ACL: ObjectCannedACL) =>
        client.send(new CreateMultipartUploadCommand({ ...place, ACL }));
      const ofCopy = (ACL: ObjectCannedACL) =>
        client.send(new CopyObjectCommand({ ...place, CopySource: `${Bucket}/k`, ACL }));
      for (const write of [ofUpload, ofCopy]) {
        await write('private');
        expect(await refusalOf(write('public-read'))).toEqual(noAcls);
      }
      const told = await owned('BucketOwnerEnforced');
      await put(told, { ACL: 'bucket-owner-full-control' });
      expect(await refusalOf(put(told, { ACL: 'private' }))).toEqual(noAcls);
      const unknown = { code: 'InvalidArgument', status: 400 };
      expect(await refusalOf(put(Bucket, { ACL: 'mine' as ObjectCannedACL }))).toEqual(unknown);
    });

    it('are put on what is there likewise, and on a bucket never', async () => {
      const Grantee = { ID: owner.ID, Type: 'CanonicalUser' } as const;
      const ofOwner = { Owner: owner, Grants: [{ Grantee, Permission: 'FULL_CONTROL' }] };
      await putAcl(Bucket, { ACL: 'bucket-owner-full-control' });
      await putAcl(Bucket, { AccessControlPolicy: ofOwner });
      const public_ = { Grantee: { URI: everybody, Type: 'Group' }, Permission: 'READ' };
      const opened = { Owner: owner, Grants: [...ofOwner.Grants, public_] };
      expect(await refusalOf(putAcl(Bucket, { AccessControlPolicy: opened }))).toEqual(noAcls);
      expect(await refusalOf(putAcl(Bucket, { ACL: 'public-read' }))).toEqual(noAcls);
      const missing = putAcl(Bucket, { ACL: 'private', Key: 'no' });
      expect(await refusalOf(missing)).toEqual({ code: 'NoSuchKey', status: 404 });
      for (const acl of [{ ACL: 'private' }, { AccessControlPolicy: ofOwner }]) {
        expect(await refusalOf(putBucketAcl(Bucket, acl))).toEqual(noAcls);
      }
    });

    it('of a new bucket must let nobody in', async () => {
      const create = (ACL: 'private' | 'public-read') =>
        client.send(new CreateBucketCommand({ Bucket: newName(), ACL }));
      await create('private');
      expect(await refusalOf(create('public-read'))).toEqual({
        ...{ code: 'InvalidBucketAclWithObjectOwnership', status: 400 },
      });
    });
  });

  describe('ownership controls', () => {
    it('of a new bucket say that its owner owns all that is in it', async () => {
      const Rules = [{ ObjectOwnership: 'BucketOwnerEnforced' }];
      expect(await ownershipOf(Bucket)).toEqual({ Rules });
      expect(await ownershipOf(await owned('BucketOwnerEnforced'))).toEqual({ Rules });
    });

    it('come back as they were put, and are gone once deleted', async () => {
      const bucket = await owned('ObjectWriter');
      expect(await ownershipOf(bucket)).toEqual({ Rules: [{ ObjectOwnership: 'ObjectWriter' }] });
      for (const ObjectOwnership of ['BucketOwnerPreferred', 'BucketOwnerEnforced'] as const) {
        await own(bucket, ObjectOwnership);
        expect(await ownershipOf(bucket)).toEqual({ Rules: [{ ObjectOwnership }] });
      }
      const deletion = new DeleteBucketOwnershipControlsCommand({ Bucket: bucket });
      for (let times = 0; times < 2; times++) await client.send(deletion);
      expect(await refusalOf(ownershipOf(bucket))).toEqual({
        ...{ code: 'OwnershipControlsNotFoundError', status: 404 },
      });
      await putBucketAcl(bucket, { ACL: 'private' });
    });

    it('that are no ownership are refused', async () => {
      expect(await refusalOf(own(Bucket, 'Mine' as ObjectOwnership))).toEqual({
        ...{ code: 'MalformedXML', status: 400 },
      });
      expect(await refusalOf(owned('Mine' as ObjectOwnership))).toEqual({
        ...{ code: 'InvalidArgument', status: 400 },
      });
    });

    it.each(['BucketOwnerPreferred', 'ObjectWriter'] as const)(
      'of %s allow lists, which count until these are enforced again',
      async (ownership) => {
        const bucket = await owned(ownership);
        const knock = async (path: string) => (await exchange(target, 'GET', path)).status;
        const statuses = async () => [await knock(`/${bucket}/k`), await knock(`/${bucket}`)];
        await put(bucket);
        expect(await statuses()).toEqual([403, 403]);
        await putAcl(bucket, { ACL: 'public-read' });
        expect(await statuses()).toEqual([200, 403]);
        const { Grants } = await client.send(new GetObjectAclCommand({ Bucket: bucket, Key: 'k' }));
        expect(Grants?.map(({ Grantee, Permission }) => [Grantee?.URI, Permission])).toEqual([
          [undefined, 'FULL_CONTROL'],
          [everybody, 'READ'],
        ]);
        await putBucketAcl(bucket, { ACL: 'public-read' });
        expect(await statuses()).toEqual([200, 200]);
        // A new object has a list of its own.
        await put(bucket);
        expect(await statuses()).toEqual([403, 200]);
        await put(bucket, { ACL: 'public-read' });
        expect(await statuses()).toEqual([200, 200]);
        expect(await refusalOf(own(bucket, 'BucketOwnerEnforced'))).toEqual({
          ...{ code: 'InvalidBucketAclWithObjectOwnership', status: 400 },
        });
        await putBucketAcl(bucket, { ACL: 'private' });
        await own(bucket, 'BucketOwnerEnforced');
        expect(await statuses()).toEqual([403, 403]);
      },
    );

    it('allow lists that let in others by their ids and groups, and nobody else', async () => {
      const bucket = await owned('ObjectWriter');
      const tenant = newName('tenant');
      await callNative(target, 'POST', '/_/v1/tenants', { name: tenant });
      const person = async (name: string) =>
        as(target, await newPrincipal(target, { tenant, name }));
      const [bob, eve] = [await person('bob'), await person('eve')];
      const there = `/default:${bucket}`;
      const statusOf = async (who: Target, method: string, path: string, body?: string) =>
        (await send(who, { method, path, ...(body && { body }) })).status;
      await put(bucket, { GrantRead: `id="${tenant}/bob"` });
      expect(await statusOf(bob, 'GET', `${there}/k`)).toBe(200);
      expect(await statusOf(bob, 'GET', `${there}/no`)).toBe(403);
      expect(await statusOf(bob, 'GET', `${there}/k?acl`)).toBe(403);
      expect(await statusOf(eve, 'GET', `${there}/k`)).toBe(403);
      const known = 'uri="http://acs.amazonaws.com/groups/global/AuthenticatedUsers"';
      await putAcl(bucket, { GrantRead: known });
      expect(await statusOf(eve, 'GET', `${there}/k`)).toBe(200);
      expect((await exchange(target, 'GET', `/${bucket}/k`)).status).toBe(403);
      // Who may write a bucket writes into it what its owner owns, and reads nothing of it.
      await putBucketAcl(bucket, { ACL: 'public-read-write' });
      const anonymous = await exchange(target, 'PUT', `/${bucket}/drop`, {}, 'dropped');
      expect(anonymous.status).toBe(200);
      expect((await exchange(target, 'GET', `/${bucket}/drop`)).status).toBe(403);
      expect(await statusOf(eve, 'PUT', `${there}/hers`, 'x')).toBe(501);
      expect((await exchange(target, 'DELETE', `/${bucket}/drop`)).status).toBe(204);
      expect(
        (await exchange(target, 'PUT', `/${bucket}?acl`, { 'x-amz-acl': 'private' })).status,
      ).toBe(403);
    });

    it('allow lists that no rule is weaker than', async () => {
      const bucket = await owned('ObjectWriter');
      await put(bucket, { ACL: 'public-read', Tagging: 'kind=secret' });
      const knock = async () => (await exchange(target, 'GET', `/${bucket}/k`)).status;
      expect(await knock()).toBe(200);
      const deny = (Condition: object) =>
        client.send(
          new PutBucketPolicyCommand({
            Bucket: bucket,
            Policy: JSON.stringify({
              Version: '2012-10-17',
              Statement: {
                ...{ Effect: 'Deny', Principal: '*', Action: 's3:GetObject', Condition },
                Resource: `arn:aws:s3:::${bucket}/*`,
              },
            }),
          }),
        );
      await deny({ StringEquals: { 's3:ExistingObjectTag/kind': 'secret' } });
      expect(await knock()).toBe(403);
      await deny({ StringEquals: { 's3:ExistingObjectTag/kind': 'open' } });
      expect(await knock()).toBe(200);
      await client.send(
        new PutPublicAccessBlockCommand({
          Bucket: bucket,
          PublicAccessBlockConfiguration: { IgnorePublicAcls: true },
        }),
      );
      expect(await knock()).toBe(403);
      // The list is still there, beside the block.
      const read = new GetObjectAclCommand({ Bucket: bucket, Key: 'k' });
      expect((await client.send(read)).Grants).toHaveLength(2);
    });

    it('let a list in only from who may write lists', async () => {
      const bucket = await owned('ObjectWriter');
      const name = newName('writer');
      const writer = clientOf(as(target, await newPrincipal(target, { name })));
      const grant = (actions: string[]) =>
        callNative(target, 'PUT', `/_/v1/tenants/default/grants/${name}`, {
          ...{ effect: 'allow', subjects: [`principal:default/${name}`], bucket, actions },
        });
      await grant(['s3:PutObject']);
      await put(bucket, {}, writer);
      expect(await refusalOf(put(bucket, { ACL: 'public-read' }, writer))).toEqual(denied);
      await grant(['s3:PutObject', 's3:PutObjectAcl']);
      await put(bucket, { ACL: 'public-read' }, writer);
    });

    it('let whom a bucket lets write say the list of what they write, and no other', async () => {
      const bucket = await owned('ObjectWriter');
      await put(bucket, {});
      await putBucketAcl(bucket, { ACL: 'public-read-write' });
      const open = { 'x-amz-acl': 'public-read' };
      const write = async (key: string, headers = open, body: string | undefined = 'shown') =>
        (await exchange(target, 'PUT', `/${bucket}/${key}`, headers, body)).status;
      expect(await write('theirs')).toBe(200);
      expect((await exchange(target, 'GET', `/${bucket}/theirs`)).text).toBe('shown');
      const tagged = { ...open, 'x-amz-tagging': 'a=b' };
      expect(await write('tagged', tagged)).toBe(200);
      for (const key of ['k', 'theirs']) expect(await write(`${key}?acl`, open, '')).toBe(403);
      expect(await write('k', { 'x-amz-acl': 'authenticated-read' }, 'x')).toBe(200);
      const Statement = {
        ...{ Effect: 'Deny', Principal: '*', Action: 's3:PutObjectAcl' },
        Resource: `arn:aws:s3:::${bucket}/*`,
      };
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
      await client.send(new PutBucketPolicyCommand({ Bucket: bucket, Policy }));
      expect(await write('denied')).toBe(403);
      await putBucketAcl(bucket, { ACL: 'public-read' });
      expect(await write('theirs')).toBe(403);
    });

    it('of a new bucket allow no public list until its block is taken away', async () => {
      const create = new CreateBucketCommand({
        ...{ Bucket: newName(), ObjectOwnership: 'ObjectWriter', ACL: 'public-read' },
      });
      expect(await refusalOf(client.send(create))).toEqual({
        ...{ code: 'InvalidBucketAclWithBlockPublicAccessError', status: 400 },
      });
    });

    it('that would give objects to another tenant let it write none', async () => {
      const bucket = await owned('BucketOwnerPreferred');
      const tenant = newName('tenant');
      await callNative(target, 'POST', '/_/v1/tenants', { name: tenant });
      const guest = clientOf(as(target, await newPrincipal(target, { tenant, name: 'guest' })));
      await callNative(target, 'PUT', `/_/v1/tenants/default/grants/${bucket}`, {
        ...{ effect: 'allow', subjects: [`tenant:${tenant}`], bucket, actions: ['s3:PutObject'] },
      });
      const there = `default:${bucket}`;
      expect(await refusalOf(put(there, {}, guest))).toEqual(notImplemented);
      await put(there, { ACL: 'bucket-owner-full-control' }, guest);
      await own(bucket, 'ObjectWriter');
      const given = put(there, { ACL: 'bucket-owner-full-control' }, guest);
      expect(await refusalOf(given)).toEqual(notImplemented);
      await own(bucket, 'BucketOwnerEnforced');
      await put(there, {}, guest);
    });
  });

  describe('a PublicAccessBlock', () => {
    const block = (bucket: string, more: object) =>
      client.send(
        new PutPublicAccessBlockCommand({ Bucket: bucket, PublicAccessBlockConfiguration: more }),
      );
    const blockOf = async (bucket: string) =>
      (await client.send(new GetPublicAccessBlockCommand({ Bucket: bucket })))
        .PublicAccessBlockConfiguration;
    const allow = (bucket: string, Principal: unknown) => {
      const Resource = `arn:aws:s3:::${bucket}/*`;
      const rule = { Effect: 'Allow', Principal, Action: 's3:GetObject', Resource };
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement: [rule] });
      return client.send(new PutBucketPolicyCommand({ Bucket: bucket, Policy }));
    };
    const isPublic = async (bucket: string) =>
      (await client.send(new GetBucketPolicyStatusCommand({ Bucket: bucket }))).PolicyStatus
        ?.IsPublic;
    /** What a read without credentials is answered with. */
    const knock = async (bucket: string) => (await exchange(target, 'GET', `/${bucket}/k`)).status;
    const newOpen = async () => {
      const bucket = await newOpenBucket(client);
      await put(bucket);
      return bucket;
    };

    it('blocks all in a new bucket, comes back as it was put, is gone once deleted', async () => {
      const none = { code: 'NoSuchPublicAccessBlockConfiguration', status: 404 };
      const bucket = await newBucket(client);
      expect(await blockOf(bucket)).toEqual({
        ...{ BlockPublicAcls: true, IgnorePublicAcls: true },
        ...{ BlockPublicPolicy: true, RestrictPublicBuckets: true },
      });
      await block(bucket, { BlockPublicAcls: true, RestrictPublicBuckets: true });
      expect(await blockOf(bucket)).toEqual({
        ...{ BlockPublicAcls: true, IgnorePublicAcls: false },
        ...{ BlockPublicPolicy: false, RestrictPublicBuckets: true },
      });
      const deletion = new DeletePublicAccessBlockCommand({ Bucket: bucket });
      for (let times = 0; times < 2; times++) {
        expect((await client.send(deletion)).$metadata.httpStatusCode).toBe(204);
      }
      expect(await refusalOf(blockOf(bucket))).toEqual(none);
    });

    it('that is not understood is refused', async () => {
      for (const content of ['<BlockPublicAcls>yes</BlockPublicAcls>', '<Other>true</Other>']) {
        const root = 'PublicAccessBlockConfiguration';
        const answer = await send(target, {
          ...{ method: 'PUT', path: `/${Bucket}`, query: [['publicAccessBlock', '']] },
          body: `<${root}>${content}</${root}>`,
        });
        expect([answer.status, answer.code]).toEqual([400, 'MalformedXML']);
      }
    });

    it('of a new bucket lets nobody open it until it is taken away', async () => {
      const bucket = await newBucket(client);
      await put(bucket);
      expect(await refusalOf(allow(bucket, '*'))).toEqual(denied);
      await client.send(new DeletePublicAccessBlockCommand({ Bucket: bucket }));
      await allow(bucket, '*');
      expect(await knock(bucket)).toBe(200);
    });

    it('can refuse policies that let everybody in, and no others', async () => {
      const bucket = await newOpen();
      await block(bucket, { BlockPublicPolicy: true });
      expect(await refusalOf(allow(bucket, '*'))).toEqual(denied);
      await allow(bucket, { AWS: 'atlas' });
      expect(await isPublic(bucket)).toBe(false);
      await block(bucket, { BlockPublicPolicy: false });
      await allow(bucket, '*');
      expect(await isPublic(bucket)).toBe(true);
      await block(bucket, { BlockPublicPolicy: true });
      expect(await knock(bucket)).toBe(200);
    });

    it('can shut out everybody whom only a public policy lets in, at once', async () => {
      const bucket = await newOpen();
      await allow(bucket, '*');
      expect(await knock(bucket)).toBe(200);
      await block(bucket, { RestrictPublicBuckets: true });
      expect(await knock(bucket)).toBe(403);
      // Its own tenant is let in by the policy as before.
      const member = as(target, await newPrincipal(target));
      expect((await send(member, { method: 'GET', path: `/${bucket}/k` })).status).toBe(200);
      await block(bucket, { RestrictPublicBuckets: false });
      expect(await knock(bucket)).toBe(200);
    });

    it('can shut out everybody whom only a grant to anyone lets in', async () => {
      const bucket = await newOpen();
      const path = `/_/v1/tenants/default/grants/${bucket}`;
      const grant = { effect: 'allow', subjects: ['anyone'], bucket, actions: ['s3:GetObject'] };
      await callNative(target, 'PUT', path, grant);
      expect(await knock(bucket)).toBe(200);
      await block(bucket, { RestrictPublicBuckets: true });
      expect(await knock(bucket)).toBe(403);
      const asked = { action: 's3:GetObject', resource: `${bucket}/k` };
      const explained = await callNative(target, 'POST', '/_/v1/explain', asked);
      expect(explained).toMatchObject({ allowed: false });
    });

    it.each(['ObjectWriter', 'BucketOwnerPreferred'] as const)(
      'refuses lists that let everybody in, of ownership %s',
      async (ownership) => {
        const bucket = await owned(ownership);
        await block(bucket, { BlockPublicAcls: true });
        expect(await refusalOf(put(bucket, { ACL: 'public-read' }))).toEqual(denied);
        await put(bucket, { ACL: 'private' });
        expect(await refusalOf(putBucketAcl(bucket, { ACL: 'public-read' }))).toEqual(denied);
        expect(await refusalOf(putAcl(bucket, { ACL: 'authenticated-read' }))).toEqual(denied);
      },
    );
  });
}
