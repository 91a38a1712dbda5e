// Native API: what operators see of the gateway itself: its stores and what they cost
// (docs/admin/operator-cost.md), its root keys and its clock.

import { isoTime, stepMsMax } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { localStore } from '../../core/manifest.ts';
import { formatUsd } from '../../core/money.ts';
import { steadyClock } from '../../core/steady-clock.ts';
import { type BackendCost, listBackendCosts } from '../../quota/backend-cost.ts';
import type { NativeDeps } from './deps.ts';
import { param, routeTable } from './route.ts';
import {
  answerObject,
  boolean,
  closedObject,
  integer,
  type Json,
  text,
  textOrNull,
  time,
} from './schemas.ts';

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
  drill: {
    type: ['boolean', 'null'],
    description: 'Whether a drill hides something in it; null: nobody has looked yet.',
  },
  declared: answerObject({
    kind: text('online or archive.'),
    domains: {
      ...{ type: 'array', items: { type: 'string' } },
      description: 'What may fail as one.',
    },
    annualLoss: {
      type: ['number', 'null'],
      description: 'The share that is expected to be lost in a year; null: nothing is said.',
    },
    storageClass: textOrNull('As which its server keeps extents.'),
    drills: boolean('Whether drills may hide what is in it.'),
  }),
  health: anything('What `/_/health` says of it.'),
  detail: anything('Counters since the start, and what the probe found.'),
});

export const storeRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/stores',
    action: 'bursar:ListStores',
    summary: 'Show all stores that buckets can be in, by number.',
    answer: answerObject({ stores: { type: 'array', items: store } }),
    run: async ({ deps: { stores, drills } }) => ({
      answer: {
        stores: stores.all().map((view) => ({
          ...view,
          isDefault: view.name === stores.defaultName,
          drill: view.number === localStore ? false : drills.isHiding(view.number),
        })),
      },
    }),
  },
]);

const drillSchema = closedObject({
  lose: {
    type: 'number',
    minimum: 0,
    maximum: 1,
    description: 'The share of its extents that is hidden. Absent: all is shown again.',
  },
  seed: integer('Which of them: the same of the same seed.', {
    ...{ minimum: 0, maximum: 2 ** 32 - 1, default: 0 },
  }),
  after: text('The `next` of the slice before.', { default: '', pattern: '^([0-9a-f]{32})?$' }),
});

export const drillRoutes = routeTable([
  {
    method: 'POST',
    url: '/_/v1/stores/:store/drills',
    action: 'bursar:DrillStore',
    summary:
      'Hide a share of the extents in a store, as if they were lost, or show them again: some ' +
      'two seconds of it. The next slice begins at `next`, until it is null.',
    body: drillSchema,
    answer: answerObject({
      next: textOrNull('Where the next slice begins.'),
      extents: integer('Extents that were looked at.'),
      changed: integer('Those of them that were hidden, or shown again.'),
    }),
    run: async (call) => {
      const { deps, body } = call;
      const { lose, seed = 0, after = '' } = body as Json<typeof drillSchema>;
      const number = findDrilled(deps.stores, param(call, 'store'), lose !== undefined);
      const told = lose === undefined ? { lose: null, seed: null } : { lose: String(lose), seed };
      return {
        change: { kind: 'drillStore', ...told, after },
        target: `stores/${param(call, 'store')}`,
        // What is done is recorded before.
        answer: async () => {
          if (lose !== undefined) return deps.drills.hide(number, { lose, seed, after });
          const slice = await deps.drills.undo(number, { after });
          await deps.drills.hasten(number);
          return slice;
        },
      };
    },
  },
]);

/** Throws `Refusal` InvalidRequest. */
function findDrilled(stores: NativeDeps['stores'], name: string, isHiding: boolean): number {
  const view = stores.all().find((one) => one.name === name);
  if (!view?.isConfigured || view.number === localStore) {
    const message = `${name} is no store that drills are done in: a folder or an S3 bucket.`;
    throw new Refusal('InvalidRequest', { message });
  }
  if (isHiding && !view.declared.drills) {
    const message = `The store ${name} does not allow drills: \`drills: yes\` of it would.`;
    throw new Refusal('InvalidRequest', { message });
  }
  return view.number;
}

const cost = answerObject({
  account: text('`store:NAME`, or `backend:TENANT`: what of it was for the data of a tenant.'),
  spend: text('What providers bill, USD in decimal, to the picodollar.'),
  charged: textOrNull('What users of the tenant were charged, USD; null: not said of a store.'),
  requests: integer('Sent to the store, each try by itself.'),
  ingressBytes: integer('Bytes sent to it.'),
  egressBytes: integer('Bytes received from it.'),
});

export const storeCostRoutes = routeTable([
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
]);

function show({ spend, charged, ...counted }: BackendCost): object {
  const usd = (picodollars: string): string => formatUsd(BigInt(picodollars));
  return { ...counted, spend: usd(spend), charged: charged === null ? null : usd(charged) };
}

// The root keys. Invariants: no answer and no record contains a root key, not even a wrapped one;
// and nothing is sealed under a new key before it is durable in its file, every thread can read
// what is sealed under it, and the database says that it is in use.

const rootKey = answerObject({
  epoch: integer('What is stored names the epoch of its keys.'),
  createdAt: time,
  isCurrent: boolean('Whether everything new is made under it.'),
  wrappedBy: textOrNull('ARN of the KMS key that protects it; null: the key file has it as it is.'),
});

export const rootKeyRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/keys',
    action: 'bursar:ListKeys',
    summary: 'Show the root keys, by epoch, without the keys themselves.',
    answer: answerObject({ keys: { type: 'array', items: rootKey } }),
    run: async ({ deps: { rootKeys, keyring } }) => ({
      answer: {
        keys: rootKeys
          .describe()
          .map((key) => ({ ...key, isCurrent: key.epoch === keyring.currentEpoch })),
      },
    }),
  },
  {
    method: 'POST',
    url: '/_/v1/keys/rotations',
    action: 'bursar:RotateKeys',
    summary:
      'Begin an epoch with a new root key. What is stored stays readable under the old ones; ' +
      'everything new is made under this one.',
    status: 201,
    answer: rootKey,
    run: async ({ deps: { rootKeys, keyring } }) => {
      const key = await rootKeys.rotate();
      // The ledger's thread seals under the key from its next batch on, which this thread has to be
      // able to read before it is told of that batch.
      keyring.learn(key);
      return {
        change: { kind: 'addRootKey', key },
        target: `keys/${key.epoch}`,
        answer: async () => {
          const added = rootKeys.describe().find(({ epoch }) => epoch === key.epoch);
          return { ...added, isCurrent: key.epoch === keyring.currentEpoch };
        },
      };
    },
  },
]);

// The clock that records and windows of limits go by (docs/admin/clock.md).

const clock = answerObject({
  time: { ...time, description: 'What records and windows of limits go by.' },
  systemTime: time,
  stepMs: integer(
    'How far the system’s clock has stepped from the first, and is not followed; 0: it is ' +
      `followed, as up to ${stepMsMax} ms.`,
  ),
});

export const clockRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/clock',
    action: 'bursar:GetClock',
    summary: 'Show the clock, and whether the system’s has stepped from it.',
    answer: clock,
    run: async () => ({ answer: showClock() }),
  },
  {
    method: 'POST',
    url: '/_/v1/clock/confirmations',
    action: 'bursar:ConfirmClock',
    summary: 'Say that the system’s clock is right: it is followed from now on.',
    answer: clock,
    run: async () => ({
      change: { kind: 'confirmClock', stepMs: steadyClock.stepMs },
      target: 'clock',
      answer: async () => {
        // The commit has set the clock of the ledger's thread, and this is that of the main thread.
        return showClock();
      },
    }),
  },
]);

function showClock(): object {
  const [timeMs, { stepMs }] = [steadyClock.nowMs(), steadyClock];
  return { time: isoTime(timeMs), systemTime: isoTime(Date.now()), stepMs };
}
