// The documents of object lock, ACLs, ownership and public access at random: what was written is read
// back, and whatever comes, nothing but a Refusal is ever thrown.
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { parseOwnership } from '#bursar/gateway/acl.js';
import {
  lockConfigurationElements,
  parseLegalHold,
  parseLockConfiguration,
  parseRetention,
  retentionElements,
} from '#bursar/gateway/object-lock-xml.js';
import { parsePublicAccess, publicAccessElements } from '#bursar/gateway/public-access.js';
import { renderXml } from '#bursar/gateway/xml.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;

const modes = ['GOVERNANCE', 'COMPLIANCE'] as const;
const parsers: [string, (body: Buffer) => unknown][] = [
  ['ObjectLockConfiguration', parseLockConfiguration],
  ['Retention', parseRetention],
  ['LegalHold', parseLegalHold],
  ['PublicAccessBlockConfiguration', parsePublicAccess],
  ['OwnershipControls', parseOwnership],
];

const names = [
  ...['ObjectLockEnabled', 'Rule', 'DefaultRetention', 'Mode', 'Days', 'Years'],
  ...['RetainUntilDate', 'Status', 'BlockPublicAcls', 'ObjectOwnership', 'Other'],
];
const texts = [
  ...['Enabled', 'GOVERNANCE', 'COMPLIANCE', 'ON', 'OFF', 'true', 'FALSE', '', ' 1 ', '-1', '0'],
  ...['36500', '36501', '1e3', '9'.repeat(30), '2099-01-01T00:00:00Z', '2099-13-01T00:00:00Z'],
  ...['+275760-09-13T00:00:00Z', '9999-12-31T23:59:59.999999999+23:59', 'BucketOwnerEnforced'],
];

function content(random: Random, depth: number): string {
  let out = '';
  for (let i = randomBelow(random, 4); i >= 0; i--) {
    const name = randomOf(random, names);
    const isLeaf = depth === 0 || randomBelow(random, 2) === 0;
    out += `<${name}>${isLeaf ? randomOf(random, texts) : content(random, depth - 1)}</${name}>`;
  }
  return out;
}

describe('the documents of object lock and public access', () => {
  it('read back what they were made of', async () => {
    await fuzz(1, 500, (random) => {
      const mode = randomOf(random, modes);
      const days = 1 + randomBelow(random, 36_500);
      const years = 1 + randomBelow(random, 100);
      const config = randomOf(random, [
        {},
        { default: { mode, days } },
        { default: { mode, years } },
      ]);
      const locked = renderXml('ObjectLockConfiguration', lockConfigurationElements(config));
      expect(parseLockConfiguration(Buffer.from(locked))).toEqual(config);

      const retention = { mode, untilMs: Date.now() + 60_000 + randomBelow(random, 2 ** 40) };
      const held = renderXml('Retention', retentionElements(retention));
      expect(parseRetention(Buffer.from(held))).toEqual(retention);

      const coin = () => randomBelow(random, 2) === 1;
      const block = {
        ...{ blockPublicAcls: coin(), ignorePublicAcls: coin() },
        ...{ blockPublicPolicy: coin(), restrictPublicBuckets: coin() },
      };
      const blocked = renderXml('PublicAccessBlockConfiguration', publicAccessElements(block));
      expect(parsePublicAccess(Buffer.from(blocked))).toEqual(block);
    });
  });

  it(
    'are refused, or read, whatever they are',
    async () => {
      let read = 0;
      await fuzz(1, 4000, (random) => {
        const [root, parse] = randomOf(random, parsers);
        const body = Buffer.from(`<${root}>${content(random, 2)}</${root}>`);
        try {
          parse(body);
          read++;
        } catch (error) {
          expect(error).toBeInstanceOf(Refusal);
          expect(['MalformedXML', 'InvalidArgument']).toContain((error as Refusal).code);
        }
      });
      expect(read).toBeGreaterThan(10);
    },
    fuzzTimeoutMs,
  );
});
