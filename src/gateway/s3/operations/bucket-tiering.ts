// Which objects of a bucket go into the archives of the class that follows use, and when: S3's
// configurations of INTELLIGENT_TIERING, each under an id. Invariant: a configuration by which
// nothing could ever move is refused.
import { readChains, type TieringConfig } from '../../../catalog/tiers.ts';
import { Refusal } from '../../../core/errors.ts';
import { tieringAlias } from '../../../tiering/classes/class-definition.ts';
import { parseTiering, tieringElements } from '../buckets/tiering-xml.ts';
import type { Reserved } from '../stages.ts';
import { configurationsOf } from './configurations.ts';

export const bucketTiering = configurationsOf({
  ...{ setting: 'intelligentTiering', name: 'IntelligentTiering' },
  listed: 'ListBucketIntelligentTieringConfigurationsOutput',
  actions: {
    read: 's3:GetIntelligentTieringConfiguration',
    write: 's3:PutIntelligentTieringConfiguration',
  },
  putStatus: 200,
  parse: async (root, id, context) => {
    const config = parseTiering(root, id);
    await checkArchives(context, config);
    return config;
  },
  elements: tieringElements,
});

/**
 * Throws `Refusal` NotImplemented where the class has no such archive, and AccessDenied for a token
 * that may not write into it.
 */
async function checkArchives(
  { services, bucket, asked }: Reserved<'bucket'>,
  { tierings }: TieringConfig,
): Promise<void> {
  const first = services.classes.aliased(bucket.tenant, tieringAlias);
  const chain = first && (await readChains(services.read, bucket.tenant)).get(first.name);
  for (const { tier } of tierings) {
    const found = chain?.tiers.find(({ archive }) => archive === tier);
    if (found) {
      asked.checkWritten({ storageClass: found.class, sizeBytes: 0 });
      continue;
    }
    const message = `There is no class here that is ${tier} of ${tieringAlias}.`;
    throw new Refusal('NotImplemented', { message, fields: { Element: tier } });
  }
}
