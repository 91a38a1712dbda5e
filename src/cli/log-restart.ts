// The log goes on under another name and with a new key, by a record that says so: what is to be
// done when the log that is here may not be the one that was signed (docs/admin/restore.md).
import { existsSync } from 'node:fs';
import { checkpointOf } from '../audit/log/checkpoint.ts';
import { listLogKeys } from '../audit/log/log-keys.ts';
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { CommandFailure } from '../core/command-failure.ts';
import type { Reader } from '../core/database.ts';
import type { RootKey } from '../core/keyring.ts';
import { defaultTenant, rootPrincipal } from '../core/principal.ts';
import { Ledger } from '../ledger/ledger.ts';
import { LogKeyFile } from '../ledger/log-key-file.ts';
import { readKeptCheckpoint } from '../server/folder/kept-checkpoint.ts';
import type { StorePrices } from '../server/folder/store-prices.ts';

export interface RenamedLog {
  origin: string;
  reason: string;
  /** The command that the record names. */
  source: string;
}

interface LogParts {
  ledger: Ledger;
  read: Reader;
  logKeysFile: string;
  keptCheckpointFile: string;
}

/** Gives the name that the log had; null: it was never signed, and nothing was done. */
export async function renameLog(parts: LogParts, asked: RenamedLog): Promise<string | null> {
  const { read, logKeysFile, keptCheckpointFile } = parts;
  const { origin } = asked;
  const rows = await listLogKeys(read);
  const before = rows[0]?.key.name;
  if (before === undefined) return null;
  if (rows.some(({ key }) => key.name === origin)) {
    throw new CommandFailure('failed', `the log was called ${origin} before`);
  }
  const options = { path: logKeysFile, read };
  const file = existsSync(logKeysFile) ? await LogKeyFile.open(options) : LogKeyFile.lost(options);
  const key = await file.add(origin);
  const kept = readKeptCheckpoint(keptCheckpointFile);
  await commitRestart(parts.ledger, key, { ...asked, before, kept });
  return before;
}

/** Whoever may use the data folder is the operator; the record names no access key. */
async function commitRestart(
  ledger: Ledger,
  key: Awaited<ReturnType<LogKeyFile['add']>>,
  { before, reason, source, kept }: RenamedLog & { before: string; kept: string | null },
): Promise<void> {
  const signed = kept === null ? undefined : checkpointOf(kept);
  const result = await ledger.commit({
    change: { kind: 'rotateLogKey', key, retireMs: 0 },
    charge: null,
    record: draftRecord(unasked(defaultTenant, rootPrincipal), ownOrigin(source), {
      action: 'bursar:RestartLog',
      target: `log/${key.name}`,
      change: {
        before,
        reason,
        ...(signed && { signedSize: signed.size, signedRoot: signed.root.toString('base64') }),
      },
      status: 200,
    }),
  });
  if (!result.ok) throw new Error(`the restart was not recorded: ${result.code}`);
}

/** The ledger of a command that no gateway serves beside: what it cannot do ends the command. */
export function openLedger(
  path: string,
  rootKeys: readonly RootKey[],
  prices: StorePrices,
): Promise<Ledger> {
  return Ledger.open({
    path,
    rootKeys,
    priceBooks: [...prices.books],
    onFatal: (why) => {
      process.stderr.write(`bursar: the ledger cannot go on, stopping: ${why}\n`);
      process.exit(1);
    },
    onFailure: (why) => process.stderr.write(`bursar: a commit failed: ${why}\n`),
  });
}
