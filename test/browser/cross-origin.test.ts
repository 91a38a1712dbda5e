// Pages in a real browser, from another origin than the gateway's: what a bucket's CORS rules let
// them do, and what forms do without any. The scripts are as small as an application's would be.
import {
  CreateBucketCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutBucketCorsCommand,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { md5Of } from '../protocol/checksums.ts';
import { filenameVariable, signPolicy } from '../protocol/forms.ts';
import {
  clientOf,
  refusalOf,
  region,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { presignUrl } from '../tooling/presign.ts';
import { chromium, describeWithTool } from '../tooling/tools.ts';
import { openPage, type Page } from './browser.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

describeWithTool(chromium, 'a page of another origin, in Chromium', (path) => {
  let target: Target;
  let client: S3Client;
  /** The bucket's rules are for this one alone. */
  let page: Page;
  let stranger: Page;
  const Bucket = 'pages';

  beforeAll(async () => {
    target = await startEmbeddedTarget();
    client = clientOf(target);
    [page, stranger] = await Promise.all([openPage(path), openPage(path)]);
    await client.send(new CreateBucketCommand({ Bucket }));
    await client.send(
      new PutBucketCorsCommand({
        Bucket,
        CORSConfiguration: {
          CORSRules: [
            {
              AllowedOrigins: [page.origin],
              AllowedMethods: ['GET', 'PUT', 'POST'],
              AllowedHeaders: ['content-type', 'x-amz-meta-*'],
              ExposeHeaders: ['ETag'],
            },
          ],
        },
      }),
    );
  });

  afterAll(async () => {
    await Promise.all([page?.close(), stranger?.close()]);
    await target?.stop();
  });

  function presign(method: string, key: string, headers: Record<string, string> = {}): string {
    const { accessKeyId, secretAccessKey: secret } = target.keys;
    const asked = { method, origin: target.endpoint, path: `/${Bucket}/${key}`, headers };
    const signed = { accessKeyId, secret, region, expiresSeconds: 60, timeMs: Date.now() };
    return presignUrl({ ...asked, ...signed });
  }

  it('uploads by a presigned URL after its preflight, and reads what is exposed', async () => {
    const headers = { 'x-amz-meta-colour': 'green' };
    const told = await page.run(
      `const put = await fetch(given.put, {
         method: 'PUT',
         body: 'from a page',
         headers: { ...given.headers, 'content-type': 'text/x' },
       });
       const get = await fetch(given.get);
       const seen = ({ status, headers }) =>
         [status, headers.get('etag'), headers.get('x-amz-request-id')];
       return { put: seen(put), get: seen(get), text: await get.text() };`,
      { headers, put: presign('PUT', 'k', headers), get: presign('GET', 'k') },
    );
    const seen = [200, `"${md5Of(Buffer.from('from a page'))}"`, null];
    expect(told).toEqual({ put: seen, get: seen, text: 'from a page' });
    const head = await client.send(new HeadObjectCommand({ Bucket, Key: 'k' }));
    expect([head.Metadata, head.ContentType]).toEqual([{ colour: 'green' }, 'text/x']);
  });

  it('sees refusals as what they are', async () => {
    const told = await page.run(
      `const answer = await fetch(given.url);
       return [answer.status, /<Code>(\\w+)/.exec(await answer.text())[1]];`,
      { url: presign('GET', 'none') },
    );
    expect(told).toEqual([404, 'NoSuchKey']);
  });

  it('is kept out by the browser where no rule names its origin, method or headers', async () => {
    await client.send(new PutObjectCommand({ Bucket, Key: 'kept', Body: 'kept' }));
    const script = `const outcomes = {};
      for (const [name, url, init] of given.asks) {
        outcomes[name] = await fetch(url, init)
          .then((answer) => answer.status, (error) => error.name);
      }
      return outcomes;`;
    const put = { method: 'PUT', body: 'x' };
    const asks = [
      ['get', presign('GET', 'kept'), {}],
      ['put', presign('PUT', 'kept'), put],
    ];
    const outcomes = await stranger.run(script, { asks });
    expect(outcomes).toEqual({ get: 'TypeError', put: 'TypeError' });
    const more = [
      ['delete', presign('DELETE', 'kept'), { method: 'DELETE' }],
      ['header', presign('PUT', 'kept'), { ...put, headers: { 'x-other': '1' } }],
      ['get', presign('GET', 'kept'), {}],
    ];
    const own = await page.run(script, { asks: more });
    expect(own).toEqual({ delete: 'TypeError', header: 'TypeError', get: 200 });
    const { Body } = await client.send(new GetObjectCommand({ Bucket, Key: 'kept' }));
    expect(await Body?.transformToString()).toBe('kept');
  });

  /** Has a page send an HTML form with a file, into a frame; resolves when that has loaded. */
  const sendForm = `
    const form = Object.assign(document.createElement('form'), {
      action: given.action, method: 'post', enctype: 'multipart/form-data', target: 'answer',
    });
    for (const [name, value] of given.fields) {
      form.append(Object.assign(document.createElement('input'), { name, value, type: 'hidden' }));
    }
    const input = Object.assign(document.createElement('input'), { name: 'file', type: 'file' });
    const files = new DataTransfer();
    files.items.add(new File([given.content], given.filename, { type: 'text/plain' }));
    input.files = files.files;
    const frame = Object.assign(document.createElement('iframe'), { name: 'answer' });
    form.append(input);
    document.body.append(frame, form);
    await new Promise((resolve) => { frame.onload = resolve; form.submit(); });`;

  it('uploads by an HTML form, whose browser then goes where the form says', async () => {
    const done = `${stranger.origin}/done?of=form`;
    const filename = 'ein "Bild" – 1.txt';
    const fields = [
      ['key', `forms/${filenameVariable}`],
      ['success_action_redirect', done],
      ['Content-Type', 'text/plain'],
      ...signPolicy(target.keys, [
        { bucket: Bucket },
        ['starts-with', '$key', 'forms/'],
        { success_action_redirect: done },
        ['starts-with', '$Content-Type', 'text/'],
        ['content-length-range', 1, 100_000],
      ]),
    ];
    const content = 'ä'.repeat(40_000);
    const given = { action: `${target.endpoint}/${Bucket}`, fields, content, filename };
    // No rule names this origin: a form needs none.
    await stranger.run(sendForm, given);
    await expect.poll(() => stranger.visited.find((url) => url.startsWith('/done'))).toBeDefined();
    const url = new URL(stranger.visited.find((one) => one.startsWith('/done')) ?? '', page.origin);
    const Key = url.searchParams.get('key') ?? '';
    expect(Object.fromEntries(url.searchParams)).toEqual({
      ...{
        of: 'form',
        bucket: Bucket,
        key: expect.stringMatching(/^forms\/ein .*Bild.* – 1\.txt$/),
      },
      etag: `"${md5Of(Buffer.from(content))}"`,
    });
    const { Body, ContentType } = await client.send(new GetObjectCommand({ Bucket, Key }));
    expect([await Body?.transformToString(), ContentType]).toEqual([content, 'text/plain']);
  });

  it('uploads by a script that sends a form, and reads the answer', async () => {
    const fields = [
      ['key', 'script'],
      ['success_action_status', '201'],
      ...signPolicy(target.keys, [
        { bucket: Bucket },
        { key: 'script' },
        { success_action_status: '201' },
        ['content-length-range', 0, 10],
      ]),
    ];
    const script = `
      const form = new FormData();
      for (const [name, value] of given.fields) form.append(name, value);
      form.append('file', new File([given.content], 'f'));
      const answer = await fetch(given.action, { method: 'POST', body: form });
      const text = await answer.text();
      return [answer.status, /<(?:Key|Code)>([^<]*)/.exec(text)[1], answer.headers.get('etag')];`;
    const given = { action: `${target.endpoint}/${Bucket}`, fields };
    expect(await page.run(script, { ...given, content: '12345678901' })).toEqual([
      ...[400, 'EntityTooLarge', null],
    ]);
    expect(
      await refusalOf(client.send(new HeadObjectCommand({ Bucket, Key: 'script' }))),
    ).toMatchObject({ status: 404 });
    expect(await page.run(script, { ...given, content: '1234567890' })).toEqual([
      ...[201, 'script', `"${md5Of(Buffer.from('1234567890'))}"`],
    ]);
  });
});
