// The ledger, opened, with everything that listens to it. What requests are decided by is read into
// memory while the ledger verifies it; whoever depends on a row that is not authentic is not
// served.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { onlyPrivate } from '../authz/oidc/address-policy.ts';
import { type OpenDatabase, openDatabase, type Reader } from '../core/database.ts';
import { defaultTenant, rootPrincipal } from '../core/principal.ts';
import { verifyReads } from '../core/seals/sealed-views.ts';
import { AlarmNotifier, attemptMsDefault } from '../gateway/alarms/alarm-notifier.ts';
import { Mailer } from '../gateway/alarms/mail.ts';
import { AlteredRecords } from '../gateway/altered-records.ts';
import { LogHead } from '../gateway/log/log-head.ts';
import { type CorsRules, readCorsRules } from '../gateway/s3/buckets/cors.ts';
import { SealFaults } from '../gateway/seal-faults.ts';
import { Ledger } from '../ledger/ledger.ts';
import { SealWatch } from '../ledger/seal-watch.ts';
import type { Alarm } from '../quota/limits/alarms.ts';
import { State } from '../state/state.ts';
import { type Backups, endBackups, openShipping } from './backups.ts';
import type { Base } from './base.ts';
import { opened } from './closers.ts';
import { StorePrices } from './folder/store-prices.ts';
import { announceRefusal, keepCheckpoints } from './log-signing.ts';

export interface OpenLedger {
  ledger: Ledger;
  /** Committed state, read-only. */
  read: Reader;
  state: State<CorsRules>;
  prices: StorePrices;
  sealFaults: SealFaults;
  sealWatch: SealWatch;
  altered: AlteredRecords;
  /** The newest checkpoint of the log, and whether the log is signed. */
  head: LogHead;
  /** Shipping only: backups are scheduled when the stores are open. */
  backups: Backups;
  /** Until it is called, alarms wait in the database. */
  startAlarms(): Promise<AlarmNotifier>;
}

export async function openLedger(base: Base): Promise<OpenLedger> {
  const { config, folder, closers, log, metrics } = base;
  const prices = new StorePrices(config, Date.now());
  const backups: Backups = {};
  const sealFaults = new SealFaults();
  const altered = new AlteredRecords();
  const head = new LogHead((reason) => {
    announceRefusal(reason, { ledger, log });
    endBackups(backups);
  });
  keepCheckpoints(base, head);
  backups.shipping = openShipping(base, {
    onBackupWanted: () => backups.schedule?.wantNow(),
    // Health tells the operator where this fails.
    onCommitWanted: () => void ledger.tryWriting().catch(() => false),
  });
  let notifier: AlarmNotifier | undefined;
  const onAlarms = (alarms: readonly Alarm[]): void => {
    for (const { percent } of alarms) metrics.countAlarm(percent);
    notifier?.tell(alarms);
  };
  const told = { prices, sealFaults, altered, head, onAlarms };
  const { ledger, read, state, sealWatch } = await openDatabases(base, told);
  const startAlarms = async (): Promise<AlarmNotifier> => {
    notifier = await AlarmNotifier.open({
      ...{ read, ledger, sealer: folder.sealer, policy: onlyPrivate(config.privateWebhooks ?? []) },
      mailer: mailerOf(config),
      onError: (error) => log.warn('alarms were not told', error),
      onProblem: (text) => log.warn(text),
    });
    return opened(closers, notifier);
  };
  return {
    ...{ ledger, read, state, sealWatch, prices, sealFaults, altered, head, backups, startAlarms },
  };
}

function mailerOf({ smtp, mailDomains: domains = [] }: Base['config']): Mailer | null {
  return smtp ? new Mailer({ ...smtp, domains }, attemptMsDefault) : null;
}

const readCacheKib = 64 * 1024;

/**
 * Opens the database for writing and for reading. What requests are decided by is read while it is
 * verified, and does not change meanwhile; what is read later is verified when it is read.
 */
async function openDatabases(
  { config, folder, closers, log }: Base,
  told: Pick<OpenLedger, 'prices' | 'sealFaults' | 'altered' | 'head'> & {
    onAlarms: (alarms: readonly Alarm[]) => void;
  },
): Promise<Pick<OpenLedger, 'ledger' | 'read' | 'state' | 'sealWatch'>> {
  const { prices, sealFaults, altered, head, onAlarms } = told;
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
  const sealWatch = new SealWatch({
    check: () => ({ path, rootKeys: rootKeys.keys }),
    onChecked: (unsealed) => sealFaults.replace(unsealed),
    onError: (error) => log.warn('rights were not verified', error),
  });
  const ledger = await Ledger.open({
    path,
    load,
    onUnsealed: (unsealed) => sealFaults.add(unsealed),
    onTouched: () => sealWatch.begin(),
    rootKeys: rootKeys.keys,
    priceBooks: [...prices.books],
    // Nobody knows whether writes that were not acknowledged are stored.
    onFatal: (reason) => log.stop(`the ledger cannot go on, stopping: ${reason}`),
    onFailure: (reason) => log.warn('a commit failed', reason),
    onAlarms,
    onCheckpoint: head.receive,
    onAltered: (indexes) => indexes.forEach(altered.found),
  }).catch((error: unknown) => {
    db?.close();
    throw error;
  });
  // Readers close first: the ledger then moves what is in SQLite's log into the database file.
  closers.push(() => ledger.close());
  closers.push(() => db?.close());
  closers.push(() => sealWatch.close());
  if (!db || !state) throw new Error('nothing was read');
  if (unreadable.length > 0 && sealFaults.found.length === 0) throw unreadable[0];
  verifyReads(db, keyring);
  ledger.feed.subscribe(state);
  return { ledger, sealWatch, read: db.tx, state };
}

/** Records each row that is not authentic. Nobody asked for that, so no access key is named. */
export function recordUnsealed({ sealFaults, ledger }: OpenLedger): void {
  sealFaults.onFound(({ table, tenant, row, scope }) => {
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
