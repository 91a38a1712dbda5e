// The database, opened: what requests are decided by is read into memory while the ledger verifies it,
// and what is not authentic is told to whom it concerns.
import { Directory } from '../authz/directory.ts';
import { GrantBook } from '../authz/grants/grant-book.ts';
import { defaultTenant, rootPrincipal } from '../authz/identity-changes.ts';
import { MountBook } from '../authz/mount-book.ts';
import { onlyPrivate } from '../authz/oidc/address-policy.ts';
import { OutsideTokens } from '../authz/oidc/outside-tokens.ts';
import { Revocations } from '../authz/revocations.ts';
import { type OpenDatabase, openDatabase, type Reader } from '../core/database.ts';
import { newRequestId } from '../core/ids.ts';
import { verifyReads } from '../core/seals/sealed-views.ts';
import type { Distrust } from '../gateway/distrust.ts';
import { ReadRecording } from '../gateway/read-recording.ts';
import { Ledger } from '../ledger/ledger.ts';
import { SealWatch } from '../ledger/seal-watch.ts';
import { readLimited } from '../quota/leases/account-tables.ts';
import type { Alarm } from '../quota/limits/alarms.ts';
import type { Closers } from './closers.ts';
import type { Config } from './config.ts';
import type { DataFolder } from './data-folder.ts';
import { printable } from './output.ts';
import type { StorePrices } from './store-prices.ts';

const readCacheKib = 64 * 1024;

/** What requests are decided by, in memory. `unreadable`: what there was of what no gateway stored. */
async function loadBooks(
  config: Config,
  { read, directory }: { read: Reader; directory: Directory },
  unreadable: unknown[],
) {
  const policy = onlyPrivate(config.privateIssuers ?? []);
  return {
    grants: await GrantBook.load(read, (error) => unreadable.push(error)),
    mounts: await MountBook.load(read),
    outside: await OutsideTokens.load({ read, directory, policy, onProblem: tellOperator }),
    revocations: await Revocations.load(read),
    readRecording: await ReadRecording.load(read),
  };
}

interface LoadedRights {
  db: OpenDatabase;
  directory: Directory;
  loaded: Awaited<ReturnType<typeof loadBooks>>;
  limited: Awaited<ReturnType<typeof readLimited>>;
}

/**
 * Opens the database for writing and for reading. What requests are decided by is read while it is
 * verified, and stays as it is for so long; what is read later is verified when it is read.
 */
export async function openLedger(
  config: Config,
  given: {
    folder: DataFolder;
    closers: Closers;
    distrust: Distrust;
    prices: StorePrices;
    onAlarms: (alarms: readonly Alarm[]) => void;
    onCheckpoint: (note: string) => void;
    onAltered: (index: number) => void;
  },
) {
  const { folder, closers, prices, distrust, onAlarms, onCheckpoint, onAltered } = given;
  const { databaseFile: path, rootKeys, keyring, sealer } = folder;
  const unreadable: unknown[] = [];
  let db: OpenDatabase | undefined;
  let parts: LoadedRights | undefined;
  const load = async () => {
    db = openDatabase(path, { readonly: true, cacheKib: readCacheKib });
    const directory = new Directory({ read: db.tx, sealer });
    const loaded = await loadBooks(config, { read: db.tx, directory }, unreadable);
    parts = { db, directory, loaded, limited: await readLimited(db.tx) };
  };
  const watch = new SealWatch({
    check: () => ({ path, rootKeys: rootKeys.keys }),
    onChecked: (unsealed) => distrust.replace(unsealed),
    onError: (error) =>
      process.stderr.write(`bursar: rights were not verified: ${String(error)}\n`),
  });
  const ledger = await Ledger.open({
    path,
    load,
    onUnsealed: (unsealed) => distrust.add(unsealed),
    onTouched: () => watch.begin(),
    rootKeys: rootKeys.keys,
    priceBooks: [...prices.books],
    // Nothing can be answered for any more: what was not acknowledged may or may not be stored.
    onFatal: (reason) => stop(`the ledger cannot go on, stopping: ${reason}`),
    onFailure: (reason) => process.stderr.write(`bursar: a commit failed: ${reason}\n`),
    onAlarms,
    onCheckpoint,
    onAltered: (indexes) => indexes.forEach(onAltered),
  }).catch((error: unknown) => {
    db?.close();
    throw error;
  });
  // Who reads closes first: the ledger then brings what is in SQLite's log into the file.
  closers.push(() => ledger.close());
  closers.push(() => parts?.db.close());
  closers.push(() => watch.close());
  if (!parts) throw new Error('nothing was read');
  if (unreadable.length > 0 && distrust.found.length === 0) throw unreadable[0];
  verifyReads(parts.db, keyring);
  const { db: reader, ...loaded } = parts;
  return { ledger, sealWatch: watch, read: reader.tx, ...loaded };
}

/** Who finds that rows are not authentic is nobody who asked: the records name no access key. */
export function recordUnsealed(distrust: Distrust, ledger: Ledger): void {
  distrust.onFound(({ table, tenant, row, scope }) => {
    ledger.record({
      change: { kind: 'none' },
      charge: null,
      record: {
        action: 'bursar:IntegrityFailure',
        tenant: scope?.tenant || defaultTenant,
        principal: scope?.principal ?? rootPrincipal,
        evidence: 'none',
        bucket: scope?.bucket ?? null,
        target: [table || 'rights', tenant, row].filter((part) => part !== '').join('/'),
        bytesIn: 0,
        bytesOut: 0,
        requestId: newRequestId(),
        source: 'bursar serve',
        status: 500,
        error: 'BursarIntegrityError',
      },
    });
  });
}

/** What cannot go on without somebody. */
export function stop(reason: string): never {
  process.stderr.write(`bursar: ${reason}\n`);
  process.exit(1);
}

/** What tenants' admins chose did not work, and why is not for them to know. */
export function tellOperator(reason: string): void {
  process.stderr.write(`bursar: ${printable(reason)}\n`);
}
