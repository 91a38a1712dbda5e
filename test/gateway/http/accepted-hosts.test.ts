// Host names that a gateway answers for: by name, and for requests of all ways in, since a
// signature that was made for somebody else's host must be good for nothing here.

import { CreateBucketCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { AcceptedHosts, type HostNames } from '#bursar/gateway/http/accepted-hosts.js';
import { clientOf, exchange, region, send, type Target } from '../../protocol/target.ts';
import { Wire } from '../../protocol/wire.ts';
import { presignUrl } from '../../tooling/presign.ts';
import { startServedGateway } from '../../tooling/served-gateway.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

describe('a gateway', () => {
  const hostsOf = (listenHost: string, more: Partial<HostNames> = {}): AcceptedHosts =>
    new AcceptedHosts({
      listenHost,
      publicUrl: () => 'https://S3.example.org',
      domains: ['data.example.org'],
      acceptHosts: ['gateway', '*.lab.example.org', '2001:db8::7'],
      ...more,
    });
  const local = hostsOf('127.0.0.1');

  it.each([
    ['127.0.0.1', true],
    ['127.0.0.1:9000', true],
    ['LocalHost:80', true],
    ['[::1]:9000', true],
    ['s3.example.org', true],
    ['S3.EXAMPLE.ORG:8443', true],
    ['data.example.org', true],
    ['bucket.data.example.org', true],
    ['raw.cms.data.example.org:1', true],
    ['gateway:9000', true],
    ['a.lab.example.org', true],
    ['[2001:db8::7]', true],
    ['lab.example.org', false],
    ['x.gateway', false],
    ['example.org', false],
    ['evils3.example.org', false],
    ['evildata.example.org', false],
    ['s3.example.org.evil.test', false],
    ['.data.example.org', false],
    ['evil.test', false],
    ['10.0.0.5', false],
    ['', false],
    [':9000', false],
    ['s3.example.org:port', false],
    ['s3.example.org:9000:9000', false],
    ['evil.test@s3.example.org', false],
    ['evil.test/s3.example.org', false],
    ['s3.example.org.', false],
    ['127.0.0.1, evil.test', false],
  ])('that listens here answers for %j: %s', (host, isAccepted) => {
    // A second time, when it is remembered.
    expect([local.accepts(host, '127.0.0.1'), local.accepts(host, '127.0.0.1')]).toEqual([
      isAccepted,
      isAccepted,
    ]);
  });

  it('answers for the address that it was reached at, and for no other', () => {
    for (const listens of ['0.0.0.0', '::', '192.0.2.1']) {
      const hosts = hostsOf(listens);
      expect(hosts.accepts('192.0.2.1:9000', '::ffff:192.0.2.1')).toBe(true);
      expect(hosts.accepts('[2001:db8::1]', '2001:db8::1')).toBe(true);
      expect(hosts.accepts('192.0.2.9', '192.0.2.8')).toBe(false);
      expect(hosts.accepts('192.0.2.9', undefined)).toBe(false);
      expect(hosts.accepts('localhost', '192.0.2.8')).toBe(listens !== '192.0.2.1');
    }
  });

  it('remembers no more names than it is asked for within bounds', () => {
    const hosts = hostsOf('127.0.0.1');
    for (let i = 0; i < 3000; i++) expect(hosts.accepts(`b${i}.data.example.org`, '')).toBe(true);
    expect(hosts.accepts('evil.test', '')).toBe(false);
  });
});

describe('a served gateway', () => {
  const evil = 'evil.test:9000';
  let target: Target;
  let stop: () => Promise<void>;

  beforeAll(async () => {
    const gateway = await startServedGateway({
      args: [
        '--domain',
        's3.example.test',
        '--accept-hosts',
        'more.test',
        '--accept-hosts',
        '*.test.example',
      ],
    });
    const { endpoint, accessKeyId, secretAccessKey } = gateway;
    stop = gateway.stop;
    target = { endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [], stop };
    const client = clientOf(target);
    await client.send(new CreateBucketCommand({ Bucket: 'raw' }));
    await client.send(new PutObjectCommand({ Bucket: 'raw', Key: 'k', Body: 'x' }));
  });
  afterAll(() => stop?.());

  it.each([
    ['S3', 'GET', '/raw/k', undefined],
    ['the native API', 'GET', '/_/v1/tenants', undefined],
    ['the native API, to change something', 'POST', '/_/v1/tenants', '{"name":"mine"}'],
  ])(
    'takes no request to %s that was signed for another host',
    async (_way, method, path, body) => {
      const headers = { host: evil, ...(body && { 'content-type': 'application/json' }) };
      const message = { method, path, headers, ...(body && { body }) };
      const answer = await send(target, message);
      expect([answer.status, answer.text]).toEqual([
        421,
        expect.stringContaining('--accept-hosts'),
      ]);
      expect(answer.text).toContain('MisdirectedRequest');
      const own = await send(target, { ...message, headers: { ...headers, host: 'more.test' } });
      expect(own.status).toBeLessThan(300);
    },
  );

  it('takes no presigned URL, share link, form or preflight of another host', async () => {
    const { accessKeyId, secretAccessKey: secret } = target.keys;
    const signing = { accessKeyId, secret, region, method: 'GET', path: '/raw/k' };
    const time = { expiresSeconds: 60, timeMs: Date.now() };
    const url = new URL(presignUrl({ ...signing, ...time, origin: `http://${evil}` }));
    const target1 = `${url.pathname}${url.search}`;
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    for (const [method, path, more, type] of [
      ['GET', target1, {}, 'application/xml'],
      ['GET', '/_/share/abc', {}, 'text/plain; charset=utf-8'],
      ['POST', '/', form, 'text/xml'],
      ['OPTIONS', '/raw/k', { origin: 'http://a' }, 'application/xml'],
      ['GET', '/.well-known/openid-configuration', {}, 'application/problem+json'],
      ['GET', '/_/log/checkpoint', {}, 'application/problem+json'],
    ] as const) {
      const answer = await exchange(target, method, path, { host: evil, ...more });
      expect([path, answer.status, answer.headers['content-type']]).toEqual([path, 421, type]);
    }
  });

  it('answers for its domains, and says everywhere whether it is well', async () => {
    const hosted = await send(target, {
      method: 'GET',
      path: '/k',
      headers: { host: 'raw.s3.example.test:123' },
    });
    expect([hosted.status, hosted.text]).toEqual([200, 'x']);
    const below = await send(target, {
      ...{ method: 'GET', path: '/raw/k' },
      headers: { host: 'a.test.example' },
    });
    expect(below.status).toBe(200);
    expect((await exchange(target, 'GET', '/_/health', { host: '10.1.2.3' })).status).toBe(200);
  });

  it('asks each request of a connection for its host', async () => {
    const { host } = new URL(target.endpoint);
    const hosts = [host, host, evil, host, 'more.test', evil];
    const wire = await Wire.open(target);
    for (const one of hosts) wire.write(`GET /raw/k HTTP/1.1\r\nHost: ${one}\r\n\r\n`);
    wire.write(`GET /raw/k HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    const statuses = (await wire.closed()).match(/(?<=HTTP\/1\.1 )\d+/g);
    expect(statuses).toEqual(['403', '403', '421', '403', '403', '421', '403']);
  });

  it('keeps a connection for more when it has refused a host on it', async () => {
    const { host } = new URL(target.endpoint);
    const wire = await Wire.open(target);
    // One after the other: each is refused while its end is still to be read.
    for (const [one, more] of [
      [evil, ''],
      [evil, 'Content-Length: 0\r\n'],
      [host, ''],
      [evil, 'Connection: close\r\n'],
    ] as const) {
      const count = wire.received.split('</Error>').length;
      wire.write(`GET /raw/k HTTP/1.1\r\nHost: ${one}\r\n${more}\r\n`);
      await wire.until(new RegExp(`(?:[\\s\\S]*?</Error>){${count}}`));
    }
    const statuses = (await wire.closed()).match(/(?<=HTTP\/1\.1 )\d+/g);
    expect(statuses).toEqual(['421', '421', '403', '421']);
  });

  it('takes no request with two hosts or two Authorization headers', async () => {
    const { host } = new URL(target.endpoint);
    const head = (path: string) => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n`;
    for (const path of [
      '/raw/k',
      '/_/v1/tenants',
      '/_/health',
      '/_/share/a',
      '/_/log/checkpoint',
    ]) {
      for (const more of [
        'Host: evil.test',
        `HOST: ${host}`,
        'Authorization: a\r\nauthorization: b',
      ]) {
        const wire = await Wire.open(target);
        wire.write(`${head(path)}${more}\r\n\r\n`);
        const answer = await wire.closed();
        expect([path, more, /^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]]).toEqual([path, more, '400']);
        expect(answer).toMatch(/given twice/);
      }
    }
  });
});
