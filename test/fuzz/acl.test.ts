// Whatever comes as an access control list is one, or is refused by a code of S3's; and what is one
// comes back from its own document.
import { expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { aclReply, readAcl } from '#bursar/gateway/s3/buckets/acl.js';
import type { Reserved } from '#bursar/gateway/s3/stages.js';
import { randomBelow, seededRandom } from './seeded-random.ts';

const pieces = [
  ...['id', 'uri', 'emailAddress', '=', '"', ',', ' ', 'cms/boss', 'a/b', 'x', '\u0001', '<', '&'],
  ...['http://acs.amazonaws.com/groups/global/AllUsers', 'http://acs.amazonaws.com/groups/s3/No'],
  ...['<AccessControlPolicy>', '</AccessControlPolicy>', '<Owner>', '</Owner>', '<ID>', '</ID>'],
  ...['<AccessControlList>', '</AccessControlList>', '<Grant>', '</Grant>', '<Grantee>'],
  ...['</Grantee>', '<URI>', '</URI>', '<Permission>', '</Permission>', 'READ', 'WRITE_ACP'],
];
const bucket = { tenant: 'cms', owner: 'boss', ownership: 'ObjectWriter', publicAccess: null };

function read(headers: Record<string, string>, body: string) {
  const context = { request: { headers }, bucket } as unknown as Reserved<'bucket'>;
  try {
    return readAcl(context, Buffer.from(body));
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

it('lists are read or refused, and those that are read come back', () => {
  const random = seededRandom(97);
  const below = (bound: number) => randomBelow(random, bound);
  const text = () => Array.from({ length: below(14) }, () => pieces[below(pieces.length)]).join('');
  let count = 0;
  for (let i = 0; i < 20_000; i++) {
    const isHeader = below(2) === 0;
    const isPlausible = below(3) === 0;
    const value = isPlausible ? `id=cms/u${below(9)}, uri="${pieces[13]}"` : text();
    const named = isHeader ? read({ 'x-amz-grant-read': value }, '') : read({}, text());
    if (!named) continue;
    count++;
    const document = String(aclReply(bucket as never, named.acl).body);
    expect(read({}, document)?.acl).toEqual(named.acl);
  }
  expect(count).toBeGreaterThan(1000);
});
