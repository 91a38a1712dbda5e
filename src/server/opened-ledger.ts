// The database, opened: what requests are decided by is read into memory while the ledger verifies
// it, and what is not authentic is told to whom it concerns.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { onlyPrivate } from '../authz/oidc/address-policy.ts';
import { type OpenDatabase, openDatabase } from '../core/database.ts';
import { defaultTenant, rootPrincipal } from '../core/principal.ts';
import { verifyReads } from '../core/seals/sealed-views.ts';
import { type CorsRules, readCorsRules } from '../gateway/cors.ts';
import type { Distrust } from '../gateway/distrust.ts';
import type { OperatorLog } from '../instruments/operator-log.ts';
import { Ledger } from '../ledger/ledger.ts';
import { SealWatch } from '../ledger/seal-watch.ts';
import type { Alarm } from '../quota/limits/alarms.ts';
import { State } from '../state/state.ts';
import type { Closers } from './closers.ts';
import type { DataFolder } from './folder/data-folder.ts';
import type { StorePrices } from './folder/store-prices.ts';
import type { Config } from './settings/config.ts';

const readCacheKib = 64 * 1024;

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
    log: OperatorLog;
    onAlarms: (alarms: readonly Alarm[]) => void;
    onCheckpoint: (note: string) => void;
    onAltered: (index: number) => void;
  },
) {
  const { folder, closers, prices, log, distrust, onAlarms, onCheckpoint, onAltered } = given;
  const { databaseFile: path, rootKeys, keyring, sealer } = folder;
  const unreadable: unknown[] = [];
  let db: OpenDatabase | undefined;
  let state: State<CorsRules> | undefined;
  const load = async () => {
    db = openDatabase(path, { readonly: true, cacheKib: readCacheKib });
    state = await State.load({
      ...{ read: db.tx, keyring, sealer, readCors: readCorsRules },
      issuerPolicy: onlyPrivate(config.privateIssuers ?? []),
      onProblem: (text) => log.warn(text),
      onUnreadable: (error) => unreadable.push(error),
    });
  };
  const watch = new SealWatch({
    check: () => ({ path, rootKeys: rootKeys.keys }),
    onChecked: (unsealed) => distrust.replace(unsealed),
    onError: (error) => log.warn('rights were not verified', error),
  });
  const ledger = await Ledger.open({
    path,
    load,
    onUnsealed: (unsealed) => distrust.add(unsealed),
    onTouched: () => watch.begin(),
    rootKeys: rootKeys.keys,
    priceBooks: [...prices.books],
    // Nothing can be answered for any more: what was not acknowledged may or may not be stored.
    onFatal: (reason) => log.stop(`the ledger cannot go on, stopping: ${reason}`),
    onFailure: (reason) => log.warn('a commit failed', reason),
    onAlarms,
    onCheckpoint,
    onAltered: (indexes) => indexes.forEach(onAltered),
  }).catch((error: unknown) => {
    db?.close();
    throw error;
  });
  // Who reads closes first: the ledger then brings what is in SQLite's log into the file.
  closers.push(() => ledger.close());
  closers.push(() => db?.close());
  closers.push(() => watch.close());
  if (!db || !state) throw new Error('nothing was read');
  if (unreadable.length > 0 && distrust.found.length === 0) throw unreadable[0];
  verifyReads(db, keyring);
  ledger.feed.subscribe(state);
  return { ledger, sealWatch: watch, read: db.tx, state };
}

/** Who finds that rows are not authentic is nobody who asked: the records name no access key. */
export function recordUnsealed(distrust: Distrust, ledger: Ledger): void {
  distrust.onFound(({ table, tenant, row, scope }) => {
    ledger.record({
      change: { kind: 'none' },
      charge: null,
      record: draftRecord(
        unasked(scope?.tenant || defaultTenant, scope?.principal ?? rootPrincipal),
        ownOrigin(),
        {
          action: 'bursar:IntegrityFailure',
          bucket: scope?.bucket ?? null,
          target: [table || 'rights', tenant, row].filter((part) => part !== '').join('/'),
          status: 500,
          error: 'BursarIntegrityError',
        },
      ),
    });
  });
}
