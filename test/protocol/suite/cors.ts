// CORS: what browsers are told of a bucket's rules, in preflights and in all other answers.
import {
  type CORSRule,
  DeleteBucketCorsCommand,
  GetBucketCorsCommand,
  GetObjectCommand,
  PutBucketCorsCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { presignUrl } from '../../tooling/presign.ts';
import { formBody, postForm, signPolicy } from '../forms.ts';
import {
  type Answer,
  as,
  callNative,
  clientOf,
  domain,
  exchange,
  findRecords,
  newBucket,
  newName,
  newOpenBucket,
  newPrincipal,
  refusalOf,
  region,
  send,
  type Target,
} from '../target.ts';

const page = 'https://page.example.org';
const vary = 'Origin, Access-Control-Request-Headers, Access-Control-Request-Method';

export function describeCors(targetOf: () => Target): void {
  describe('CORS', () => {
    let target: Target;
    let client: S3Client;
    let Bucket: string;
    beforeAll(async () => {
      target = targetOf();
      client = clientOf(target);
      Bucket = await newOpenBucket(client);
      await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'x' }));
    });

    async function setRules(CORSRules: CORSRule[], bucket = Bucket): Promise<void> {
      const CORSConfiguration = { CORSRules };
      await client.send(new PutBucketCorsCommand({ Bucket: bucket, CORSConfiguration }));
    }

    /** Sent without credentials, as browsers do. */
    function preflight(path: string, headers: Record<string, string>): Promise<Answer> {
      return exchange(target, 'OPTIONS', path, headers);
    }

    const ask = (origin: string, method: string, headers?: string) => ({
      origin,
      'access-control-request-method': method,
      ...(headers !== undefined && { 'access-control-request-headers': headers }),
    });

    function corsOf({ headers }: Answer): Record<string, string> {
      const told = Object.entries(headers).filter(([name]) =>
        /^(access-control-|vary$)/.test(name),
      );
      return Object.fromEntries(told);
    }

    it('rules are kept as they were set, and deleted', async () => {
      const bucket = await newBucket(client);
      const missing = { code: 'NoSuchCORSConfiguration', status: 404 };
      const get = () => client.send(new GetBucketCorsCommand({ Bucket: bucket }));
      expect(await refusalOf(get())).toEqual(missing);
      const rules: CORSRule[] = [
        {
          ID: 'one',
          AllowedOrigins: ['https://*.example.org', 'null'],
          AllowedMethods: ['GET', 'PUT'],
          AllowedHeaders: ['x-amz-*', 'content-type'],
          ExposeHeaders: ['ETag', 'x-bursar-receipt'],
          MaxAgeSeconds: 3000,
        },
        { AllowedOrigins: ['*'], AllowedMethods: ['HEAD'] },
      ];
      await setRules(rules, bucket);
      expect((await get()).CORSRules).toEqual(rules);
      const query = [
        ['bucket', bucket],
        ['action', 's3:PutBucketCORS'],
      ] as const;
      const records = await findRecords(target, query);
      expect(records).toMatchObject([
        { status: 200, change: { cors: [{ id: 'one', maxAgeSeconds: 3000 }, {}] } },
      ]);
      await client.send(new DeleteBucketCorsCommand({ Bucket: bucket }));
      await client.send(new DeleteBucketCorsCommand({ Bucket: bucket }));
      expect(await refusalOf(get())).toEqual(missing);
    });

    const rule = (content: string) =>
      `<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>${content}</CORSRule>`;
    it.each([
      ['no rule', '', 'MalformedXML'],
      [
        'a rule without a method',
        '<CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>',
        'MalformedXML',
      ],
      [
        'a rule without an origin',
        '<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>',
        'MalformedXML',
      ],
      ['more than 100 rules', rule('').repeat(101), 'MalformedXML'],
      ['an unknown element', rule('<Allow>x</Allow>'), 'MalformedXML'],
      ['an age that is no number', rule('<MaxAgeSeconds>1d</MaxAgeSeconds>'), 'MalformedXML'],
      ['two ages', rule('<MaxAgeSeconds>1</MaxAgeSeconds>'.repeat(2)), 'MalformedXML'],
      ['a long id', rule(`<ID>${'x'.repeat(256)}</ID>`), 'MalformedXML'],
      ['a header of two lines', rule('<ExposeHeader>a\r\nb</ExposeHeader>'), 'InvalidRequest'],
      ['a header with a space', rule('<AllowedHeader>a b</AllowedHeader>'), 'InvalidRequest'],
      [
        'a method that is none of S3',
        rule('<AllowedMethod>PATCH</AllowedMethod>'),
        'InvalidRequest',
      ],
      ['two stars in an origin', rule('<AllowedOrigin>*.*</AllowedOrigin>'), 'InvalidRequest'],
      ['two stars in a header', rule('<AllowedHeader>*a*</AllowedHeader>'), 'InvalidRequest'],
      ['a star in what is exposed', rule('<ExposeHeader>x-*</ExposeHeader>'), 'InvalidRequest'],
    ])('%s is refused', async (_title, content, code) => {
      const body = `<CORSConfiguration>${content}</CORSConfiguration>`;
      const query = [['cors', '']] as const;
      const answer = await send(target, { method: 'PUT', path: `/${Bucket}`, query, body });
      expect([answer.status, answer.code]).toEqual([400, code]);
    });

    it('a preflight is told what the first rule that fits allows', async () => {
      await setRules([
        {
          AllowedOrigins: ['https://*.example.org'],
          AllowedMethods: ['PUT', 'GET'],
          AllowedHeaders: ['X-Amz-Meta-*', 'content-type'],
          ExposeHeaders: ['ETag'],
          MaxAgeSeconds: 60,
        },
        { AllowedOrigins: ['*'], AllowedMethods: ['GET'] },
      ]);
      const asked = ask(page, 'PUT', 'Content-Type, x-amz-meta-a');
      const put = await preflight(`/${Bucket}/k`, asked);
      expect([put.status, put.text]).toEqual([200, '']);
      expect(corsOf(put)).toEqual({
        'access-control-allow-origin': page,
        'access-control-allow-credentials': 'true',
        'access-control-allow-methods': 'PUT, GET',
        'access-control-allow-headers': 'content-type, x-amz-meta-a',
        'access-control-expose-headers': 'ETag',
        'access-control-max-age': '60',
        vary,
      });
      const other = await preflight(`/${Bucket}`, ask('http://else.where', 'GET'));
      expect(other.status).toBe(200);
      expect(corsOf(other)).toEqual({
        'access-control-allow-origin': '*',
        'access-control-allow-methods': 'GET',
        vary,
      });
    });

    it('a star stands for anything in its place, and for nothing beyond', async () => {
      await setRules([
        { AllowedOrigins: ['*suffix', 'start*end', 'prefix*', 'ab*ba'], AllowedMethods: ['GET'] },
      ]);
      const allowed = [
        'suffix',
        'foo.suffix',
        'startend',
        'start1end',
        'prefix',
        'prefix.x',
        'abba',
      ];
      const refused = [
        'suffix.x',
        '0start1end',
        'start1end0',
        'a.prefix',
        'aba',
        'PREFIX',
        'startxen',
      ];
      for (const origin of [...allowed, ...refused]) {
        const { status } = await preflight(`/${Bucket}/k`, ask(origin, 'GET'));
        expect([origin, status]).toEqual([origin, allowed.includes(origin) ? 200 : 403]);
      }
    });

    it('a preflight that no rule allows is refused, and says what was asked', async () => {
      await setRules([
        { AllowedOrigins: [page], AllowedMethods: ['GET'], AllowedHeaders: ['x-a'] },
      ]);
      for (const asked of [
        ask('https://other.example.org', 'GET'),
        ask(page, 'PUT'),
        ask(page, 'GET', 'x-a, x-b'),
      ]) {
        const answer = await preflight(`/${Bucket}/k`, asked);
        expect([answer.status, answer.code]).toEqual([403, 'AccessForbidden']);
        expect(answer.text).toContain('CORSResponse: This CORS request is not allowed.');
        expect(answer.text).toContain(`<Method>${asked['access-control-request-method']}</Method>`);
        expect(answer.text).toContain('<ResourceType>OBJECT</ResourceType>');
        expect(corsOf(answer)).toEqual({});
      }
    });

    it('a preflight that lacks something is a bad request', async () => {
      for (const headers of [
        {},
        { origin: page },
        { 'access-control-request-method': 'GET' },
        ask(page, 'PATCH'),
        ask(page, 'get'),
      ]) {
        const answer = await preflight(`/${Bucket}/k`, headers as Record<string, string>);
        expect([answer.status, answer.code]).toEqual([400, 'BadRequest']);
      }
    });

    it('a bucket that is not there is told from none without rules by nobody', async () => {
      const bare = await newBucket(client);
      const tell = async (bucket: string) => {
        const { status, text } = await preflight(`/${bucket}/k`, ask(page, 'GET'));
        return [status, text.replace(/<RequestId>.*/g, '')];
      };
      const told = await tell(bare);
      expect(told[0]).toBe(403);
      expect(told[1]).toContain('CORSResponse: CORS is not enabled for this bucket.');
      expect(await tell(newName('nowhere'))).toEqual(told);
      expect(await tell('cms:nowhere')).toEqual(told);
    });

    it('answers tell the origin of a request what its rule allows, refusals too', async () => {
      await setRules([{ AllowedOrigins: [page], AllowedMethods: ['GET', 'PUT', 'POST'] }]);
      const headers = { origin: page };
      const allowed = {
        'access-control-allow-origin': page,
        'access-control-allow-credentials': 'true',
        'access-control-allow-methods': 'GET, PUT, POST',
        vary,
      };
      const read = await send(target, { method: 'GET', path: `/${Bucket}/k`, headers });
      expect([read.status, corsOf(read)]).toEqual([200, allowed]);
      const missing = await send(target, { method: 'GET', path: `/${Bucket}/none`, headers });
      expect([missing.status, corsOf(missing)]).toEqual([404, allowed]);
      const nobody = await exchange(target, 'GET', `/${Bucket}/k`, headers);
      expect([nobody.status, corsOf(nobody)]).toEqual([403, allowed]);
      const wrong = { ...target, keys: { ...target.keys, secretAccessKey: 'wrong' } };
      const unproven = await send(wrong, { method: 'GET', path: `/${Bucket}/k`, headers });
      expect([unproven.status, corsOf(unproven)]).toEqual([403, allowed]);
      const signed = signPolicy(target.keys, [{ bucket: Bucket }, { key: 'form' }]);
      const body = formBody([['key', 'form'], ...signed], { content: 'x' });
      const form = await postForm(target, Bucket, body, headers);
      expect([form.status, corsOf(form)]).toEqual([204, allowed]);
      const other = { origin: 'https://other.example.org' };
      const strange = await send(target, { method: 'GET', path: `/${Bucket}/k`, headers: other });
      expect([strange.status, corsOf(strange)]).toEqual([200, { vary }]);
      const removed = await send(target, { method: 'DELETE', path: `/${Bucket}/form`, headers });
      expect([removed.status, corsOf(removed)]).toEqual([204, { vary }]);
      const own = await send(target, { method: 'GET', path: `/${Bucket}/k` });
      expect([own.status, corsOf(own)]).toEqual([200, {}]);
    });

    it('rules count from their answer on, and are gone with the next', async () => {
      const bucket = await newBucket(client);
      for (let i = 0; i < 5; i++) {
        const origin = `https://${i}.example.org`;
        await setRules([{ AllowedOrigins: [origin], AllowedMethods: ['GET'] }], bucket);
        expect((await preflight(`/${bucket}`, ask(origin, 'GET'))).status).toBe(200);
        await client.send(new DeleteBucketCorsCommand({ Bucket: bucket }));
        expect((await preflight(`/${bucket}`, ask(origin, 'GET'))).status).toBe(403);
      }
    });

    it('a presigned URL, and a name with a tenant, mean the bucket of that tenant', async () => {
      const tenant = newName('team');
      await callNative(target, 'POST', '/_/v1/tenants', { name: tenant });
      const alice = as(target, await newPrincipal(target, { tenant, name: 'alice' }));
      const own = clientOf(alice);
      const bucket = await newBucket(own);
      const CORSRules = [{ AllowedOrigins: [page], AllowedMethods: ['PUT'] }];
      await own.send(
        new PutBucketCorsCommand({ Bucket: bucket, CORSConfiguration: { CORSRules } }),
      );
      const { accessKeyId, secretAccessKey: secret } = alice.keys;
      const url = presignUrl({
        ...{ method: 'PUT', origin: target.endpoint, path: `/${bucket}/k` },
        ...{ accessKeyId, secret, region, expiresSeconds: 60, timeMs: Date.now() },
      });
      const path = url.slice(target.endpoint.length);
      expect((await preflight(path, ask(page, 'PUT'))).status).toBe(200);
      const put = await exchange(target, 'PUT', path, { origin: page }, 'body');
      expect([put.status, put.headers['access-control-allow-origin']]).toEqual([200, page]);
      expect((await preflight(`/${tenant}:${bucket}/k`, ask(page, 'PUT'))).status).toBe(200);
      const hosted = { ...ask(page, 'PUT'), host: `${bucket}.${tenant}.${domain}` };
      expect((await preflight('/k', hosted)).status).toBe(200);
      expect((await preflight('/_/k', hosted)).status).toBe(200);
      expect((await preflight(`/${bucket}/k`, ask(page, 'PUT'))).status).toBe(403);
    });

    it('rules let nobody in, and only who may set them sets them', async () => {
      await setRules([{ AllowedOrigins: ['*'], AllowedMethods: ['GET'] }]);
      const stranger = clientOf(as(target, await newPrincipal(target, { name: newName('bob') })));
      const CORSConfiguration = { CORSRules: [] };
      for (const attempt of [
        () => stranger.send(new GetObjectCommand({ Bucket, Key: 'k' })),
        () => stranger.send(new GetBucketCorsCommand({ Bucket })),
        () => stranger.send(new DeleteBucketCorsCommand({ Bucket })),
        () => stranger.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration })),
      ]) {
        expect(await refusalOf(attempt())).toEqual({ code: 'AccessDenied', status: 403 });
      }
      const Statement = [
        {
          Effect: 'Allow',
          Principal: '*',
          Action: 's3:GetObject',
          Resource: `arn:aws:s3:::${Bucket}/*`,
        },
      ];
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
      await client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
      const open = await exchange(target, 'GET', `/${Bucket}/k`, { origin: page });
      expect([open.status, open.headers['access-control-allow-origin']]).toEqual([200, '*']);
    });
  });
}
