// Which objects of a bucket go into the archives of the class that follows use, and when: S3's
// configurations of INTELLIGENT_TIERING, each under an id. Invariant: a configuration by which
// nothing could ever move is refused.
import { recordedChange } from '../../../audit/recorded-change.ts';
import { readSetting } from '../../../catalog/buckets.ts';
import type { AskedConfiguration } from '../../../catalog/configurations.ts';
import { parseTierings, readChains, type TieringConfig } from '../../../catalog/tiers.ts';
import { Refusal } from '../../../core/errors.ts';
import { tieringAlias } from '../../../tiering/classes/class-definition.ts';
import { emptyReply, xmlReply } from '../../http/reply.ts';
import { parseXml } from '../../http/xml.ts';
import { inventoryId } from '../buckets/inventory-xml.ts';
import { parseTiering, tieringElements } from '../buckets/tiering-xml.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

const read = {
  action: 's3:GetIntelligentTieringConfiguration',
  resource: 'bucket',
  price: 'get',
} as const;
const write = { action: 's3:PutIntelligentTieringConfiguration', resource: 'bucket' } as const;
const pageMax = 100;

async function readAll({ services, bucket }: Reserved<'bucket'>): Promise<TieringConfig[]> {
  return parseTierings(await readSetting(services.read, bucket.id, 'intelligentTiering'));
}

async function set(
  context: Reserved<'bucket'>,
  asked: AskedConfiguration<TieringConfig>,
  status: number,
): Promise<void> {
  const change = recordedChange({ intelligentTiering: asked.config, id: asked.id });
  const document = JSON.stringify(asked);
  const { id: bucketId } = context.bucket;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'intelligentTiering', document },
    { status, change },
  );
}

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

const getTiering: Operation<'bucket'> = {
  ...{ name: 'GetBucketIntelligentTieringConfiguration', ...read },
  run: async (context) => {
    const id = inventoryId(context.request.query);
    const found = (await readAll(context)).find((one) => one.id === id);
    if (!found) throw new Refusal('NoSuchConfiguration');
    return xmlReply('IntelligentTieringConfiguration', tieringElements(found));
  },
};

const putTiering: Operation<'bucket'> = {
  ...{ name: 'PutBucketIntelligentTieringConfiguration', ...write, price: 'put' },
  bodyBytesMax: 64 * 1024,
  run: async (context) => {
    const id = inventoryId(context.request.query);
    const root = parseXml(await receiveDocument(context), 'IntelligentTieringConfiguration');
    const config = parseTiering(root, id);
    await checkArchives(context, config);
    await set(context, { id, config }, 200);
    return emptyReply(200);
  },
};

const deleteTiering: Operation<'bucket'> = {
  ...{ name: 'DeleteBucketIntelligentTieringConfiguration', ...write, price: 'free' },
  run: async (context) => {
    await set(context, { id: inventoryId(context.request.query), config: null }, 204);
    return emptyReply(204);
  },
};

const listTierings: Operation<'bucket'> = {
  ...{ name: 'ListBucketIntelligentTieringConfigurations', ...read },
  run: async (context) => {
    const { query } = context.request;
    const after = query.find(([name]) => name === 'continuation-token')?.[1] ?? '';
    const rest = (await readAll(context)).filter(({ id }) => id > after);
    const page = rest.slice(0, pageMax);
    const isTruncated = rest.length > page.length;
    return xmlReply('ListBucketIntelligentTieringConfigurationsOutput', {
      ...(after !== '' && { ContinuationToken: after }),
      IntelligentTieringConfiguration: page.map(tieringElements),
      IsTruncated: isTruncated,
      ...(isTruncated && { NextContinuationToken: page.at(-1)?.id }),
    });
  },
};

export const bucketTiering = {
  one: { GET: getTiering, PUT: putTiering, DELETE: deleteTiering },
  list: { GET: listTierings },
};
