// `bursar verify log`: whether a log, as files or over HTTP, is what its checkpoint says, and
// begins with what was seen of it before. Invariant: nothing is written but the checkpoint to keep,
// whole, and only after all else was found true.
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import type { Checkpoint } from '../audit/log/checkpoint.ts';
import { verifyLog } from '../audit/verify/log.ts';
import { openLogSource, SourceFailure } from '../audit/verify/log-source.ts';
import {
  type SignedCheckpoint,
  type Trust,
  verifyCheckpoint,
} from '../audit/verify/signed-checkpoint.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { writeFileDurably } from '../core/durable-file.ts';
import { printable } from '../core/printable.ts';
import { type GivenTrust, readGivenFile, readTrust } from '../server/folder/given-trust.ts';
import { addTrustFlags, collect } from './command-arguments.ts';
import { print, printJson } from './output.ts';
import { CountProgress, formatCount } from './progress.ts';

interface LogFlags extends GivenTrust {
  since?: string[];
  keep?: string;
  json?: boolean;
}

/** Adds the command to the group `verify`. */
export function addVerifyLogCommand(verify: Command): void {
  const command = verify
    .command('log')
    .argument('<dir-or-url>', 'an exported log, or one such as https://bursar.example/_/log')
    .description('verify a whole log, with its tiles and entries; exit code 1 when it is not true');
  addTrustFlags(command)
    .option('--since <file>', 'a checkpoint that you kept: the log must extend it', collect)
    .option('--keep <file>', 'keep the checkpoint here; one that is there already is a --since')
    .option('--json', 'answer with JSON')
    .action((place: string, flags: LogFlags) => verifyPlace(place, flags));
}

async function verifyPlace(place: string, flags: LogFlags): Promise<void> {
  const trust = readTrust(flags);
  const files = [...(flags.since ?? [])];
  if (flags.keep !== undefined && existsSync(flags.keep)) files.push(flags.keep);
  const kept = files.map((file) => readKept(file, trust));
  const progress = new CountProgress(process.stderr, 'entries verified');
  const findings: string[] = [];
  const found = await refusing(() =>
    verifyLog(openLogSource(place), {
      ...{ trust, kept },
      onProgress: (entries) => progress.show(entries),
      onFinding: (finding) => {
        progress.clear();
        findings.push(finding);
        if (!flags.json) print(printable(finding));
      },
    }),
  );
  progress.clear();
  if (!found.ok) {
    if (flags.json) printJson({ ...found, findings });
    throw new CommandFailure('failed', `${place}: ${found.why}`);
  }
  if (flags.keep !== undefined) keep(flags.keep, found.note);
  conclude(found, kept, flags.json === true);
}

function conclude(found: SignedCheckpoint, kept: readonly Checkpoint[], asJson: boolean): void {
  const { origin, size, root, keyIds, witnesses } = found;
  if (asJson) {
    const since = kept.map((one) => one.size);
    printJson({ ok: true, origin, size, root: root.toString('base64'), keyIds, witnesses, since });
    return;
  }
  const by = [...keyIds, ...witnesses.map(({ name }) => name)].join(', ');
  print(`${formatCount(size)} entries of ${origin}, all as they were signed (${by})`);
  for (const one of kept) print(`it begins with the ${formatCount(one.size)} entries of before`);
  if (kept.length > 0) return;
  print('nothing was compared with before: keep its checkpoint (--keep) for the next time');
}

/** What was kept counts even if its key was revoked since: it is the verifier's own. */
function readKept(file: string, { keys, revoked = [] }: Trust): Checkpoint {
  const found = verifyCheckpoint(readGivenFile(file), { keys: [...keys, ...revoked] });
  if (found.ok) return found;
  throw new CommandFailure('failed', `${file}: ${found.why}`);
}

function keep(file: string, note: string): void {
  try {
    writeFileDurably(file, note, { mode: 0o644, ifExists: 'replace' });
  } catch (error) {
    throw new CommandFailure(
      'failed',
      `cannot keep the checkpoint: ${messageOfFailure(error)}`,
      error,
    );
  }
}

async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SourceFailure) throw new CommandFailure('failed', error.message, error);
    throw error;
  }
}
