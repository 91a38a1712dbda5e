// Bucket names: the rules of the Amazon S3 user guide, one by one.
import { describe, expect, it } from 'vitest';
import { checkBucketName } from '#bursar/gateway/s3/bucket-lookup.js';

describe('a bucket name', () => {
  it.each([
    'abc',
    '0ab',
    'a-b',
    'a.b.c',
    'a--b',
    'a'.repeat(63),
    '1.2.3',
    '1.2.3.4.5',
    '1.2.3.x',
    'xn-b',
  ])('may be %s', (name) => {
    expect(() => checkBucketName(name)).not.toThrow();
  });

  it.each([
    '',
    'ab',
    'a'.repeat(64),
    'Abc',
    'a_b',
    'a b',
    '-ab',
    'ab-',
    '.ab',
    'ab.',
    'a..b',
    'a.-b',
    'a-.b',
    '1.2.3.4',
    '999.999.999.999',
    'xn--abc',
    'sthree-abc',
    'amzn-s3-demo-abc',
    'abc-s3alias',
    'abc--ol-s3',
    'abc.mrap',
    'abc--x-s3',
    'abc--table-s3',
    'bücket',
    'abc\n',
    'abc/def',
    '..',
    '_data',
  ])('may not be "%s"', (name) => {
    expect(() => checkBucketName(name)).toThrow(
      expect.objectContaining({ code: 'InvalidBucketName' }),
    );
  });
});
