// Buckets as websites: how they are set up, what browsers are given of them, and what nobody gets
// by asking there.
import {
  DeleteBucketOwnershipControlsCommand,
  DeleteBucketWebsiteCommand,
  DeleteObjectCommand,
  GetBucketWebsiteCommand,
  PutBucketAclCommand,
  PutBucketCorsCommand,
  PutBucketPolicyCommand,
  PutBucketWebsiteCommand,
  PutObjectCommand,
  type S3Client,
  type WebsiteConfiguration,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type Answer,
  as,
  callNative,
  clientOf,
  domain,
  exchange,
  newName,
  newOpenBucket,
  newPrincipal,
  refusalOf,
  region,
  send,
  type Target,
} from '../target.ts';

const index = { IndexDocument: { Suffix: 'index.html' } };
const errorPage = { ErrorDocument: { Key: 'error.html' } };

export function describeWebsites(targetOf: () => Target): void {
  describe('a website', () => {
    let target: Target;
    let client: S3Client;
    let Bucket: string;
    beforeAll(async () => {
      target = targetOf();
      client = clientOf(target);
      Bucket = await newSite();
    });

    const put = (Key: string, Body: string, more: object = {}, bucket = Bucket) =>
      client.send(new PutObjectCommand({ Bucket: bucket, Key, Body, ...more }));

    const setUp = (WebsiteConfiguration: WebsiteConfiguration, bucket = Bucket) =>
      client.send(new PutBucketWebsiteCommand({ Bucket: bucket, WebsiteConfiguration }));

    /** A bucket of which everybody may read what begins with one of these. */
    async function newSite(prefixes = [''], actions = ['s3:GetObject']): Promise<string> {
      const name = await newOpenBucket(client);
      const keys = prefixes.map((prefix) => `arn:aws:s3:::${name}/${prefix}*`);
      const Statement = [
        { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: keys },
        ...(actions.includes('s3:ListBucket')
          ? [
              {
                ...{ Effect: 'Allow', Principal: '*', Action: 's3:ListBucket' },
                Resource: `arn:aws:s3:::${name}`,
              },
            ]
          : []),
      ];
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
      await client.send(new PutBucketPolicyCommand({ Bucket: name, Policy }));
      await setUp({ ...index, ...errorPage }, name);
      return name;
    }

    function visit(
      path: string,
      { bucket = Bucket, method = 'GET', base = 's3-website', headers = {} } = {},
    ): Promise<Answer> {
      return exchange(target, method, path, { host: `${bucket}.${base}.${domain}`, ...headers });
    }

    const seen = ({ status, text }: Answer) => [status, text];
    const led = ({ status, headers, body }: Answer) => [status, headers.location, body.length];

    it('is set up, read and taken away', async () => {
      const name = await newOpenBucket(client);
      const read = () => client.send(new GetBucketWebsiteCommand({ Bucket: name }));
      const none = { code: 'NoSuchWebsiteConfiguration', status: 404 };
      expect(await refusalOf(read())).toEqual(none);
      const whole: WebsiteConfiguration = {
        ...{ ...index, ...errorPage },
        RoutingRules: [
          {
            Condition: { KeyPrefixEquals: 'a/', HttpErrorCodeReturnedEquals: '404' },
            Redirect: { ReplaceKeyPrefixWith: '', HttpRedirectCode: '302', Protocol: 'https' },
          },
          { Redirect: { HostName: 'other.example.org:8443', ReplaceKeyWith: 'é&<' } },
        ],
      };
      for (const set of [
        whole,
        { RedirectAllRequestsTo: { HostName: 'www.example.org', Protocol: 'https' as const } },
      ]) {
        await setUp(set, name);
        const { $metadata, ...shown } = await read();
        expect(shown).toEqual(set);
      }
      await client.send(new DeleteBucketWebsiteCommand({ Bucket: name }));
      await client.send(new DeleteBucketWebsiteCommand({ Bucket: name }));
      expect(await refusalOf(read())).toEqual(none);
    });

    const element = (name: string, inner: string) => `<${name}>${inner}</${name}>`;
    const suffix = element('IndexDocument', element('Suffix', 'i'));
    const ruled = (inner: string) =>
      suffix + element('RoutingRules', element('RoutingRule', inner));
    const redirect = element('Redirect', element('ReplaceKeyWith', 'k'));
    const refused: Record<string, [code: string, document: string]> = {
      nothing: ['InvalidArgument', ''],
      'no index': ['InvalidArgument', element('ErrorDocument', element('Key', 'e'))],
      'an empty index': ['InvalidArgument', element('IndexDocument', '<Suffix/>')],
      'an index in a folder': [
        'InvalidArgument',
        element('IndexDocument', element('Suffix', '/index.html')),
      ],
      'two answers for all': [
        'InvalidArgument',
        element('RedirectAllRequestsTo', element('HostName', 'a')) + suffix,
      ],
      'an element that is unknown': ['MalformedXML', `${suffix}<Else/>`],
      'no rules': ['MalformedXML', `${suffix}<RoutingRules/>`],
      'a rule that leads nowhere': ['MalformedXML', ruled('<Redirect/>')],
      'a condition of nothing': ['InvalidRequest', ruled(`<Condition/>${redirect}`)],
      'another protocol': [
        'InvalidRequest',
        ruled(element('Redirect', element('Protocol', 'javascript'))),
      ],
      'two keys': [
        'InvalidRequest',
        ruled('<Redirect><ReplaceKeyWith/><ReplaceKeyPrefixWith/></Redirect>'),
      ],
      'a status that leads nowhere': [
        'InvalidRequest',
        ruled(element('Redirect', element('HttpRedirectCode', '304'))),
      ],
      'a status that is no refusal': [
        'InvalidRequest',
        ruled(element('Condition', element('HttpErrorCodeReturnedEquals', '200')) + redirect),
      ],
      'a host with a path': [
        'InvalidRequest',
        element('RedirectAllRequestsTo', element('HostName', 'a.example/?')),
      ],
      'a host with a line of its own': [
        'InvalidRequest',
        element('RedirectAllRequestsTo', element('HostName', 'a&#13;&#10;Set-Cookie: x=1')),
      ],
      'a key that none can be': [
        'InvalidRequest',
        suffix + element('ErrorDocument', element('Key', 'k'.repeat(1025))),
      ],
      'more rules than there can be': [
        'InvalidRequest',
        suffix + element('RoutingRules', element('RoutingRule', redirect).repeat(51)),
      ],
      'more than can be': ['EntityTooLarge', `${suffix}<!--${'-'.repeat(128 * 1024)}`],
    };

    it.each(Object.entries(refused))('of %s is refused', async (_, [code, document]) => {
      const body = element('WebsiteConfiguration', document);
      const query = [['website', '']] as const;
      const answer = await send(target, { method: 'PUT', path: `/${Bucket}`, query, body });
      expect(answer.code === 'MaxMessageLengthExceeded' ? 'EntityTooLarge' : answer.code).toBe(
        code,
      );
      expect(answer.status).toBe(400);
    });

    it('shows its pages and the index of each folder, by both of its hosts', async () => {
      await put('index.html', '<p>home', { ContentType: 'text/html' });
      await put('sub/index.html', 'sub');
      await put('a b/ü', 'page', { CacheControl: 'max-age=5' });
      const home = await visit('/');
      expect(seen(home)).toEqual([200, '<p>home']);
      // It is of an origin of its own.
      expect(home.headers['content-security-policy']).toBeUndefined();
      expect(home.headers['content-type']).toBe('text/html');
      expect(seen(await visit('/', { base: `s3-website-${region}` }))).toEqual([200, '<p>home']);
      expect(seen(await visit('/', { bucket: Bucket.toUpperCase() }))).toEqual([200, '<p>home']);
      expect(seen(await visit('/sub/'))).toEqual([200, 'sub']);
      expect(led(await visit('/sub?a=1'))).toEqual([302, '/sub/', 0]);
      const page = await visit('/a%20b/%C3%BC?versionId=x&acl');
      expect([...seen(page), page.headers['cache-control']]).toEqual([200, 'page', 'max-age=5']);
      const head = await visit('/sub/', { method: 'HEAD' });
      expect([head.status, head.headers['content-length'], head.text]).toEqual([200, '3', '']);
      expect(seen(await visit('/sub/', { headers: { range: 'bytes=1-' } }))).toEqual([206, 'ub']);
      const { etag = '' } = head.headers;
      const same = await visit('/sub/', { headers: { 'if-none-match': etag } });
      expect(same.status).toBe(304);
    });

    it('tells of a refusal by its own document, with the status of the refusal', async () => {
      const site = await newSite(['index', 'error', 'missing'], ['s3:ListBucket']);
      const ask = (path: string, more = {}) => visit(path, { bucket: site, ...more });
      await put('secret', 's', {}, site);
      // The document is not there, and the page is escaped.
      const untold = await ask('/missing%3Cscript%3E%0A');
      expect([untold.status, untold.headers['content-type']]).toEqual([
        404,
        'text/html; charset=utf-8',
      ]);
      expect(untold.text).toContain('<li>Key: missing&lt;script&gt;&#xa;</li>');
      expect(untold.text).toContain('Retrieve a Custom Error Document');
      expect(untold.headers['content-security-policy']).toContain("default-src 'none'");
      await put('error.html', 'oops', {}, site);
      expect(seen(await ask('/missing'))).toEqual([404, 'oops']);
      expect(seen(await ask('/secret'))).toEqual([403, 'oops']);
      // The conditions are not about it.
      const headers = { range: 'bytes=0-0', 'if-none-match': '*' };
      expect(seen(await ask('/missing', { headers }))).toEqual([404, 'oops']);
      const head = await ask('/missing', { method: 'HEAD' });
      expect([head.status, head.text]).toEqual([404, '']);
      await setUp({ ...index, ErrorDocument: { Key: 'secret' } }, site);
      const forbidden = await ask('/missing');
      expect(forbidden.status).toBe(404);
      expect(forbidden.text).toContain('<li>Code: AccessDenied</li>');
    });

    it('of which nobody may list keys says of none whether it is there', async () => {
      const site = await newSite(['index']);
      await put('secret', 's', {}, site);
      const [there, missing] = await Promise.all(
        ['/secret', '/nothing'].map((path) => visit(path, { bucket: site })),
      );
      expect([there?.status, missing?.status]).toEqual([403, 403]);
      const plain = (answer?: Answer) => answer?.text.replace(/(RequestId|HostId): .*/g, '');
      expect(plain(there)).toBe(plain(missing));
    });

    it('redirects by its rules, the first of them, and by its objects', async () => {
      const site = await newSite([''], ['s3:ListBucket']);
      await put('old/there', 'x', {}, site);
      await put('moved', '', { WebsiteRedirectLocation: '/new?a=1' }, site);
      const away = { 'x-amz-website-redirect-location': 'https://other.example/\xc3\xa4' };
      await send(target, { method: 'PUT', path: `/${site}/away`, headers: away });
      await put('index.html', 'home', {}, site);
      await setUp(
        {
          ...index,
          RoutingRules: [
            {
              Condition: { KeyPrefixEquals: 'old/' },
              Redirect: { ReplaceKeyPrefixWith: 'new/', HttpRedirectCode: '307' },
            },
            { Condition: { KeyPrefixEquals: 'old/' }, Redirect: { ReplaceKeyWith: 'never' } },
            {
              Condition: { KeyPrefixEquals: 'up/' },
              Redirect: { Protocol: 'https', HostName: 'up.example' },
            },
            { Condition: { KeyPrefixEquals: 'i' }, Redirect: { ReplaceKeyWith: 'i2' } },
            {
              Condition: { HttpErrorCodeReturnedEquals: '404' },
              Redirect: { ReplaceKeyWith: 'lost' },
            },
          ],
        },
        site,
      );
      const at = `http://${site}.s3-website.${domain}`;
      const ask = async (path: string) => led(await visit(path, { bucket: site }));
      expect(await ask('/old/there')).toEqual([307, `${at}/new/there`, 0]);
      expect(await ask('/up/a%0D%0Ab')).toEqual([301, 'https://up.example/up/a%0D%0Ab', 0]);
      expect(await ask('/i')).toEqual([301, `${at}/i2`, 0]);
      expect(seen(await visit('/', { bucket: site }))).toEqual([200, 'home']);
      // A loop is the browser's to end: each answer is one.
      expect(await ask('/lost')).toEqual([301, `${at}/lost`, 0]);
      expect(await ask('/moved')).toEqual([301, '/new?a=1', 0]);
      expect(await ask('/away')).toEqual([301, 'https://other.example/%C3%A4', 0]);
      await setUp({ RedirectAllRequestsTo: { HostName: 'www.example' } }, site);
      expect(await ask('/moved')).toEqual([301, 'http://www.example/moved', 0]);
      expect(await ask('/')).toEqual([301, 'http://www.example/', 0]);
    });

    it('leads nobody to another host by a path', async () => {
      await put('/other.example/index.html', 'x');
      expect(led(await visit('//other.example'))).toEqual([302, '/%2Fother.example/', 0]);
      expect(seen(await visit('/%2Fother.example/'))).toEqual([200, 'x']);
    });

    it('takes nothing, whoever asks', async () => {
      await put('index.html', 'home');
      for (const method of ['PUT', 'POST', 'DELETE']) {
        const answer = await visit('/index.html', { method });
        expect(answer.status).toBe(405);
        expect(answer.text).toContain('<li>Code: MethodNotAllowed</li>');
      }
      // Credentials mean nothing here.
      const closed = await newSite(['index']);
      await put('secret', 's', {}, closed);
      const host = `${closed}.s3-website.${domain}`;
      const answer = await send(target, { method: 'GET', path: '/secret', headers: { host } });
      expect(answer.status).toBe(403);
    });

    it('is no way to what is no website', async () => {
      const closed = await newOpenBucket(client);
      await put('index.html', 'x', {}, closed);
      const [there, missing] = await Promise.all(
        [closed, newName()].map(async (bucket) => {
          const { status, text } = await visit('/index.html', { bucket });
          return [status, text.replaceAll(bucket, 'B').replace(/(RequestId|HostId): .*/g, '')];
        }),
      );
      expect(there).toEqual(missing);
      expect(there?.[0]).toBe(404);
      // Who may list it may know that it is there.
      await client.send(new DeleteBucketOwnershipControlsCommand({ Bucket: closed }));
      await client.send(new PutBucketAclCommand({ Bucket: closed, ACL: 'public-read' }));
      const told = await visit('/index.html', { bucket: closed });
      expect(told.text).toContain('<li>Code: NoSuchWebsiteConfiguration</li>');
      for (const host of [`s3-website.${domain}`, `.s3-website.${domain}`]) {
        expect((await exchange(target, 'GET', `/${Bucket}/`, { host })).status).toBeGreaterThan(
          399,
        );
      }
      const { status } = await visit('/_/health', { bucket: closed });
      expect(status).toBe(404);
    });

    it('is one by ACLs, too, and a key that is gone is gone', async () => {
      const name = await newOpenBucket(client);
      await setUp(index, name);
      await client.send(new DeleteBucketOwnershipControlsCommand({ Bucket: name }));
      await client.send(new PutBucketAclCommand({ Bucket: name, ACL: 'public-read' }));
      await put('index.html', 'home', { ACL: 'public-read' }, name);
      await put('secret', 's', {}, name);
      expect(seen(await visit('/', { bucket: name }))).toEqual([200, 'home']);
      expect((await visit('/secret', { bucket: name })).status).toBe(403);
      await client.send(new DeleteObjectCommand({ Bucket: name, Key: 'index.html' }));
      expect((await visit('/', { bucket: name })).status).toBe(404);
    });

    it('of another tenant has the tenant in its host', async () => {
      const tenant = newName('site');
      await callNative(target, 'POST', '/_/v1/tenants', { name: tenant });
      const owner = as(target, await newPrincipal(target, { tenant, role: 'admin' }));
      const other = clientOf(owner);
      const name = await newOpenBucket(other);
      const Statement = [
        {
          ...{ Effect: 'Allow', Principal: '*', Action: 's3:GetObject' },
          Resource: `arn:aws:s3:::${name}/*`,
        },
      ];
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
      await other.send(new PutBucketPolicyCommand({ Bucket: name, Policy }));
      const set = { Bucket: name, WebsiteConfiguration: index };
      await other.send(new PutBucketWebsiteCommand(set));
      await other.send(new PutObjectCommand({ Bucket: name, Key: 'index.html', Body: 'theirs' }));
      expect(seen(await visit('/', { bucket: `${name}.${tenant}` }))).toEqual([200, 'theirs']);
      expect((await visit('/', { bucket: name })).status).toBe(404);
    });

    it('tells pages of other origins what its CORS rules say', async () => {
      await put('index.html', 'home');
      const CORSRules = [{ AllowedOrigins: ['https://a.example'], AllowedMethods: ['GET'] }];
      const CORSConfiguration = { CORSRules };
      await client.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration }));
      const origin = 'https://a.example';
      const told = await visit('/', { headers: { origin } });
      expect(told.headers['access-control-allow-origin']).toBe(origin);
      const headers = { origin, 'access-control-request-method': 'GET' };
      const before = await visit('/', { method: 'OPTIONS', headers });
      expect([before.status, before.headers['access-control-allow-origin']]).toEqual([200, origin]);
    });
  });
}
