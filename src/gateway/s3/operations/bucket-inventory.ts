// Which lists of its objects a bucket has written, each under an id, as S3 sets and shows them.
import { recordedChange } from '../../../audit/recorded-change.ts';
import { readSetting } from '../../../catalog/buckets.ts';
import type { AskedConfiguration } from '../../../catalog/configurations.ts';
import { type InventoryConfig, parseInventories } from '../../../catalog/inventory.ts';
import { Refusal } from '../../../core/errors.ts';
import { emptyReply, xmlReply } from '../../http/reply.ts';
import { parseXml } from '../../http/xml.ts';
import { inventoryElements, inventoryId, parseInventory } from '../buckets/inventory-xml.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

const read = { action: 's3:GetInventoryConfiguration', resource: 'bucket', price: 'get' } as const;
const write = { action: 's3:PutInventoryConfiguration', resource: 'bucket' } as const;
const pageMax = 100;

async function readAll({ services, bucket }: Reserved<'bucket'>) {
  const document = await readSetting(services.read, bucket.id, 'inventory');
  return document === null ? [] : parseInventories(document);
}

async function set(
  context: Reserved<'bucket'>,
  asked: AskedConfiguration<InventoryConfig>,
  status: number,
): Promise<void> {
  const change = recordedChange({ inventory: asked.config, id: asked.id });
  const document = JSON.stringify(asked);
  const { id: bucketId } = context.bucket;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'inventory', document },
    { status, change },
  );
}

const getInventory: Operation<'bucket'> = {
  ...{ name: 'GetBucketInventoryConfiguration', ...read },
  run: async (context) => {
    const id = inventoryId(context.request.query);
    const found = (await readAll(context)).find((one) => one.id === id);
    if (!found) throw new Refusal('NoSuchConfiguration');
    return xmlReply('InventoryConfiguration', inventoryElements(found));
  },
};

const putInventory: Operation<'bucket'> = {
  ...{ name: 'PutBucketInventoryConfiguration', ...write, price: 'put' },
  bodyBytesMax: 64 * 1024,
  run: async (context) => {
    const { who, request } = context;
    // It goes on long after the token has expired.
    if (who.delegation !== null || who.isAnonymous) {
      const message = 'With a token, or without credentials, no inventory is configured.';
      throw new Refusal('AccessDenied', { message });
    }
    const id = inventoryId(request.query);
    const root = parseXml(await receiveDocument(context), 'InventoryConfiguration');
    await set(context, { id, config: parseInventory(root, id, who.principal.id) }, 204);
    return emptyReply(204);
  },
};

const deleteInventory: Operation<'bucket'> = {
  ...{ name: 'DeleteBucketInventoryConfiguration', ...write, price: 'free' },
  run: async (context) => {
    await set(context, { id: inventoryId(context.request.query), config: null }, 204);
    return emptyReply(204);
  },
};

const listInventories: Operation<'bucket'> = {
  ...{ name: 'ListBucketInventoryConfigurations', ...read },
  run: async (context) => {
    const { query } = context.request;
    const after = query.find(([name]) => name === 'continuation-token')?.[1] ?? '';
    const rest = (await readAll(context)).filter(({ id }) => id > after);
    const page = rest.slice(0, pageMax);
    const isTruncated = rest.length > page.length;
    return xmlReply('ListInventoryConfigurationsResult', {
      ...(after !== '' && { ContinuationToken: after }),
      InventoryConfiguration: page.map(inventoryElements),
      IsTruncated: isTruncated,
      ...(isTruncated && { NextContinuationToken: page.at(-1)?.id }),
    });
  },
};

export const bucketInventory = {
  one: { GET: getInventory, PUT: putInventory, DELETE: deleteInventory },
  list: { GET: listInventories },
};
