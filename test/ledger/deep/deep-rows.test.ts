// Rows that say the same as others, or are signed, and in no record: what `verify deep` tells of
// them.
import { generateKeyPairSync } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { renderCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { ed25519, noteKey, rawPublicKey, signNote } from '#bursar/audit/log/note.js';
import type { Difference, RecordFields } from '#bursar/audit/verify/record-fields.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { ComparedThings, tenantOfName } from '#bursar/ledger/deep/compared-things.js';
import { DeepErasures, DeepLog } from '#bursar/ledger/deep/deep-log.js';
import { DeepStrays } from '#bursar/ledger/deep/deep-strays.js';
import { Staging } from '#bursar/ledger/deep/staging.js';
import { schema } from '#bursar/ledger/schema.js';
import { newAccountState } from '#bursar/quota/leases/account-state.js';
import { AccountTables } from '#bursar/quota/leases/account-tables.js';
import { openLedger } from '../fixture.ts';

let db: OpenDatabase;
let staging: Staging;
let told: string[];
const comparison = {
  tell: ({ where, what }: Difference) => told.push(`${where}: ${what}`),
  lastErased: -1,
  lastErasedOf: async () => -1,
  onUnknown: () => {},
};

beforeEach(async () => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  staging = await Staging.open(':memory:', Buffer.alloc(32, 1));
  told = [];
});
afterEach(() => {
  staging.close();
  db.close();
});

describe('records that say nothing', () => {
  const whose = (tenant: string, bucketTenant: string | null = null) => ({ tenant, bucketTenant });
  const madeOperator = (tenant: string) =>
    ({
      ...{
        action: 'bursar:CreatePrincipal',
        status: 200,
        target: `tenants/${tenant}/principals/o`,
      },
      change: { role: 'operator' },
    }) as unknown as RecordFields;
  const lastOf = (erasures: DeepErasures) =>
    Promise.all(['cms', 'atlas', 'lhcb', undefined].map((tenant) => erasures.lastOf(tenant)));

  it('leave unknown what is of their tenants, unless they may be of an operator', async () => {
    const erasures = new DeepErasures(staging);
    expect(await lastOf(erasures)).toEqual([-1, -1, -1, -1]);
    await erasures.visitUnread(3, whose('cms', 'atlas'));
    expect(await lastOf(erasures)).toEqual([3, 3, -1, 3]);
    await erasures.visit(4, madeOperator('atlas'));
    await erasures.visitUnread(5, whose('cms'));
    expect(await lastOf(erasures)).toEqual([5, 3, -1, 5]);
    await erasures.visitUnread(6, whose('atlas'));
    expect(await lastOf(erasures)).toEqual([6, 6, 6, 6]);
    // Whom that one made an operator nobody knows.
    await erasures.visitUnread(7, whose('cms'));
    expect(await lastOf(erasures)).toEqual([7, 7, 7, 7]);
  });

  it.each([whose('default'), null])('of %j may have changed anything', async (of) => {
    const erasures = new DeepErasures(staging);
    await erasures.visitUnread(2, of);
    expect(await lastOf(erasures)).toEqual([2, 2, 2, 2]);
  });

  it('hide no difference in what is of others', async () => {
    const buckets = new ComparedThings(staging, 'bucket', tenantOfName);
    const erasures = new DeepErasures(staging);
    for (const tenant of ['cms', 'lhcb']) await buckets.put(`${tenant}/b`, 1, { owner: 'alice' });
    await erasures.visitUnread(2, whose('cms'));
    const rows = ['cms/b', 'lhcb/b'].map((id) => ({ id, members: { owner: 'eve' } }));
    let unknown = 0;
    await buckets.compare(rows, {
      ...comparison,
      lastErasedOf: (tenant) => erasures.lastOf(tenant),
      onUnknown: () => {
        unknown += 1;
      },
    });
    expect(unknown).toBe(1);
    expect(told).toEqual([
      expect.stringMatching(/^bucket lhcb\/b: its owner is not what record 1/),
    ]);
  });
});

describe('leases', () => {
  const find = () => new DeepStrays(staging).finish(db.tx, comparison);

  beforeEach(async () => {
    const state = newAccountState();
    const sums = { ...state.used, requests: 5n };
    state.leases.set('run 1', sums);
    state.leases.set('run 2', sums);
    const changes = { windows: new Set<never>(), holders: new Set(['run 1', 'run 2']) };
    await new AccountTables(db.tx).write('tenant:cms', state, changes);
  });

  it('are those of their accounts', async () => {
    await find();
    expect(told).toEqual([]);
  });

  it('that were added, removed, or given to another account or run are told', async () => {
    db.exec(`UPDATE quota_leases SET holder = 'run 3' WHERE holder = 'run 2';
      INSERT INTO quota_leases VALUES ('tenant:cms', 'run'), ('tenant:atlas', 'run 1')`);
    await find();
    expect(told.sort()).toEqual([
      'lease of tenant:atlas by run 1: its account has no such lease',
      'lease of tenant:cms by run 2: nobody would end it, were its run to die',
      'lease of tenant:cms by run 3: its account has no such lease',
      'lease of tenant:cms by run: its account has no such lease',
    ]);
  });

  it('of an account whose own are no JSON are told as well', async () => {
    db.exec("UPDATE quota_accounts SET leases = '{'");
    await find();
    expect(told).toHaveLength(2);
  });

  it('that somebody added hold up no start', async () => {
    const fixture = await openLedger();
    await fixture.reopen(() =>
      fixture.edit(`INSERT INTO quota_leases VALUES ('tenant:one', 'gone'), ('tenant:x', 'gone')`),
    );
    await fixture.close();
  });
});

describe('cosigned checkpoints', () => {
  const signerOf = (name: string) => {
    const { privateKey } = generateKeyPairSync('ed25519');
    return { privateKey, key: noteKey(name, rawPublicKey(privateKey), ed25519) };
  };
  const witness = signerOf('witness.example.org');
  const name = `${witness.key.name}+${witness.key.id}`;

  beforeEach(async () => {
    const checkpoint = { origin: 'log.example.org', size: 7, root: Buffer.alloc(32, 2) };
    const note = signNote(renderCheckpoint(checkpoint), [signerOf('log.example.org'), witness]);
    await db.tx.run('INSERT INTO log_cosignatures VALUES (?, 7, ?)', name, note);
  });

  it.each([
    [
      "witness = 'other.example.org+00000000'",
      'other.example.org+00000000',
      'no signature of that',
    ],
    ['size = 8', name, 'its row says another size than it does'],
    ['size = size', name, null],
  ])('are told where their row has %s', async (set, where, what) => {
    db.exec(`UPDATE log_cosignatures SET ${set}`);
    await new DeepLog(staging).finish(db.tx, comparison);
    const expected = `the checkpoint that ${where} cosigned: `;
    const wrong = told.filter((one) => one.startsWith(expected));
    if (what === null) expect(told).toEqual([]);
    else expect(wrong).toEqual([expect.stringContaining(what)]);
  });
});
