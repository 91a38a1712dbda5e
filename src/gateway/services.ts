// All that answers requests. Invariant: it is made once, by server/composition.ts, and handed on
// whole; what needs less of it says so by its type.
import type { RecordStore } from '../audit/record-store.ts';
import type { RecordSearch } from '../audit/search/record-search.ts';
import type { RootKeyFile } from '../core/root-keys.ts';
import type { Sealer } from '../core/sealing.ts';
import type { Instruments } from '../instruments/instruments.ts';
import type { Logger } from '../instruments/logger.ts';
import type { Metrics } from '../instruments/metrics.ts';
import type { LogKeyFile } from '../ledger/log-key-file.ts';
import type { UsageRollUp } from '../ledger/usage-roll-up.ts';
import type { PriceBooks } from '../quota/prices/price-books.ts';
import type { AlarmTeller } from './alarms/alarm-teller.ts';
import type { AlteredRecords } from './altered-records.ts';
import type { HealthFacts } from './health.ts';
import type { DeepRuns } from './native/deep-routes.ts';
import type { Rooms } from './rooms.ts';

export interface Services extends Rooms {
  sealer: Sealer;
  rootKeys: RootKeyFile;
  logKeys: LogKeyFile;
  usageRollUp: Pick<UsageRollUp, 'catchUp'>;
  deepRuns: DeepRuns;
  records: RecordStore;
  altered: AlteredRecords;
  search: RecordSearch;
  alarms: Pick<AlarmTeller, 'stateOf' | 'test'>;
  metrics: Metrics;
  instruments: Instruments;
  logger: Logger;
  /** With it `/_/metrics` names tenants and accounts; undefined: there is none. */
  metricsToken: string | undefined;
  priceBooks: PriceBooks;
  /** What its health is judged by; `detail` is for operators. */
  lookAtHealth: () => Promise<{
    facts: Omit<HealthFacts, 'isUndamaged'>;
    detail: Record<string, unknown>;
  }>;
}
