// The gateway asks no address for keys that would lead into the network it is in.
import { expect, test } from 'vitest';
import {
  allowsAddress,
  onlyPrivate,
  type PrivateHost,
  parsePrivateHost,
} from '#bursar/authz/oidc/address-policy.js';

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
  const asked = (isPrivateAllowed: boolean) =>
    [...open, ...inside, ...nobodys].filter((address) => allowsAddress(address, isPrivateAllowed));
  expect(asked(false)).toEqual(open);
  expect(asked(true)).toEqual([...open, ...inside]);
});

test.each<[string, string[], string[]]>([
  [
    'sso.example.org',
    ['https://sso.example.org/realm'],
    ['http://sso.example.org', 'https://sso.example.org:8443', 'https://x.sso.example.org'],
  ],
  [
    'SSO.example.org:8443',
    ['https://sso.example.org:8443', 'http://sso.example.org:8443'],
    ['https://sso.example.org'],
  ],
  [
    '127.0.0.1:*',
    ['http://127.0.0.1:9', 'https://127.0.0.1', 'http://2130706433:9'],
    ['http://127.0.0.2:9', 'http://localhost:9', 'http://[::1]:9'],
  ],
  ['[FD00:0::1]:80', ['http://[fd00::1]'], ['https://[fd00::1]', 'http://[fd00::2]']],
])('%s is a host that may be private, and no other', (text, allowed, refused) => {
  const policy = onlyPrivate([parsePrivateHost(text) as PrivateHost]);
  for (const url of allowed) expect([url, policy.allowsPrivate(new URL(url))]).toEqual([url, true]);
  for (const url of refused)
    expect([url, policy.allowsPrivate(new URL(url))]).toEqual([url, false]);
});

test.each([
  ...['', ':', ':80', 'a:', 'a:0', 'a:65536', 'a:1e3', 'a:-1', 'a b', 'a/b', 'u@a', 'https://a'],
  ...['[::1', '::1', '[::1]x', '[fe80::1%25eth0]', '256.1.1.1', 'a,b', 'a?b', 'a#b', 'ä'],
])('%j is no host', (text) => {
  expect(parsePrivateHost(text)).toBe(undefined);
});
