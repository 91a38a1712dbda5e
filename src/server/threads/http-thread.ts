// An HTTP thread besides the main one, put together: an end of the ledger, a connection of its own
// to the database, a state of its own that follows the feed, and a server on the port that all
// share. What it cannot do for the gateway as one it has the main thread do (messages.ts).
import {
  type MessagePort,
  parentPort,
  receiveMessageOnPort,
  workerData,
} from 'node:worker_threads';
import { anonymousName } from '../../authz/identity.ts';
import { onlyPrivate } from '../../authz/oidc/address-policy.ts';
import { openDatabase } from '../../core/database.ts';
import type { ClaimOutcome } from '../../core/fair-share.ts';
import { Keyring } from '../../core/keyring.ts';
import { Sealer } from '../../core/sealing.ts';
import { verifyReads } from '../../core/seals/sealed-views.ts';
import { watchConnections } from '../../gateway/gateway-metrics.ts';
import { MainThread } from '../../gateway/http/pass-on.ts';
import { openHttpThread } from '../../gateway/http-thread.ts';
import { closeServer, connectionBounds, listenAt, listeningOf } from '../../gateway/listening.ts';
import { LogHead } from '../../gateway/log/log-head.ts';
import { readCorsRules } from '../../gateway/s3/buckets/cors.ts';
import { SealFaults } from '../../gateway/seal-faults.ts';
import { Instruments } from '../../instruments/instruments.ts';
import { makeLogger } from '../../instruments/logger.ts';
import { MetricRegistry } from '../../instruments/metric-registry.ts';
import { QuotaRefusals } from '../../instruments/quota-refusals.ts';
import { RecentRequests } from '../../instruments/recent-requests.ts';
import { RequestLog } from '../../instruments/request-log.ts';
import { RequestMetrics } from '../../instruments/request-metrics.ts';
import { watchCaches } from '../../instruments/state-metrics.ts';
import { StoreMeters } from '../../instruments/store-meter.ts';
import { watchStoreMeters } from '../../instruments/store-metrics.ts';
import { Ledger } from '../../ledger/ledger.ts';
import { DiskRoom, freeBytesOf } from '../../quota/disk-room.ts';
import { RemoteRooms } from '../../quota/remote-rooms.ts';
import { State } from '../../state/state.ts';
import { failureCauses } from '../../tiering/stores/attempt-failure.ts';
import { LocalStore } from '../../tiering/stores/local-store.ts';
import { MadeFolders } from '../../tiering/stores/made-folders.ts';
import { Stores } from '../../tiering/stores/stores.ts';
import { type Closers, closeAll, opened } from '../closers.ts';
import { dataFiles } from '../folder/data-folder.ts';
import { StorePrices } from '../folder/store-prices.ts';
import { drawSamples, openTracer } from '../instruments.ts';
import { openRequestServices } from '../request-services.ts';
import { watchThread } from '../thread-metrics.ts';
import type { FromHttpThread, HttpThreadData, ToHttpThread } from './messages.ts';
import { Questions } from './questions.ts';
import { shareOf } from './share.ts';
import { AskedTurns } from './shared-turns.ts';
import type { StoreAnswer } from './store-desk.ts';
import { ThreadStores } from './thread-stores.ts';

const port = parentPort;
if (!port) throw new Error('this is an HTTP thread of the gateway');
const data = workerData as HttpThreadData;
const config = shareOf(data.config, data.count);
const tell = (message: FromHttpThread): void => port.postMessage(message);
const warn = (text: string): void => tell({ warning: text });

/** How long lines of the log wait for others. */
const linesMs = 50;

const closers: Closers = [];
const sent = new Int32Array(data.told);
const recalls = new Questions<void>();
const promises = new Questions<ClaimOutcome>();
const storeQuestions = new Questions<StoreAnswer>();
const bulkTurns = new AskedTurns(tell);
let received = 0;
let isClosing = false;
let lines = '';
let isFlushDue = false;

const files = dataFiles(config.data);
const keyring = new Keyring(data.rootKeys);
const ledger = await Ledger.join(data.end, {
  onFatal: (reason) => tell({ fatal: reason }),
  onFailure: warn,
});
closers.push(() => ledger.close());
const db = openDatabase(files.databaseFile, { readonly: true, cacheKib: readCacheKib() });
closers.push(() => db.close());
// As on the main thread, what is read now was verified whole, and what is read later by itself.
const state = await loadState();
verifyReads(db, keyring);
ledger.feed.subscribe(state);

const sealFaults = new SealFaults();
sealFaults.replace(data.unsealed);
sealFaults.onFound((unsealed) => tell({ unsealed }));
const head = new LogHead();
if (data.refusal !== null) head.refuse(data.refusal);

const logger = makeLogger(config.logLevel, { write: collectLine });
const registry = new MetricRegistry();
const requestLog = new RequestLog({
  ...{ logger, isOn: config.requestLog, slowMs: config.slowRequestMs },
});
const samplers = config.trafficSamples
  ? [opened(closers, drawSamples(sampleTeller(), config))]
  : [];
const tracer = await openTracer(config, { registry, closers });
const recent = new RecentRequests({ anonymousName });
const instruments = new Instruments(
  [new RequestMetrics(registry), requestLog, recent, ...samplers],
  tracer,
);
registry.gauge({
  name: 'bursar_requests_under_way',
  help: 'Requests that have begun and not ended.',
  collect: () => instruments.underWay,
});
const meters = new StoreMeters(failureCauses);
watchStoreMeters(registry, meters);
const local = await LocalStore.open(files.storeFolder, {
  meter: meters.local,
  made: new MadeFolders(data.shared.madeFolders),
  onFatal: (error) => {
    tell({ fatal: `fsync failed, so what is stored is unknown; stopping. ${error}` });
    // Nothing more is answered here.
    process.exit(1);
  },
});
const rooms = new RemoteRooms({
  ask: (question) => promises.ask((promise) => tell({ promise, question })),
  close: (closedRoom) => tell({ closedRoom }),
  cameBytes: data.shared.cameBytes,
  own: new DiskRoom(freeBytesOf(files.storeFolder)),
  smallBytesMax: config.inlineBytes,
});
const stores = opened(
  closers,
  new ThreadStores({
    ...{ doors: data.doors, defaultName: data.defaultStore, count: data.count, meters },
    words: data.shared.storeWords,
    join: data.doors.length > 0 ? await joinStores() : null,
    ask: (question) => storeQuestions.ask((storeAsked) => tell({ storeAsked, question })),
    tell: (storeNews) => tell({ storeNews }),
  }),
);
const prices = new StorePrices(config, Date.now());
prices.enter(stores.gates);
const { services, memory } = openRequestServices(
  { config, closers, folder: { keyring, objectsFile: files.objectsFile } },
  {
    ...{ ledger, read: db.tx, state, sealFaults, head, prices },
    links: {
      ...{ thread: data.thread, count: data.count, shared: data.shared },
      recall: (accounts) => recalls.ask((recall) => tell({ recall, accounts })),
    },
    stores: new Stores(local, stores.gates),
    ...{ storeList: stores, journals: stores.journals, upkeep: stores },
    ...{ diskRoom: rooms, copyMemory: rooms, bulkTurns },
    witnesses: { state: () => [] },
    addresses: { publicUrl: data.publicUrl },
  },
);
const mainThread = opened(closers, new MainThread(data.socketPath));
const bounds = connectionBounds(config);
const { server, connections, caches } = openHttpThread({
  ...{ services, bounds, logger, mainThread },
  terms: {
    ...{ door: config.adminListen ? 'clients' : 'all', instruments },
    serverTiming: config.serverTiming,
  },
  metrics: new QuotaRefusals(registry),
  integrity: { count: ({ store, kind }) => tell({ integrity: { store, kind } }) },
  listenHost: data.place.host,
  acceptHosts: config.acceptHosts ?? [],
  stallTimeoutMs: config.stallTimeoutMs,
  isClosing: () => isClosing,
  follow,
});
watchOwn();
port.on('message', take);
await listenAt(server, { ...data.place, ...listeningOf(config.connectionsMax, true) });
tell({ ready: true });

/** Loading it takes memory of each thread. */
async function joinStores() {
  const { joinDriver } = await import('../../tiering/stores/drivers.ts');
  return joinDriver;
}

/** A part of what the main thread's connection keeps of the database. */
function readCacheKib(): number {
  return (64 * 1024) / data.count;
}

/** What requests are decided by, whatever is committed while it is read. */
async function loadState() {
  for (;;) {
    const before = ledger.received;
    const loaded = await State.load({
      ...{ read: db.tx, keyring, sealer: new Sealer(keyring), readCors: readCorsRules },
      issuerPolicy: onlyPrivate(config.privateIssuers ?? []),
      onProblem: warn,
      // The main thread has said so, and who is not served for it.
      onUnreadable: () => {},
    });
    await ledger.follow();
    if (ledger.received === before) return loaded;
  }
}

/** Resolves when this thread knows all that was answered for; null: it does. */
function follow(): Promise<void> | null {
  if (Atomics.load(sent, 0) !== received) takeAll();
  return ledger.follow();
}

function takeAll(): void {
  for (;;) {
    const next = receiveMessageOnPort(port as MessagePort) as { message: ToHttpThread } | undefined;
    if (!next) return;
    take(next.message);
  }
}

function take(message: ToHttpThread): void {
  if ('measure' in message) {
    const { measure: measured } = message;
    void registry.measure().then((metrics) => tell({ measured, metrics }));
    return;
  }
  if ('holds' in message) {
    const { holds: held, ids } = message;
    tell({ held, ids: ids.filter((id) => services.leases.isHeld(Buffer.from(id, 'hex'))) });
    return;
  }
  if ('recount' in message) {
    tell({ recounted: message.recount, story: recent.find(message.id) });
    return;
  }
  if ('giveUp' in message) {
    const { giveUp: gaveUp, accounts } = message;
    void services.leaseHolder.giveUpFree(accounts).then(() => tell({ gaveUp }));
    return;
  }
  if ('recalled' in message) {
    recalls.answer(message.recalled);
    return;
  }
  if ('promised' in message) {
    promises.answer(message.promised, message.outcome);
    return;
  }
  if ('storeAnswered' in message) {
    storeQuestions.answer(message.storeAnswered, message.answer);
    return;
  }
  if ('turnCame' in message) {
    bulkTurns.answer(message.turnCame);
    return;
  }
  received += 1;
  if ('unsealed' in message) sealFaults.replace(message.unsealed);
  else if ('refusal' in message) head.refuse(message.refusal);
  else if ('rootKey' in message) keyring.learn(message.rootKey);
  else if ('door' in message) stores.take(message.door);
  else void close(message.close.timeoutMs);
}

async function close(timeoutMs: number): Promise<void> {
  isClosing = true;
  await closeServer(server, timeoutMs);
  await closeAll(closers);
  flushLines();
  port?.close();
}

function watchOwn(): void {
  const { buckets, cors, objectMemory, snapshots } = services;
  watchCaches(registry, { ...caches, buckets, cors, objects: objectMemory, snapshots });
  services.bucketMetrics.watch(registry);
  watchConnections(registry, [connections]);
  watchThread(registry, { services, ...memory });
}

/** One thread keeps them. */
function sampleTeller(): Parameters<typeof drawSamples>[0] {
  return { appendSoon: async (samples) => tell({ samples }), close: async () => {} };
}

/** One thread writes the log, so that its lines stay whole. */
function collectLine(line: string): void {
  lines += line;
  if (isFlushDue) return;
  isFlushDue = true;
  setTimeout(flushLines, linesMs).unref();
}

function flushLines(): void {
  isFlushDue = false;
  if (lines !== '') tell({ lines });
  lines = '';
}
