// The records' table and the log above it, appended to by the ledger alone. Invariants: leaf i of
// the tree is record i, without gaps; record, commitment and the tiles that they fill are one
// transaction; what a transaction did not commit is discarded.
import { randomBytes, randomFillSync } from 'node:crypto';
import type { Reader, Tx } from '../core/database.ts';
import { commitTo, leafText, saltBytes } from './leaf.ts';
import { LogAppender } from './log/log-appender.ts';
import { hashLeaf } from './log/merkle.ts';
import { type RecordDraft, type RecordSeal, renderRecord } from './record.ts';

/** The number of salts that are taken from the system at once. */
const saltsMax = 256;

interface Row {
  index: number;
  timeMs: number;
  tenant: string;
  bucketTenant: string | null;
  commitment: Buffer;
  salt: Buffer;
  record: string;
  roots: Uint8Array | null;
}

/** Told of each record, in the transaction that appends it. */
export type OnAppend = (draft: RecordDraft, seal: RecordSeal) => void;

/** Tenants whose pseudonyms are kept in memory. */
const tenantsMax = 100_000;

export class RecordLog {
  readonly #tx: Tx;
  readonly #onAppend: OnAppend | undefined;
  readonly #tree: LogAppender;
  readonly #salts = Buffer.alloc(saltsMax * saltBytes);
  #nextSalt = saltsMax;
  readonly #pseudonyms = new Map<string, string>();
  /** The newest record, whose row waits for its roots, so that it is written once. */
  #held: Row | null = null;

  private constructor(tx: Tx, tree: LogAppender, onAppend?: OnAppend) {
    this.#tx = tx;
    this.#onAppend = onAppend;
    this.#tree = tree;
  }

  static async open(tx: Tx, onAppend?: OnAppend): Promise<RecordLog> {
    return new RecordLog(tx, await LogAppender.open(tx), onAppend);
  }

  /** Records, with those that are not committed yet. */
  get size(): number {
    return this.#tree.size;
  }

  root(): Buffer {
    return this.#tree.root();
  }

  /**
   * Appends one record. Its index must be the next. Its row is in the table after the next call of
   * `append`, `write` or `flush`.
   */
  async append(draft: RecordDraft, seal: RecordSeal): Promise<void> {
    if (seal.index !== this.#tree.size) {
      throw new Error(`record ${seal.index} cannot be leaf ${this.#tree.size}`);
    }
    // Before another salt may be drawn over its own.
    if (this.#held) await this.write();
    const record = renderRecord(draft, seal);
    const salt = this.#takeSalt();
    const commitment = commitTo(salt, record);
    const { tenant, bucketTenant } = draft;
    const leaf = leafText({
      tenant: this.#pseudonyms.get(tenant) ?? (await this.#name(tenant)),
      bucketTenant: bucketTenant
        ? (this.#pseudonyms.get(bucketTenant) ?? (await this.#name(bucketTenant)))
        : null,
      commitment: commitment.toString('base64url'),
    });
    const { index, timeMs } = seal;
    this.#held = {
      index,
      timeMs,
      tenant,
      bucketTenant: bucketTenant || null,
      commitment,
      salt,
      record,
      roots: null,
    };
    this.#tree.append(hashLeaf(leaf));
    this.#onAppend?.(draft, seal);
  }

  /** Whether the newest record is not in its table yet. */
  get isHeld(): boolean {
    return this.#held !== null;
  }

  /** Before anything else reads the table in the same transaction. */
  async write(): Promise<void> {
    if (!this.#held) return;
    const { index, timeMs, tenant, bucketTenant, commitment, salt, record, roots } = this.#held;
    this.#held = null;
    await this.#tx.run(
      'INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
      index,
      timeMs,
      tenant,
      bucketTenant,
      commitment,
      salt,
      record,
      roots,
    );
  }

  /** Writes the roots beside the newest record (ledger/seal-roots.ts). */
  async setRoots(roots: Uint8Array): Promise<void> {
    if (this.#held) this.#held.roots = roots;
    else await writeRoots(this.#tx, this.size - 1, roots);
  }

  /** Before each commit: what is in memory becomes durable with it. */
  async flush(): Promise<void> {
    await this.write();
    await this.#tree.flush(this.#tx);
  }

  /** After each rollback. */
  discard(): Promise<void> {
    this.#pseudonyms.clear();
    this.#held = null;
    return this.#tree.discard();
  }

  /** Its pseudonym, from its first record on. */
  async #name(tenant: string): Promise<string> {
    const pseudonym =
      (await readPseudonym(this.#tx, tenant)) ?? randomBytes(16).toString('base64url');
    await this.#tx.run('INSERT OR IGNORE INTO log_tenants VALUES (?, ?)', tenant, pseudonym);
    if (this.#pseudonyms.size >= tenantsMax) this.#pseudonyms.clear();
    this.#pseudonyms.set(tenant, pseudonym);
    return pseudonym;
  }

  #takeSalt(): Buffer {
    if (this.#nextSalt === saltsMax) {
      randomFillSync(this.#salts);
      this.#nextSalt = 0;
    }
    const at = this.#nextSalt++ * saltBytes;
    return this.#salts.subarray(at, at + saltBytes);
  }
}

/** Writes the roots beside a record that is in the table. */
export async function writeRoots(tx: Tx, index: number, roots: Uint8Array): Promise<void> {
  await tx.run('UPDATE main.records SET roots = ? WHERE idx = ?', roots, index);
}

/** Returns the pseudonym of a tenant in the log. Undefined means that the tenant has no record. */
export async function readPseudonym(read: Reader, tenant: string): Promise<string | undefined> {
  const sql = 'SELECT pseudonym FROM log_tenants WHERE tenant = ?';
  return (await read.get<{ pseudonym: string }>(sql, tenant))?.pseudonym;
}
