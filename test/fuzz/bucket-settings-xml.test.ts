// The documents of bucket versioning and of tags at random: tags are read back as they were
// written, and whatever comes, nothing but a Refusal is ever thrown.
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { renderXml } from '#bursar/gateway/http/xml.js';
import { parseTagging } from '#bursar/gateway/s3/objects/object-attributes.js';
import { parseVersioning } from '#bursar/gateway/s3/operations/bucket-versioning.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;

const letters = [...'abcXYZ019 +-=._:/@', 'é', 'ключ', '名'];

function text(random: Random, lengthMax: number): string {
  const length = randomBelow(random, lengthMax + 1);
  let out = '';
  for (let i = 0; i < length; i++) out += randomOf(random, letters);
  return out;
}

const pieces = [
  ...['<Status>', '</Status>', 'Enabled', 'Suspended', 'enabled', '<MfaDelete>', '</MfaDelete>'],
  ...['Disabled', '<TagSet>', '</TagSet>', '<Tag>', '</Tag>', '<Key>', '</Key>', '<Value>', 'a'],
  ...['</Value>', '<Status/>', '<TagSet/>', '&amp;', '&x;', '<!--', '-->', '\0', '\ufffd', ' '],
];

describe('the documents of bucket versioning and tags', () => {
  it('tags read back as they were written', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(1, 300, (random) => {
      const names = new Set(
        Array.from({ length: randomBelow(random, 50) }, (_, i) => `k${i}${text(random, 20)}`),
      );
      const tags = [...names].map((Key) => ({ Key, Value: text(random, 40) }));
      const body = Buffer.from(renderXml('Tagging', { TagSet: { Tag: tags } }));
      const read = parseTagging(body, 50).map(([Key, Value]) => ({ Key, Value }));
      const inOrder = (all: typeof tags) => all.map((one) => JSON.stringify(one)).sort();
      expect(inOrder(read)).toEqual(inOrder(tags));
    });
  });

  it('are refused, or understood, whatever comes', { timeout: fuzzTimeoutMs }, async () => {
    const parsers: [string, (body: Buffer) => unknown][] = [
      ['VersioningConfiguration', parseVersioning],
      ['Tagging', (body) => parseTagging(body, 50)],
    ];
    let understood = 0;
    await fuzz(2, 3000, (random) => {
      const [root, parse] = randomOf(random, parsers);
      const count = randomBelow(random, 9);
      const inner = Array.from({ length: count }, () => randomOf(random, pieces)).join('');
      try {
        parse(Buffer.from(`<${root}>${inner}</${root}>`));
        understood++;
      } catch (error) {
        expect(error).toBeInstanceOf(Refusal);
      }
    });
    expect(understood).toBeGreaterThan(0);
  });
});
