// What operators name as hosts with private addresses is read strictly: it stands for one host,
// spelled as URLs spell it, and never opens another one.
import { expect, it } from 'vitest';
import { onlyPrivate, parsePrivateHost } from '#bursar/authz/oidc/address-policy.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

const pieces = [
  ...[
    'sso',
    'EXAMPLE',
    '.',
    '-',
    '_',
    ':',
    '*',
    '8443',
    '443',
    '65535',
    '65536',
    '0',
    '1',
    '10.1.2.3',
  ],
  ...[
    '[::1]',
    '[fe80::1%25eth0]',
    '[',
    ']',
    '@',
    '/',
    '?',
    '#',
    '%2e',
    ' ',
    '\n',
    '\0',
    '0x7f.1',
    'é',
  ],
  ...['127.1', '2130706433', '..', 'localhost', 'xn--', ',', '\\', 'user:pass'],
];

it('names one host and nothing else', { timeout: fuzzTimeoutMs }, async () => {
  let read = 0;
  await fuzz(20_261_122, 5000, (random) => {
    const text = Array.from({ length: 1 + randomBelow(random, 5) }, () => randomOf(random, pieces));
    const host = parsePrivateHost(text.join(''));
    if (!host) return;
    read += 1;
    const { name, port } = host;
    if (port !== null) expect(port >= 1 && port <= 65_535 && Number.isInteger(port)).toBe(true);
    // It is how a URL spells it: what `allowsPrivate` compares it with.
    const url = new URL(`https://${name}:${port ?? 9999}/keys`);
    expect([url.hostname, url.username, url.pathname]).toEqual([name, '', '/keys']);
    const policy = onlyPrivate([host]);
    expect(policy.allowsPrivate(url)).toBe(true);
    expect(policy.allowsPrivate(new URL('https://other.test:1/'))).toBe(false);
    if (port !== null) {
      const next = port === 65_535 ? 1 : port + 1;
      expect(policy.allowsPrivate(new URL(`https://${name}:${next}/`))).toBe(false);
    }
  });
  expect(read).toBeGreaterThan(25);
});
