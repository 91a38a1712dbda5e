// Who sent a request, when proxies stand between: what a client writes itself changes nothing.
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseNetwork } from '#bursar/authz/grants/networks.js';
import { TrustedProxies } from '#bursar/gateway/http/trusted-proxies.js';
import { fuzz, randomBelow, randomOf } from '../../fuzz/seeded-random.ts';
import { callNative, exchange, send, type Target } from '../../protocol/target.ts';
import { type ServedGateway, startServedGateway } from '../../tooling/served-gateway.ts';

function proxies(...texts: string[]): TrustedProxies {
  return new TrustedProxies(texts.map((text) => parseNetwork(text)!));
}

function message(peer: string | undefined, headers: Record<string, string>): IncomingMessage {
  return { socket: { remoteAddress: peer }, headers } as unknown as IncomingMessage;
}

function sourceOf(trusted: TrustedProxies, peer: string, forwarded: string): string {
  return trusted.locate(message(peer, { 'x-forwarded-for': forwarded })).source;
}

const trusted = proxies('10.0.0.0/8', 'fd00::/8', '127.0.0.1');
const spoofed = { 'x-forwarded-for': '192.0.2.1', 'x-forwarded-proto': 'https' };

describe('without trusted proxies', () => {
  it.each(['127.0.0.1', '10.0.0.1', '::1'])('what %s forwards means nothing', (peer) => {
    expect(proxies().locate(message(peer, spoofed))).toEqual({ source: peer, isSecure: false });
  });

  it('an IPv4 client is the same on a socket of both families', () => {
    expect(proxies().locate(message('::ffff:192.0.2.7', {})).source).toBe('192.0.2.7');
    expect(proxies().locate(message(undefined, {})).source).toBe('unknown');
  });
});

describe('with trusted proxies', () => {
  it('what a peer that is none of them forwards means nothing', () => {
    const found = trusted.locate(message('203.0.113.9', spoofed));
    expect(found).toEqual({ source: '203.0.113.9', isSecure: false });
  });

  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['10.9.9.9, 192.0.2.1', '192.0.2.1'],
    ['198.51.100.1, 192.0.2.1', '192.0.2.1'],
    ['garbage, 192.0.2.1', '192.0.2.1'],
    ['192.0.2.1, 10.0.0.2', '192.0.2.1'],
    ['192.0.2.1,10.0.0.2,\tfd00::2', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['192.0.2.1:4711', '192.0.2.1'],
    ['2001:db8::1', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[2001:db8::1]:4711', '2001:db8::1'],
    // All of them are proxies: the furthest of those is the one that asked.
    ['10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['192.0.2.1, ', 'unknown'],
    ['', 'unknown'],
    [',', 'unknown'],
    ['192.0.2.1, garbage', 'unknown'],
    ['garbage, 10.0.0.2', 'unknown'],
    ['192.0.2.1 10.0.0.2', 'unknown'],
    ['192.0.2.256', 'unknown'],
    ['3232235521', 'unknown'],
    ['fe80::1%eth0', 'unknown'],
    ['[192.0.2.1', 'unknown'],
    ['unknown', 'unknown'],
    ['10.0.0.2,'.repeat(40), 'unknown'],
    [`192.0.2.1${', 10.0.0.2'.repeat(40)}`, 'unknown'],
  ])('X-Forwarded-For "%s" is from %s', (forwarded, source) => {
    expect(sourceOf(trusted, '10.0.0.1', forwarded)).toBe(source);
    expect(sourceOf(trusted, '::ffff:10.0.0.1', forwarded)).toBe(source);
  });

  it('a proxy that forwards nothing is the client', () => {
    const found = trusted.locate(message('10.0.0.1', {}));
    expect(found).toEqual({ source: '10.0.0.1', isSecure: false });
  });

  it.each([
    ['https', true],
    ['HTTPS', true],
    ['http, https', true],
    ['https, http', false],
    ['https,', false],
    ['http', false],
    ['httpsx', false],
  ])('X-Forwarded-Proto "%s": over TLS %s', (scheme, isSecure) => {
    const headers = { 'x-forwarded-proto': scheme };
    expect(trusted.locate(message('127.0.0.1', headers)).isSecure).toBe(isSecure);
  });

  it('whatever a client writes to the left, its own address is found', () =>
    fuzz(1, 2000, (random) => {
      const pieces = ['10.0.0.1', '192.0.2.1', ',', ' ', '::1', '%', '[', ']:', 'x', '\u00ff', '.'];
      let written = '';
      for (let i = randomBelow(random, 12); i > 0; i--) written += randomOf(random, pieces);
      const chain = `${written}, 203.0.113.5${randomOf(random, ['', ', 10.0.0.2', ',10.1.1.1:9'])}`;
      expect(sourceOf(trusted, '10.0.0.1', chain)).toBe('203.0.113.5');
      const bare = sourceOf(trusted, '10.0.0.1', written);
      expect(bare === 'unknown' || isIP(bare) > 0, JSON.stringify(written)).toBe(true);
    }));
});

describe('a gateway behind a proxy that it trusts', () => {
  let gateway: ServedGateway;
  let target: Target;
  beforeAll(async () => {
    gateway = await startServedGateway({ args: ['--trusted-proxies', '127.0.0.1'] });
    const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
    target = { endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [], stop };
  });
  afterAll(() => gateway?.stop());

  const through = { 'x-forwarded-for': '203.0.113.1, 192.0.2.7', 'x-forwarded-proto': 'https' };

  it('records the address of the client, whichever way a request comes in', async () => {
    await send(target, { method: 'PUT', path: '/data', headers: through });
    await send(target, { method: 'PUT', path: '/data/k', headers: through, body: 'x' });
    const path = '/_/v1/shares';
    const body = JSON.stringify({ bucket: 'data', key: 'k' });
    const headers = { ...through, 'content-type': 'application/json' };
    const { url } = JSON.parse((await send(target, { method: 'POST', path, headers, body })).text);
    await exchange(target, 'GET', new URL(url).pathname, through);
    const records = async () => {
      const found = await callNative(target, 'GET', '/_/v1/records');
      return found.records
        .filter(({ action }: { action: string }) => !/RootKey|SearchRecords/.test(action))
        .map(({ action, source }: Record<string, string>) => [action, source]);
    };
    const actions = ['s3:CreateBucket', 's3:PutObject', 'bursar:CreateShare', 's3:GetObject'];
    await expect.poll(records).toEqual(actions.map((action) => [action, '192.0.2.7']));
  });

  it('keeps to secure transport by what the proxy says', async () => {
    const policy = {
      Version: '2012-10-17',
      Statement: {
        ...{ Effect: 'Deny', Principal: '*', Action: 's3:GetObject' },
        Resource: 'arn:aws:s3:::data/*',
        Condition: { Bool: { 'aws:SecureTransport': 'false' } },
      },
    };
    const body = JSON.stringify(policy);
    await send(target, { method: 'PUT', path: '/data', query: [['policy', '']], body });
    const read = (scheme: string) => {
      const headers = { ...through, 'x-forwarded-proto': scheme };
      return send(target, { method: 'GET', path: '/data/k', headers });
    };
    expect((await read('https')).status).toBe(200);
    expect((await read('http')).status).toBe(403);
  });
});
