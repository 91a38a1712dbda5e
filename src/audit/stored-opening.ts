// What opens a leaf of the log, as the database has it: for receipts and for whoever proves what a
// record says. Whose it is stays known of a record that was erased, since its leaf says it too.
import type { Reader } from '../core/database.ts';
import type { Opening } from './receipt.ts';

export interface StoredOpening {
  by: {
    /** Of who asked. */
    tenant: string;
    principal: string;
    /** Where that is another. */
    bucketTenant: string | null;
  };
  /** null: the record was erased. */
  opening: Opening | null;
}

/** undefined: there is no such record. */
export async function readOpening(read: Reader, index: number): Promise<StoredOpening | undefined> {
  const sql = `SELECT records.tenant, principal, bucket_tenant AS bucketTenant, salt, record,
      own.pseudonym, other.pseudonym AS bucketPseudonym
    FROM records
    JOIN log_tenants AS own ON own.tenant = records.tenant
    LEFT JOIN log_tenants AS other ON other.tenant = records.bucket_tenant
    WHERE idx = ?`;
  const row = await read.get<Row>(sql, index);
  if (!row) return undefined;
  const { tenant, principal, bucketTenant, salt, record, pseudonym, bucketPseudonym } = row;
  const opening = salt && {
    ...{ tenant: pseudonym, bucketTenant: bucketPseudonym, salt, record, evidence: null },
  };
  return { by: { tenant, principal, bucketTenant }, opening };
}

interface Row {
  tenant: string;
  principal: string;
  bucketTenant: string | null;
  /** null: it was erased. */
  salt: Buffer | null;
  record: string;
  pseudonym: string;
  bucketPseudonym: string | null;
}
