// `DIR/backup-stream.json`: the stream that is being shipped from a data folder, for whoever makes
// a backup of it. Invariant: what it names has been shipped, and what is committed later will be in
// later segments of that stream, or in another stream. So a copy that is begun after it was read
// has all of those it names.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isShipped, type Shipped } from '../manifest.ts';

const fileName = 'backup-stream.json';

export interface KeptStream extends Shipped {
  /** The place where the stream is shipped to. */
  place: string;
}

/** The file is not synced: after a power cut another stream is begun. */
export function keepStream(folder: string, stream: KeptStream): void {
  const path = join(folder, fileName);
  writeFileSync(`${path}.tmp`, JSON.stringify(stream), { mode: 0o600 });
  renameSync(`${path}.tmp`, path);
}

/** Null: nothing is shipped to this place. */
export function readKeptStream(folder: string, place: string): Shipped | null {
  let kept: unknown;
  try {
    kept = JSON.parse(readFileSync(join(folder, fileName), 'utf8'));
  } catch {
    return null;
  }
  if (!isShipped(kept) || (kept as KeptStream).place !== place) return null;
  const { stream, seq } = kept;
  return { stream, seq };
}
