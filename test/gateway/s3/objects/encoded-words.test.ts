// Metadata in the encoded words of RFC 2047, and in all that may come instead.
import { describe, expect, it } from 'vitest';
import { keptText, sendableText } from '#bursar/gateway/s3/objects/encoded-words.js';
import { randomBelow, seededRandom } from '../../../fuzz/seeded-random.ts';

describe('metadata', () => {
  it.each([
    ['plain', 'plain'],
    ['=?UTF-8?B?YWJj?=', 'abc'],
    ['=?utf-8?q?actually-ascii?=', 'actually-ascii'],
    ['=?UTF-8?Q?two?= =?UTF-8?B?IHdvcmRz?=', 'two words'],
    ['=?ISO-8859-1?Q?gr=FCn?=', '=?UTF-8?Q?gr=C3=BCn?='],
    ['=?UTF-8?B?w4RNw4Raw5XDkSBTMw==?=', '=?UTF-8?Q?=C3=84M=C3=84Z=C3=95=C3=91_S3?='],
    ['=?UTF-8?Q?=00=01=02=03?=', '=?UTF-8?B?AAECAw==?='],
    ['=?UTF-8?Q?a=3D=5F=3Fb?=', 'a=_?b'],
    ['=?UTF-8?B?YWJj', '=?UTF-8?B?YWJj'],
    ['=?UTF-8?B?=GGG?=', '=?UTF-8?B?=GGG?='],
    ['=?UTF-8?Q?=G?=', '=?UTF-8?Q?=G?='],
    ['=?KOI8-R?B?YWJj?=', '=?KOI8-R?B?YWJj?='],
    ['=?UTF-8?Q?a?= and more', '=?UTF-8?Q?a?= and more'],
    ['see =?UTF-8?Q?a?=', 'see =?UTF-8?Q?a?='],
  ])('%s is kept as %s', (sent, kept) => {
    expect(keptText(sent)).toBe(kept);
  });

  it('is kept as something that a header can have, and that says the same again', () => {
    const random = seededRandom(2047);
    const pieces = ['=?', '?=', '?', '=', 'UTF-8', 'q', 'B', '=C3', '=FF', '_', ' ', 'YQ==', 'ü☃'];
    for (let i = 0; i < 20_000; i++) {
      const text = Array.from(
        { length: randomBelow(random, 9) },
        () => pieces[randomBelow(random, pieces.length)],
      ).join('');
      const encoded = sendableText(text);
      expect(encoded).toMatch(/^[\x20-\x7e\t]*$/);
      if (encoded !== text) expect(keptText(encoded)).toBe(encoded);
      const kept = keptText(text);
      if (kept !== text) expect(kept).toMatch(/^[\x20-\x7e\t]*$/);
    }
  });
});
