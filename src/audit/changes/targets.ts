// Where changes of objects are told: webhooks, and queues of Amazon SQS, which admins register and
// buckets name (docs/admin/targets.md). Invariants: a secret is kept sealed, and given out once,
// when it is made; and how far each target was told is durable, so that nothing is left out.
import type { Reader, Tx } from '../../core/database.ts';

export const targetSchema = `
CREATE TABLE targets (              -- where changes of objects are told
  tenant TEXT NOT NULL REFERENCES tenants(name),
  name TEXT NOT NULL,
  kind TEXT NOT NULL,              -- webhook | sqs
  url TEXT NOT NULL,               -- of a queue its own
  region TEXT,                     -- of a queue
  sealed_secret BLOB,              -- of a webhook: what messages are signed with
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
CREATE TABLE target_cursors (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  idx INTEGER NOT NULL,            -- all up to this record of the log was told
  PRIMARY KEY (tenant, name),
  FOREIGN KEY (tenant, name) REFERENCES targets(tenant, name) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE dead_letters (        -- changes that a target refused for good
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  idx INTEGER NOT NULL,            -- of the change's record
  time_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (tenant, name, idx),
  FOREIGN KEY (tenant, name) REFERENCES targets(tenant, name) ON DELETE CASCADE
) WITHOUT ROWID;
`;

export const targetKinds = ['webhook', 'sqs'] as const;
export type TargetKind = (typeof targetKinds)[number];

export interface NotificationTarget {
  tenant: string;
  name: string;
  kind: TargetKind;
  url: string;
  region: string | null;
  sealedSecret: Uint8Array | null;
  createdMs: number;
}

/** The most that a tenant has. */
export const targetsPerTenantMax = 100;
/** A target that refuses more than this is told nothing until somebody looks. */
export const deadLettersMax = 1000;

const columns = `tenant, name, kind, url, region, sealed_secret AS sealedSecret,
  created_ms AS createdMs`;

/** What the secret of a target is sealed for. */
export function targetContext(tenant: string, name: string): string {
  return `event-target ${tenant}/${name}`;
}

/**
 * What buckets name a target by: of a queue its ARN, as AWS has it; of a webhook
 * `arn:bursar:webhook::TENANT:NAME`.
 */
export function arnOf({
  tenant,
  name,
  kind,
  url,
  region,
}: Omit<NotificationTarget, 'sealedSecret'>): string {
  if (kind === 'webhook') return `arn:bursar:webhook::${tenant}:${name}`;
  const [, account = '', queue = ''] = new URL(url).pathname.split('/');
  const partition = /^(?:cn|us-gov)-/.exec(region ?? '')?.[0].slice(0, -1);
  return `arn:aws${partition ? `-${partition}` : ''}:sqs:${region}:${account}:${queue}`;
}

export function readTarget(
  read: Reader,
  tenant: string,
  name: string,
): Promise<NotificationTarget | undefined> {
  const sql = `SELECT ${columns} FROM targets WHERE tenant = ? AND name = ?`;
  return read.get<NotificationTarget>(sql, tenant, name);
}

/** Up to `limit` of a tenant's targets, by name behind `after`. */
export function listTargets(
  read: Reader,
  tenant: string,
  { after, limit }: { after: string; limit: number } = { after: '', limit: targetsPerTenantMax },
): Promise<NotificationTarget[]> {
  const sql = `SELECT ${columns} FROM targets WHERE tenant = ? AND name > ? ORDER BY name LIMIT ?`;
  return read.all<NotificationTarget>(sql, tenant, after, limit);
}

export interface TargetId {
  tenant: string;
  name: string;
}

export function listTargetIds(read: Reader): Promise<TargetId[]> {
  return read.all<TargetId>('SELECT tenant, name FROM targets ORDER BY tenant, name');
}

/** undefined: there is no such target. */
export async function readCursor(
  read: Reader,
  { tenant, name }: TargetId,
): Promise<number | undefined> {
  const sql = 'SELECT idx FROM target_cursors WHERE tenant = ? AND name = ?';
  return (await read.get<{ idx: number }>(sql, tenant, name))?.idx;
}

export interface DeadLetter {
  index: number;
  timeMs: number;
  reason: string;
}

/** Up to `limit` of them, behind the index `after`. */
export function listDeadLetters(
  read: Reader,
  { tenant, name }: TargetId,
  { after, limit }: { after: number; limit: number },
): Promise<DeadLetter[]> {
  return read.all<DeadLetter>(
    `SELECT idx AS "index", time_ms AS timeMs, reason FROM dead_letters
       WHERE tenant = ? AND name = ? AND idx > ? ORDER BY idx LIMIT ?`,
    ...[tenant, name, after, limit],
  );
}

export async function countDeadLetters(read: Reader, { tenant, name }: TargetId): Promise<number> {
  const sql = 'SELECT count(*) AS n FROM dead_letters WHERE tenant = ? AND name = ?';
  return (await read.get<{ n: number }>(sql, tenant, name))?.n ?? 0;
}

/** How far a target was told, since it was told up to and with `from`. */
export interface ToldProgress extends TargetId {
  from: number;
  to: number;
  /** What it refused of that, and why. */
  dead: readonly { index: number; reason: string }[];
}

/** Gives whether it is noted: it is not where the cursor was set elsewhere meanwhile. */
export async function noteProgress(
  tx: Tx,
  { tenant, name, from, to, dead }: ToldProgress,
  timeMs: number,
): Promise<boolean> {
  const { changes } = await tx.run(
    'UPDATE target_cursors SET idx = ? WHERE tenant = ? AND name = ? AND idx = ?',
    ...[to, tenant, name, from],
  );
  if (changes === 0) return false;
  for (const { index, reason } of dead) {
    const sql = 'INSERT OR REPLACE INTO dead_letters VALUES (?, ?, ?, ?, ?)';
    await tx.run(sql, tenant, name, index, timeMs, reason);
  }
  return true;
}

/** What is told to a target begins anew behind `after`. */
export async function setCursor(tx: Tx, { tenant, name }: TargetId, after: number): Promise<void> {
  const sql = 'UPDATE target_cursors SET idx = ? WHERE tenant = ? AND name = ?';
  await tx.run(sql, after, tenant, name);
  const dead = 'DELETE FROM dead_letters WHERE tenant = ? AND name = ? AND idx > ?';
  await tx.run(dead, tenant, name, after);
}

/** By target. */
export function countAllDeadLetters(read: Reader): Promise<(TargetId & { count: number })[]> {
  const sql = 'SELECT tenant, name, count(*) AS count FROM dead_letters GROUP BY tenant, name';
  return read.all<TargetId & { count: number }>(sql);
}
