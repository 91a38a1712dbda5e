// How much of what an account stores is held: in the messages of alarms, and for usage.
import { expect, test } from 'vitest';
import { messageOf } from '#bursar/gateway/alarms/webhook.js';
import { heldBytesOf } from '#bursar/gateway/held-bytes.js';
import type { Alarm } from '#bursar/quota/limits/alarms.js';

const shares = [
  { tenant: 'cms', bucket: 'raw', owner: 'alice', bytes: 5 },
  { tenant: 'cms', bucket: 'more', owner: 'alice', bytes: 7 },
  { tenant: 'cms', bucket: 'other', owner: 'bob', bytes: 11 },
  { tenant: 'atlas', bucket: 'raw', owner: 'alice', bytes: 13 },
];

test.each([
  ['bucket:cms/raw', 5],
  ['principal:cms/alice', 12],
  ['tenant:cms', 23],
  ['tenant:atlas', 13],
  ['tenant:none', 0],
  ['token:abc', 0],
  // What is held under it is not known.
  ['prefix:cms/raw/run1/', null],
])('of %s are held %s bytes', (account, bytes) => {
  expect(heldBytesOf(shares, account)).toBe(bytes);
});

test('alarms of stored bytes say it, and no others', () => {
  const alarm: Alarm = {
    ...{ id: 7, timeMs: 1, account: 'bucket:cms/raw', tenant: 'cms', principal: 'alice' },
    ...{ meter: 'storedBytes', window: 'total', percent: 80, limit: 100n, used: 81n, beginMs: 0 },
  };
  const dataOf = (one: Alarm) => JSON.parse(messageOf(one, 'i', shares).body).data;
  expect(dataOf(alarm)).toMatchObject({ meter: 'storedBytes', used: '81', heldBytes: '5' });
  expect(dataOf({ ...alarm, meter: 'requests' })).not.toHaveProperty('heldBytes');
});
