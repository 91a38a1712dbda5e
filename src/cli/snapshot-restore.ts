// `bursar snapshot restore`: brings a bucket, or a prefix of it, back to what it was. The plan is
// what is different since then. Invariants: what is as it was is left alone; and what came since
// stays, unless that was asked for.
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi } from './api-client.ts';
import { type Columns, printEntries } from './api-command.ts';
import { checkAll, copyBack, deleteObject, type Failed, forEachObject } from './bring-back.ts';
import { findSnapshots, type SnapshotsPlace } from './bucket-names.ts';
import type { CommandFlags } from './command-arguments.ts';
import { findConnection } from './find-connection.ts';
import { printJson } from './output.ts';

type Difference = Answers['DiffSnapshot']['differences'][number];

interface RestoreFlags {
  prefix?: string;
  dryRun?: true;
  deleteNew?: true;
}

interface Done {
  restored: number;
  deleted: number;
  /** Came since, and stayed. */
  left: number;
  failed: Failed[];
}

export const differences: Columns<Difference> = {
  heading: ['CHANGE', 'KEY', 'SIZE'],
  row: ({ change, key, size }) => [change, key, size === null ? '' : formatBytes(size)],
};

/** `from`: a snapshot, or a time. */
export async function restore(
  text: string,
  from: string,
  given: RestoreFlags,
  command: Command,
): Promise<void> {
  const flags = command.optsWithGlobals<CommandFlags>();
  const connection = findConnection(flags);
  const place = await findSnapshots(connection, text, given.prefix);
  const all = readDifferences(connection, place, from);
  if (given.dryRun) {
    const planned: Difference[] = [];
    for await (const one of all) planned.push(undoing(one));
    const shown = planned.filter(isPlanned(given));
    printEntries(flags.json, differences, shown, shown);
    return;
  }
  const done: Done = { restored: 0, deleted: 0, left: 0, failed: [] };
  done.failed = await forEachObject(all, 'objects dealt with', async ({ change, key, ...one }) => {
    if (change === 'added' && !given.deleteNew) done.left++;
    else if (change === 'added') {
      await deleteObject(connection, place, { key });
      done.deleted++;
    } else {
      const { class: of, index } = one;
      await copyBack(connection, place, { key, class: of, versionId: null, index });
      done.restored++;
    }
  });
  if (flags.json) printJson(done);
  else tell(done);
  checkAll(done.failed, flags.json);
}

function tell({ restored, deleted, left }: Done): void {
  const kept = left > 0 ? `, ${left} that came since stayed (--delete-new deletes them)` : '';
  process.stdout.write(`${restored} restored, ${deleted} deleted${kept}\n`);
}

/** What is different, page by page: objects that are restored meanwhile do not come again. */
async function* readDifferences(
  connection: Connection,
  { path, prefix }: SnapshotsPlace,
  from: string,
): AsyncGenerator<Difference & { index: number }> {
  let after: string | undefined;
  do {
    const query = { prefix, after };
    const asked = { method: 'GET', path: [...path, from, 'diff'], query } as const;
    const page = (await callApi(connection, asked)).json as Answers['DiffSnapshot'];
    for (const one of page.differences) yield { ...one, index: page.index };
    after = page.next ?? undefined;
  } while (after !== undefined);
}

/** A change since then, as restoring changes it back. */
function undoing({ key, change, size, sizeBefore, class: of }: Difference): Difference {
  const back = { added: 'deleted', deleted: 'added', changed: 'changed' } as const;
  return { key, change: back[change], size: sizeBefore, sizeBefore: size, class: of };
}

function isPlanned({ deleteNew }: RestoreFlags): (one: Difference) => boolean {
  return ({ change }) => change !== 'deleted' || deleteNew === true;
}
