// A ledger on a real database file, with a tenant and a bucket, and ways to ask for changes.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sealObject } from '#bursar/catalog/authentic.js';
import type { Reader } from '#bursar/core/database.js';
import { openDatabase } from '#bursar/core/database.js';
import { newExtentId } from '#bursar/core/ids.js';
import { Keyring, type RootKey } from '#bursar/core/keyring.js';
import { encodeManifest } from '#bursar/core/manifest.js';
import { acceptRights } from '#bursar/ledger/accept-rights.js';
import type { IdentityChange } from '#bursar/ledger/commands/identities.js';
import type { Change } from '#bursar/ledger/commands/index.js';
import type { Commit } from '#bursar/ledger/commit.js';
import { Ledger } from '#bursar/ledger/ledger.js';
import type { Alarm } from '#bursar/quota/limits/alarms.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';

/** What the fixture's rows are authenticated with. */
export const rootKey: RootKey = { epoch: 1, key: Buffer.alloc(32, 7) };
export const keyring = new Keyring([rootKey]);

export interface LedgerFixture {
  ledger: Ledger;
  read: Reader;
  /** The database file. */
  path: string;
  /** What the ledger said of bugs. */
  failures: string[];
  fatal: string[];
  /** What the ledger told of budgets. */
  alarms: Alarm[];
  /** The signed notes that the ledger told, once `signLog` was called. */
  checkpoints: string[];
  bucketId: number;
  /**
   * Closes the ledger and opens it again, as another run of the gateway; `meanwhile` has the
   * database's file to itself.
   */
  reopen(meanwhile?: () => void): Promise<void>;
  /** Edits the database behind everybody's back. */
  edit(sql: string): void;
  /** The same while no ledger has it open, and as if the gateway had done it. */
  rewrite(sql: string): Promise<void>;
  close(): Promise<void>;
}

export async function openLedger(): Promise<LedgerFixture> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-ledger-'));
  const path = join(folder, 'test.db');
  const failures: string[] = [];
  const fatal: string[] = [];
  const alarms: Alarm[] = [];
  const checkpoints: string[] = [];
  const open = () =>
    Ledger.open({
      path,
      priceBooks: [...readPriceBooks()],
      rootKeys: [rootKey],
      onFatal: (reason) => fatal.push(reason),
      onFailure: (reason) => failures.push(reason),
      onUnsealed: ({ what }) => failures.push(what),
      onAlarms: (all) => alarms.push(...all),
      onCheckpoint: (note) => checkpoints.push(note),
    });
  const ledger = await open();
  let db = openDatabase(path, { readonly: true, cacheKib: 1024 });
  const fixture: LedgerFixture = {
    ledger,
    read: db.tx,
    path,
    failures,
    fatal,
    alarms,
    checkpoints,
    bucketId: 1,
    reopen: async (meanwhile) => {
      await fixture.ledger.close();
      if (meanwhile) {
        db.close();
        meanwhile();
      }
      fixture.ledger = await open();
      if (meanwhile) {
        db = openDatabase(path, { readonly: true, cacheKib: 1024 });
        fixture.read = db.tx;
      }
    },
    edit: (sql) => {
      const editor = openDatabase(path, { readonly: false, cacheKib: 1024 });
      editor.exec(sql);
      editor.close();
    },
    rewrite: async (sql) => {
      await fixture.ledger.close();
      const editor = openDatabase(path, { readonly: false, cacheKib: 1024 });
      editor.exec(sql);
      await acceptRights(editor, keyring);
      editor.close();
      fixture.ledger = await open();
    },
    close: async () => {
      db.close();
      await fixture.ledger.close();
      rmSync(folder, { recursive: true });
    },
  };
  const identity = {
    kind: 'createTenant',
    name: 'one',
    membersCreateBuckets: true,
  } as const;
  const alice = {
    kind: 'createPrincipal',
    tenant: 'one',
    name: 'alice',
    principalKind: 'person',
    role: 'member',
    groups: [],
  } satisfies IdentityChange;
  const bucket = { tenant: 'one', name: 'data', owner: 'alice', store: 1 };
  const changes: Change[] = [identity, alice, { kind: 'createBucket', ...bucket }];
  // In this order, and in one batch.
  await Promise.all(changes.map((change) => ledger.commit(commitOf(change))));
  return fixture;
}

/** A commit of the change by alice, on her bucket. */
export function commitOf(change: Change, key: string | null = null): Commit {
  return {
    change,
    charge: {
      who: {
        tenant: 'one',
        principal: 'alice',
        tokens: [],
        bucket: { tenant: 'one', name: 'data', owner: 'alice' },
      },
      transfer: { requests: 1, ingressBytes: 0, egressBytes: 0, retrievalBytes: 0 },
      pricing: {
        ...{ book: 'aws-us-east-1-2026', storageClass: 'STANDARD', sourceClass: null },
        price: 'put',
      },
      settlement: null,
    },
    record: {
      action: change.kind,
      tenant: 'one',
      principal: 'alice',
      accessKeyId: null,
      evidence: 'none',
      bucket: 'data',
      bucketOwner: 'alice',
      key,
      target: null,
      bytesIn: 0,
      bytesOut: 0,
      sizeBytes: null,
      etag: null,
      sha256: null,
      class: null,
      range: null,
      requestId: 'R',
      source: 'a test',
      status: 200,
      error: null,
    },
  };
}

/** A PUT of ten bytes, inline, or in a store under ids that were declared. */
export function putOf(
  key: string,
  extent: { inlineId?: Buffer; storedId?: Buffer } = { inlineId: newExtentId() },
): Commit {
  const { inlineId, storedId } = extent;
  const id = (inlineId ?? storedId) as Buffer;
  const store = inlineId ? 0 : 1;
  const run = {
    id,
    store,
    algorithm: 1,
    epoch: 1,
    extentBytes: 10,
    offset: 0,
    length: 10,
    trailerBytes: 0,
  };
  return commitOf(
    {
      kind: 'putObject',
      bucketId: 1,
      key,
      conditions: { ifMatch: null, ifNoneMatch: null },
      object: sealObject(keyring, {
        tenant: 'one',
        sizeBytes: 10,
        etag: 'etag',
        sha256: null,
        class: 'STANDARD',
        owner: 'alice',
        attributes: '{}',
        manifest: encodeManifest([run]),
      }),
      extentIds: storedId ? [storedId] : [],
      inline: inlineId ? { id: inlineId, body: Buffer.alloc(42) } : null,
    },
    key,
  );
}

export function deleteOf(key: string): Commit {
  const conditions = { ifMatch: null, ifNoneMatch: null };
  return commitOf({ kind: 'deleteObject', bucketId: 1, key, conditions }, key);
}
