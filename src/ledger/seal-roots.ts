// The roots of what is sealed: which accounts each tenant has, what was moved in the month under
// the prices of each market, and, with the log's newest record, which heads there are and which of
// those roots. They are in the row of that record, which a transaction writes anyway, so that they
// cost no page: the gateway's, and those of the tenants and markets that were charged lately. The
// table `seal_roots` has the others. Of digests only MACs are stored: who knows no digest cannot
// look for rows that have the same.
import type { Reader, Tx } from '../core/database.ts';
import { macBytes } from '../core/hmac.ts';
import { KeyedMessage } from '../core/keyed-message.ts';
import type { Keyring } from '../core/keyring.ts';
import { DigestBlocks, digestBytes, type Unsealed, UnsealedRow } from '../core/seals/row-seal.ts';
import {
  nameOfTransfer,
  type TransferSeals,
  type TransferTotal,
} from '../quota/prices/transfer-totals.ts';

interface Root {
  epoch: number;
  mac: Uint8Array;
}

/** What the gateway's root is of. */
interface Whole {
  /** Records of the log. */
  logSize: number;
  /** So many of them are in the rows of accounts; what the others charged is to be added. */
  charged: number;
  /** Of the tenants' heads. */
  rights: Uint8Array;
}

/** The log whose newest record has the roots. */
export interface RootedLog {
  readonly size: number;
  setRoots(roots: Uint8Array): Promise<void>;
}

/** What a transaction leaves. */
interface SealedWhole {
  log: RootedLog;
  rights: Uint8Array;
  charged: number | null;
}

const selectRoots = 'SELECT roots FROM main.records ORDER BY idx DESC LIMIT 1';

const message = new KeyedMessage();
const none = new Uint8Array();
const foldedAtOnce = 64;
/** Tenants and markets whose roots are with the newest record. */
const lateMax = 16;
/**
 * The gateway's among the names of tenants, none of which has such characters: `*`, and the number
 * of records whose charges are in the rows of accounts, where that is not all.
 */
const gatewayName = '*';

export class SealRoots implements TransferSeals {
  readonly #keyring: Keyring;
  readonly #blocks: DigestBlocks;
  /**
   * Of the accounts of tenants, '' has those that are no tenant's; and of markets, by
   * `nameOfTransfer`.
   */
  readonly #roots = new Map<string, Root>();
  /** As it was read: later ones are only written. */
  #gateway: Root | undefined;
  /** The same; null: of all records. */
  #charged: number | null = null;
  /** Whose roots the newest record has, those that were charged last at the end. */
  #late = new Set<string>();
  /** What was moved under the prices of markets that the transaction has charged by. */
  readonly #moved = new Map<string, TransferTotal>();
  /** Of the roots of tenants' accounts and of markets. */
  readonly #accounts = new Uint8Array(digestBytes);
  /** What the transaction has changed, as it was before. */
  readonly #before = new Map<string, Root | undefined>();
  /** What the gateway's root was made of last. */
  #sealed: Whole & { accounts: Uint8Array } = {
    ...{ logSize: -1, charged: 0, rights: none, accounts: none },
  };
  #settled = { accounts: new Uint8Array(digestBytes), sealed: this.#sealed, late: [] as string[] };
  /** Blocks that are not in the digest yet: to take in many at once costs little more than one. */
  readonly #pending = Buffer.allocUnsafe(foldedAtOnce * digestBytes);
  #pendingBytes = 0;
  #pendingEpoch = 0;

  private constructor(keyring: Keyring) {
    this.#keyring = keyring;
    this.#blocks = new DigestBlocks(keyring);
  }

  static async read(read: Reader, keyring: Keyring): Promise<SealRoots> {
    const roots = new SealRoots(keyring);
    const sql = 'SELECT tenant, epoch, mac FROM main.seal_roots';
    const rows = await read.all<Root & { tenant: string }>(sql);
    for (const { tenant, ...root } of rows) roots.#enter(tenant, root);
    const newest = await read.get<{ roots: unknown }>(selectRoots);
    // What is there is newer than what the table has.
    for (const [tenant, root] of parseRoots(newest?.roots)) {
      if (roots.#enter(tenant, root) && !isGateway(tenant)) roots.#late.add(tenant);
    }
    for (const root of roots.#roots.values()) roots.#fold(root);
    roots.#foldPending();
    roots.settle();
    return roots;
  }

  /** For a database that is to have none but those that are made now. */
  static async make(tx: Tx, keyring: Keyring): Promise<SealRoots> {
    await tx.run('DELETE FROM main.seal_roots');
    return new SealRoots(keyring);
  }

  /** Of how many of the log's records the rows of accounts had what they charged when read. */
  chargedOf(logSize: number): number {
    return Math.min(this.#charged ?? logSize, logSize);
  }

  /** What does not fit. `transfers`: as they are stored. */
  verify(
    whole: Omit<Whole, 'charged'>,
    accounts: ReadonlyMap<string, Uint8Array>,
    transfers: readonly TransferTotal[],
  ): Unsealed[] {
    const faults: Unsealed[] = [];
    const moved = new Map(transfers.map((total) => [nameOfTransfer(total), total]));
    const rooted = [...this.#roots.keys()];
    for (const name of new Set([...moved.keys(), ...rooted.filter(isTransfer)])) {
      const fault = this.#findMoved(name, moved.get(name));
      if (fault) faults.push(fault);
    }
    const tenants = rooted.filter((name) => !isTransfer(name));
    for (const tenant of new Set([...accounts.keys(), ...tenants])) {
      const digest = accounts.get(tenant) ?? new Uint8Array(digestBytes);
      const root = this.#roots.get(tenant);
      if (
        root &&
        describeAccounts(this.#keyring, root.epoch, { tenant, digest }).matches(root.mac)
      ) {
        continue;
      }
      const whose = tenant || 'the gateway';
      const what = `what accounts of ${whose} have used is not what was stored last`;
      faults.push({ table: '', tenant, row: '', fault: 'replaced', scope: { tenant }, what });
    }
    const charged = this.#charged ?? whole.logSize;
    const digests = { ...whole, charged, accounts: this.#accounts };
    const isWhole = ({ epoch, mac }: Root) =>
      describeGateway(this.#keyring, epoch, digests).matches(mac);
    if (!this.#gateway || !isWhole(this.#gateway)) {
      // Nobody is charged by what somebody else says.
      this.#charged = null;
      const what =
        "what there is of rights or accounts is not what there was with the log's newest record";
      faults.push({ table: '', tenant: '', row: '', fault: 'replaced', scope: null, what });
    }
    return faults;
  }

  /**
   * Before each commit. `changed`: the digests of those tenants' accounts that it has changed.
   * `charged`: of how many records the rows of accounts have what they charged; null: of no more
   * than before.
   */
  async seal(
    tx: Tx,
    { log, rights: newRights, charged: newCharged }: SealedWhole,
    changed: Iterable<readonly [tenant: string, digest: Uint8Array]>,
  ): Promise<void> {
    const epoch = this.#keyring.currentEpoch;
    for (const [tenant, digest] of changed) {
      this.#change(tenant, epoch, describeAccounts(this.#keyring, epoch, { tenant, digest }).mac());
    }
    for (const [name, total] of this.#moved) {
      this.#change(name, epoch, describeTransfer(this.#keyring, epoch, total).mac());
    }
    this.#moved.clear();
    this.#foldPending();
    const { logSize, rights, accounts } = this.#sealed;
    const charged = newCharged ?? this.#sealed.charged;
    const isAsCharged = charged === this.#sealed.charged;
    const isSame = Buffer.compare(rights, newRights) === 0;
    // Maintenance mostly changes nothing of what is sealed.
    const isSameLog = logSize === log.size && isAsCharged;
    if (isSame && isSameLog && Buffer.compare(accounts, this.#accounts) === 0) return;
    const digests = {
      ...{ logSize: log.size, charged },
      rights: isSame ? rights : new Uint8Array(newRights),
      accounts: new Uint8Array(this.#accounts),
    };
    this.#sealed = digests;
    const gateway = { epoch, mac: describeGateway(this.#keyring, epoch, digests).mac() };
    const name = charged === log.size ? gatewayName : `${gatewayName}${charged}`;
    await this.#write(tx, log, [name, gateway]);
  }

  verifyTransfer(name: string, total: TransferTotal | undefined): void {
    const fault = this.#findMoved(name, total);
    if (fault) throw new UnsealedRow(fault);
  }

  noteTransfer(name: string, total: TransferTotal): void {
    this.#moved.set(name, total);
  }

  /** What is wrong with what was moved; undefined: nothing. */
  #findMoved(name: string, total: TransferTotal | undefined): Unsealed | undefined {
    const root = this.#roots.get(name);
    if (!root && !total) return undefined;
    if (root && total && describeTransfer(this.#keyring, root.epoch, total).matches(root.mac)) {
      return undefined;
    }
    const what = `what was moved in the month (${name}) is not what was stored last`;
    // What is moved under its prices would be charged by another tier, whoever moves it.
    const place = { table: 'quota_transfers', tenant: '', row: name };
    return { ...place, fault: 'replaced', scope: null, what };
  }

  #change(name: string, epoch: number, mac: Uint8Array): void {
    const root = { epoch, mac };
    const before = this.#roots.get(name);
    if (before) this.#fold(before);
    this.#fold(root);
    if (!this.#before.has(name)) this.#before.set(name, before);
    this.#roots.set(name, root);
    this.#late.delete(name);
    this.#late.add(name);
  }

  async #write(tx: Tx, log: RootedLog, gateway: [name: string, Root]): Promise<void> {
    const max = log.size > 0 ? lateMax : 0;
    for (const tenant of this.#late) {
      if (this.#late.size <= max) break;
      this.#late.delete(tenant);
      await writeApart(tx, tenant, this.#roots.get(tenant) as Root);
    }
    if (log.size === 0) return writeApart(tx, ...gateway);
    const roots = [gateway];
    for (const tenant of this.#late) roots.push([tenant, this.#roots.get(tenant) as Root]);
    await log.setRoots(renderRoots(roots));
  }

  settle(): void {
    this.#before.clear();
    this.#settled.accounts.set(this.#accounts);
    this.#settled.sealed = this.#sealed;
    this.#settled.late = [...this.#late];
  }

  discard(): void {
    this.#moved.clear();
    this.#pendingBytes = 0;
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
    if (isGateway(tenant)) {
      this.#gateway = root;
      this.#charged = chargedIn(tenant);
    } else this.#roots.set(tenant, root);
    return true;
  }

  #fold({ epoch, mac }: Root): void {
    const isFull = this.#pendingBytes === this.#pending.length;
    if (isFull || epoch !== this.#pendingEpoch) this.#foldPending();
    this.#pendingEpoch = epoch;
    this.#pending.set(mac.subarray(0, digestBytes), this.#pendingBytes);
    this.#pendingBytes += digestBytes;
  }

  #foldPending(): void {
    if (this.#pendingBytes === 0) return;
    const blocks = this.#pending.subarray(0, this.#pendingBytes);
    this.#blocks.fold(this.#accounts, this.#pendingEpoch, blocks);
    this.#pendingBytes = 0;
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

/**
 * The root of what was moved in a month, users' or the gateway's own, under the prices of a market.
 */
export function describeTransfer(
  keyring: Keyring,
  epoch: number,
  total: TransferTotal,
): KeyedMessage {
  const { side, provider, region, monthMs, ingressBytes, egressBytes } = total;
  const described = message.begin(keyring.sealHeadKey(epoch), 'bursar/seal-root/v1');
  described.text('transfers').text(side).text(provider).text(region);
  for (const value of [monthMs, ingressBytes, egressBytes]) described.text(String(value));
  return described;
}

function isGateway(name: string): boolean {
  return name.startsWith(gatewayName);
}

/** Whether a root is of one of these: no tenant's name has a space. */
function isTransfer(name: string): boolean {
  return name.includes(' ');
}

/** The gateway's root. `accounts`: the digest of the roots of tenants' accounts and of markets. */
export function describeGateway(
  keyring: Keyring,
  epoch: number,
  { logSize, charged, rights, accounts }: Whole & { accounts: Uint8Array },
): KeyedMessage {
  const described = message.begin(keyring.sealHeadKey(epoch), 'bursar/seal-root/v1');
  described.text('gateway').number(logSize).bytes(rights).bytes(accounts);
  return charged === logSize ? described : described.number(charged);
}

/** Of how many of the log's records the rows of accounts have what they charged. */
export async function readCharged(read: Reader, logSize: number): Promise<number> {
  const newest = await read.get<{ roots: unknown }>(selectRoots);
  const [name] = parseRoots(newest?.roots).find(([tenant]) => isGateway(tenant)) ?? [gatewayName];
  return Math.min(chargedIn(name) ?? logSize, logSize);
}

/** The number that the name of the gateway's root has; null: none. */
function chargedIn(name: string): number | null {
  const charged = Number(name.slice(gatewayName.length) || Number.NaN);
  return Number.isSafeInteger(charged) && charged >= 0 ? charged : null;
}

async function writeApart(tx: Tx, tenant: string, { epoch, mac }: Root): Promise<void> {
  const sql = `INSERT INTO main.seal_roots VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET epoch = excluded.epoch, mac = excluded.mac`;
  await tx.run(sql, tenant, epoch, mac);
}

/** Of a tenant, or of a market. */
const nameBytesMax = 0xff;
const epochBytes = 2;
const rootBytes = epochBytes + macBytes;

/**
 * For each: the length of the tenant's name in bytes, one byte, the name, the epoch, and the MAC.
 */
function renderRoots(roots: readonly [tenant: string, Root][]): Buffer {
  const bytes = Buffer.allocUnsafe(roots.length * (1 + nameBytesMax + rootBytes));
  let end = 0;
  for (const [tenant, { epoch, mac }] of roots) {
    const nameBytes = bytes.write(tenant, end + 1);
    bytes[end] = nameBytes;
    end = bytes.writeUInt16BE(epoch, end + 1 + nameBytes);
    bytes.set(mac, end);
    end += mac.length;
  }
  return bytes.subarray(0, end);
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
