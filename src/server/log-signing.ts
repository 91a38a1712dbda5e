// How the audit log comes to be signed at a start. Invariant: nothing is signed before what is here
// was compared with what was signed before: with the checkpoint that was kept beside the database,
// and, as far as they answer, with what the witnesses have seen.
import { listLogKeys } from '../audit/log/log-keys.ts';
import { readLogSize, storedTiles } from '../audit/log/stored-tiles.ts';
import type { LogHead } from '../gateway/log/log-head.ts';
import { Witnesses } from '../gateway/log/witnesses.ts';
import type { OperatorLog } from '../instruments/operator-log.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { LogKeyFile } from '../ledger/log-key-file.ts';
import type { Base } from './base.ts';
import { opened } from './closers.ts';
import { CheckpointKeeper, compareWithKept } from './folder/kept-checkpoint.ts';
import type { OpenLedger } from './opened-ledger.ts';

/** A start waits so long for witnesses, in which the log is not served. */
const firstRoundMs = 3000;

/** Signs the log from now on, unless it is not what was signed before: then the head says why. */
export async function beginSigning(
  { config, folder, closers, log: operatorLog }: Base,
  { ledger, read, head }: OpenLedger,
): Promise<{ logKeys: LogKeyFile; witnesses: Witnesses }> {
  const { logOrigin: named } = config;
  const logKeys = await LogKeyFile.open({ path: folder.logKeysFile, read, origin: named });
  const tiles = storedTiles(read);
  const size = await readLogSize(read);
  const names = (await listLogKeys(read)).map(({ key }) => key.name);
  const known = names.length > 0 ? names : null;
  const origin = names[0] ?? logKeys.keys[0]?.name ?? '';
  const log = { origin, known };
  const reason = await compareWithKept(folder.keptCheckpointFile, { size, tiles }, log);
  if (reason !== null) head.refuse(reason);
  if (head.refusal === null) {
    await ledger.signLog(logKeys.keys);
    await head.waitFor(size);
  }
  const onError = (error: unknown) => operatorLog.warn('witnesses were not asked', error);
  const options = { witnesses: config.witnesses ?? [], head, read, tiles, ledger, onError };
  const witnesses = opened(closers, await Witnesses.open(options, firstRoundMs));
  return { logKeys, witnesses };
}

/** Keeps the newest checkpoint that was signed in the folder. */
export function keepCheckpoints({ folder, closers, log }: Base, head: LogHead): void {
  const onError = (error: unknown) => log.warn('the checkpoint was not kept', error);
  const newest = () => head.signed;
  opened(closers, new CheckpointKeeper(folder.keptCheckpointFile, newest, onError));
}

/** To the operator's log; from then on the ledger signs nothing. */
export function announceRefusal(
  reason: string,
  { ledger, log }: { ledger: Pick<Ledger, 'signLog'>; log: OperatorLog },
): void {
  log.warn(
    `the audit log is not signed, and writes are refused: ${reason}. ` +
      'See "bursar log fork-point" and docs/admin/restore.md.',
  );
  // Where that fails, the head still takes no checkpoint that the ledger signs.
  ledger.signLog([]).catch(() => {});
}
