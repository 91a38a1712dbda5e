// Archives records in a process of its own, which kills itself before the step of the given number:
// node archive-run.mjs DATABASE STORE-FOLDER TILES-PER-PACK STEP [S3-STORE]. Prints the steps when
// it came to the end. S3-STORE: the options of one, as JSON, which takes the packs then.
import { openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { StoreMeter } from '#bursar/instruments/store-meter.js';
import { Archiver } from '#bursar/ledger/archive/archiver.js';
import { partReader } from '#bursar/ledger/archive/part-reader.js';
import { IntentPool } from '#bursar/ledger/intent-pool.js';
import { Ledger } from '#bursar/ledger/ledger.js';
import { BufferPool } from '#bursar/tiering/buffer-pool.js';
import { DigestPool } from '#bursar/tiering/digest-pool.js';
import { ObjectReader } from '#bursar/tiering/object-reader.js';
import { ObjectWriter } from '#bursar/tiering/object-writer.js';
import { failureCauses } from '#bursar/tiering/stores/attempt-failure.js';
import { LocalStore } from '#bursar/tiering/stores/local-store.js';
import { Stores } from '#bursar/tiering/stores/stores.js';

const [path, folder, tilesPerPack, killAt, remoteOptions] = process.argv.slice(2);
const rootKeys = [{ epoch: 1, key: Buffer.alloc(32, 7) }];
const keyring = new Keyring(rootKeys);
const steps = [];

/** What is before one step is behind the one before it. */
function take(name, work) {
  if (steps.length === Number(killAt)) process.kill(process.pid, 'SIGKILL');
  steps.push(name);
  return work();
}

/** Its driver takes longer to load than all else. */
async function openRemote(options) {
  const { S3Store } = await import('#bursar/tiering/stores/s3/s3-store.js');
  return S3Store.open({ ...options, meter: new StoreMeter({ causes: failureCauses }) });
}

const fail = (reason) => {
  throw new Error(reason);
};
const ledger = await Ledger.open({
  path,
  rootKeys,
  priceBooks: [],
  onFatal: fail,
  onFailure: fail,
});
const db = openDatabase(path, { readonly: true, cacheKib: 1024 });
const buffers = new BufferPool({});
const digests = new DigestPool({ buffers });
const remote = remoteOptions && (await openRemote(JSON.parse(remoteOptions)));
const stores = new Stores(await LocalStore.open(folder), remote ? [remote] : []);
const writer = new ObjectWriter({ keyring, stores, digests, buffers });
const reader = new ObjectReader({ keyring, stores, digests, buffers });
const readPart = partReader(reader, String);
const counted = { maintain: (work) => take(work.kind, () => ledger.maintain(work)) };
const archiver = new Archiver({
  path,
  read: db.tx,
  ledger: counted,
  intents: new IntentPool(counted),
  writer: {
    begin: (write) => {
      const sink = writer.begin(write);
      return {
        write: (bytes) => take('write', async () => sink.write(bytes)),
        digest: () => take('digest', async () => sink.digest()),
        seal: (digests, description) => take('seal', () => sink.seal(digests, description)),
        abort: () => sink.abort(),
      };
    },
  },
  readPart: (part) => take('read back', () => readPart(part)),
  mayArchive: () => true,
  store: remote ? remote.number : 1,
  afterMs: 0,
  intervalMs: 1000,
  tilesPerPack: Number(tilesPerPack),
  onError: fail,
});
await archiver.archive();
await take('end', async () => {});
db.close();
await digests.close();
await ledger.close();
await remote?.close();
process.stdout.write(JSON.stringify(steps));
