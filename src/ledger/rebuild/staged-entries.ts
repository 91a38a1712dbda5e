// What is taken into the staging of a rebuild (staging.ts): of all that is said of a bucket, its
// settings, or a version the newest stays, whatever the order in which it is read; of two that are
// equally new, that there is nothing, since only a later look can have found that.
import { placedMs } from '../../catalog/versions.ts';
import type { Tx } from '../../core/database.ts';
import { decodeManifest } from '../../core/manifest.ts';
import { archiveTenant } from '../archive/pack-entry.ts';
import type { BucketEntry, Entry, VersionEntry } from '../journal/format.ts';
import type { StagedExtent } from './staging.ts';

export async function takeEntry(tx: Tx, store: number, entry: Entry): Promise<void> {
  switch (entry.kind) {
    case 'bucket':
      return takeBucket(tx, store, entry);
    case 'settings':
      await tx.run(
        `INSERT INTO settings VALUES (?, ?, ?) ON CONFLICT DO UPDATE
           SET told_seq = excluded.told_seq, documents = excluded.documents
           WHERE excluded.told_seq > told_seq`,
        entry.bucketId,
        entry.toldSeq,
        JSON.stringify(entry.documents),
      );
      return;
    case 'bucketGone':
      await tx.run(
        'INSERT INTO buckets VALUES (?, ?, 0, NULL) ON CONFLICT DO UPDATE SET entry = NULL',
        ...[entry.id, store],
      );
      return;
    case 'version':
      return takeVersion(tx, { ...entry, timeMs: placedMs(entry), text: JSON.stringify(entry) });
    case 'gone':
      return takeVersion(tx, { ...entry, seq: null, text: null });
    case 'garbage': {
      const sql = 'INSERT OR IGNORE INTO garbage VALUES (?)';
      for (const id of entry.ids) await tx.run(sql, Buffer.from(id, 'hex'));
    }
  }
}

async function takeBucket(tx: Tx, store: number, entry: BucketEntry): Promise<void> {
  const { id, toldSeq } = entry;
  const known = await tx.get<{ store: number }>('SELECT store FROM buckets WHERE id = ?', id);
  if (known && known.store !== store) {
    await tx.run('INSERT INTO conflicts VALUES (?)', `${entry.tenant}/${entry.name}`);
    return;
  }
  await tx.run(
    `INSERT INTO buckets VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
       SET told_seq = excluded.told_seq, entry = excluded.entry
       WHERE buckets.entry IS NOT NULL AND excluded.told_seq > told_seq`,
    id,
    store,
    toldSeq,
    JSON.stringify(entry),
  );
}

interface Said {
  bucketId: number;
  key: string;
  versionId: string | null;
  toldSeq: number;
  timeMs: number;
  /** JSON of a VersionEntry, and its `seq`; null: there is no such version. */
  text: string | null;
  seq: number | null;
}

async function takeVersion(tx: Tx, said: Said): Promise<void> {
  const { bucketId, key, versionId, toldSeq, timeMs, text, seq } = said;
  const known = await tx.get<{ toldSeq: number; text: string | null; seq: number | null }>(
    `SELECT told_seq AS toldSeq, entry AS text, seq FROM versions
       WHERE bucket_id = ? AND key = ? AND version_id = ?`,
    ...[bucketId, key, versionId ?? ''],
  );
  const isNewer = !known || toldSeq > known.toldSeq || (toldSeq === known.toldSeq && text === null);
  // The same version again, of another object of the journal, replaces nothing.
  if (known && known.seq !== seq) await noteReplaced(tx, isNewer ? known.text : text);
  if (!isNewer) return;
  await tx.run(
    'INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, 0)',
    ...[bucketId, key, versionId ?? '', toldSeq, timeMs, text, seq],
  );
}

/** The extents of a version that the journal tells the end of. */
export async function noteReplaced(tx: Tx, text: string | null): Promise<void> {
  if (text === null) return;
  const { manifest, seq } = JSON.parse(text) as VersionEntry;
  const sql = 'INSERT OR IGNORE INTO replaced VALUES (?, ?)';
  for (const { id } of decodeManifest(Buffer.from(manifest, 'base64'))) await tx.run(sql, id, seq);
}

/**
 * Whether a journal has to tell of the bucket of an extent. `byTime`: if the extent was begun after
 * the journal's snapshot, which has all that was there.
 */
export type MustBeTold = 'always' | 'never' | 'byTime';

export async function takeMetadata(
  tx: Tx,
  extent: StagedExtent,
  mustBeTold: MustBeTold,
): Promise<void> {
  const { id, store, trailerBytes, metadata } = extent;
  const { tenant, bucket, key, upload, extentBytes } = metadata;
  if (tenant === archiveTenant) {
    await tx.run('INSERT OR IGNORE INTO packs (id, store) VALUES (?, ?)', id, store);
    return;
  }
  // The journals were taken before.
  if (
    mustBeTold !== 'never' &&
    !(await tx.get('SELECT 1 FROM buckets WHERE id = ?', metadata.bucketId))
  ) {
    await tx.run(
      `INSERT INTO untold VALUES (?, ?, ?)
         ON CONFLICT DO UPDATE SET time_ms = max(time_ms, excluded.time_ms)`,
      store,
      `${tenant}/${bucket}`,
      // Ids begin with the time (core/ids.ts).
      mustBeTold === 'always' ? Number.MAX_SAFE_INTEGER : id.readUIntBE(0, 6),
    );
  }
  if (upload) {
    await tx.run(
      `INSERT INTO uploads VALUES (?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes`,
      upload.id,
      `${tenant}/${bucket}`,
      ...[key, extentBytes],
    );
    return;
  }
  await tx.run(
    'INSERT OR IGNORE INTO writes VALUES (?, ?, ?, ?, ?, ?, ?)',
    store,
    metadata.write,
    metadata.index,
    id,
    trailerBytes,
    JSON.stringify(metadata),
    metadata.last?.timeMs ?? null,
  );
}
