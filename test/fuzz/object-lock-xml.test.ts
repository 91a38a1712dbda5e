// The documents of object lock, ACLs, ownership and public access at random: what was written is
// read back, and whatever comes, nothing but a Refusal is ever thrown.
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { renderXml } from '#bursar/gateway/http/xml.js';
import { parseOwnership } from '#bursar/gateway/s3/buckets/acl.js';
import {
  parsePublicAccess,
  publicAccessElements,
} from '#bursar/gateway/s3/buckets/public-access.js';
import {
  lockConfigurationElements,
  parseLegalHold,
  parseLockConfiguration,
  parseRetention,
  retentionElements,
} from '#bursar/gateway/s3/objects/object-lock-xml.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;

const modes = ['GOVERNANCE', 'COMPLIANCE'] as const;
/** The elements that a document may have, and those in them. */
interface Schema {
  [name: string]: Schema;
}
const lock: Schema = {
  ObjectLockEnabled: {},
  Rule: { DefaultRetention: { Mode: {}, Days: {}, Years: {} } },
};
const block: Schema = {
  ...{ BlockPublicAcls: {}, IgnorePublicAcls: {} },
  ...{ BlockPublicPolicy: {}, RestrictPublicBuckets: {} },
};
const parsers: [string, Schema, (body: Buffer) => unknown][] = [
  ['ObjectLockConfiguration', lock, parseLockConfiguration],
  ['Retention', { Mode: {}, RetainUntilDate: {} }, parseRetention],
  ['LegalHold', { Status: {} }, parseLegalHold],
  ['PublicAccessBlockConfiguration', block, parsePublicAccess],
  ['OwnershipControls', { Rule: { ObjectOwnership: {} } }, parseOwnership],
];
const texts = [
  ...['Enabled', 'GOVERNANCE', 'COMPLIANCE', 'ON', 'OFF', 'true', 'FALSE', '', ' 1 ', '-1', '0'],
  ...['36500', '36501', '1e3', '9'.repeat(30), '2099-01-01T00:00:00Z', '2099-13-01T00:00:00Z'],
  ...['+275760-09-13T00:00:00Z', '9999-12-31T23:59:59.999999999+23:59', 'BucketOwnerEnforced'],
];

/** Most of what belongs there, and now and then something else. */
function content(random: Random, schema: Schema): string {
  let out = '';
  for (const [name, inner] of Object.entries(schema)) {
    if (randomBelow(random, 4) === 0) continue;
    const times = randomBelow(random, 20) === 0 ? 2 : 1;
    const isLeaf = Object.keys(inner).length === 0;
    for (let i = 0; i < times; i++) {
      out += `<${name}>${isLeaf ? randomOf(random, texts) : content(random, inner)}</${name}>`;
    }
  }
  return randomBelow(random, 20) === 0 ? `${out}<Other/>` : out;
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
      const access = {
        ...{ blockPublicAcls: coin(), ignorePublicAcls: coin() },
        ...{ blockPublicPolicy: coin(), restrictPublicBuckets: coin() },
      };
      const blocked = renderXml('PublicAccessBlockConfiguration', publicAccessElements(access));
      expect(parsePublicAccess(Buffer.from(blocked))).toEqual(access);
    });
  });

  it(
    'are refused, or read, whatever they are',
    async () => {
      let read = 0;
      await fuzz(1, 4000, (random) => {
        const [root, schema, parse] = randomOf(random, parsers);
        const body = Buffer.from(`<${root}>${content(random, schema)}</${root}>`);
        try {
          parse(body);
          read++;
        } catch (error) {
          expect(error).toBeInstanceOf(Refusal);
          expect(['MalformedXML', 'InvalidArgument']).toContain((error as Refusal).code);
        }
      });
      expect(read).toBeGreaterThan(100);
    },
    fuzzTimeoutMs,
  );
});
