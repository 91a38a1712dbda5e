// Whom a gateway probes itself as.
import { expect, it } from 'vitest';
import { ProbeAccount, type ProbeAccountOptions } from '#bursar/server/probe-account.js';

it('has the limit of the setting at a start, and then what administrators set', async () => {
  const changes: unknown[] = [];
  const directory = {
    readPrincipal: async () => ({ kind: 'robot', role: 'member' }),
    listAccessKeys: async () => [{ id: 'KEY' }],
    findAccessKey: async () => ({ secret: 'secret' }),
  };
  const ledger = {
    commit: async ({ change }: { change: unknown }) => {
      changes.push(change);
      return { ok: true };
    },
  };
  // Its limit is gone whenever it is looked for.
  const services = {
    read: { get: async () => undefined },
    ledger,
    leaseHolder: { setLimits: () => {} },
  };
  const options = { services, directory, sealer: {}, spendMax: 5_000_000_000_000n };
  const account = new ProbeAccount(options as unknown as ProbeAccountOptions);
  const credentials = { accessKeyId: 'KEY', secretAccessKey: 'secret' };
  expect(await account.ensure()).toEqual(credentials);
  const limits = { spend: { month: '5.00' } };
  expect(changes).toEqual([{ kind: 'setLimits', account: 'principal:default/probe', limits }]);
  expect(await account.ensure()).toEqual(credentials);
  expect(changes).toHaveLength(1);
});

it('leaves a bucket of somebody else alone, and says so', async () => {
  const store = { number: 1, name: 'local', ready: true, isConfigured: true };
  const said: string[] = [];
  const services = {
    read: { get: async () => ({ owner: 'ada', store: 1, objectLock: null, publicAccess: null }) },
    stores: { all: () => [store] },
  };
  const options = { services, onProblem: (text: string) => said.push(text) };
  const account = new ProbeAccount(options as unknown as ProbeAccountOptions);
  expect(await account.ensureBuckets()).toEqual([]);
  expect(said).toEqual(["bursar-probe-1 is another's bucket, so local is not measured"]);
});
