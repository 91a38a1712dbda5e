// What journals tell of identities, gathered in the staging of a rebuild: of each thing the newest
// word stays, whatever the order in which journals are read. Invariant: doubt takes rights away: of
// two equally new words that there is nothing holds, what is revoked or gone for good stays so
// whoever tells it, and what a whole snapshot does not have any more is not there.
import type { Tx } from '../../core/database.ts';
import { pages } from '../../core/pages.ts';
import { compareGenerations } from '../journal/generation.ts';
import type {
  IdentityEntry,
  PresentEntry,
  StrangeEntry,
  Tells,
  ThingKind,
} from '../journal/identity-format.ts';

export const identitySchema = `
CREATE TABLE identities (
  kind TEXT NOT NULL,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  told_seq INTEGER NOT NULL,
  entry TEXT,                      -- JSON of a PresentEntry; null: there is none
  PRIMARY KEY (kind, tenant, name)
) WITHOUT ROWID;
CREATE TABLE retired (             -- names that are not given again
  kind TEXT NOT NULL,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (kind, tenant, name)
) WITHOUT ROWID;
`;

type Write = <T>(work: (tx: Tx) => Promise<T>) => Promise<T>;

/** In the database of a staging, whose transactions `write` makes. */
export class StagedIdentities {
  readonly #tx: Tx;
  readonly #write: Write;

  constructor(tx: Tx, write: Write) {
    this.#tx = tx;
    this.#write = write;
  }

  /** Takes what an object says of them; gives how many entries are of a later version. */
  take(
    entries: readonly (IdentityEntry | StrangeEntry)[],
    how: { revocationsAlone: boolean },
  ): Promise<number> {
    return this.#write(async (tx) => {
      let strange = 0;
      for (const entry of entries) if (!(await takeIdentity(tx, entry, how))) strange++;
      return strange;
    });
  }

  /**
   * Once all was taken: drops what is not there any more. `floorSeq`: BEGIN of the newest snapshot
   * that tells all that was there before it; 0: there is none.
   */
  settle(floorSeq: number): Promise<void> {
    return this.#write(async (tx) => {
      // Each thing that was there then has an entry in the snapshot, which is as new as that.
      const sql = "DELETE FROM identities WHERE kind <> 'revocation' AND told_seq < ?";
      await tx.run(sql, floorSeq - 1);
      await tx.run('DELETE FROM identities WHERE entry IS NULL');
      await tx.run(
        `DELETE FROM identities WHERE kind IN ('tenant', 'group', 'principal')
           AND (kind, tenant, name) IN (SELECT kind, tenant, name FROM retired)`,
      );
      // What was in a tenant went with it.
      await tx.run(
        `DELETE FROM identities WHERE kind <> 'revocation'
           AND tenant IN (SELECT tenant FROM retired WHERE kind = 'tenant')`,
      );
      await tx.run(
        `DELETE FROM identities WHERE kind = 'token'
           AND (tenant, json_extract(entry, '$.principal'))
             NOT IN (SELECT tenant, name FROM identities WHERE kind = 'principal')`,
      );
    });
  }

  /** What is there of a kind, in order of tenant and name. */
  async *list<K extends PresentEntry['kind']>(
    kind: K,
  ): AsyncGenerator<Extract<PresentEntry, { kind: K }>> {
    for (let after = { tenant: '', name: '' }, isFirst = true; ; isFirst = false) {
      const rows = await this.#tx.all<typeof after & { entry: string }>(
        `SELECT tenant, name, entry FROM identities
           WHERE kind = ? AND (tenant, name) ${isFirst ? '>=' : '>'} (?, ?)
           ORDER BY tenant, name LIMIT ?`,
        ...[kind, after.tenant, after.name, rowsPerQuery],
      );
      for (const { entry } of rows) yield JSON.parse(entry) as Extract<PresentEntry, { kind: K }>;
      const last = rows.at(-1);
      if (!last) return;
      after = last;
    }
  }

  async has(kind: ThingKind, tenant: string, name: string): Promise<boolean> {
    const sql = 'SELECT 1 FROM identities WHERE kind = ? AND tenant = ? AND name = ?';
    return (await this.#tx.get(sql, kind, tenant, name)) !== undefined;
  }

  /** Names that are not given again, those of tenants first. */
  async *listRetired(): AsyncGenerator<StagedRetired> {
    for (const kind of ['tenant', 'group', 'principal', 'publicKey']) {
      const sql = `SELECT kind, tenant, name FROM retired WHERE kind = ? AND (tenant, name) > (?, ?)
        ORDER BY tenant, name LIMIT ?`;
      const readPage = (last?: StagedRetired) =>
        this.#tx.all<StagedRetired>(sql, kind, last?.tenant ?? '', last?.name ?? '', rowsPerQuery);
      for await (const rows of pages(readPage)) yield* rows;
    }
  }

  async isRetiredTenant(tenant: string): Promise<boolean> {
    const sql = "SELECT 1 FROM retired WHERE kind = 'tenant' AND tenant = ?";
    return (await this.#tx.get(sql, tenant)) !== undefined;
  }

  /** Tenants of whose things something is told, and of themselves nothing: that part is missing. */
  async listUntoldTenants(): Promise<string[]> {
    const rows = await this.#tx.all<{ tenant: string }>(
      `SELECT DISTINCT tenant FROM identities WHERE tenant <> '' AND kind <> 'revocation'
         AND tenant NOT IN (SELECT tenant FROM identities WHERE kind = 'tenant')`,
    );
    return rows.map(({ tenant }) => tenant);
  }

  /**
   * Marks buckets as gone whose tenant or owner is: neither goes as long as it has a bucket. Gives
   * their names, `tenant/name`, the first `max`.
   */
  dropBucketsOfRetired(max: number): Promise<string[]> {
    return this.#write(async (tx) => {
      const tenant = "json_extract(entry, '$.tenant')";
      const owner = "json_extract(entry, '$.owner')";
      const where = `entry IS NOT NULL AND (
        EXISTS (SELECT 1 FROM retired WHERE kind = 'tenant' AND retired.tenant = ${tenant})
        OR EXISTS (SELECT 1 FROM retired WHERE kind = 'principal' AND retired.tenant = ${tenant}
          AND retired.name = ${owner}))`;
      const rows = await tx.all<{ name: string }>(
        `SELECT ${tenant} || '/' || json_extract(entry, '$.name') AS name FROM buckets
           WHERE ${where} ORDER BY id LIMIT ?`,
        max,
      );
      if (rows.length > 0) await tx.run(`UPDATE buckets SET entry = NULL WHERE ${where}`);
      return rows.map(({ name }) => name);
    });
  }
}

/** Takes one entry. False: it is of a later version. */
async function takeIdentity(
  tx: Tx,
  entry: IdentityEntry | StrangeEntry,
  { revocationsAlone }: { revocationsAlone: boolean },
): Promise<boolean> {
  if (entry.kind === 'strange') return false;
  if (revocationsAlone && entry.kind !== 'revocation') return true;
  const { tenant, name, toldSeq } = entry;
  if (entry.kind === 'retired') {
    await tx.run('INSERT OR IGNORE INTO retired VALUES (?, ?, ?)', entry.of, tenant, name);
    return true;
  }
  // Nobody takes a revocation back: it goes when what it refuses has expired.
  if (entry.kind === 'absent' && entry.of === 'revocation') return true;
  const text = entry.kind === 'absent' ? null : JSON.stringify(entry);
  const kind: ThingKind = entry.kind === 'absent' ? entry.of : entry.kind;
  await tx.run(
    `INSERT INTO identities VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
       SET told_seq = excluded.told_seq, entry = excluded.entry
       WHERE excluded.told_seq > told_seq OR (excluded.told_seq = told_seq
         AND (excluded.entry IS NULL OR length(excluded.entry) > length(identities.entry)))`,
    ...[kind, tenant, name, toldSeq, text],
  );
  return true;
}

const rowsPerQuery = 500;

export interface StagedRetired {
  kind: 'tenant' | 'principal' | 'group' | 'publicKey';
  tenant: string;
  name: string;
}

// By which journals identities are restored. Each store's journal tells all of them, so any one
// will do; of several the newest word on each thing holds. Invariants: only journals of one
// database are read together, since only then log indexes tell what is newer (of the others
// revocations alone are taken); and what is missing of one journal is in doubt unless another tells
// of the same changes.

/** Changes, both included, of which a journal may not tell. */
export interface Hole {
  firstSeq: number;
  lastSeq: number;
}

/** What one journal was like, once it was read. */
export interface ToldIdentities {
  /** Up to which change it tells. */
  lastSeq: number;
  holes: Hole[];
  /** BEGIN of its snapshot, where that tells all and was read whole; else 0. */
  floorSeq: number;
  tells: Tells | null;
  /** Entries of a later version, of which nobody knows what they take away. */
  strange: number;
}

interface Begun {
  journal: { generation: string };
  begin: { instance?: string | null };
}

/** The database by whose journals identities are restored; undefined: none of them tells any. */
export function chooseInstance(
  journals: readonly Begun[],
  wanted: string | undefined,
): string | null | undefined {
  const telling = journals.filter(({ begin }) => begin.instance !== undefined);
  const asked = telling.find(({ journal }) => journal.generation === wanted);
  const newestFirst = telling.sort((a, b) =>
    compareGenerations(b.journal.generation, a.journal.generation),
  );
  return (asked ?? newestFirst[0])?.begin.instance;
}

/** Whether something may be missing that no other of these journals tells. */
export function isDoubtful(journals: readonly ToldIdentities[]): boolean {
  return journals.some(
    ({ holes, strange }, self) =>
      strange > 0 || holes.some((hole) => !isClosed(hole, journals.toSpliced(self, 1))),
  );
}

function isClosed({ firstSeq, lastSeq }: Hole, others: readonly ToldIdentities[]): boolean {
  return others.some(
    (other) =>
      other.tells !== null &&
      other.lastSeq >= lastSeq &&
      !other.holes.some((hole) => hole.firstSeq <= lastSeq && hole.lastSeq >= firstSeq),
  );
}
