// Queries of presigned URLs at random: each parameter is a header of what comes out, or known to
// have no meaning, or the request is refused; and nothing comes out that no header can be.
import { readFileSync } from 'node:fs';
import { type IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http';
import { expect, it } from 'vitest';
import { percentEncode } from '#bursar/core/canonical-request.js';
import { Refusal } from '#bursar/core/errors.js';
import { takeQueryHeaders } from '#bursar/gateway/s3/query-headers.js';
import { parseRequest, type S3Request } from '#bursar/gateway/s3/request.js';
import { listFiles } from '../tooling/files.ts';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

const names = [
  ...['x-amz-meta-', 'x-amz-acl', 'X-Amz-Tagging', 'x-amz-checksum-crc32', 'If-None-Match'],
  ...['X-Amz-Date', 'x-amz-date', 'X-Amz-Content-Sha256', 'x-amz-content-sha256', 'uploads'],
  ...['versionId', 'x-id', '__proto__', 'constructor', 'host', 'content-length', 'range', ''],
  ...['x-amz-sdk-checksum-algorithm', 'x-bursar-store', 'x-amz-user-agent', 'x-amz-copy-source'],
];
const pieces = [
  '',
  'a',
  'A',
  ' ',
  '\t',
  '\r\n',
  '\0',
  'ü',
  '\u212a',
  '😀',
  '"',
  ',',
  '%',
  'AAAAAA==',
];

function text(random: () => number): string {
  return Array.from({ length: randomBelow(random, 4) }, () => randomOf(random, pieces)).join('');
}

function requestOf(query: [string, string][], headers: Record<string, string>): S3Request {
  const pairs = query.map((pair) => pair.map((one) => percentEncode(one, false)).join('='));
  const rawHeaders = Object.entries(headers).flat();
  const raw = { method: 'PUT', url: `/b/k?${pairs.join('&')}`, headers, rawHeaders };
  const begun = { id: '0', source: 'a test', isSecure: false };
  return parseRequest(raw as unknown as IncomingMessage, begun, []);
}

function takeOrRefuse(request: S3Request, presigned: boolean): S3Request | null {
  try {
    return takeQueryHeaders(request, presigned);
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

it(
  'no parameter is lost, and no header comes out that could not be sent',
  async () => {
    let taken = 0;
    await fuzz(1, 5000, (random) => {
      const query = Array.from({ length: randomBelow(random, 4) }, (): [string, string] => [
        randomOf(random, names) + (randomBelow(random, 4) === 0 ? text(random) : ''),
        text(random),
      ]);
      const sent: Record<string, string> =
        randomBelow(random, 3) === 0 ? { 'x-amz-meta-': 'a', range: 'a' } : {};
      const request = requestOf(query, { host: 'h', 'content-length': '1', ...sent });
      const before = JSON.stringify(request.headers);
      const given = takeOrRefuse(request, true);
      expect(JSON.stringify(request.headers)).toBe(before);
      const plain = takeOrRefuse(request, false);
      if (plain) expect(plain.headers).toBe(request.headers);
      if (!given) return;
      taken++;
      expect(new Set(request.query.map(([name]) => name.toLowerCase())).size).toBe(
        request.query.length,
      );
      for (const [name, value] of Object.entries(given.headers)) {
        validateHeaderName(name);
        validateHeaderValue(name, value as string);
        expect(name).toBe(name.toLowerCase());
      }
      for (const [name, value] of request.query) {
        const isPassedOver =
          /^(X-Amz-Date|versionId|uploads|x-amz-user-agent)$/i.test(name) ||
          /^x-(?!amz-|bursar-)/i.test(name) ||
          (value === 'AAAAAA==' && name === 'x-amz-checksum-crc32') ||
          name === 'x-amz-sdk-checksum-algorithm';
        if (isPassedOver) continue;
        const wanted = Buffer.from(value.replace(/^[ \t]+|[ \t]+$/g, '')).toString('latin1');
        expect(given.headers[name.toLowerCase()]).toBe(wanted);
      }
    });
    expect(taken).toBeGreaterThan(500);
  },
  fuzzTimeoutMs,
);

// Of answers, of forms' fields, of the signature itself, of keys that customers bring, which are in
// no URL, and beginnings of names.
const noHeaders =
  /^x-amz-(abort-(date|rule-id)|access-point-alias|algorithm|archive-status|bucket-arn|bucket-region|copy-source-version-id|credential|date|delete-marker|error-(code|message)|expiration|id-2|mp-parts-count|region-set|request-charged|request-id|restore|security-token|server-side-encryption-customer-algorithm|signature|tagging-count|trailer-signature|version-id|.*-)$|^x-bursar-(budget|class|error-code|error-message|receipt|remade|untold|warning)$/;

it('each header of Amazon’s and Bursar’s that the gateway reads counts in queries', () => {
  const sources = ['src/gateway', 'src/authz'].flatMap((folder) => listFiles(folder));
  const read = sources.flatMap((path) =>
    Array.from(
      readFileSync(path, 'utf8').matchAll(/'(x-(?:amz|bursar)-[a-z0-9-]+)'/g),
      (m) => m[1],
    ),
  );
  const wanted = [...new Set(read as string[])].filter((name) => !noHeaders.test(name));
  expect(wanted.length).toBeGreaterThan(50);
  for (const name of wanted.filter((one) => one !== 'x-amz-user-agent')) {
    const given = takeQueryHeaders(requestOf([[name, 'a']], { host: 'h' }), true);
    expect(given.headers[name], name).toBe('a');
  }
});
