// Brings who there is, what they may and how much in a restored database to what the journals tell:
// what was made, changed or taken away after the backup. What is new is restored as a rebuild does
// it; what is there and differs is changed, and what is not there any more is deleted, each as an
// ordinary change, whose record is one. Invariants: what the database knows is as new as its last
// change that a journal of its own had to tell; the newest word holds; and where something may be
// missing, nothing is more than it is known to be.
import { isDeepStrictEqual } from 'node:util';
import { recordedChange } from '../../audit/recorded-change.ts';
import { tenantKeyContext } from '../../authz/tenant-keys.ts';
import { listOutbox } from '../../catalog/outbox.ts';
import type { Reader } from '../../core/database.ts';
import type { Role } from '../../core/principal.ts';
import { readLimits } from '../../core/quota-terms.ts';
import type { IdentityChange } from '../../ledger/commands/identities.ts';
import { membersOf } from '../../ledger/commands/index.ts';
import type {
  PresentEntry,
  PrincipalEntry,
  ThingKind,
} from '../../ledger/journal/identity-format.ts';
import { identitiesBucket, listThings, readTells } from '../../ledger/journal/identity-outbox.ts';
import { IdentityRows } from '../../ledger/journal/identity-rows.ts';
import { readNewestSeq } from '../../ledger/journal/upkeep.ts';
import type { TryCommit } from '../../ledger/rebuild/committer.ts';
import {
  hookOwnerOf,
  hookTargetOf,
  type Restoring,
  readMode,
  restoreAccessKeys,
  restoreOwnMounts,
  restorePeople,
  restorePublicKeys,
  restoreRights,
  sealedKeyOf,
} from '../../ledger/rebuild/restore-identities.ts';
import type { StagedRetired, ToldIdentities } from '../../ledger/rebuild/staged-identities.ts';
import type { Work } from '../../ledger/rebuild/work.ts';
import { tightest } from '../../quota/limits/limit-set.ts';
import { databaseSeq } from './database.ts';
import type { ForwardStore } from './stores.ts';

type StoredKind = Exclude<ThingKind, 'publicKey'>;
type Told<K extends PresentEntry['kind']> = Extract<PresentEntry, { kind: K }>;

/**
 * The order of deletion, so that nothing stays that refers to what is gone. A token is deleted with
 * its principal, or when it expires.
 */
const goInOrder = [
  ...(['webhook', 'target', 'issuer', 'class', 'mount', 'grant', 'limits'] as const),
  ...(['principal', 'group', 'tenant'] as const),
] satisfies StoredKind[];
const staysUntold = ['revocation', 'token'] satisfies StoredKind[];

/**
 * Stages what the database knows of identities beside the journals that it has written itself;
 * gives how far, undefined where these are of another one, which took over all that was known.
 */
export async function stageIdentities(
  { staging }: Work,
  read: Reader,
  own: readonly ForwardStore[],
): Promise<ToldIdentities | undefined> {
  let lastSeq = -1;
  let isTold = false;
  for (const one of own) {
    isTold ||= (await readTells(read, one.store.number)) !== null;
    lastSeq = Math.max(lastSeq, await databaseSeq(read, one));
  }
  // For a store that was out of use, no changes since then are kept for its journal.
  if (!isTold) lastSeq = await readNewestSeq(read);
  if (lastSeq < 0) return undefined;
  const rows = new IdentityRows(read, { withKeys: false });
  const how = { revocationsAlone: false };
  const take = async (entries: Parameters<typeof staging.identities.take>[0]) => {
    const told = entries.map((one) =>
      one.kind === 'strange' ? one : { ...one, toldSeq: lastSeq },
    );
    await staging.identities.take(told, how);
  };
  for await (const entries of rows.listRetired()) await take(entries);
  for (const kind of [...goInOrder, ...staysUntold]) {
    for await (const entries of rows.list(kind)) await take(entries);
  }
  // The outbox names the deletions that the journal was not told of yet.
  for (const { store } of own) {
    for (const { seq, bucketId } of await listOutbox(read, store.number, Number.MAX_SAFE_INTEGER)) {
      if (bucketId !== identitiesBucket) continue;
      for (const thing of await listThings(read, store.number, seq)) {
        const entry = await rows.find(thing);
        if (entry.kind === 'absent' || entry.kind === 'retired') await take([entry]);
      }
    }
  }
  return { lastSeq, holes: [], floorSeq: lastSeq + 1, tells: 'identities', strange: 0 };
}

/** How keys of a principal are named and changed. */
interface KeyKind<Key> {
  nameOf: (key: Key) => string;
  /** What records and reports call a key of this kind, without its id. */
  target: string;
  /** It is left to what it belongs to. */
  isBound?: (key: Key) => boolean;
  end: (key: Key) => IdentityChange;
  set: (key: Key) => IdentityChange;
}

interface Options {
  work: Work;
  read: Reader;
  commit: TryCommit;
  /** What the database knows was staged beside the journals, which are its own. */
  isOwn: boolean;
  /** Some journals tell more than revocations. */
  isTold: boolean;
}

export class ForwardIdentities {
  readonly #restoring: Restoring;
  readonly #rows: IdentityRows;
  /** Whether a thing that the journals do not tell of is gone. */
  readonly #isUntoldGone: boolean;

  constructor({ work, read, commit, isOwn, isTold }: Options) {
    this.#rows = new IdentityRows(read, { withKeys: true });
    // It is not known what the journals of another database would have told.
    this.#isUntoldGone = isTold && (isOwn || !work.report.identities.doubtful);
    this.#restoring = {
      work,
      commit,
      isDoubtful: work.report.identities.doubtful,
      isSettled: (entry) => this.#isSettled(entry),
      isRetired: (retired) => this.#isRetired(retired),
    };
  }

  /** Brings all principals that buckets may belong to. */
  bringPeople(): Promise<void> {
    return restorePeople(this.#restoring);
  }

  /** To be called once the buckets are there, or gone. */
  async bringRights(): Promise<void> {
    await restoreRights(this.#restoring);
    if (!this.#isUntoldGone) return;
    for (const kind of goInOrder) {
      for await (const entries of this.#rows.list(kind)) {
        for (const entry of entries) await this.#removeIfGone(entry);
      }
    }
  }

  /**
   * Resolves to whether nothing has to be restored, because the thing is there as the journals tell
   * it, or was changed to be so.
   */
  async #isSettled(told: PresentEntry): Promise<boolean> {
    const found = await this.#rows.find({ ...told, kind: told.kind });
    if (found.kind === 'absent') return false;
    if (found.kind === 'retired') return true;
    if (told.kind === 'tenant') await this.#bringTenantKey(told, found as typeof told);
    if (isDeepStrictEqual(comparable(found), comparable(told))) return true;
    switch (told.kind) {
      case 'tenant':
        await this.#updateTenant(told);
        return true;
      case 'principal':
        await this.#updatePrincipal(told, found as PrincipalEntry);
        return true;
      case 'limits':
        if (!this.#restoring.isDoubtful) return false;
        await this.#tightenLimits(told, found as typeof told);
        return true;
      // It is made anew, in the place of the one that is there.
      case 'grant':
      case 'mount':
      case 'issuer':
      case 'webhook':
      case 'target':
        return false;
      case 'class': {
        // A class never changes: this one was deleted, and another made.
        const { tenant, name } = told;
        const target = `tenants/${tenant}/classes/${name}`;
        await this.#change({ kind: 'deleteClass', tenant, name }, target);
        return false;
      }
      case 'token':
        await this.#transferShare(told, found as typeof told);
        return true;
      // A group says nothing else; of a revocation nothing changes that is told.
      default:
        return true;
    }
  }

  /** Of a token that is there only whose it is can be another, and only of a share link. */
  async #transferShare(
    { tenant, name: id, principal: to, is }: Told<'token'>,
    { principal: from }: Told<'token'>,
  ): Promise<void> {
    if (is !== 'share' || from === to) return;
    const target = `tenants/${tenant}/shares/${id}`;
    await this.#change({ kind: 'transferShare', tenant, id, from, to }, target);
  }

  /** What is there still is deleted further below, which retires its name. */
  async #isRetired({ kind, tenant, name }: StagedRetired): Promise<boolean> {
    return (await this.#rows.find({ kind, tenant, name })).kind !== 'absent';
  }

  /** What was written after the backup is read with the secret that was made after it. */
  async #bringTenantKey(told: Told<'tenant'>, found: Told<'tenant'>): Promise<void> {
    const sealedKey = sealedKeyOf(this.#restoring, told);
    if (!sealedKey) return;
    const { tenant: name } = told;
    if (found.sealedKey) {
      const { leftOut } = this.#restoring.work.report.identities;
      if (!this.#opensAlike(told, found)) leftOut.add(`tenants/${name}: its key is another`);
      return;
    }
    await this.#change({ kind: 'createTenantKey', name, sealedKey }, `tenants/${name}`);
  }

  /** One secret can be sealed in several ways. */
  #opensAlike(...entries: Told<'tenant'>[]): boolean {
    const { sealer } = this.#restoring.work;
    const [one, other] = entries.map(({ tenant, sealedKey }) =>
      sealer.open(Buffer.from(sealedKey ?? '', 'hex'), tenantKeyContext(tenant)),
    );
    return one !== undefined && other !== undefined && one.equals(other);
  }

  async #updateTenant(told: Told<'tenant'>): Promise<void> {
    const { tenant: name, membersCreateBuckets, membersMountBuckets, defaultStore } = told;
    const recordReads = readMode(told.recordReads);
    const change = {
      ...({ kind: 'updateTenant', name, membersCreateBuckets, defaultStore } as const),
      ...(membersMountBuckets !== undefined && { membersMountBuckets }),
    };
    const target = `tenants/${name}`;
    await this.#change({ ...change, ...(recordReads && { recordReads }) }, target);
  }

  async #updatePrincipal(told: PrincipalEntry, found: PrincipalEntry): Promise<void> {
    const { tenant, name, active } = told;
    const target = `tenants/${tenant}/principals/${name}`;
    const role = told.role as Role;
    const known: string[] = [];
    for (const group of told.groups) {
      if (await this.#restoring.work.staging.identities.has('group', tenant, group)) {
        known.push(group);
      }
    }
    const isAsTold =
      role === found.role &&
      active === found.active &&
      isDeepStrictEqual([...known].sort(), [...found.groups].sort());
    if (!isAsTold) {
      const made = { role, groups: known, active };
      await this.#change({ kind: 'updatePrincipal', tenant, name, ...made }, target);
    }
    const of = { tenant, principal: name };
    const publicKeys = await this.#bringKeys(found.publicKeys, told.publicKeys, {
      nameOf: ({ thumbprint }) => thumbprint,
      target: `${target}/public-keys`,
      end: ({ thumbprint }) => ({ kind: 'deletePublicKey', ...of, thumbprint }),
      set: ({ thumbprint, active }) => ({ kind: 'updatePublicKey', ...of, thumbprint, active }),
    });
    await restorePublicKeys(this.#restoring, { ...told, publicKeys }, target);
    const accessKeys = await this.#bringKeys(found.accessKeys, told.accessKeys, {
      nameOf: ({ id }) => id,
      target: `${target}/access-keys`,
      // A key without a secret is deleted with its public key.
      isBound: ({ thumbprint }) => thumbprint !== null,
      end: ({ id }) => ({ kind: 'deleteAccessKey', ...of, id }),
      set: ({ id, active }) => ({ kind: 'updateAccessKey', ...of, id, active }),
    });
    await restoreAccessKeys(this.#restoring, { ...told, accessKeys }, target);
    await this.#bringOwnMounts(told, found, target);
  }

  /** Of an earlier version, which knew none, nothing is taken away. */
  async #bringOwnMounts(told: PrincipalEntry, found: PrincipalEntry, target: string) {
    if (told.mounts === undefined) return;
    const { tenant, name: principal, mounts: wanted } = told;
    const before = found.mounts ?? [];
    for (const { name } of before) {
      if (wanted.some((one) => one.name === name)) continue;
      const change = { kind: 'deleteOwnMount', tenant, principal, name } as const;
      await this.#change(change, `${target}/mounts/${name}`);
    }
    const isSame = (one: object) => before.some((other) => isDeepStrictEqual(one, other));
    const mounts = wanted.filter((one) => !isSame(one));
    await restoreOwnMounts(this.#restoring, { ...told, mounts }, target);
  }

  /**
   * Removes those that the journals do not tell of any more, and changes the others to what they
   * tell. Gives those that are to be made.
   */
  async #bringKeys<Key extends { active: boolean }>(
    found: readonly Key[],
    told: readonly Key[],
    { nameOf, target, isBound, end, set }: KeyKind<Key>,
  ): Promise<Key[]> {
    for (const key of found) {
      if (isBound?.(key)) continue;
      const at = `${target}/${nameOf(key)}`;
      const now = told.find((one) => nameOf(one) === nameOf(key));
      if (!now) await this.#change(end(key), at);
      else if (now.active !== key.active) await this.#change(set(now), at);
    }
    const known = new Set(found.map(nameOf));
    return told.filter((one) => !known.has(nameOf(one)));
  }

  /**
   * A limit that may have been lowered since it was told, and one that was raised: the lower holds.
   */
  async #tightenLimits(told: Told<'limits'>, found: Told<'limits'>): Promise<void> {
    const { name: account } = told;
    const [one, other] = [found, told].map(({ limits }) => readLimits(JSON.parse(limits)));
    if (!one || !other) return;
    const limits = tightest(one, other);
    const target = `limits/${account}`;
    const about = { action: 'bursar:RestoreLimits', target, limits };
    const refused = await this.#restoring.commit({ kind: 'setLimits', account, limits }, about);
    this.#note(refused, target);
  }

  async #removeIfGone(entry: PresentEntry): Promise<void> {
    const { kind, tenant, name } = entry;
    const { work, commit } = this.#restoring;
    if (await work.staging.identities.has(kind, tenant, name)) return;
    const place = `tenants/${tenant}/${kind}s/${name}`;
    switch (kind) {
      case 'limits': {
        const target = `limits/${name}`;
        const about = { action: 'bursar:DeleteLimit', target };
        this.#note(await commit({ kind: 'setLimits', account: name, limits: null }, about), target);
        return;
      }
      case 'webhook': {
        const of = hookOwnerOf(entry);
        const target = hookTargetOf(of);
        const about = { action: 'bursar:DeleteAlarmHook', target, ...(tenant && { tenant }) };
        this.#note(await commit({ kind: 'setAlarmHook', ...of, hook: null }, about), target);
        return;
      }
      case 'grant':
        await this.#change({ kind: 'deleteGrant', tenant, name, isByAdmin: true }, place);
        return;
      case 'mount':
        await this.#change({ kind: 'deleteMount', tenant, name }, place);
        return;
      case 'target':
        await this.#change({ kind: 'deleteTarget', tenant, name }, place);
        return;
      case 'issuer':
        await this.#change({ kind: 'deleteIssuer', tenant, name }, place);
        return;
      case 'class':
        await this.#change(
          { kind: 'deleteClass', tenant, name },
          `tenants/${tenant}/classes/${name}`,
        );
        return;
      case 'principal':
        await this.#removePrincipal(entry, place);
        return;
      case 'group':
        await this.#change({ kind: 'deleteGroup', tenant, name }, place);
        return;
      case 'tenant':
        await this.#change({ kind: 'deleteTenant', name: tenant }, `tenants/${tenant}`);
        return;
      default:
        return;
    }
  }

  /**
   * A principal that owns something in a store without a journal is kept, but may not do anything.
   */
  async #removePrincipal(entry: PrincipalEntry, target: string): Promise<void> {
    const { tenant, name, active } = entry;
    if (await this.#change({ kind: 'deletePrincipal', tenant, name }, target)) return;
    if (!active) return;
    await this.#change({ kind: 'updatePrincipal', tenant, name, active: false }, target);
  }

  /** Makes an ordinary change. False means that it was refused, which is reported. */
  async #change(change: IdentityChange, target: string): Promise<boolean> {
    const { kind } = change;
    const action = kind.charAt(0).toUpperCase() + kind.slice(1);
    const members = membersOf(change);
    const [, tenant = ''] = target.split('/');
    const refused = await this.#restoring.commit(change, {
      ...{ action: `bursar:${action}`, tenant, target },
      ...(members && { change: recordedChange(members) }),
    });
    return this.#note(refused, target, kind.startsWith('delete'));
  }

  #note(refused: string | null, target: string, isEnd = false): boolean {
    const { identities } = this.#restoring.work.report;
    if (refused !== null) identities.leftOut.add(`${target}: ${refused}`);
    else if (isEnd) identities.removed.add(target);
    else identities.changed.add(target);
    return refused === null;
  }
}

/** What an entry says, whenever it was told; secrets are told or not. */
function comparable(entry: PresentEntry): unknown {
  const { toldSeq: _, ...rest } = entry;
  if (rest.kind === 'tenant') return { ...rest, sealedKey: null };
  if (rest.kind === 'webhook' || rest.kind === 'target') return { ...rest, sealedSecret: null };
  if (rest.kind !== 'principal') return rest;
  const byText = (a: object, b: object) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);
  const accessKeys = rest.accessKeys.map((key) => ({ ...key, sealedSecret: null })).sort(byText);
  const publicKeys = [...rest.publicKeys].sort(byText);
  const mounts = [...(rest.mounts ?? [])].sort(byText);
  return { ...rest, groups: [...rest.groups].sort(), accessKeys, publicKeys, mounts };
}
