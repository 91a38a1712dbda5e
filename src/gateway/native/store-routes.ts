// Native API: the stores, as operators see them, and what they cost (docs/admin/operator-cost.md).

import { formatUsd } from '../../core/money.ts';
import { type BackendCost, listBackendCosts } from '../../quota/backend-cost.ts';
import type { NativeRoute } from './route.ts';
import { answerObject, boolean, integer, text, textOrNull } from './schemas.ts';

const anything = (description: string) =>
  ({ type: 'object', additionalProperties: true, description }) as const;

const store = answerObject({
  number: integer('What manifests and records call it.'),
  name: { type: 'string' },
  location: text('`local`, or the S3 bucket, prefix and endpoint.'),
  isConfigured: boolean('Whether the gateway was started with it.'),
  isDefault: boolean('Whether buckets go there that name no store.'),
  ready: { type: 'boolean' },
  canRead: boolean('Whether what is in it can be read: also where it takes no writes.'),
  reason: textOrNull('Why it is not ready.'),
  health: anything('What `/_/health` says of it.'),
  detail: anything('Counters since the start, and what the probe found.'),
});

export const storeRoutes: NativeRoute[] = [
  {
    method: 'GET',
    url: '/_/v1/stores',
    action: 'bursar:ListStores',
    summary: 'Show all stores that buckets can be in, by number.',
    answer: answerObject({ stores: { type: 'array', items: store } }),
    run: async ({ deps: { stores } }) => ({
      answer: {
        stores: stores
          .all()
          .map((view) => ({ ...view, isDefault: view.name === stores.defaultName })),
      },
    }),
  },
];

const cost = answerObject({
  account: text('`store:NAME`, or `backend:TENANT`: what of it was for the data of a tenant.'),
  spend: text('What providers bill, USD in decimal, to the picodollar.'),
  charged: textOrNull('What users of the tenant were charged, USD; null: not said of a store.'),
  requests: integer('Sent to the store, each try by itself.'),
  ingressBytes: integer('Bytes sent to it.'),
  egressBytes: integer('Bytes received from it.'),
});

export const storeCostRoutes: NativeRoute[] = [
  {
    method: 'GET',
    url: '/_/v1/store-costs',
    action: 'bursar:ListStoreCosts',
    summary: "What the stores' providers bill for what was asked of them: by store and by tenant.",
    answer: answerObject({ costs: { type: 'array', items: cost } }),
    run: async ({ who, reach, deps }) => {
      const costs = await listBackendCosts(deps.read, reach === 'all' ? null : who.tenant);
      return { answer: { costs: costs.map(show) } };
    },
  },
];

function show({ spend, charged, ...counted }: BackendCost): object {
  const usd = (picodollars: string): string => formatUsd(BigInt(picodollars));
  return { ...counted, spend: usd(spend), charged: charged === null ? null : usd(charged) };
}
