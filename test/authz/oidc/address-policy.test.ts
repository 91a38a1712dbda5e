// The gateway asks no address for keys that would lead into the network it is in.
import { expect, test } from 'vitest';
import { allowsAddress } from '#bursar/authz/oidc/address-policy.js';

const open = ['8.8.8.8', '172.32.0.1', '2a00:1450:4001::1'];
const inside = [
  ...['10.1.2.3', '172.31.0.1', '192.168.1.1', '100.64.0.1', '::ffff:10.0.0.1', 'fd00::1'],
  ...['64:ff9b::a00:1', '2002:a00:1::', '127.9.9.9', '::1', '::ffff:127.0.0.1'],
];
const nobodys = [
  ...['169.254.169.254', '::ffff:169.254.169.254', 'fe80::1', '0.0.0.0', '::', 'ff02::1'],
  ...['224.0.0.1', '255.255.255.255', 'localhost', ''],
];

test('public addresses alone are asked, and private ones where the operator says so', () => {
  const asked = (allowPrivate: boolean) =>
    [...open, ...inside, ...nobodys].filter((address) =>
      allowsAddress({ allowPrivate, allowLoopback: false }, address),
    );
  expect(asked(false)).toEqual(open);
  expect(asked(true)).toEqual([...open, ...inside]);
});

test('where this machine may be asked, no other private address may', () => {
  const policy = { allowPrivate: false, allowLoopback: true };
  const asked = inside.filter((address) => allowsAddress(policy, address));
  expect(asked).toEqual(['127.9.9.9', '::1', '::ffff:127.0.0.1']);
});
