// Where `bursar log export` writes: a folder, or a bucket. Invariants: a name leads to a whole file
// or to none, and what is served with which headers follows from the path alone.
// Specification: C2SP tlog-tiles.
import { randomBytes } from 'node:crypto';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { LogTarget } from '../audit/log/log-export.ts';
import { folderSource } from '../audit/verify/log-source.ts';
import { syncPath, writeSynced } from '../core/durable-file.ts';
import type { S3Files, S3FilesOptions } from '../tiering/stores/s3/s3-files.ts';

export interface ClosableTarget extends LogTarget {
  close(): Promise<void>;
}

/** Anybody may read it. */
const fileMode = 0o644;

export async function openFolderTarget(folder: string): Promise<ClosableTarget> {
  // No name of the log begins with a dot. What a killed export has left here is of no use.
  const incoming = join(folder, '.incoming');
  await rm(incoming, { recursive: true, force: true });
  await mkdir(incoming, { recursive: true });
  const touched = new Set<string>([resolve(folder)]);
  return {
    ...folderSource(folder),
    write: async (path, bytes) => {
      const to = join(folder, path);
      const temporary = join(incoming, randomBytes(8).toString('hex'));
      const options = { flags: 'wx', mode: fileMode } as const;
      await writeSynced(temporary, options, (file) => file.writeFile(bytes));
      await mkdir(dirname(to), { recursive: true });
      await rename(temporary, to);
      // The folders above it may be new as well.
      for (let at = dirname(path); at !== '.'; at = dirname(at)) touched.add(resolve(folder, at));
    },
    settle: async () => {
      for (const one of touched) await syncPath(one);
      touched.clear();
      touched.add(resolve(folder));
    },
    dropPartials: (path) => rm(join(folder, `${path}.p`), { recursive: true, force: true }),
    close: () => rm(incoming, { recursive: true, force: true }),
  };
}

/** Partial tiles stay: to find them would need the right to list. */
export async function openS3Target(options: S3FilesOptions): Promise<ClosableTarget> {
  // The SDK takes longer to load than all else that the other commands do.
  const { S3Files: Files } = await import('../tiering/stores/s3/s3-files.ts');
  const files: S3Files = await Files.open(options);
  return {
    read: (path) => files.get(path),
    write: (path, bytes) => files.put(path, Buffer.from(bytes), headersOf(path)),
    settle: async () => {},
    dropPartials: async () => {},
    close: () => files.close(),
  };
}

/** The headers that the specification demands of servers. */
function headersOf(path: string): Record<string, string> {
  return path.startsWith('tile/')
    ? {
        'content-type': 'application/octet-stream',
        'cache-control': 'public, max-age=31536000, immutable',
      }
    : { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-cache' };
}
