// `bursar snapshot restore`: brings a bucket, or a prefix of it, back to what it was. The plan is
// what is different since the snapshot; each object of it is a request of S3 of its own, so that
// each is decided, charged and recorded as any copy or deletion is. Invariants: what is as it was
// is left alone, so who runs it again goes on where it ended; and what came since stays, unless
// that was asked for.
import { randomBytes } from 'node:crypto';
import type { Command } from 'commander';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import { emptySha256, signRequest } from '../core/sigv4.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi, encode, exchange, findConnection } from './api-client.ts';
import { type Columns, pathIn, printEntries } from './api-command.ts';
import { type CommandFlags, splitId } from './command-arguments.ts';
import { printJson } from './output.ts';
import { formatBytes } from './progress.ts';

type Difference = Answers['DiffSnapshot']['differences'][number];

interface RestoreFlags {
  from: string;
  prefix?: string;
  dryRun?: true;
  deleteNew?: true;
}

interface Done {
  restored: number;
  deleted: number;
  /** Came since, and stayed. */
  left: number;
  failed: { key: string; error: string }[];
}

/** Requests at once. */
const parallel = 8;

export const differences: Columns<Difference> = {
  heading: ['CHANGE', 'KEY', 'SIZE'],
  row: ({ change, key, size }) => [change, key, size === null ? '' : formatBytes(size)],
};

export function diffPath(id: string, name: string): string[] {
  return [...pathIn('buckets', id), 'snapshots', name, 'diff'];
}

export async function restore(id: string, given: RestoreFlags, command: Command): Promise<void> {
  const flags = command.optsWithGlobals<CommandFlags>();
  const connection = findConnection(flags);
  const pages = readPages(connection, id, given);
  if (given.dryRun) {
    const planned: Difference[] = [];
    for await (const page of pages) planned.push(...page.map(undoing).filter(isPlanned(given)));
    printEntries(flags.json, differences, planned, planned);
    return;
  }
  const done: Done = { restored: 0, deleted: 0, left: 0, failed: [] };
  await withMount(connection, id, given.from, async (mount) => {
    for await (const page of pages) {
      const waiting = page.values();
      const work = async (): Promise<void> => {
        for (const one of waiting) await undo(connection, { id, mount, given }, one, done);
      };
      await Promise.all(Array.from({ length: parallel }, work));
      const { restored, deleted } = done;
      if (process.stderr.isTTY) {
        process.stderr.write(`\r\x1b[K${restored} restored, ${deleted} deleted`);
      }
    }
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  });
  if (flags.json) printJson(done);
  else tell(done);
  if (done.failed.length === 0) return;
  throw new CommandFailure('failed', `${done.failed.length} could not be restored; run it again`);
}

function tell({ restored, deleted, left, failed }: Done): void {
  for (const { key, error } of failed) process.stderr.write(`${printable(key)}: ${error}\n`);
  const kept = left > 0 ? `, ${left} that came since stayed (--delete-new deletes them)` : '';
  process.stdout.write(`${restored} restored, ${deleted} deleted${kept}\n`);
}

/** What is different, page by page: objects that are restored meanwhile do not come again. */
async function* readPages(
  connection: Connection,
  id: string,
  { from, prefix }: RestoreFlags,
): AsyncGenerator<Difference[]> {
  let after: string | undefined;
  do {
    const query = { prefix, after };
    const asked = { method: 'GET', path: diffPath(id, from), query } as const;
    const page = (await callApi(connection, asked)).json as Answers['DiffSnapshot'];
    yield page.differences;
    after = page.next ?? undefined;
  } while (after !== undefined);
}

/** A change since then, as restoring changes it back. */
function undoing(one: Difference): Difference {
  const back = { added: 'deleted', deleted: 'added', changed: 'changed' } as const;
  return { ...one, change: back[one.change], size: one.sizeBefore, sizeBefore: one.size };
}

function isPlanned({ deleteNew }: RestoreFlags): (one: Difference) => boolean {
  return ({ change }) => change !== 'deleted' || deleteNew === true;
}

async function undo(
  connection: Connection & { s3Endpoint: string },
  { id, mount, given }: { id: string; mount: string; given: RestoreFlags },
  { key, change, class: storageClass }: Difference,
  done: Done,
): Promise<void> {
  const bucket = id.replace('/', ':');
  if (change === 'added' && !given.deleteNew) {
    done.left++;
    return;
  }
  try {
    if (change === 'added') {
      await askS3(connection, 'DELETE', [bucket, ...key.split('/')], {});
      done.deleted++;
      return;
    }
    const source = [mount, ...key.split('/')].map(encode).join('/');
    await askS3(connection, 'PUT', [bucket, ...key.split('/')], {
      'x-amz-copy-source': `/${source}`,
      ...(storageClass !== null && { 'x-amz-storage-class': storageClass }),
    });
    done.restored++;
  } catch (error) {
    done.failed.push({ key, error: messageOfFailure(error) });
  }
}

/** Gives the snapshot a name of its own among the caller's buckets for as long as `work` takes. */
async function withMount(
  connection: Connection,
  id: string,
  at: string,
  work: (mount: string) => Promise<void>,
): Promise<void> {
  const who = await callApi(connection, { method: 'GET', path: ['whoami'] });
  const { tenant } = who.json as Answers['WhoAmI'];
  const [bucketTenant, bucket] = splitId(id);
  const mount = `restore-${randomBytes(8).toString('hex')}`;
  const path = ['tenants', tenant, 'mounts', mount];
  await callApi(connection, { method: 'PUT', path, body: { bucketTenant, bucket, at } });
  try {
    await work(mount);
  } finally {
    await callApi(connection, { method: 'DELETE', path });
  }
}

/** Throws `CommandFailure` with the gateway's words. */
async function askS3(
  { s3Endpoint, accessKeyId, secretAccessKey: secret, region }: Connection & { s3Endpoint: string },
  method: 'PUT' | 'DELETE',
  path: readonly string[],
  more: Record<string, string>,
): Promise<void> {
  const headers = { host: new URL(s3Endpoint).host, 'content-length': '0', ...more };
  const signed = signRequest({
    ...{ method, path: `/${path.join('/')}`, query: [], headers, accessKeyId, secret, region },
    ...{ service: 's3', payloadHash: emptySha256, timeMs: Date.now() },
  });
  const url = `${s3Endpoint}/${path.map(encode).join('/')}`;
  const { status, text } = await exchange(url, method, { ...headers, ...signed }, undefined);
  // A copy may end in an error behind its status.
  const code = /<Error>.*?<Code>([^<]*)<\/Code>/s.exec(text)?.[1];
  if (status < 300 && code === undefined) return;
  const message = /<Message>([^<]*)<\/Message>/.exec(text)?.[1];
  throw new CommandFailure('failed', `${message ?? `answered ${status}`} (${code ?? status})`);
}
