// Native API: the inventories of a bucket, and how it goes with them. They are configured by S3's
// own calls.
import { readConfigurations } from '../../catalog/buckets.ts';
import {
  type InventoryConfig,
  inventoryFormats,
  inventoryFrequencies,
  lastDue,
} from '../../catalog/inventory.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { type Call, param, refuseDelegated, routeTable } from './route.ts';
import {
  answerObject,
  boolean,
  integerOrNull,
  text,
  textOrNull,
  time,
  timeOrNull,
} from './schemas.ts';
import { bucketOf } from './snapshot-routes.ts';

const inventory = answerObject({
  id: text('Its id.'),
  enabled: boolean('Is it written when it is due?'),
  by: text('Who configured it, in whose name it is written.'),
  format: text('What its files are.', { enum: [...inventoryFormats] }),
  frequency: text('How often it is due.', { enum: [...inventoryFrequencies] }),
  destination: text('The bucket that it is written into, as who configured it names that.'),
  prefix: text('What the keys of its files begin with.'),
  lastDueAt: { ...time, description: 'When it was last due.' },
  state: text('Of the last one since the start of the gateway.', {
    enum: ['none yet', 'writing', 'written', 'failed'],
  }),
  endedAt: { ...timeOrNull, description: 'When that ended.' },
  manifest: textOrNull('The key of its manifest.'),
  objects: integerOrNull('How many objects it lists; null where it was there before the start.'),
  problem: textOrNull('Why it was not written.'),
});

const collection = '/_/v1/tenants/:t/buckets/:bucket/inventories';

export const inventoryRoutes = routeTable([
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListInventories',
    summary: 'List the inventories of a bucket, and how it went with the last of each.',
    answer: answerObject({ inventories: { type: 'array', items: inventory } }),
    run: async (call) => ({ answer: { inventories: await showAll(call) } }),
  },
  {
    method: 'POST',
    url: `${collection}/:id/run`,
    action: 'bursar:RunInventory',
    isReading: true,
    summary: 'Write an inventory now, beside what goes on. What becomes of it, the list says.',
    answer: inventory,
    run: async (call) => {
      // It is written in the name of who configured it, whoever asks.
      refuseDelegated(call);
      const { id: bucketId, tenant, name: bucket } = await bucketOf(call);
      const id = param(call, 'id');
      const config = (await readAll(call, bucketId)).find((one) => one.id === id);
      if (!config) throw new Refusal('NotFound', { message: `The bucket has no inventory ${id}.` });
      call.deps.inventories.begin({ tenant, bucket }, config);
      const shown = (await showAll(call)).find((one) => one.id === id);
      return { answer: shown as object };
    },
  },
]);

function readAll({ deps }: Call, bucketId: number): Promise<InventoryConfig[]> {
  return readConfigurations(deps.read, bucketId, 'inventory');
}

async function showAll(call: Call): Promise<({ id: string } & object)[]> {
  const { id: bucketId, tenant, name: bucket } = await bucketOf(call);
  const all = await readAll(call, bucketId);
  return all.map(({ id, isEnabled, by, format, frequency, destination, prefix }) => ({
    ...{ id, enabled: isEnabled, by, format, frequency, destination, prefix },
    lastDueAt: isoTime(lastDue(frequency, Date.now())),
    ...call.deps.inventories.stateOf({ tenant, bucket }, id),
  }));
}
