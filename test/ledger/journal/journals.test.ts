// Which changes are answered for only when the journal of their store has them.
import { describe, expect, it } from 'vitest';
import type { Change } from '#bursar/ledger/commands/index.js';
import type { Journal } from '#bursar/ledger/journal/journal.js';
import { Journals } from '#bursar/ledger/journal/journals.js';

const anyConditions = { ifMatch: null, ifNoneMatch: null };
const put = {
  ...{ kind: 'putObject', bucketId: 1, key: 'k', conditions: anyConditions },
  ...{ extentIds: [Buffer.alloc(16)], inline: null, object: { class: 'STANDARD' } },
} as unknown as Change;
const elsewhere = { ...put, object: { class: 'scratch' } } as unknown as Change;
const part = { kind: 'putPart' } as unknown as Change;
const amended = { kind: 'amendVersion', bucketId: 1, key: 'k', amendment: { tags: null } } as const;
const versioned = { kind: 'setVersioning', bucketId: 1, versioning: 'Enabled' } as const;
const setting = { kind: 'putBucketSetting', bucketId: 1, name: 'cors', document: null } as const;
const policy = { kind: 'putBucketPolicy', bucketId: 1, policy: null } as const;
const made = { versionId: '0'.repeat(32), isMarker: false };

function open() {
  const calls: string[] = [];
  const journal = {
    admit: ({ mustBeSafe }: { mustBeSafe: boolean }) => calls.push(`admit ${mustBeSafe}`),
    note: (seq: number) => calls.push(`note ${seq}`),
    flushed: async (seq: number) => void calls.push(`flushed ${seq}`),
    owned: () => null,
  };
  return { calls, journals: new Journals(new Map([[2, journal as unknown as Journal]])) };
}

describe('a change in an S3 store', () => {
  it('is answered for at once, where its extents tell of it', () => {
    const { calls, journals } = open();
    journals.admit(2, put, 'Unversioned');
    expect(journals.confirm(2, put, { ok: true, index: 7, timeMs: 1 })).toBeNull();
    expect(calls).toEqual(['admit false', 'note 7']);
  });

  it('waits where its extents may be in the store of a class', () => {
    const { calls, journals } = open();
    journals.admit(2, elsewhere, 'Unversioned');
    expect(calls).toEqual(['admit true']);
  });

  it('waits until the secret is told that its bytes are encrypted under, once', async () => {
    const { calls, journals } = open();
    let keysSeq = 5;
    journals.watchKeys(() => keysSeq);
    const confirm = (index: number) => journals.confirm(2, put, { ok: true, index, timeMs: 1 });
    await confirm(7);
    expect(confirm(8)).toBeNull();
    keysSeq = 9;
    await confirm(10);
    expect(confirm(11)).toBeNull();
    expect(calls.filter((call) => call.startsWith('flushed'))).toEqual(['flushed 5', 'flushed 9']);
  });

  it.each(['Enabled', 'Suspended'] as const)(
    'waits where it makes a version: %s',
    async (state) => {
      const { calls, journals } = open();
      journals.admit(2, put, state);
      await journals.confirm(2, put, { ok: true, index: 7, timeMs: 1, version: made });
      expect(calls).toEqual(['admit true', 'flushed 7']);
    },
  );

  it('waits where versioning was enabled after it had been admitted', async () => {
    const { calls, journals } = open();
    journals.admit(2, put, 'Unversioned');
    await journals.confirm(2, put, { ok: true, index: 7, timeMs: 1, version: made });
    expect(calls).toEqual(['admit false', 'flushed 7']);
  });

  it.each([amended, versioned, setting, policy])('waits: $kind', async (change) => {
    const { calls, journals } = open();
    journals.admit(2, change, 'Unversioned');
    await journals.confirm(2, change, { ok: true, index: 7, timeMs: 1 });
    expect(calls).toEqual(['admit true', 'flushed 7']);
  });

  it('is not told of, where it is a part of an upload', () => {
    const { calls, journals } = open();
    journals.admit(2, part, 'Enabled');
    expect(journals.confirm(2, part, { ok: true, index: 7, timeMs: 1 })).toBeNull();
    expect(calls).toEqual(['admit false']);
  });

  it('in a store without a journal waits for nothing', () => {
    const { calls, journals } = open();
    journals.admit(1, versioned, 'Unversioned');
    expect(journals.confirm(1, versioned, { ok: true, index: 7, timeMs: 1 })).toBeNull();
    expect(calls).toEqual([]);
  });
});

describe('a change of identities', () => {
  const revoked: Change = {
    ...{ kind: 'revokeToken', id: 'jti', tenant: 'cms', principal: 'a', expiresMs: null },
  };
  const issued = { kind: 'addToken' } as unknown as Change;
  const limited: Change = { kind: 'setLimits', account: 'tenant:cms', limits: null };

  function openStores() {
    const calls: string[] = [];
    const journalOf = (store: number, isTold: boolean) =>
      ({
        note: (seq: number) => calls.push(`note ${store} ${seq}`),
        told: async (seq: number) => {
          calls.push(`told ${store} ${seq}`);
          return isTold;
        },
      }) as unknown as Journal;
    const stores = [2, 3, 4].map((store) => [store, journalOf(store, store !== 3)] as const);
    return { calls, journals: new Journals(new Map(stores), (store) => store !== 4) };
  }

  it.each([revoked, limited])(
    'waits for all stores in use, and names those that lack it',
    async (change) => {
      const { calls, journals } = openStores();
      expect(await journals.confirmEverywhere(change, 7)).toEqual([3]);
      expect(calls).toEqual(['told 2 7', 'told 3 7']);
    },
  );

  it('that gives a right which few would miss waits for none', async () => {
    const { calls, journals } = openStores();
    expect(await journals.confirmEverywhere(issued, 7)).toEqual([]);
    expect(calls).toEqual(['note 2 7', 'note 3 7']);
  });

  it('is not looked for in what changes nothing of them', async () => {
    const { calls, journals } = openStores();
    expect(await journals.confirmEverywhere(put, 7)).toEqual([]);
    expect(await journals.confirmEverywhere(revoked, null)).toEqual([]);
    expect(calls).toEqual([]);
  });
});
