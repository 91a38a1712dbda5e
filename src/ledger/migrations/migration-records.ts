// What the audit log says of changes of the schema. They are the gateway's own doing: the records
// name no access key, and are of the tenant that its operators are in.
import { draftRecord, ownOrigin, unasked } from '../../audit/record-draft.ts';
import { RecordLog } from '../../audit/record-log.ts';
import { noStorage } from '../../catalog/outcome.ts';
import type { Tx } from '../../core/database.ts';
import { defaultTenant, rootPrincipal } from '../../core/principal.ts';

interface UnrecordedStep {
  schema: number;
  fromSchema: number;
  version: string;
  digestBefore: string;
  digestAfter: string;
}

/** Records the steps that are not in the log yet, in the transaction of the last of them. */
export async function recordMigrations(tx: Tx): Promise<void> {
  const unrecorded = await tx.all<UnrecordedStep>(
    `SELECT schema, from_schema AS fromSchema, version, digest_before AS digestBefore,
       digest_after AS digestAfter
     FROM schema_history WHERE record_idx IS NULL AND from_schema > 0 ORDER BY schema`,
  );
  const log = await RecordLog.open(tx);
  const lastSql = 'SELECT time_ms AS timeMs FROM records ORDER BY idx DESC LIMIT 1';
  const last = await tx.get<{ timeMs: number }>(lastSql);
  const timeMs = Math.max(last?.timeMs ?? 0, Date.now());
  for (const step of unrecorded) {
    const index = log.size;
    await log.append(draftOf(step), { index, timeMs, ...noStorage, cost: null });
    const sql = 'UPDATE schema_history SET record_idx = ? WHERE schema = ?';
    await tx.run(sql, index, step.schema);
  }
  await log.flush();
}

function draftOf({ schema, fromSchema, version, digestBefore, digestAfter }: UnrecordedStep) {
  return draftRecord(unasked(defaultTenant, rootPrincipal), ownOrigin(), {
    action: 'bursar:MigrateDatabase',
    target: 'database',
    change: {
      from: fromSchema,
      to: schema,
      version,
      schemaBefore: digestBefore,
      schemaAfter: digestAfter,
    },
    status: 200,
  });
}
