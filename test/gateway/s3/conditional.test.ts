// Conditional headers at the edges that a whole gateway does not show: forms of tags, whole
// seconds.
import { describe, expect, it } from 'vitest';
import { checkReadConditions, parseTags } from '#bursar/gateway/s3/conditional.js';
import type { S3Request } from '#bursar/gateway/s3/request.js';

describe('the tags of a header', () => {
  it.each([
    [undefined, null],
    ['"a"', ['a']],
    ['a', ['a']],
    ['W/"a"', ['a']],
    [' "a" , W/"b",c ', ['a', 'b', 'c']],
    ['*', ['*']],
    ['', []],
    ['""', []],
    ['"a",,', ['a']],
  ])('%j are %j', (text, tags) => {
    expect(parseTags(text)).toEqual(tags);
  });
});

describe('a time', () => {
  const createdMs = Date.parse('2026-01-01T00:00:00Z') + 900;
  const current = { etag: 'e', createdMs };
  const check = (name: string, value: string) =>
    checkReadConditions({ headers: { [name]: value } } as unknown as S3Request, current);
  const stamp = (offsetMs: number) => new Date(createdMs - 900 + offsetMs).toUTCString();

  it('is compared in whole seconds, as headers have them', () => {
    expect(check('if-unmodified-since', stamp(0))).toBe('proceed');
    expect(() => check('if-unmodified-since', stamp(-1000))).toThrow('pre-conditions');
    expect(check('if-modified-since', stamp(0))).toBe('notModified');
    expect(check('if-modified-since', stamp(-1000))).toBe('proceed');
  });

  it('that cannot be read is as if it were not there', () => {
    expect(check('if-unmodified-since', 'long ago')).toBe('proceed');
    expect(check('if-modified-since', 'tomorrow')).toBe('proceed');
  });

  it('may be written in any of the three forms of HTTP', () => {
    for (const text of ['Thu, 01 Jan 2026 00:00:00 GMT', 'Thursday, 01-Jan-26 00:00:00 GMT']) {
      expect(check('if-modified-since', text)).toBe('notModified');
    }
  });
});
