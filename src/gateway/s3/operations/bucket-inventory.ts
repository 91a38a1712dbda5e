// Which lists of its objects a bucket has written, each under an id, as S3 sets and shows them.
import { Refusal } from '../../../core/errors.ts';
import { inventoryElements, parseInventory } from '../buckets/inventory-xml.ts';
import { configurationsOf } from './configurations.ts';

export const bucketInventory = configurationsOf({
  ...{ setting: 'inventory', name: 'Inventory', listed: 'ListInventoryConfigurationsResult' },
  actions: { read: 's3:GetInventoryConfiguration', write: 's3:PutInventoryConfiguration' },
  putStatus: 204,
  // It goes on long after the token has expired.
  admit: ({ who }) => {
    if (who.delegation === null && !who.isAnonymous) return;
    const message = 'With a token, or without credentials, no inventory is configured.';
    throw new Refusal('AccessDenied', { message });
  },
  parse: (root, id, { who }) => parseInventory(root, id, who.principal.id),
  elements: inventoryElements,
});
