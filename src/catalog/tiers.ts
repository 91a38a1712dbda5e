// Classes with tiers: what is written into such a class lies, as long as it is not read, in those
// classes that are its tiers, one after the other, and comes back when it is read again. When it
// was read is known of each version by day. Invariants: what is decided follows from the class of a
// version, its times, its row of reads and whether it was restored; a version that was read on one
// day alone never comes back, so a scan of everything brings back nothing; and the rows only say
// when bytes move, so whoever writes one has a version moved early, or later.
import type { Reader, Tx } from '../core/database.ts';
import { isObject, parseJson } from '../core/json.ts';
import { type ClassRow, listClasses } from './class-rows.ts';
import { endOfDay, fits, type LifecycleFilter, type LifecycleVersion } from './lifecycle.ts';

export const archiveTiers = ['ARCHIVE_ACCESS', 'DEEP_ARCHIVE_ACCESS'] as const;
export type ArchiveTier = (typeof archiveTiers)[number];

/** Smaller ones stay in the first class, as on AWS. */
const tieredBytesMin = 128 * 1024;

export interface Tier {
  class: string;
  /** After so many days without a read; null: it is an archive, and the bucket says when. */
  days: number | null;
  archive: ArchiveTier | null;
}

/** A class that has tiers, and those: what is read online first, then archives. */
export interface Chain {
  class: string;
  tiers: readonly Tier[];
  /** Since when it has some. */
  sinceMs: number;
}

/** A configuration of a bucket, under its id: which objects go into archives, and when. */
export interface TieringConfig {
  id: string;
  isEnabled: boolean;
  filter: LifecycleFilter;
  /** After so many days without a read. */
  tierings: readonly { tier: ArchiveTier; days: number }[];
}

/** The chains that a tenant can use, by the names of all their classes. */
export async function readChains(read: Reader, tenant: string): Promise<Map<string, Chain>> {
  return chainsOf(await listClasses(read, tenant));
}

export function chainsOf(rows: readonly Omit<ClassRow, 'tenant'>[]): Map<string, Chain> {
  const byFirst = new Map<string, { tiers: Tier[]; sinceMs: number }>();
  for (const { name, definition, createdMs } of rows) {
    // Most classes are none, and are not parsed for it.
    if (!definition.includes('"tier":')) continue;
    const parsed = parseJson(definition);
    const tier = isObject(parsed) && isObject(parsed.tier) ? parsed.tier : {};
    if (typeof tier.of !== 'string') continue;
    const { afterDays: days = null, archive = null } = tier;
    const one = { class: name, days, archive } as Tier;
    const { tiers, sinceMs } = byFirst.get(tier.of) ?? { tiers: [], sinceMs: createdMs };
    byFirst.set(tier.of, { tiers: [...tiers, one], sinceMs: Math.min(sinceMs, createdMs) });
  }
  const chains = new Map<string, Chain>();
  for (const [first, { tiers, sinceMs }] of byFirst) {
    if (!rows.some(({ name }) => name === first)) continue;
    const chain = { class: first, tiers: tiers.sort(compareTiers), sinceMs };
    chains.set(first, chain);
    for (const tier of tiers) chains.set(tier.class, chain);
  }
  return chains;
}

function compareTiers(a: Tier, b: Tier): number {
  const rank = ({ archive, days }: Tier) =>
    archive === null ? (days ?? 0) : 1e6 * (1 + archiveTiers.indexOf(archive));
  return rank(a) - rank(b);
}

/** When a version was last read, and when on a day before that; null: never. */
export interface VersionUse {
  usedMs: number;
  beforeMs: number | null;
}

/** `since`: of versions without a row; from when on reads are counted at all. */
export interface Uses {
  of: VersionUse | undefined;
  sinceMs: number;
}

export interface TieringTerms {
  chain: Chain;
  configs: readonly TieringConfig[];
  uses: Uses;
  /** It was restored from an archive, and can be read now. */
  isRestored: boolean;
  timeMs: number;
  dayMs: number;
}

/** The class where a version is to be, and by what; null: it stays. */
export function dueTier(
  version: LifecycleVersion & { class: string; supersededMs: number | null },
  { chain, configs, uses, isRestored, timeMs, dayMs }: TieringTerms,
): { class: string; ruleId: string } | null {
  if (version.sizeBytes < tieredBytesMin) return null;
  const { createdMs, supersededMs } = version;
  const knownMs = uses.of?.usedMs ?? Math.max(uses.sinceMs, chain.sinceMs);
  const usedMs = Math.max(createdMs, supersededMs ?? 0, knownMs);
  const at = chain.tiers.findIndex((tier) => tier.class === version.class);
  const isUnusedFor = (days: number) => endOfDay(usedMs, days, dayMs) <= timeMs;
  let due: { class: string; ruleId: string } | null = null;
  chain.tiers.forEach(({ class: to, days, archive }, i) => {
    if (i <= at) return;
    const fit = archive === null ? undefined : findConfig(configs, version, archive);
    const after = archive === null ? days : (fit?.days ?? null);
    if (after !== null && isUnusedFor(after)) due = { class: to, ruleId: fit?.id ?? chain.class };
  });
  const back = { class: chain.class, ruleId: chain.class };
  if (isRestored && at >= 0) return back;
  if (due !== null || at < 0 || chain.tiers[at]?.archive) return due;
  const [first] = chain.tiers;
  const { beforeMs = null, usedMs: readMs = 0 } = uses.of ?? {};
  if (!first || first.days === null || beforeMs === null || isUnusedFor(first.days)) return null;
  const daysBetween = Math.floor(readMs / dayMs) - Math.floor(beforeMs / dayMs);
  return daysBetween <= first.days ? back : null;
}

/** Of those that fit, the one that is due first. */
function findConfig(
  configs: readonly TieringConfig[],
  version: LifecycleVersion,
  archive: ArchiveTier,
): { id: string; days: number } | undefined {
  let first: { id: string; days: number } | undefined;
  for (const { id, isEnabled, filter, tierings } of configs) {
    const days = tierings.find(({ tier }) => tier === archive)?.days;
    if (!isEnabled || days === undefined || (first && first.days <= days)) continue;
    if (fits(filter, version)) first = { id, days };
  }
  return first;
}

// The rows of reads, of versions in classes with tiers alone. Row 0 says since when they are
// written.

/** That a version was read. `dayMs`: how long a day lasts. */
export interface UsedVersion {
  bucketId: number;
  key: string;
  seq: number;
  dayMs: number;
}

/** Of reads on one day the first alone writes. */
export async function noteUse(
  tx: Tx,
  { bucketId, key, seq, dayMs }: UsedVersion,
  timeMs: number,
): Promise<void> {
  const before = await findUse(tx, seq);
  if (!before) {
    const sql = 'INSERT INTO version_uses VALUES (?, ?, ?, ?, NULL)';
    await tx.run(sql, seq, bucketId, key, timeMs);
  } else if (Math.floor(before.usedMs / dayMs) < Math.floor(timeMs / dayMs)) {
    const sql = 'UPDATE version_uses SET before_ms = used_ms, used_ms = ? WHERE seq = ?';
    await tx.run(sql, timeMs, seq);
  }
}

/** A version came into a class with tiers now, whenever it was written. */
export async function beginUse(
  tx: Tx,
  { bucketId, key, seq }: Omit<UsedVersion, 'dayMs'>,
  timeMs: number,
): Promise<void> {
  const sql = 'INSERT OR REPLACE INTO version_uses VALUES (?, ?, ?, ?, NULL)';
  await tx.run(sql, seq, bucketId, key, timeMs);
}

export async function readUses(read: Reader, seq: number): Promise<Uses> {
  const [of, since] = [await findUse(read, seq), await findUse(read, 0)];
  return { of, sinceMs: since?.usedMs ?? Number.POSITIVE_INFINITY };
}

function findUse(read: Reader, seq: number): Promise<VersionUse | undefined> {
  const sql = `SELECT used_ms AS usedMs, before_ms AS beforeMs FROM version_uses WHERE seq = ?`;
  return read.get<VersionUse>(sql, seq);
}

/** From now on reads are counted, where they were not before. */
export async function beginUses(tx: Tx, timeMs: number): Promise<number> {
  const sql = `INSERT OR IGNORE INTO version_uses VALUES (0, 0, '', ?, NULL)`;
  return (await tx.run(sql, timeMs)).changes;
}

/** Forgets versions that are not there any more, of up to `max`; gives the last; 0: no more. */
export async function forgetUses(tx: Tx, after: number, max: number): Promise<number> {
  const rows = await tx.all<{ seq: number; isThere: number }>(
    `SELECT seq, EXISTS (SELECT 1 FROM versions AS v
           WHERE v.bucket_id = u.bucket_id AND v.key = u.key AND v.seq = u.seq)
         OR EXISTS (SELECT 1 FROM noncurrent_versions AS n
           WHERE n.bucket_id = u.bucket_id AND n.key = u.key AND n.seq = u.seq) AS isThere
       FROM version_uses AS u WHERE seq > ? ORDER BY seq LIMIT ?`,
    ...[after, max],
  );
  for (const { seq, isThere } of rows) {
    if (isThere === 0) await tx.run('DELETE FROM version_uses WHERE seq = ?', seq);
  }
  return rows.length < max ? 0 : (rows.at(-1)?.seq ?? 0);
}

/** Under its new key it was used when it was under the former one. */
export async function renameUse(
  tx: Tx,
  from: { seq: number },
  to: { key: string; seq: number },
): Promise<void> {
  await tx.run(
    `INSERT OR REPLACE INTO version_uses SELECT ?, bucket_id, ?, used_ms, before_ms
       FROM version_uses WHERE seq = ?`,
    ...[to.seq, to.key, from.seq],
  );
}
