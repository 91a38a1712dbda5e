// What requests are served with, made of the ledger, the state that it keeps, and the stores.
import { TokenUse } from '../authz/token-use.ts';
import { monotonicMs } from '../core/clock.ts';
import { BucketMetrics } from '../gateway/bucket-metrics.ts';
import { memoryOfSmallBodies } from '../gateway/http/small-body.ts';
import { Losses } from '../gateway/losses.ts';
import { Remakes } from '../gateway/remakes.ts';
import { ObjectMemory } from '../gateway/s3/objects/object-memory.ts';
import { RecordFolding } from '../gateway/s3/record-folding.ts';
import type { RequestServices } from '../gateway/services.ts';
import type { StoreList } from '../gateway/store-list.ts';
import { websiteDomains } from '../gateway/website/website-host.ts';
import { IntentPool } from '../ledger/intent-pool.ts';
import { SuspectCopies } from '../ledger/suspect-copies.ts';
import { LeaseHolder, type LeaseSource } from '../quota/leases/lease-holder.ts';
import { LimitedAccounts } from '../quota/limited-accounts.ts';
import { RateTable } from '../quota/rate-table.ts';
import { Rates } from '../quota/rates.ts';
import { BufferPool } from '../tiering/buffer-pool.ts';
import { DigestPool, digestThreadsOf } from '../tiering/digest-pool.ts';
import { ObjectReader } from '../tiering/object-reader.ts';
import { ObjectWriter } from '../tiering/object-writer.ts';
import { ReadLeases } from '../tiering/read-leases.ts';
import type { Base } from './base.ts';
import { opened } from './closers.ts';
import type { Addresses } from './listening.ts';
import { openObjectSearch } from './objects.ts';
import type { OpenLedger } from './opened-ledger.ts';
import type { OpenStores } from './stores.ts';
import type { ThreadLinks } from './threads/links.ts';

/** Where bodies are on their way. */
export interface Memory {
  buffers: BufferPool;
  digests: DigestPool;
}

/** What the services of one thread are made of. */
export type ServiceParts = Pick<
  OpenLedger,
  'ledger' | 'read' | 'state' | 'sealFaults' | 'prices' | 'head'
> &
  Pick<OpenStores, 'stores'> &
  Pick<
    RequestServices,
    'witnesses' | 'diskRoom' | 'copyMemory' | 'journals' | 'upkeep' | 'bulkTurns'
  > & {
    links: ThreadLinks;
    storeList: StoreList;
    addresses: Pick<Addresses, 'publicUrl'>;
  };

export function openRequestServices(
  base: Pick<Base, 'config' | 'closers'> & {
    folder: Pick<Base['folder'], 'keyring' | 'objectsFile'>;
  },
  parts: ServiceParts,
): { services: RequestServices; memory: Memory } {
  const { config, folder, closers } = base;
  const { ledger, read, state, sealFaults, prices, head } = parts;
  const { stores, storeList, journals, upkeep, witnesses, addresses, links } = parts;
  const { diskRoom, copyMemory, bulkTurns } = parts;
  const tokenUse = opened(
    closers,
    new TokenUse({ write: (uses) => ledger.maintain({ kind: 'noteTokenUse', ...uses }) }),
  );
  const limits = openLimits(base, parts);
  const buffers = new BufferPool({ bytesMax: config.bufferMemoryBytes });
  const threads = digestThreadsOf(links.count);
  const digests = opened(closers, new DigestPool({ buffers, threads }));
  const bodies = { keyring: folder.keyring, stores, digests, buffers };
  const copies = opened(closers, new SuspectCopies({ read, ledger, stores: storeList }));
  const encrypts = config.encryption === 'on';
  journals.watchKeys(() => (encrypts ? state.tenantKeys.newestSeq : -1));
  const reader = new ObjectReader({ ...bodies, copies });
  const leases = new ReadLeases();
  const { bookOf } = prices;
  const losing = { ...state, read, ledger, reader, leases, bookOf };
  const { domains = [] } = config;
  const websites = websiteDomains(domains, config.region);
  const services = {
    ...state,
    ...limits,
    objects: openObjectSearch(base),
    ...{ read, ledger, sealFaults, tokenUse, witnesses, journals, upkeep, diskRoom, copyMemory },
    log: head,
    stores: storeList,
    intents: new IntentPool(ledger),
    writer: new ObjectWriter({ ...bodies, encrypts, inlineBytesMax: config.inlineBytes }),
    copies,
    reader,
    losses: new Losses({ ...losing, stores: storeList }),
    bucketMetrics: new BucketMetrics(state.metricsConfigurations),
    remakes: new Remakes({ ...losing, journals, copyMemory, diskRoom, stores }),
    objectMemory: new ObjectMemory(ledger.versionMarks, config.objectMemoryBytes),
    leases,
    smallBodies: memoryOfSmallBodies(links.count),
    folding: new RecordFolding(config.refusalRecords),
    bulkTurns,
    bookOf,
    priceBooks: prices.books,
    publicUrl: () => addresses.publicUrl,
    shareUrl: () => config.shareUrl ?? addresses.publicUrl,
    dayMs: config.lifecycleDayMs,
    cutsRevoked: config.revokedDownloads === 'cut',
    region: config.region,
    blocksNewBuckets: config.blockPublicAccess,
    domains: [...domains, ...websites],
    websiteDomains: websites,
    encrypts,
    storedPages: config.storedPages,
  };
  return { services, memory: { buffers, digests } };
}

const keepEveryMs = 1000;

/** The limits that are kept in memory, as the ledger has them. */
function openLimits(
  { closers }: Pick<Base, 'closers'>,
  { ledger, state, links }: Pick<ServiceParts, 'ledger' | 'state' | 'links'>,
): Pick<RequestServices, 'leaseHolder' | 'limitedAccounts' | 'rates'> {
  const source: LeaseSource = {
    draw: (request) => ledger.draw(request),
    giveBack: (request) => ledger.giveBack(request),
    recall: links.recall,
  };
  const leaseHolder = new LeaseHolder(source, monotonicMs, links.thread);
  const rates = new Rates(new RateTable(links.shared.rates));
  const limitedAccounts = new LimitedAccounts();
  state.limits.begin(leaseHolder, limitedAccounts, rates);
  const timer = setInterval(() => {
    rates.keep();
    void leaseHolder.keep();
  }, keepEveryMs);
  timer.unref();
  closers.push(() => {
    clearInterval(timer);
    return leaseHolder.close();
  });
  return { leaseHolder, limitedAccounts, rates };
}
