// Over which connections a key of a customer's is taken.
import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { type KeyHeaders, readCustomerKey } from '#bursar/gateway/s3/objects/customer-key.js';

const key = Buffer.alloc(32, 'k');
const md5 = createHash('md5').update(key).digest('base64');

it.each<[KeyHeaders, boolean, string, string]>([
  ['own', true, '203.0.113.9', 'taken'],
  ['own', false, '127.0.0.1', 'taken'],
  ['own', false, '::1', 'taken'],
  ['own', false, '::ffff:127.0.0.1', 'taken'],
  ['own', false, '203.0.113.9', 'InvalidRequest'],
  ['own', false, '10.0.0.1', 'InvalidRequest'],
  ['own', false, '2001:db8::1', 'InvalidRequest'],
  ['source', false, '203.0.113.9', 'InvalidRequest'],
])('%s, by TLS: %s, from %s is %s', (which, isSecure, source, outcome) => {
  const prefix = which === 'own' ? 'x-amz-' : 'x-amz-copy-source-';
  const headers = Object.fromEntries(
    [
      ['algorithm', 'AES256'],
      ['key', key.toString('base64')],
      ['key-md5', md5],
    ].map(([name, value]) => [`${prefix}server-side-encryption-customer-${name}`, value]),
  );
  const read = (one: object) =>
    readCustomerKey(one as Parameters<typeof readCustomerKey>[0], which);
  const request = { headers, isSecure, source };
  if (outcome === 'taken') expect(read(request)).toEqual({ key, md5 });
  else expect(() => read(request)).toThrow('must be made over a secure connection');
  expect(read({ ...request, headers: {} })).toBeNull();
});
