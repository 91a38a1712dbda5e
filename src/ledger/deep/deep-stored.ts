// What counts what is stored, against the rows that it counts: how often manifests name an extent,
// which decides whether its bytes are kept, and what a bucket keeps of each class, which is charged
// by time. Neither is in the records; both follow from rows that are compared with these.
// Invariant: what is told is what would lose bytes, or charge another amount; an extent that is
// counted too often is kept, as those of damaged rows are.

import { randomBytes } from 'node:crypto';
import { guarded } from '../../audit/verify/guard.ts';
import { billedParts } from '../../catalog/billed-bytes.ts';
import { extentState } from '../../catalog/extents.ts';
import { heldBytesSql, heldSums } from '../../catalog/held-totals.ts';
import { longManifestOf, manifestOf } from '../../catalog/long-manifests.ts';
import type { Reader } from '../../core/database.ts';
import { decodeManifest, type ExtentRun } from '../../core/manifest.ts';
import { archiveTenant } from '../archive/pack-entry.ts';
import { type Comparison, show, type Walked, walkTable } from './compared-things.ts';
import type { StagedMap, Staging } from './staging.ts';

/** What names extents. */
interface Naming {
  /** What it is called. */
  where: string;
  manifest: unknown;
  /** The number of its long manifest, which names the extents in its place; null: it has none. */
  longManifest?: unknown;
  /** Whose extents they are; null: of a bucket that is gone. */
  tenant: string | null;
  /** Of what is charged by time; absent: it is not. `partOf`: the class of the part that it is. */
  charged?: { place: string; bytes: unknown; size: unknown; partOf?: string };
}

interface ExtentRow {
  state: unknown;
  store: unknown;
  tenant: unknown;
}

export class DeepStored {
  /** By tenant, bucket and class, bytes, decimal. */
  readonly #billed: StagedMap<string>;

  constructor(staging: Staging) {
    this.#billed = staging.map('billed');
  }

  visit(): void {}

  async finish(read: Reader, { tell }: Comparison): Promise<void> {
    const counts = new ReferenceCounts();
    const uses = new Map<unknown, number>();
    for (const list of [...versionTables.map(versionsOf), listParts, listPacks]) {
      await guarded(tell, 'what names extents', async () => {
        for await (const naming of list(read)) {
          const { where, longManifest: long = null } = naming;
          if (long !== null) uses.set(long, (uses.get(long) ?? 0) + 1);
          await guarded(tell, where, () => this.#add(read, naming, { counts, tell }));
        }
      });
    }
    await guarded(tell, 'long manifests', () => addLongManifests(read, uses, { counts, tell }));
    await guarded(tell, 'extents', () => compareReferences(read, counts, tell));
    await guarded(tell, 'what is charged by time', () => this.#compareLevels(read, tell));
    await guarded(tell, 'what snapshots hold', () => compareHeldTotals(read, tell));
  }

  async #add(
    read: Reader,
    { where, manifest, longManifest = null, tenant, charged }: Naming,
    { counts, tell }: { counts: ReferenceCounts; tell: Comparison['tell'] },
  ): Promise<void> {
    if (charged) {
      const { place, size, partOf } = charged;
      const of = { class: partOf ?? '', sizeBytes: Number(size) };
      const bytes = partOf && tenant ? await billedParts(read, tenant, of) : charged.bytes;
      const isCount = Number.isSafeInteger(bytes) && (bytes as number) >= 0;
      if (!isCount || (bytes as number) < (size as number)) {
        tell({ where, what: `it is billed as ${show(bytes)} bytes, and has ${show(size)}` });
      }
      const sum = BigInt((await this.#billed.get(place)) ?? 0);
      await this.#billed.set(place, String(sum + BigInt(isCount ? (bytes as number) : 0)));
    }
    if (longManifest !== null && (manifest as Uint8Array).length === 0) {
      tell({ where, what: `its long manifest ${show(longManifest)} is not there` });
    }
    for (const run of decodeManifest(manifest as Uint8Array)) {
      if (longManifest === null) counts.add(run.id, 1);
      const fault = await findFault(read, run, tenant);
      if (fault) tell({ where, what: `its extent ${run.id.toString('hex')} ${fault}` });
    }
  }

  async #compareLevels(read: Reader, tell: Comparison['tell']): Promise<void> {
    const walked = {
      columns: 'tenant, bucket, class, CAST(billed_bytes AS TEXT) AS bytes',
      from: 'quota_storage',
      keys: ['tenant', 'bucket', 'class'],
    };
    for await (const row of walkTable<Record<string, unknown>>(read, walked)) {
      const place = placeOf(row.tenant, row.bucket, row.class);
      const sum = (await this.#billed.get(place)) ?? '0';
      await this.#billed.delete(place);
      if (row.bytes === sum) continue;
      const what = `it is charged for ${show(row.bytes)} bytes, and keeps ${sum}`;
      tell({ where: shownPlace(place), what });
    }
    for await (const [place, sum] of this.#billed.entries()) {
      if (sum === '0') continue;
      tell({ where: shownPlace(place), what: `it is charged for nothing, and keeps ${sum} bytes` });
    }
  }
}

/** Long manifests name extents too; `uses`: how often rows of versions name each. */
async function addLongManifests(
  read: Reader,
  uses: ReadonlyMap<unknown, number>,
  { counts, tell }: { counts: ReferenceCounts; tell: Comparison['tell'] },
): Promise<void> {
  for await (const { manifest } of listLongManifests(read)) {
    for (const { id } of runsOf(manifest)) counts.add(id, 1);
  }
  const uncounted = new Set(uses.keys());
  const walked = { columns: 'id, uses', from: 'long_manifest_uses', keys: ['id'] };
  for await (const row of walkTable<{ id: unknown; uses: unknown }>(read, walked)) {
    const named = uses.get(row.id) ?? 0;
    uncounted.delete(row.id);
    if (Number.isSafeInteger(row.uses) && (row.uses as number) >= named) continue;
    const what = `${named} versions name it, and it is counted as named by ${show(row.uses)}`;
    tell({ where: `long manifest ${show(row.id)}`, what });
  }
  for (const id of uncounted) {
    tell({ where: `long manifest ${show(id)}`, what: 'it is not counted who names it' });
  }
}

/** What each snapshot holds, against the rows of what it holds. */
async function compareHeldTotals(read: Reader, tell: Comparison['tell']): Promise<void> {
  const counted = `SELECT bucket_id, holder, count(*) AS versions,
    sum(${heldBytesSql}) AS bytes
    FROM held_versions GROUP BY bucket_id, holder`;
  const rows = await read.all<{ bucket: number; holder: number }>(
    `SELECT bucket_id AS bucket, holder FROM (
       SELECT * FROM (${counted} EXCEPT SELECT bucket_id, holder, versions, bytes FROM ${heldSums})
       UNION SELECT * FROM (SELECT bucket_id, holder, versions, bytes FROM ${heldSums}
         WHERE versions <> 0 OR bytes <> 0 EXCEPT ${counted})) LIMIT ?`,
    totalsShownMax,
  );
  for (const { bucket, holder } of rows) {
    const where = `snapshot ${show(holder)} of bucket ${show(bucket)}`;
    tell({ where, what: 'what it holds is not what is counted' });
  }
}

const totalsShownMax = 100;

/** What of an extent's row would lose its bytes; undefined: nothing. */
async function findFault(
  read: Reader,
  { id, store }: ExtentRun,
  tenant: string | null,
): Promise<string | undefined> {
  const sql = 'SELECT state, store, tenant FROM extents WHERE id = ?';
  const row = await read.get<ExtentRow>(sql, id);
  if (!row) return 'is not there';
  if (row.state !== extentState.live) return 'is to be removed';
  if (row.store !== store) return `is in store ${show(row.store)}, not ${store}`;
  if (tenant === null || row.tenant === tenant) return undefined;
  return `is of tenant ${show(row.tenant)}`;
}

async function compareReferences(
  read: Reader,
  counts: ReferenceCounts,
  tell: Comparison['tell'],
): Promise<void> {
  const columns = 'id, refs';
  const where = `state = ${extentState.live}`;
  const walked = { columns, from: 'extents', where, keys: ['id'] };
  for await (const { id, refs } of walkTable<{ id: Buffer; refs: number }>(read, walked)) {
    if (id instanceof Uint8Array && Number.isSafeInteger(refs)) counts.add(id, -refs);
    else tell({ where: `extent ${show(id)}`, what: `it is named ${show(refs)} times` });
  }
  // Which it is of those that share a count is found by counting these alone.
  const named = new Map<string, number>();
  const isWanted = (id: Uint8Array) => named.size < namedMax && counts.isBelow(id);
  const lists = [...versionTables.map(versionsOf), listParts, listPacks, listLongManifests];
  for (const list of lists) {
    for await (const { manifest, longManifest = null } of list(read)) {
      for (const { id } of longManifest === null ? runsOf(manifest) : []) {
        if (!isWanted(id)) continue;
        const name = id.toString('hex');
        named.set(name, (named.get(name) ?? 0) + 1);
      }
    }
    if (!counts.hasBelow) return;
  }
  for (const [name, count] of named) {
    const sql = `SELECT refs FROM extents WHERE id = ? AND state = ${extentState.live}`;
    const row = await read.get<{ refs: number }>(sql, Buffer.from(name, 'hex'));
    if (!row || row.refs >= count) continue;
    const what = `${count} manifests name it, and it is counted as named by ${row.refs}`;
    tell({ where: `extent ${name}`, what });
  }
}

const namedMax = 100_000;

function runsOf(manifest: unknown): ExtentRun[] {
  try {
    return decodeManifest(manifest as Uint8Array);
  } catch {
    return [];
  }
}

const versionTables = [
  'versions',
  'noncurrent_versions',
  'ended_versions',
  'held_versions',
] as const;

const keysOf: Record<(typeof versionTables)[number], string[]> = {
  versions: ['bucket_id', 'key'],
  noncurrent_versions: ['bucket_id', 'key', '-seq'],
  ended_versions: ['seq'],
  held_versions: ['bucket_id', 'key', '-seq', 'ended_seq'],
};

/** A version goes on beside its image, and what is damaged was taken off when it ended. */
const chargedOf: Partial<Record<(typeof versionTables)[number], string>> = {
  ended_versions: '0',
  held_versions: 'NOT is_image AND held_mac IS NOT NULL',
};

function versionsOf(
  table: (typeof versionTables)[number],
): (read: Reader) => AsyncGenerator<Naming> {
  const walked = {
    columns: `${bucketColumns(`${table}.bucket_id`)}, ${table}.key AS "of", ${table}.seq AS seq,
      class, is_marker AS isMarker, billed, ${chargedSize(table)} AS size,
      ${manifestOf(table)}, ${longManifestOf(table)},
      ${chargedOf[table] ?? '1'} AS isCharged`,
    from: table,
    keys: keysOf[table],
  };
  return namings(walked, (row) => {
    const { tenant, bucket, class: of, isMarker, billed, size, isCharged } = row;
    const charged = { place: placeOf(tenant, bucket, of), bytes: billed, size };
    return {
      where: `version ${row.seq} of ${row.of}`,
      ...(isCharged === 1 && isMarker === 0 && tenant !== null && { charged }),
    };
  });
}

/** Nothing is charged for a version that is lost, which those of S3's own classes never are. */
function chargedSize(table: string): string {
  const isLost = `EXISTS (SELECT 1 FROM lost_versions AS l WHERE l.seq = ${table}.seq)`;
  return `iif(class GLOB '[a-z]*' AND ${isLost}, 0, size)`;
}

const listParts = namings(
  {
    columns: `${bucketColumns('uploads.bucket_id')}, uploads.class AS class, upload_id AS id,
      number, size, manifest`,
    from: 'parts JOIN uploads ON uploads.id = parts.upload_id',
    keys: ['parts.upload_id', 'parts.number'],
  },
  ({ tenant, bucket, class: of, id, number, size }) => ({
    where: `part ${id}/${number}`,
    ...(tenant !== null && {
      charged: { place: placeOf(tenant, bucket, of), bytes: size, size, partOf: String(of) },
    }),
  }),
);

/** Of each what it has not let go of yet. */
const listLongManifests = namings(
  {
    columns: `NULL AS tenant, id, substr(manifest, 36 * ifnull((SELECT dropped
      FROM long_manifest_uses AS u WHERE u.id = long_manifests.id), 0) + 1) AS manifest`,
    from: 'long_manifests',
    keys: ['id'],
  },
  ({ id }) => ({ where: `long manifest ${id}` }),
);

const listPacks = namings(
  {
    columns: `'${archiveTenant}' AS tenant, first, manifest`,
    from: 'record_packs',
    keys: ['first'],
  },
  ({ first }) => ({ where: `the pack of records from tile ${first} on` }),
);

function namings(
  walked: Walked,
  show: (row: Record<string, unknown>) => Pick<Naming, 'where' | 'charged'>,
): (read: Reader) => AsyncGenerator<Naming> {
  return async function* (read) {
    for await (const row of walkTable<Record<string, unknown>>(read, walked)) {
      const { manifest, longManifest = null } = row;
      yield { manifest, longManifest, tenant: row.tenant as string | null, ...show(row) };
    }
  };
}

function bucketColumns(id: string): string {
  return ['tenant', 'name']
    .map((column, i) => {
      return (
        `(SELECT ${column} FROM buckets WHERE buckets.id = ${id}) AS ` +
        `${i ? 'bucket' : 'tenant'}`
      );
    })
    .join(', ');
}

function placeOf(...names: unknown[]): string {
  return names.map(String).join('\n');
}

function shownPlace(place: string): string {
  const [tenant, bucket, of] = place.split('\n');
  return `${of} in bucket ${tenant}/${bucket}`;
}

// How much more often extents are named than they are counted, in little memory: sums over all
// extents that share a place by a secret hash. Invariant: a place that sums up to nothing has no
// extent that is counted too seldom, unless another of the same place is counted too often by as
// much; and nobody who writes to the database knows which share one.

const bits = 20;
/** Of an extent's id, in words of 16 bits. */
const idWords = 8;

class ReferenceCounts {
  readonly #sums = new Float64Array(2 ** bits);
  readonly #factors = new Uint32Array(idWords + 1);

  constructor() {
    const random = randomBytes(this.#factors.byteLength);
    this.#factors.set(
      new Uint32Array(random.buffer.slice(random.byteOffset, random.byteOffset + random.length)),
    );
  }

  /** `count`: less than 0 of what is taken away. */
  add(id: Uint8Array, count: number): void {
    const place = this.#placeOf(id);
    this.#sums[place] = (this.#sums[place] ?? 0) + count;
  }

  /** Is one of those at its place named more often than it is counted? */
  isBelow(id: Uint8Array): boolean {
    return (this.#sums[this.#placeOf(id)] ?? 0) > 0;
  }

  get hasBelow(): boolean {
    return this.#sums.some((sum) => sum > 0);
  }

  /** Multiply-shift hashing of vectors (Dietzfelbinger 1996): two ids rarely share a place. */
  #placeOf(id: Uint8Array): number {
    let sum = this.#factors[idWords] as number;
    for (let i = 0; i < idWords; i++) {
      const word = ((id[2 * i] ?? 0) << 8) | (id[2 * i + 1] ?? 0);
      sum = (sum + Math.imul(this.#factors[i] as number, word)) | 0;
    }
    return sum >>> (32 - bits);
  }
}
