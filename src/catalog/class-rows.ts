// The rows of storage classes. A class of the gateway's own tenant is everybody's. Invariant: a
// name means one class wherever it is used, so no tenant has one of a name that everybody's has.
import type { Reader, Tx } from '../core/database.ts';
import { defaultTenant } from '../core/principal.ts';

export interface ClassRow {
  tenant: string;
  name: string;
  /** JSON, as tiering/classes/class-definition.ts has it. */
  definition: string;
  createdMs: number;
}

const columns = 'tenant, name, definition, created_ms AS createdMs';

const hadClasses = 'hadClasses';

/** Notes for good that there are classes, or were: journals may name extents of other stores. */
export async function noteClasses(tx: Tx): Promise<void> {
  if (await haveBeenClasses(tx)) return;
  // A database that is being rebuilt may not have that tenant yet.
  const sql = `INSERT INTO tenant_settings (tenant, name, document)
    SELECT name, ?, 'true' FROM tenants WHERE name = ?`;
  await tx.run(sql, hadClasses, defaultTenant);
}

export async function haveBeenClasses(read: Reader): Promise<boolean> {
  const sql = 'SELECT 1 FROM tenant_settings WHERE tenant = ? AND name = ?';
  return (await read.get(sql, defaultTenant, hadClasses)) !== undefined;
}

/** All classes, by tenant and name. */
export function listAllClasses(read: Reader): Promise<ClassRow[]> {
  return read.all<ClassRow>(`SELECT ${columns} FROM classes ORDER BY tenant, name`);
}

/** Those that a tenant can use: its own and everybody's, by name. */
export function listClasses(read: Reader, tenant: string): Promise<ClassRow[]> {
  const sql = `SELECT ${columns} FROM classes WHERE tenant IN (?, ?) ORDER BY name`;
  return read.all<ClassRow>(sql, tenant, defaultTenant);
}

/** The class that a name means to a tenant; undefined: none. */
export function readClassRow(
  read: Reader,
  tenant: string,
  name: string,
): Promise<ClassRow | undefined> {
  const sql = `SELECT ${columns} FROM classes WHERE tenant IN (?, ?) AND name = ?`;
  return read.get<ClassRow>(sql, tenant, defaultTenant, name);
}

/** The classes whose names or aliases the names of a tenant's new class must not be. */
export function listRivals(read: Reader, tenant: string): Promise<ClassRow[]> {
  return tenant === defaultTenant ? listAllClasses(read) : listClasses(read, tenant);
}

/** Resolves to whether a bucket has, or had, something in one of the classes. */
export async function holdsAny(
  read: Reader,
  { tenant, name }: { tenant: string; name: string },
  classes: Iterable<string>,
): Promise<boolean> {
  const sql = `SELECT 1 FROM quota_storage WHERE tenant = ? AND bucket = ?
    AND class IN (SELECT value FROM json_each(?)) LIMIT 1`;
  return (await read.get(sql, tenant, name, JSON.stringify([...classes]))) !== undefined;
}

/**
 * Resolves to whether a bucket that is there has, or had, objects or uploads of the class. Nothing
 * is billed of what is lost.
 */
export async function isClassUsed(
  read: Reader,
  { tenant, name }: Pick<ClassRow, 'tenant' | 'name'>,
): Promise<boolean> {
  const of = tenant === defaultTenant ? null : tenant;
  const found = await read.get(
    `SELECT 1 WHERE EXISTS (SELECT 1 FROM quota_storage AS s JOIN buckets AS b
         ON b.tenant = s.tenant AND b.name = s.bucket
         WHERE s.class = ? AND s.tenant = ifnull(?, s.tenant))
       OR EXISTS (SELECT 1 FROM uploads AS u JOIN buckets AS b ON b.id = u.bucket_id
         WHERE u.class = ? AND b.tenant = ifnull(?, b.tenant))
       OR EXISTS (SELECT 1 FROM lost_versions AS l JOIN buckets AS b ON b.id = l.bucket_id
         WHERE b.tenant = ifnull(?, b.tenant) AND ? IN (
           SELECT class FROM versions AS v WHERE v.bucket_id = l.bucket_id
             AND v.key = l.key AND v.seq = l.seq
           UNION ALL SELECT class FROM noncurrent_versions AS n WHERE n.bucket_id = l.bucket_id
             AND n.key = l.key AND n.seq = l.seq))`,
    ...[name, of, name, of, of, name],
  );
  return found !== undefined;
}
