// The request parser at its edges: hosts, targets, and the limits of each.
import type { IncomingMessage } from 'node:http';
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import {
  bucketOfHost,
  parameter,
  parseRequest,
  type S3Request,
} from '#bursar/gateway/s3/request.js';

function parse(url: string, host = 'localhost', rawHeaders: string[] = []): S3Request {
  const raw = { method: 'GET', url, headers: { host }, rawHeaders } as unknown as IncomingMessage;
  return parseRequest(raw, { id: '0', source: 'a test', isSecure: false }, ['s3.test']);
}

function named(url: string, host?: string): [string | null, string | null] {
  const { bucketName, key } = parse(url, host);
  return [bucketName, key];
}

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
  return 'none';
}

describe('a header', () => {
  it.each(['Host', 'Authorization'])('%s that is given twice has no reading', (name) => {
    const twice = [name, 'one', 'x-other', '', name.toLowerCase(), 'other'];
    expect(codeOf(() => parse('/b', 'one', twice))).toBe('InvalidRequest');
    expect(codeOf(() => parse('/b', 'one', twice.slice(0, 4)))).toBe('none');
  });
});

describe('a path', () => {
  it.each([
    ['/', null, null],
    ['/b', 'b', null],
    ['/b/', 'b', null],
    ['/b/k', 'b', 'k'],
    ['/b/k/', 'b', 'k/'],
    ['/b//k', 'b', '/k'],
    ['/b//', 'b', '/'],
    ['/b/../c', 'b', '../c'],
    ['/b/a%2Fb', 'b', 'a/b'],
    ['/b/a%252Fb', 'b', 'a%2Fb'],
    ['/b/a+b', 'b', 'a+b'],
    ['/b%2Fk', 'b', 'k'],
    ['/b?k', 'b', null],
    ['/b/k?x/y', 'b', 'k'],
    ['http://other/b/k', 'b', 'k'],
    ['HTTPS://other', null, null],
    ['http://other?x', null, null],
    ['//k', '', 'k'],
    ['/%2Fk', '', 'k'],
  ])('%s names bucket %s and key %s', (url, bucket, key) => {
    expect(named(url)).toEqual([bucket, key]);
  });

  it.each([
    ['/b/%', 'InvalidURI'],
    ['/b/%ff', 'InvalidURI'],
    ['/b/%ed%a0%80', 'InvalidURI'],
    ['b/k', 'InvalidURI'],
    ['', 'InvalidURI'],
    ['*', 'InvalidURI'],
    ['/b/a b', 'InvalidURI'],
    ['/b/ü', 'InvalidURI'],
    ['/b/\u0000', 'InvalidURI'],
    ['ftp://b/k', 'InvalidURI'],
    ['/b?%zz', 'InvalidURI'],
  ])('%j is %s', (url, code) => {
    expect(codeOf(() => parse(url))).toBe(code);
  });

  it('has at most 16 KiB with its query, and a key at most 1,024 bytes', () => {
    const long = `/b?${'x'.repeat(16 * 1024 - 3)}`;
    expect(parse(long).bucketName).toBe('b');
    expect(codeOf(() => parse(`${long}x`))).toBe('InvalidURI');
    expect(parse(`/b/${'k'.repeat(1024)}`).key).toHaveLength(1024);
    expect(codeOf(() => parse(`/b/${'k'.repeat(1025)}`))).toBe('KeyTooLongError');
    expect(parse(`/b/${'%C3%BC'.repeat(512)}`).key).toHaveLength(512);
    expect(codeOf(() => parse(`/b/${'%C3%BC'.repeat(512)}k`))).toBe('KeyTooLongError');
  });
});

describe('a query', () => {
  it('keeps its pairs in order, with repeats, empty names and values', () => {
    expect(parse('/b?a=1&b&=x&a=2&&c=d=e').query).toEqual([
      ['a', '1'],
      ['b', ''],
      ['', 'x'],
      ['a', '2'],
      ['c', 'd=e'],
    ]);
    expect(parameter(parse('/b?a=1&a=2'), 'a')).toBe('1');
    expect(parameter(parse('/b?a'), 'constructor')).toBeUndefined();
  });

  it('has + for a space, unlike a path', () => {
    expect(parse('/b/a+b?p=a+b%2B').query).toEqual([['p', 'a b+']]);
  });

  it('has at most 100 pairs', () => {
    expect(parse(`/b?${'a&'.repeat(100)}`).query).toHaveLength(100);
    expect(codeOf(() => parse(`/b?${'a&'.repeat(101)}`))).toBe('InvalidURI');
  });
});

describe('headers', () => {
  it('are at most 200', () => {
    const lines = (count: number) => Array.from({ length: 2 * count }, () => 'x');
    expect(parse('/b', 'localhost', lines(200)).bucketName).toBe('b');
    const more = () => parse('/b', 'localhost', lines(201));
    expect(codeOf(more)).toBe('RequestHeaderSectionTooLarge');
  });
});

describe('a host', () => {
  it.each([
    ['b.s3.test', 'b'],
    ['B.S3.TEST:9000', 'b'],
    ['a.b.s3.test', 'a.b'],
    ['s3.test', null],
    ['s3.test:80', null],
    ['bs3.test', null],
    ['b.s3.test.other', null],
    ['', null],
  ])('%s names bucket %s', (host, bucket) => {
    expect(bucketOfHost(host, ['other.test', 's3.test'])).toBe(bucket);
  });

  it('that names a bucket leaves the whole path to the key', () => {
    expect(named('/', 'b.s3.test')).toEqual(['b', null]);
    expect(named('/k', 'b.s3.test')).toEqual(['b', 'k']);
    expect(named('/b/k', 'b.s3.test')).toEqual(['b', 'b/k']);
    expect(named('//k', 'b.s3.test')).toEqual(['b', '/k']);
    expect(named('/k', '.s3.test')).toEqual(['', 'k']);
  });

  it('names no bucket where no domain is configured', () => {
    expect(bucketOfHost('b.s3.test', [])).toBeNull();
  });
});
