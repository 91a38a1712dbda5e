// What a page that somebody stored can do, in a real browser: nothing to the native API, to share
// pages and to what others were given URLs of. A gateway with `--stored-pages same-origin` shows
// that the same page could do it otherwise, and that service workers are refused there, too.
import http from 'node:http';
import { CreateBucketCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { callNative, clientOf, region, type Target } from '../protocol/target.ts';
import { presignUrl } from '../tooling/presign.ts';
import { startServedGateway } from '../tooling/served-gateway.ts';
import { chromium, describeWithTool } from '../tooling/tools.ts';
import { openPage, type Page } from './browser.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const Bucket = 'pages';

/** Tries what it can, and tells the page around it. */
const hostile = `<!doctype html><title>hostile</title><body><script type="text/javascript">
  const given = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  const attempt = async (act) => {
    try { return await act(); } catch (error) { return error.name; }
  };
  const framed = (url) => new Promise((resolve) => {
    const frame = document.createElement('iframe');
    frame.onload = () => resolve(frame.contentWindow);
    setTimeout(() => resolve(frame.contentWindow), 3000);
    frame.src = url;
    document.body.append(frame);
  });
  const run = async () => ({
    origin: self.origin,
    storage: await attempt(() => String(localStorage.length)),
    native: await attempt(async () => (await fetch('/_/v1/tenants')).status),
    worker: await attempt(async () => {
      await navigator.serviceWorker.register(given.worker);
      return 'registered';
    }),
    secret: await attempt(async () => (await framed(given.secret)).location.href),
    share: await attempt(async () => (await framed(given.share)).document.body.innerText),
    sniffed: await attempt(async () => {
      const seen = await framed(given.text);
      return seen.ran === true ? 'it ran' : 'it did not run';
    }),
  });
  const tell = (told) => parent.postMessage(told, '*');
  run().then(tell, (error) => tell(String(error)));
</script>`;

interface Served {
  target: Target;
  presign: (key: string) => string;
  given: { worker: string; secret: string; share: string; text: string };
}

async function serve(...args: string[]): Promise<Served> {
  const gateway = await startServedGateway({ args });
  const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
  const keys = { accessKeyId, secretAccessKey };
  const target: Target = { endpoint, keys, strayNames: () => [], stop };
  const client = clientOf(target);
  await client.send(new CreateBucketCommand({ Bucket }));
  const put = (Key: string, Body: string, ContentType: string) =>
    client.send(new PutObjectCommand({ Bucket, Key, Body, ContentType }));
  await put('hostile.html', hostile, 'text/html');
  await put('worker.js', 'onfetch = () => {}', 'text/javascript');
  await put('secret', 'of another tenant', 'text/plain');
  await put('text', '<!doctype html><script>window.ran = true</script>', 'text/plain');
  await put('shared/file', 'shared', 'text/plain');
  const presign = (key: string): string =>
    presignUrl({
      ...{ method: 'GET', origin: endpoint, path: `/${Bucket}/${key}`, headers: {} },
      ...{ accessKeyId, secret: secretAccessKey, region, expiresSeconds: 60, timeMs: Date.now() },
    });
  const shared = { bucket: Bucket, key: 'shared/' };

  const { url: share } = (await callNative(target, 'POST', '/_/v1/shares', shared)) as {
    url: string;
  };
  const given = {
    worker: presign('worker.js'),
    secret: presign('secret'),
    share,
    text: presign('text'),
  };
  return { target, presign, given };
}

describeWithTool(chromium, 'a page that somebody stored, in Chromium', (path) => {
  let page: Page;
  let apart: Served;
  let together: Served;

  beforeAll(async () => {
    [page, apart, together] = await Promise.all([
      openPage(path),
      serve(),
      serve(
        '--stored-pages',
        'same-origin',
        '--share-url',
        'https://share.test',
        '--domain',
        'test',
      ),
    ]);
  });

  afterAll(async () => {
    await Promise.all([page?.close(), apart?.target.stop(), together?.target.stop()]);
  });

  /** What the hostile page could do, or by which error it could not. */
  async function attack({ presign, given, target }: Served) {
    const script = `
      const frame = Object.assign(document.createElement('iframe'), { src: given.url });
      const told = new Promise((resolve) => {
        addEventListener('message', ({ data }) => resolve(data));
      });
      document.body.append(frame);
      return told;`;
    // Under the gateway's own name, where a share page has the origin of all else.
    const share = target.endpoint + new URL(given.share).pathname;
    const tries = encodeURIComponent(JSON.stringify({ ...given, share }));
    const url = `${presign('hostile.html')}#${tries}`;
    return page.run(script, { url });
  }

  it('has an origin of its own, which is nobody’s, and reaches nothing', async () => {
    expect(await attack(apart)).toEqual({
      origin: 'null',
      storage: 'SecurityError',
      native: 'TypeError',
      worker: expect.stringMatching(/Error$/),
      secret: 'SecurityError',
      share: 'SecurityError',
      sniffed: 'SecurityError',
    });
  });

  it('is kept by the native API, share pages and types where it has the gateway’s', async () => {
    expect(await attack(together)).toEqual({
      origin: together.target.endpoint,
      storage: '0',
      native: 403,
      // The script is refused.
      worker: expect.stringMatching(/^(SecurityError|TypeError)$/),
      // What the setting says it gives away.
      secret: together.given.secret,
      // A page that stands in no frame.
      share: expect.stringMatching(/Error$/),
      sniffed: 'it did not run',
    });
  });

  describe('is told of by headers', () => {
    const ask = (url: string, headers: Record<string, string> = {}) => fetch(url, { headers });

    it('that sandbox what a browser runs, whatever made it of that type', async () => {
      const { presign, target } = apart;
      const policyOf = async (url: string) =>
        (await ask(url)).headers.get('content-security-policy');
      const page = await ask(presign('hostile.html'), { range: 'bytes=0-9' });
      expect(page.headers.get('content-security-policy')).toMatch(/^sandbox /);
      expect(page.headers.get('referrer-policy')).toBe('no-referrer');
      expect(await policyOf(presign('text'))).toBeNull();
      const { accessKeyId, secretAccessKey: secret } = target.keys;
      const asked = {
        method: 'GET',
        origin: target.endpoint,
        path: `/${Bucket}/text`,
        headers: {},
      };
      const signed = { accessKeyId, secret, region, expiresSeconds: 60, timeMs: Date.now() };
      for (const type of ['image/svg+xml', 'TEXT/HTML; x', 'text/plain, application/xhtml+xml']) {
        const query: [string, string][] = [['response-content-type', type]];
        expect(await policyOf(presignUrl({ ...asked, ...signed, query })), type).toMatch(
          /^sandbox /,
        );
      }
      expect(
        (await together.target) &&
          (await ask(together.presign('hostile.html'))).headers.get('content-security-policy'),
      ).toBeNull();
    });

    it('that forbid to guess types, on every answer', async () => {
      const { presign, target, given } = apart;
      const urls = [
        ...[presign('text'), presign('none'), given.share, `${given.share}file`],
        ...[
          '/',
          '/_/health',
          '/_/v1/tenants',
          '/_/log/checkpoint',
          '/_/share/none',
          '/.well-known/x',
        ].map((path) => target.endpoint + path),
      ];
      for (const url of urls) {
        const { headers } = await ask(url);
        expect(headers.get('x-content-type-options'), url).toBe('nosniff');
      }
    });

    it('that keep pages of shared folders to themselves', async () => {
      const { headers } = await ask(apart.given.share);
      expect(headers.get('cross-origin-opener-policy')).toBe('same-origin');
      expect(headers.get('cross-origin-resource-policy')).toBe('same-origin');
      expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
    });

    it('that share links have a host of their own, for which nothing else is served', async () => {
      const { presign, given, target } = together;
      const link = new URL(given.share);
      expect(link.origin).toBe('https://share.test');
      const statusOf = (path: string, host: string) =>
        new Promise((resolve, reject) => {
          const url = target.endpoint + path;
          const sent = http.get(url, { headers: { host } }, (answer) => {
            answer.resume();
            resolve(answer.statusCode);
          });
          sent.on('error', reject);
        });
      const object = presign('text').slice(target.endpoint.length);
      const usual = new URL(target.endpoint).host;
      for (const host of ['share.test', 'SHARE.test:443']) {
        expect(await statusOf(`${link.pathname}file`, host)).toBe(200);
        for (const path of [object, '/', '/_/v1/tenants', '/_/log/checkpoint', '/_/shares']) {
          expect(await statusOf(path, host), `${host} ${path}`).toBe(421);
        }
      }
      // Links that were made before stay good.
      expect(await statusOf(`${link.pathname}file`, usual)).toBe(200);
      expect(await statusOf(object, usual)).toBe(200);
    });

    it('and has no service worker, wherever its script would come from', async () => {
      const { presign, target, given } = apart;
      for (const url of [
        presign('worker.js'),
        `${given.share}file`,
        `${target.endpoint}/_/health`,
      ]) {
        const answer = await ask(url, { 'service-worker': 'script' });
        expect([answer.status, await answer.text()]).toEqual([
          403,
          expect.stringContaining('AccessDenied'),
        ]);
      }
      expect((await ask(presign('worker.js'))).status).toBe(200);
    });
  });
});
