// What the log knows of itself, against its records: which were erased and who was told of it,
// which keys it was signed with since, and which of them are revoked, and what migrations made of
// the database. Invariant: the first key of a log is in no record; auditors keep it.
import { erasureNotice } from '../../audit/erasure.ts';
import { checkpointOf } from '../../audit/log/checkpoint.ts';
import {
  ed25519,
  type NoteKey,
  parseNote,
  parseVerifier,
  renderVerifier,
} from '../../audit/log/note.ts';
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import { defaultTenant } from '../../core/principal.ts';
import {
  ComparedThings,
  type Comparison,
  type Members,
  type Row,
  walkTable,
} from './compared-things.ts';
import type { Silent } from './deep-usage.ts';
import type { StagedMap, Staging } from './staging.ts';

export class DeepLog {
  readonly #erasures: ComparedThings;
  readonly #notices: ComparedThings;
  readonly #migrations: ComparedThings;
  readonly #keys: ComparedThings;

  constructor(staging: Staging) {
    this.#erasures = new ComparedThings(staging, 'erasure of record');
    this.#notices = new ComparedThings(staging, 'notice of an erasure');
    this.#migrations = new ComparedThings(staging, 'migration to schema');
    this.#keys = new ComparedThings(staging, 'key of the log');
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    if (!isDone(fields)) return;
    const { action, bucketTenant, change = {} } = fields;
    switch (action) {
      case 'bursar:EraseRecords':
        for (const erased of Array.isArray(change.erased) ? change.erased : []) {
          await this.#erasures.put(`${erased}`, index, { act: index });
        }
        return;
      case erasureNotice:
        return this.#notices.put(`${index}`, index, { act: change.act, tenant: bucketTenant });
      case 'bursar:MigrateDatabase': {
        const { from, version, schemaBefore, schemaAfter } = change;
        const members = { from, version, schemaBefore, schemaAfter, record: index };
        return this.#migrations.put(`${change.to}`, index, members);
      }
      case 'bursar:RotateLogKey': {
        const { verifier } = change;
        const key = parseVerifier(String(verifier));
        return key && this.#keys.put(key.id, index, { verifier, isRevoked: false });
      }
      case 'bursar:RevokeLogKey':
        return this.#keys.change(`${change.keyId}`, index, { isRevoked: true });
    }
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    await this.#erasures.compare(
      listRows(read, { columns: 'by_idx AS act', from: 'erasures', key: 'idx' }),
      comparison,
    );
    const notices = { columns: 'act_idx AS act, tenant', from: 'erasure_notices', key: 'idx' };
    await this.#notices.compare(listRows(read, notices), comparison);
    const migrations = {
      columns: `from_schema AS "from", version, digest_before AS schemaBefore,
        digest_after AS schemaAfter, record_idx AS record`,
      from: 'schema_history',
      where: 'from_schema <> 0',
      key: 'schema',
    };
    await this.#migrations.compare(listRows(read, migrations), comparison);
    await this.#keys.compare(this.#listKeys(read), comparison);
    await compareCosignatures(read, comparison);
  }

  /** Of those that no record made, whether one is revoked. */
  async *#listKeys(read: Reader): AsyncGenerator<Row> {
    const columns = 'name, public_key AS publicKey, revoked_ms IS NOT NULL AS revoked';
    for await (const { id, members } of listRows(read, { columns, from: 'log_keys', key: 'id' })) {
      const { name, publicKey, revoked } = members;
      const isRevoked = revoked === 1;
      if (!isRevoked && !(await this.#keys.get(id))) continue;
      const bytes = publicKey instanceof Uint8Array ? Buffer.from(publicKey) : Buffer.alloc(0);
      const key: NoteKey = { name: String(name), id, type: ed25519, publicKey: bytes };
      yield { id, members: { verifier: renderVerifier(key), isRevoked } };
    }
  }
}

/** That a witness signed what a row says of it; the log's own signatures are verified before. */
async function compareCosignatures(read: Reader, { tell }: Comparison): Promise<void> {
  const rows = { columns: 'size, note', from: 'log_cosignatures', key: 'witness' };
  for await (const { id: witness, members } of listRows(read, rows)) {
    const note = String(members.note);
    const where = `the checkpoint that ${witness} cosigned`;
    const signatures = parseNote(note)?.signatures ?? [];
    if (!signatures.some(({ name, keyId }) => `${name}+${keyId}` === witness)) {
      tell({ where, what: 'it has no signature of that name' });
    }
    if (checkpointOf(note)?.size === members.size) continue;
    tell({ where, what: 'its row says another size than it does' });
  }
}

async function* listRows(
  read: Reader,
  {
    columns,
    from,
    where = '1',
    key,
  }: { columns: string; from: string; where?: string; key: string },
): AsyncGenerator<Row> {
  const walked = { columns: `${key} AS ownId, ${columns}`, from, where, keys: [key] };
  for await (const { ownId, ...members } of walkTable<Members>(read, walked)) {
    yield { id: String(ownId), members };
  }
}

// Whose things records that say nothing may have changed. What a tenant's principals do changes
// what is theirs, or in the tenant whose bucket they meet; an operator changes anything, and may
// make operators. Invariant: what may have been changed by a record that was erased is never said
// not to have been.

const anybody = '';

export class DeepErasures {
  /** By tenant, or of anybody, the last record that says nothing. */
  readonly #last: StagedMap<number>;
  /** Tenants that ever had an operator. */
  readonly #ruling: StagedMap<true>;

  constructor(staging: Staging) {
    this.#last = staging.map('last erased');
    this.#ruling = staging.map('tenant of operators');
  }

  async visit(_: number, fields: RecordFields): Promise<void> {
    const { action, target = '', change } = fields;
    if (!isDone(fields) || !/^bursar:(Create|Update|Restore)Principal$/.test(action)) return;
    const [, tenant] = /^tenants\/([^/]+)\//.exec(target) ?? [];
    // Of a change that was longer than records are, its digest alone is there.
    const mayRule = !change || change.role === 'operator' || typeof change.sha256 === 'string';
    if (tenant !== undefined && mayRule) await this.#ruling.set(tenant, true);
  }

  async visitUnread(index: number, whose: Silent): Promise<void> {
    if (whose === null || (await this.#mayRule(whose.tenant))) {
      return this.#last.set(anybody, index);
    }
    await this.#last.set(whose.tenant, index);
    if (whose.bucketTenant) await this.#last.set(whose.bucketTenant, index);
  }

  /** -1: there is none. `tenant`: undefined: of all. */
  async lastOf(tenant: string | undefined): Promise<number> {
    let last = (await this.#last.get(anybody)) ?? -1;
    if (tenant !== undefined) return Math.max(last, (await this.#last.get(tenant)) ?? -1);
    for await (const [, index] of this.#last.entries()) last = Math.max(last, index);
    return last;
  }

  /** Once an operator's record is gone, who was made one is not known any more. */
  async #mayRule(tenant: string): Promise<boolean> {
    if (tenant === defaultTenant || (await this.#last.get(anybody)) !== undefined) return true;
    return (await this.#ruling.get(tenant)) === true;
  }
}
