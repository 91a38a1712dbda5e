// Native API: the operator's cost, beside what users were charged (docs/admin/operator-cost.md).
import { formatUsd } from '../../core/money.ts';
import { type BackendCost, listBackendCosts } from '../../quota/backend-cost.ts';
import type { NativeRoute } from './route.ts';
import { answerObject } from './schemas.ts';

const counter = (description: string) => ({ type: 'integer', description });

const cost = answerObject({
  account: {
    type: 'string',
    description: '`store:NAME`, or `backend:TENANT`: what of it was for the data of a tenant.',
  },
  spend: { type: 'string', description: 'What providers bill, USD in decimal, to the picodollar.' },
  charged: {
    type: ['string', 'null'],
    description: 'What users of the tenant were charged, USD; null: not said of a store.',
  },
  requests: counter('Sent to the store, each try by itself.'),
  ingressBytes: counter('Bytes sent to it.'),
  egressBytes: counter('Bytes received from it.'),
});

export const storeCostRoutes: NativeRoute[] = [
  {
    method: 'GET',
    url: '/_/v1/store-costs',
    action: 'bursar:ListStoreCosts',
    summary: "What the stores' providers bill for what was asked of them: by store and by tenant.",
    status: 200,
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
