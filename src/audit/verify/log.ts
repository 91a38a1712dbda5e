// Whether a whole log is what its signed checkpoint says: each tile, each entry, the root, and that
// it begins with what a checkpoint said that was kept from before. From the root down, so that each
// hash is compared with one that is proven already, and what is damaged is named. Memory does not
// grow with the log. Nothing is rebuilt from what is being verified and then called proof.
import { inParallel } from '../../core/in-parallel.ts';
import { parseLeaf } from '../leaf.ts';
import type { Checkpoint } from '../log/checkpoint.ts';
import { parseEntries } from '../log/entries.ts';
import { hashBytes, hashLeaf, rootOf, tileWidth } from '../log/merkle.ts';
import { pathOfTile } from '../log/tile-path.ts';
import { LogDamage, VerifiedLog } from '../log/verified-log.ts';
import type { LogSource } from './log-source.ts';
import {
  type Refused,
  refuse,
  type SignedCheckpoint,
  type Trust,
  verifyCheckpoint,
} from './signed-checkpoint.ts';

export interface LogVerification {
  trust: Trust;
  /** Checkpoints of the same log that the verifier kept from before, and verified then. */
  kept?: readonly Checkpoint[];
  /** Each thing that is wrong, once it is known; a sentence without its full stop. */
  onFinding?: (finding: string) => void;
  /** How many entries were verified so far, of how many. */
  onProgress?: (entries: number, size: number) => void;
}

/** Bundles that are read at the same time; one can be 16 MiB. */
const readsMax = 8;
/** After so many nobody needs to know where else. */
const findingsMax = 1000;

/** Throws `SourceFailure` where the source cannot be read. */
export async function verifyLog(
  source: LogSource,
  options: LogVerification,
): Promise<SignedCheckpoint | Refused> {
  const note = await source.read('checkpoint');
  if (!note) return refuse('there is no file "checkpoint" there');
  const head = verifyCheckpoint(note, options.trust);
  if (!head.ok) return head;
  try {
    const log = await VerifiedLog.open(head, source);
    for (const old of options.kept ?? []) {
      const why = await whyNotExtended(log, old);
      if (why !== null) return refuse(why);
    }
    const findings = await verifyBundles(log, source, options);
    if (findings === 0) return head;
    const count = findings < findingsMax ? `${findings}` : `${findings} and more`;
    return refuse(`it is not the log that was signed: findings: ${count}`);
  } catch (error) {
    if (error instanceof LogDamage) return refuse(error.message);
    throw error;
  }
}

/** Throws `LogDamage`. */
async function whyNotExtended(log: VerifiedLog, old: Checkpoint): Promise<string | null> {
  const { origin, size } = log.head;
  if (old.origin !== origin) return `what was kept is of another log, ${old.origin}, not ${origin}`;
  if (size < old.size) return `the log was rolled back: it has ${size} entries, not ${old.size}`;
  if ((await rootOf(log, old.size)).equals(old.root)) return null;
  return `the log was rewritten: its first ${old.size} entries are not those of before`;
}

/** Resolves with how many findings there are. */
async function verifyBundles(
  log: VerifiedLog,
  source: LogSource,
  { onFinding, onProgress }: LogVerification,
): Promise<number> {
  const { size } = log.head;
  // A tile that is damaged is met with each tile below it.
  const findings = new Set<string>();
  const report = (finding: string): void => {
    if (findings.size >= findingsMax || findings.has(finding)) return;
    findings.add(finding);
    onFinding?.(finding);
  };
  let done = 0;
  function* bundles(): Generator<number> {
    for (let index = 0; index * tileWidth < size; index += 1) {
      if (findings.size < findingsMax) yield index;
    }
  }
  await inParallel(bundles(), readsMax, async (index) => {
    for (const finding of await verifyBundle(log, source, index)) report(finding);
    done = Math.min(done + tileWidth, size);
    onProgress?.(done, size);
  });
  return findings.size;
}

/** Resolves to what is wrong with the bundle. */
async function verifyBundle(log: VerifiedLog, source: LogSource, index: number): Promise<string[]> {
  try {
    const { bytes } = await log.bundle(index);
    const foreign = numbersOf(parseEntries(bytes) ?? [], index, (entry) => !parseLeaf(entry));
    return foreign.map((number) => `entry ${number} is not of a record`);
  } catch (error) {
    if (!(error instanceof LogDamage)) throw error;
    const altered = await findAltered(log, source, index);
    const findings = altered?.map((number) => `entry ${number} was altered`);
    return findings ?? [error.message];
  }
}

/** Numbers of a bundle's entries that its tile has not; undefined: that cannot be told. */
async function findAltered(
  log: VerifiedLog,
  source: LogSource,
  index: number,
): Promise<number[] | undefined> {
  const tile = await log.tile(0, index).catch((error: unknown) => {
    if (error instanceof LogDamage) return undefined;
    throw error;
  });
  if (!tile) return undefined;
  const width = tile.bytes.length / hashBytes;
  const bundle = await source.read(pathOfTile({ level: 'entries', index, width }));
  const entries = bundle && parseEntries(bundle);
  if (entries?.length !== width) return undefined;
  return numbersOf(entries, index, (entry, at) => {
    const hash = tile.bytes.subarray(at * hashBytes, (at + 1) * hashBytes);
    return !hashLeaf(entry).equals(hash);
  });
}

/** Numbers in the log of those entries of a bundle that fit. */
function numbersOf(
  entries: readonly Uint8Array[],
  index: number,
  fits: (entry: Uint8Array, at: number) => boolean,
): number[] {
  const numbers = entries.map((entry, at) => (fits(entry, at) ? index * tileWidth + at : -1));
  return numbers.filter((number) => number >= 0);
}
