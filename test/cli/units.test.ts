// Sizes as people read them: a limit in the units in which it was typed.
import { expect, it } from 'vitest';
import { formatBytes } from '#bursar/core/bytes-text.js';
import { parseSize } from '#bursar/server/settings/quantities.js';

it.each([
  ...[
    ['25MB', '25.0 MB'],
    ['25MiB', '25.0 MiB'],
    ['1.5GB', '1.5 GB'],
    ['1.25 GB', '1.25 GB'],
  ],
  ...[
    ['0.5TiB', '512.0 GiB'],
    ['1.125TB', '1.125 TB'],
    ['64KiB', '64.0 KiB'],
    ['1KiB', '1.0 KiB'],
  ],
  ...[
    ['1000', '1000 B'],
    ['1024', '1.0 KiB'],
    ['500', '500 B'],
    ['0', '0 B'],
    ['50GB', '50.0 GB'],
    ['400KB', '400.0 KB'],
    ['1.5GiB', '1.5 GiB'],
    ['500KiB', '500.0 KiB'],
  ],
  ...[
    ['1.75MiB', '1.75 MiB'],
    ['123456', '123.456 KB'],
    ['8PB', '8.0 PB'],
    ['2PiB', '2.0 PiB'],
  ],
])('%s is shown as %s', (typed, shown) => {
  const bytes = parseSize(typed);
  expect(formatBytes(bytes, bytes)).toBe(shown);
});

it.each([
  ['10GB', 1_234_567, '1.2 MB'],
  ['10GiB', 1_234_567, '1.2 MiB'],
  ['1.25GB', 625_000_000, '625.0 MB'],
])('what is used of %s is shown in its units', (typed, used, shown) => {
  expect(formatBytes(used, parseSize(typed))).toBe(shown);
});
