// The roots of what is sealed: which accounts each tenant has, and, with the log's newest record, which
// heads there are and which of those roots. They are in the row of that record, which a transaction
// writes anyway, so that they cost no page: the gateway's, and those of the tenants that were charged
// lately. The table `seal_roots` has those of the other tenants.
// Of digests only MACs are stored: who knows no digest cannot look for rows that have the same.
import type { Reader, Tx } from '../core/database.ts';
import { macBytes } from '../core/hmac.ts';
import { KeyedMessage } from '../core/keyed-message.ts';
import type { Keyring } from '../core/keyring.ts';
import { DigestBlocks, digestBytes, type Unsealed } from '../core/seals/row-seal.ts';

interface Root {
  epoch: number;
  mac: Uint8Array;
}

/** What the gateway's root is of. */
interface Whole {
  /** Records of the log. */
  logSize: number;
  /** Of the tenants' heads. */
  rights: Uint8Array;
}

const message = new KeyedMessage();
/** Tenants whose roots are with the newest record. */
const lateMax = 16;
/** The gateway's among the names of tenants, none of which has such characters. */
const gatewayName = '*';

export class SealRoots {
  readonly #keyring: Keyring;
  readonly #blocks: DigestBlocks;
  /** Of the accounts of tenants; '' has those that are no tenant's. */
  readonly #roots = new Map<string, Root>();
  /** As it was read: later ones are only written. */
  #gateway: Root | undefined;
  /** Whose roots the newest record has, those that were charged last at the end. */
  #late = new Set<string>();
  /** Of the roots of tenants' accounts. */
  readonly #accounts = new Uint8Array(digestBytes);
  /** What the transaction has changed, as it was before. */
  readonly #before = new Map<string, Root | undefined>();
  #sealed = '';
  #settled = { accounts: new Uint8Array(digestBytes), sealed: '', late: [] as string[] };

  private constructor(keyring: Keyring) {
    this.#keyring = keyring;
    this.#blocks = new DigestBlocks(keyring);
  }

  static async read(read: Reader, keyring: Keyring): Promise<SealRoots> {
    const roots = new SealRoots(keyring);
    const sql = 'SELECT tenant, epoch, mac FROM main.seal_roots';
    const rows = await read.all<Root & { tenant: string }>(sql);
    for (const { tenant, ...root } of rows) roots.#enter(tenant, root);
    const newest = await read.get<{ roots: unknown }>(
      'SELECT roots FROM main.records ORDER BY idx DESC LIMIT 1',
    );
    // What is there is newer than what the table has.
    for (const [tenant, root] of parseRoots(newest?.roots)) {
      if (roots.#enter(tenant, root) && tenant !== gatewayName) roots.#late.add(tenant);
    }
    for (const root of roots.#roots.values()) roots.#fold(root);
    roots.settle();
    return roots;
  }

  /** For a database that is to have none but those that are made now. */
  static async make(tx: Tx, keyring: Keyring): Promise<SealRoots> {
    await tx.run('DELETE FROM main.seal_roots');
    return new SealRoots(keyring);
  }

  /** What does not fit. */
  verify(whole: Whole, accounts: ReadonlyMap<string, Uint8Array>): Unsealed[] {
    const faults: Unsealed[] = [];
    for (const tenant of new Set([...accounts.keys(), ...this.#roots.keys()])) {
      const digest = accounts.get(tenant) ?? new Uint8Array(digestBytes);
      const root = this.#roots.get(tenant);
      if (
        root &&
        describeAccounts(this.#keyring, root.epoch, { tenant, digest }).matches(root.mac)
      ) {
        continue;
      }
      const what = `what accounts of ${tenant || 'the gateway'} have used is not what was stored last`;
      faults.push({ table: '', tenant, row: '', fault: 'replaced', scope: { tenant }, what });
    }
    const digests = { ...whole, accounts: this.#accounts };
    const isWhole = ({ epoch, mac }: Root) =>
      describeGateway(this.#keyring, epoch, digests).matches(mac);
    if (!this.#gateway || !isWhole(this.#gateway)) {
      const what =
        "what there is of rights or accounts is not what there was with the log's newest record";
      faults.push({ table: '', tenant: '', row: '', fault: 'replaced', scope: null, what });
    }
    return faults;
  }

  /** Before each commit. `changed`: the digests of those tenants' accounts that it has changed. */
  async seal(
    tx: Tx,
    whole: Whole,
    changed: Iterable<readonly [tenant: string, digest: Uint8Array]>,
  ): Promise<void> {
    const epoch = this.#keyring.currentEpoch;
    for (const [tenant, digest] of changed) {
      const root = { epoch, mac: describeAccounts(this.#keyring, epoch, { tenant, digest }).mac() };
      const before = this.#roots.get(tenant);
      if (before) this.#fold(before);
      this.#fold(root);
      if (!this.#before.has(tenant)) this.#before.set(tenant, before);
      this.#roots.set(tenant, root);
      this.#late.delete(tenant);
      this.#late.add(tenant);
    }
    // Housekeeping mostly changes nothing of what is sealed.
    const sealed = `${whole.logSize} ${hex(whole.rights)} ${hex(this.#accounts)}`;
    if (sealed === this.#sealed) return;
    this.#sealed = sealed;
    const digests = { ...whole, accounts: this.#accounts };
    const gateway = { epoch, mac: describeGateway(this.#keyring, epoch, digests).mac() };
    await this.#write(tx, whole.logSize, gateway);
  }

  async #write(tx: Tx, logSize: number, gateway: Root): Promise<void> {
    const max = logSize > 0 ? lateMax : 0;
    for (const tenant of this.#late) {
      if (this.#late.size <= max) break;
      this.#late.delete(tenant);
      await writeApart(tx, tenant, this.#roots.get(tenant) as Root);
    }
    if (logSize === 0) return writeApart(tx, gatewayName, gateway);
    const roots: [string, Root][] = [[gatewayName, gateway]];
    for (const tenant of this.#late) roots.push([tenant, this.#roots.get(tenant) as Root]);
    const sql = 'UPDATE main.records SET roots = ? WHERE idx = ?';
    await tx.run(sql, renderRoots(roots), logSize - 1);
  }

  settle(): void {
    this.#before.clear();
    this.#settled.accounts.set(this.#accounts);
    this.#settled.sealed = this.#sealed;
    this.#settled.late = [...this.#late];
  }

  discard(): void {
    for (const [tenant, root] of this.#before) {
      if (root) this.#roots.set(tenant, root);
      else this.#roots.delete(tenant);
    }
    this.#before.clear();
    this.#accounts.set(this.#settled.accounts);
    this.#sealed = this.#settled.sealed;
    this.#late = new Set(this.#settled.late);
  }

  /** False: it is of an epoch that never was, or not as roots are. */
  #enter(tenant: string, root: Root): boolean {
    const { epoch, mac } = root;
    if (!this.#keyring.epochs.includes(epoch)) return false;
    if (!(mac instanceof Uint8Array) || mac.length !== macBytes) return false;
    if (tenant === gatewayName) this.#gateway = root;
    else this.#roots.set(tenant, root);
    return true;
  }

  #fold({ epoch, mac }: Root): void {
    this.#blocks.fold(this.#accounts, epoch, mac.subarray(0, digestBytes));
  }
}

/** The root of a tenant's accounts, whose MACs have this digest. */
export function describeAccounts(
  keyring: Keyring,
  epoch: number,
  { tenant, digest }: { tenant: string; digest: Uint8Array },
): KeyedMessage {
  const described = message.begin(keyring.sealHeadKey(epoch), 'bursar/seal-root/v1');
  return described.text('accounts').text(tenant).bytes(digest);
}

/** The gateway's root. `accounts`: the digest of the roots of tenants' accounts. */
export function describeGateway(
  keyring: Keyring,
  epoch: number,
  { logSize, rights, accounts }: Whole & { accounts: Uint8Array },
): KeyedMessage {
  const described = message.begin(keyring.sealHeadKey(epoch), 'bursar/seal-root/v1');
  return described.text('gateway').number(logSize).bytes(rights).bytes(accounts);
}

async function writeApart(tx: Tx, tenant: string, { epoch, mac }: Root): Promise<void> {
  const sql = `INSERT INTO main.seal_roots VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET epoch = excluded.epoch, mac = excluded.mac`;
  await tx.run(sql, tenant, epoch, mac);
}

const epochBytes = 2;
const rootBytes = epochBytes + macBytes;

/** For each: the length of the tenant's name in bytes, one byte, the name, the epoch, and the MAC. */
function renderRoots(roots: readonly [tenant: string, Root][]): Buffer {
  const parts = roots.flatMap(([tenant, { epoch, mac }]) => {
    const name = Buffer.from(tenant);
    return [Buffer.of(name.length), name, Buffer.of(epoch >> 8, epoch & 0xff), mac];
  });
  return Buffer.concat(parts);
}

/** What there is of them, where somebody else has written something else. */
export function parseRoots(stored: unknown): [tenant: string, Root][] {
  const roots: [string, Root][] = [];
  if (!(stored instanceof Uint8Array)) return roots;
  const bytes = Buffer.from(stored.buffer, stored.byteOffset, stored.length);
  for (let at = 0; at < bytes.length && roots.length <= lateMax; ) {
    const nameEnd = at + 1 + (bytes[at] as number);
    if (nameEnd + rootBytes > bytes.length) break;
    const tenant = bytes.toString('utf8', at + 1, nameEnd);
    at = nameEnd + rootBytes;
    const mac = bytes.subarray(nameEnd + epochBytes, at);
    roots.push([tenant, { epoch: bytes.readUInt16BE(nameEnd), mac }]);
  }
  return roots;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');
}
