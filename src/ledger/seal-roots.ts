// The roots of what is sealed: which heads there are, and which accounts each tenant has, with the log's
// newest record. All are in one page of the database, which each transaction writes that makes a record.
// Of digests only MACs are stored: who knows no digest cannot look for rows that have the same.
import type { Reader, Tx } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import { KeyedMessage } from '../core/keyed-message.ts';
import type { Keyring } from '../core/keyring.ts';
import { DigestBlocks, digestBytes, type Unsealed } from '../core/seals/row-seal.ts';

interface Root {
  epoch: number;
  mac: Uint8Array;
}

/** What the roots are of. */
interface Digests {
  /** Records of the log. */
  logSize: number;
  /** Of the tenants' heads. */
  rights: Uint8Array;
  /** Of accounts, by tenant. */
  accounts: ReadonlyMap<string, Uint8Array>;
}

const message = new KeyedMessage();
const accountsOf = 'accounts/';

export class SealRoots {
  readonly #keyring: Keyring;
  readonly #blocks: DigestBlocks;
  readonly #roots = new Map<string, Root>();
  /** Of the roots of tenants' accounts. */
  readonly #accounts = new Uint8Array(digestBytes);
  /** What the transaction has changed, as it was before. */
  readonly #before = new Map<string, Root | undefined>();
  #sealed = '';
  #settled = { accounts: new Uint8Array(digestBytes), sealed: '' };

  private constructor(keyring: Keyring) {
    this.#keyring = keyring;
    this.#blocks = new DigestBlocks(keyring);
  }

  static async read(read: Reader, keyring: Keyring): Promise<SealRoots> {
    const roots = new SealRoots(keyring);
    const rows = await read.all<Root & { name: string }>('SELECT name, epoch, mac FROM seal_roots');
    for (const { name, epoch, mac } of rows) {
      const isKnown = keyring.epochs.includes(epoch) && mac instanceof Uint8Array;
      if (!isKnown || mac.length < digestBytes) continue;
      roots.#roots.set(name, { epoch, mac });
      if (name.startsWith(accountsOf)) roots.#fold({ epoch, mac });
    }
    roots.settle();
    return roots;
  }

  /** What does not fit. */
  verify({ logSize, rights, accounts }: Digests): Unsealed[] {
    const faults: Unsealed[] = [];
    const known = [...this.#roots.keys()].filter((name) => name.startsWith(accountsOf));
    const tenants = [...accounts.keys(), ...known.map((name) => name.slice(accountsOf.length))];
    for (const tenant of new Set(tenants)) {
      const digest = accounts.get(tenant) ?? new Uint8Array(digestBytes);
      if (this.#fits(accountsOf + tenant, null, digest)) continue;
      const what = `what accounts of ${tenant || 'the gateway'} have used is not what was stored last`;
      faults.push({ table: '', tenant, row: '', fault: 'replaced', scope: { tenant }, what });
    }
    for (const [name, digest] of [
      ['rights', rights] as const,
      ['accounts', this.#accounts] as const,
    ]) {
      if (this.#fits(name, logSize, digest)) continue;
      const what = `what there is of ${name} is not what there was with the log's newest record`;
      faults.push({ table: '', tenant: '', row: '', fault: 'replaced', scope: null, what });
    }
    return faults;
  }

  /** A tenant's accounts have changed. */
  async sealAccounts(tx: Tx, tenant: string, digest: Uint8Array): Promise<void> {
    const name = accountsOf + tenant;
    const before = this.#roots.get(name);
    if (before) this.#fold(before);
    this.#fold(await this.#write(tx, name, { logSize: null, digest }));
  }

  /** Before each commit, and after the accounts. */
  async seal(tx: Tx, { logSize, rights }: Omit<Digests, 'accounts'>): Promise<void> {
    // Housekeeping mostly changes nothing of what is sealed.
    const sealed = `${logSize} ${hex(rights)} ${hex(this.#accounts)}`;
    if (sealed === this.#sealed) return;
    this.#sealed = sealed;
    await this.#write(tx, 'rights', { logSize, digest: rights });
    await this.#write(tx, 'accounts', { logSize, digest: this.#accounts });
  }

  settle(): void {
    this.#before.clear();
    this.#settled.accounts.set(this.#accounts);
    this.#settled.sealed = this.#sealed;
  }

  discard(): void {
    for (const [name, root] of this.#before) {
      if (root) this.#roots.set(name, root);
      else this.#roots.delete(name);
    }
    this.#before.clear();
    this.#accounts.set(this.#settled.accounts);
    this.#sealed = this.#settled.sealed;
  }

  async #write(
    tx: Tx,
    name: string,
    { logSize, digest }: { logSize: number | null; digest: Uint8Array },
  ): Promise<Root> {
    const epoch = this.#keyring.currentEpoch;
    const root = {
      epoch,
      mac: describeRoot(this.#keyring, epoch, { name, logSize, digest }).mac(),
    };
    await tx.run(
      `INSERT INTO seal_roots VALUES (?, ?, ?)
         ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, mac = excluded.mac`,
      ...[name, root.epoch, root.mac],
    );
    if (!this.#before.has(name)) this.#before.set(name, this.#roots.get(name));
    this.#roots.set(name, root);
    return root;
  }

  #fits(name: string, logSize: number | null, digest: Uint8Array): boolean {
    const root = this.#roots.get(name);
    if (!root) return false;
    try {
      return describeRoot(this.#keyring, root.epoch, { name, logSize, digest }).matches(root.mac);
    } catch (error) {
      if (error instanceof IntegrityError) return false;
      throw error;
    }
  }

  #fold({ epoch, mac }: Root): void {
    this.#blocks.fold(this.#accounts, epoch, mac.subarray(0, digestBytes));
  }
}

/** `logSize`: null of a tenant's accounts. */
export function describeRoot(
  keyring: Keyring,
  epoch: number,
  { name, logSize, digest }: { name: string; logSize: number | null; digest: Uint8Array },
): KeyedMessage {
  return message
    .begin(keyring.sealHeadKey(epoch), 'bursar/seal-root/v1')
    .text(name)
    .number(logSize)
    .bytes(digest);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');
}
