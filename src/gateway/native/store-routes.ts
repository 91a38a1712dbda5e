// Native API: the stores, as operators see them.
import type { NativeRoute } from './route.ts';
import { answerObject } from './schemas.ts';

const anything = (description: string) =>
  ({ type: 'object', additionalProperties: true, description }) as const;

const store = answerObject({
  number: { type: 'integer', description: 'What manifests and records call it.' },
  name: { type: 'string' },
  location: { type: 'string', description: '`local`, or the S3 bucket, prefix and endpoint.' },
  isConfigured: { type: 'boolean', description: 'Whether the gateway was started with it.' },
  isDefault: { type: 'boolean', description: 'Whether buckets go there that name no store.' },
  ready: { type: 'boolean' },
  canRead: {
    type: 'boolean',
    description: 'Whether what is in it can be read: also where it takes no writes.',
  },
  reason: { type: ['string', 'null'], description: 'Why it is not ready.' },
  health: anything('What `/_/health` says of it.'),
  detail: anything('Counters since the start, and what the probe found.'),
});

export const storeRoutes: NativeRoute[] = [
  {
    method: 'GET',
    url: '/_/v1/stores',
    action: 'bursar:ListStores',
    summary: 'Show all stores that buckets can be in, by number.',
    status: 200,
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
