// Native API: the root keys, as operators see them and add to them. Invariants: no answer and no
// record has a key or what it is wrapped as; and nothing is made under a new key before it is
// durable in its file, every thread can read by it, and the database says that it is in use.
import type { NativeRoute } from './route.ts';
import { answerObject, boolean, integer, textOrNull, time } from './schemas.ts';

const rootKey = answerObject({
  epoch: integer('What is stored names the epoch of its keys.'),
  createdAt: time,
  isCurrent: boolean('Whether everything new is made under it.'),
  wrappedBy: textOrNull('ARN of the KMS key that protects it; null: the key file has it as it is.'),
});

export const rootKeyRoutes: NativeRoute[] = [
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
      // The ledger seals under it with its next batch, before this thread hears of that.
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
];
