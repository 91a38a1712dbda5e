// One run of `bursar verify deep` on a data folder. Invariants: it changes nothing there; what it
// keeps of a run is in a file elsewhere; and whatever is in the folder, it ends with what it found,
// or with one line that says why it could not go on.

import { createHmac } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { guarded, messageOfError } from '../../audit/verify/guard.ts';
import type { Difference } from '../../audit/verify/record-fields.ts';
import { afterwards } from '../../core/closing.ts';
import { CommandFailure } from '../../core/command-failure.ts';
import { removeDatabase } from '../../core/database.ts';
import type { Keyring } from '../../core/keyring.ts';
import { readVersion } from '../../core/version.ts';
import { DataVerifier, type VerifyPosition } from '../../gateway/data-verifier.ts';
import { type Compared, DeepComparison } from '../../ledger/deep/deep-comparison.ts';
import { Staging } from '../../ledger/deep/staging.ts';
import { checkEpochs } from '../../ledger/key-epochs.ts';
import { type DataSettings, databaseOf } from './data-folder.ts';
import { compareObjectIndex } from './deep-objects.ts';
import { type DeepParts, openDeepParts, readSigned, type Signed } from './deep-parts.ts';

export interface DeepOptions {
  checkpointFiles: readonly string[];
  /** Verifier keys of the log that the checkpoints are of; none: those in the folder. */
  keys: readonly string[];
  withData: boolean;
  /** Where the position of the run is kept; undefined: nowhere. */
  stateFile?: string | undefined;
  /** A position that cannot be used is removed, and the run begins anew. */
  mayBeginAnew?: boolean;
  /** How long a slice takes. The position is kept after each slice. */
  sliceMs?: number;
  onDifference: (difference: Difference) => void;
  /** `of`: what is counted. */
  onProgress: (of: string, count: number) => void;
}

export interface DeepSummary extends Compared {
  bytes: number;
  /** Names of stores that are not configured, or do not answer. */
  storesSkipped: string[];
  checkpoints: { from: string; size: number }[];
  differences: number;
}

type Comparison = DeepComparison<DataProgress>;

/** How far the stored bytes have been read. */
interface DataProgress {
  /** How many of the buckets that can be read are done. */
  buckets: number;
  /** The position in the bucket after those. */
  position: VerifyPosition | null;
  bytes: number;
  rows: number;
  /** How many slices in a row made no progress. */
  stalled: number;
}

/** On a slow machine the time of a slice may be over before it has read anything. */
const stalledMax = 10;
const sliceMsDefault = 2000;
const sliceBytesMax = 64 * 1024 * 1024;

/** Throws `CommandFailure`. */
export async function verifyDeep(
  config: Parameters<typeof openDeepParts>[0],
  options: DeepOptions,
): Promise<DeepSummary> {
  try {
    return await verifyFolder(config, options);
  } catch (error) {
    if (error instanceof CommandFailure) throw error;
    const { stateFile } = options;
    const rest = stateFile === undefined ? '' : `; --resume ${stateFile} goes on from here`;
    const message = `${config.data} could not be compared: ${messageOfError(error)}${rest}`;
    throw new CommandFailure('failed', message, error);
  }
}

async function verifyFolder(
  config: Parameters<typeof openDeepParts>[0] & DataSettings,
  options: DeepOptions,
): Promise<DeepSummary> {
  databaseOf(config);
  const parts = await openDeepParts(config);
  await using _parts = afterwards(() => parts.close());
  const { checkpointFiles: files, keys } = options;
  const signed = await readSigned(parts, { files, keys });
  return await withStaging(parts, options, (staging) =>
    compare(parts, { signed, staging, options }),
  );
}

/** Runs with the kept position, which is removed when the run has come to its end. */
async function withStaging<R>(
  { folder: { keyring } }: DeepParts,
  { stateFile, mayBeginAnew = false }: DeepOptions,
  run: (staging: Staging) => Promise<R>,
): Promise<R> {
  const folder = stateFile === undefined ? mkdtempSync(join(tmpdir(), 'bursar-verify-')) : null;
  const file = stateFile ?? join(folder as string, 'state.db');
  try {
    const staging = await openStaging(file, keyOf(keyring), mayBeginAnew);
    let result: R;
    try {
      result = await run(staging);
    } finally {
      staging.close();
    }
    removeDatabase(file);
    return result;
  } finally {
    if (folder) rmSync(folder, { recursive: true, force: true });
  }
}

/** The key of this release's runs: other releases may replay records in other ways. */
function keyOf(keyring: Keyring): Buffer {
  const key = keyring.deepKey(keyring.currentEpoch);
  return createHmac('sha256', key).update(readVersion()).digest();
}

async function openStaging(file: string, key: Buffer, mayBeginAnew: boolean): Promise<Staging> {
  try {
    return await Staging.open(file, key);
  } catch (error) {
    if (mayBeginAnew) {
      removeDatabase(file);
      return openStaging(file, key, false);
    }
    throw new CommandFailure('usage', `cannot go on from ${file}: ${messageOfError(error)}`, error);
  }
}

async function compare(
  parts: DeepParts,
  { signed, staging, options }: { signed: Signed; staging: Staging; options: DeepOptions },
): Promise<DeepSummary> {
  const { database, openStore, storesSkipped } = parts;
  const { onDifference, onProgress, sliceMs = sliceMsDefault } = options;
  const { checkpoints } = signed;
  const compared = { database, openStore, staging, checkpoints, onDifference };
  const comparison: Comparison = await DeepComparison.open(compared);
  if (comparison.records === 0) {
    for (const refused of signed.refused) comparison.tell(refused);
    const { keyring } = parts.folder;
    await guarded(comparison.tell, 'root keys', () => checkEpochs(database.tx, keyring));
  }
  do onProgress('records compared', comparison.records);
  while ((await comparison.advance(sliceMs)) !== null);
  onProgress('records compared', comparison.records);
  const { folder, services } = parts;
  await compareObjectIndex({
    ...{ indexPath: folder.objectsFile, read: services.read, openStore },
    tell: comparison.tell,
    onProgress: (count) => onProgress('indexed objects compared', count),
  });
  const bytes = options.withData ? await readData(parts, comparison, options) : 0;
  return {
    ...(comparison.compared as Compared),
    ...{ bytes, storesSkipped, differences: comparison.differences },
    checkpoints: checkpoints.map(({ from, size }) => ({ from, size })),
  };
}

/** Gives how many bytes of objects were read. */
async function readData(
  { services, buckets, openNumbers }: DeepParts,
  comparison: Comparison,
  { onProgress }: DeepOptions,
): Promise<number> {
  const verifier = new DataVerifier(services, (store) => openNumbers.includes(store));
  let done = comparison.more ?? {
    buckets: 0,
    position: null,
    bytes: 0,
    rows: 0,
    stalled: 0,
  };
  while (done.buckets < buckets.length) {
    const { tenant, name } = buckets[done.buckets] as (typeof buckets)[number];
    try {
      done = await readSlice(verifier, { tenant, bucket: name, done, comparison });
    } catch (error) {
      const what = `what is stored in it could not be read to the end: ${messageOfError(error)}`;
      comparison.tell({ where: `bucket ${tenant}/${name}`, what });
      done = { ...done, buckets: done.buckets + 1, position: null, stalled: 0 };
    }
    onProgress('versions and parts read', done.rows);
    comparison.more = done;
    await comparison.commit();
  }
  return done.bytes;
}

async function readSlice(
  verifier: DataVerifier,
  of: { tenant: string; bucket: string; done: DataProgress; comparison: Comparison },
): Promise<DataProgress> {
  const { tenant, bucket, done, comparison } = of;
  const scope = { tenant, bucket, prefix: '' };
  const { position: from } = done;
  const slice = await verifier.verify({ scope, position: from, bytesMax: sliceBytesMax });
  for (const { place, error, isLost } of slice.findings) {
    if (isLost) continue;
    const what = 'uploadId' in place ? `part ${place.number} of` : `version ${place.seq} of`;
    comparison.tell({ where: `${what} ${place.key}`, what: error.message });
  }
  const { position } = slice;
  const isStalled = position !== null && JSON.stringify(position) === JSON.stringify(from);
  const stalled = isStalled ? done.stalled + 1 : 0;
  if (stalled > stalledMax) throw new Error('its rows have keys that no gateway gives');
  const buckets = position ? done.buckets : done.buckets + 1;
  const [bytes, rows] = [done.bytes + slice.bytes, done.rows + slice.rows];
  return { buckets, position, bytes, rows, stalled };
}
