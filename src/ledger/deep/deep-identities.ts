// Who there is and what they may, against the records: each change is made once more in memory, as
// src/authz makes it in the tables. Invariants: names are not given again, so what belonged to who
// is gone is gone, but for the operator that a start can make anew; and what a record names by its
// digest alone is compared where the row says all of it.

import { guarded } from '../../audit/verify/guard.ts';
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import { defaultTenant, rootPrincipal } from '../../core/principal.ts';
import {
  ComparedThings,
  type Comparison,
  type Members,
  tenantOfName,
  tenantOfOwner,
} from './compared-things.ts';
import { identityRows, sorted } from './identity-rows.ts';
import type { StagedMap, Staging } from './staging.ts';

const nouns = {
  tenant: 'tenant',
  principal: 'principal',
  group: 'group',
  accessKey: 'access key',
  publicKey: 'public key',
  grant: 'grant',
  mount: 'mount',
  ownMount: "principal's mount",
  issuer: 'issuer',
  target: 'target',
  class: 'storage class',
} as const;

type Kind = keyof typeof nouns;

const rootId = `${defaultTenant}/${rootPrincipal}`;

export class DeepIdentities {
  readonly #things: Record<Kind, ComparedThings>;
  /** By principal: the record since which it has none of the keys of before. */
  readonly #since: StagedMap<number>;
  /** By the thumbprint of a SigV4A key: its access key. */
  readonly #accessKeys: StagedMap<string>;
  /** When a start made the root key, where its record does not say which, as those up to 0.1.0. */
  readonly #unnamedMs: StagedMap<number>;

  constructor(staging: Staging) {
    this.#things = Object.fromEntries(
      Object.entries(nouns).map(([kind, noun]) => {
        const isKey = kind === 'accessKey' || kind === 'publicKey';
        return [kind, new ComparedThings(staging, noun, isKey ? tenantOfOwner : tenantOfName)];
      }),
    ) as Record<Kind, ComparedThings>;
    this.#since = staging.map('principal since');
    this.#accessKeys = staging.map('access key of');
    this.#unnamedMs = staging.map('root key');
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    if (!isDone(fields)) return;
    const { action, target = '', time } = fields;
    const [, verb, noun = ''] =
      /^bursar:(Create|Update|Delete|Put|Restore)([A-Za-z]+)$/.exec(action) ?? [];
    if (verb === undefined) return;
    if (noun === 'RootKey') await this.#putRootKey(index, fields);
    const kind = kindOf(noun);
    const place = kind && placeOf(target);
    if (!kind || !place) return;
    // When what was restored was made, and whether it is active, its record does not say.
    const createdMs = verb === 'Restore' ? undefined : Date.parse(time);
    // Of grants, mounts and issuers the digest is compared with that of the row.
    const isWhole = wholeKinds.has(kind);
    const change = fields.change && (isWhole ? fields.change : digestless(fields.change));
    const isRestored = verb === 'Restore';
    if (verb === 'Delete') await this.#delete(kind, place);
    else if (verb === 'Update') await this.#update(kind, place, index, change);
    else await this.#make(kind, place, index, { change, createdMs, isRestored });
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    const kinds = Object.keys(nouns) as Kind[];
    for (const kind of kinds) await this.#forgetGone(kind);
    await this.#nameRootKey(read);
    for (const kind of kinds) {
      await guarded(comparison.tell, `${nouns[kind]}s`, () =>
        this.#things[kind].compare(identityRows[kind](read), comparison),
      );
    }
  }

  async #make(
    kind: Kind,
    place: Place,
    index: number,
    { change, createdMs, isRestored }: Made,
  ): Promise<void> {
    const active = isRestored ? undefined : 1;
    const things = this.#things[kind];
    const { id, owner } = place;
    switch (kind) {
      case 'tenant': {
        const { membersCreateBuckets, membersMountBuckets = true } = change ?? {};
        const { defaultStore = null, recordReads = null } = change ?? {};
        const members = { membersCreateBuckets, membersMountBuckets, defaultStore, recordReads };
        await things.put(id, index, { ...(change && members), createdMs });
        break;
      }
      case 'principal': {
        const told = change?.active === undefined ? active : Number(change.active);
        const { kind: is, role, groups } = change ?? {};
        await things.put(id, index, {
          kind: is,
          role,
          groups: sorted(groups),
          active: told,
          createdMs,
        });
        await this.#since.set(id, index);
        break;
      }
      case 'group':
        await things.put(id, index, { createdMs });
        break;
      case 'accessKey':
        await things.put(place.name, index, { owner, thumbprint: null, active, createdMs });
        break;
      case 'publicKey': {
        const { jwk, purpose, accessKeyId } = change ?? {};
        const enrolledSeq = isRestored ? undefined : index;
        await things.put(place.name, index, {
          owner,
          jwk,
          purpose,
          active,
          createdMs,
          enrolledSeq,
        });
        if (typeof accessKeyId !== 'string') break;
        const key = { owner, thumbprint: place.name, active, createdMs };
        await this.#things.accessKey.put(accessKeyId, index, key);
        await this.#accessKeys.set(place.name, accessKeyId);
        break;
      }
      case 'grant':
      case 'mount':
      case 'ownMount':
      case 'target':
      case 'class':
        await things.put(id, index, { rule: change ?? undefined, createdMs });
        break;
      case 'issuer': {
        const before = await things.get(id);
        const first = before ? before.members.createdMs : createdMs;
        await things.put(id, index, { rule: change ?? undefined, createdMs: first });
        break;
      }
    }
  }

  async #update(
    kind: Kind,
    { id, name }: Place,
    index: number,
    change: Members | undefined,
  ): Promise<void> {
    const things = this.#things[kind];
    if (kind === 'accessKey' || kind === 'publicKey') {
      const active = change?.active === undefined ? undefined : Number(change.active);
      await this.#switchKeys(kind, name, index, active);
    } else if (kind === 'tenant' && (await things.get(id))) {
      const unknown = {
        membersCreateBuckets: undefined,
        membersMountBuckets: undefined,
        defaultStore: undefined,
        recordReads: undefined,
      };
      await things.change(id, index, change ?? unknown);
    } else if (kind === 'principal' && (await things.get(id))) {
      const unknown = { role: undefined, groups: undefined, active: undefined };
      await things.change(id, index, change ? shownPrincipal(change) : unknown);
    }
  }

  /** A SigV4A key is a row of each, which are switched together. */
  async #switchKeys(
    kind: KeyKind,
    name: string,
    index: number,
    active: number | undefined,
  ): Promise<void> {
    const { [kind]: things, accessKey, publicKey } = this.#things;
    if (await things.get(name)) await things.change(name, index, { active });
    const id = await this.#twinOf(kind, name);
    const other = kind === 'accessKey' ? publicKey : accessKey;
    if (id !== undefined && (await other.get(id))) await other.change(id, index, { active });
  }

  async #delete(kind: Kind, { id, name }: Place): Promise<void> {
    if (kind !== 'accessKey' && kind !== 'publicKey') return this.#things[kind].delete(id);
    const twin = await this.#twinOf(kind, name);
    const other = kind === 'accessKey' ? 'publicKey' : 'accessKey';
    if (twin !== undefined) await this.#things[other].delete(twin);
    await this.#things[kind].delete(name);
  }

  /** Of a SigV4A key its row in the other table; undefined: it is none. */
  async #twinOf(kind: KeyKind, name: string): Promise<string | undefined> {
    if (kind === 'publicKey') return this.#accessKeys.get(name);
    const thumbprint = (await this.#things.accessKey.get(name))?.members.thumbprint;
    return typeof thumbprint === 'string' ? thumbprint : undefined;
  }

  /** The start made `default/admin` an operator, with this key and no other. */
  async #putRootKey(index: number, fields: RecordFields): Promise<void> {
    const { tenant, principal, accessKey } = this.#things;
    const createdMs = Date.parse(fields.time);
    if (!(await tenant.get(defaultTenant))) {
      const made = {
        ...{ membersCreateBuckets: true, membersMountBuckets: true },
        ...{ defaultStore: null, recordReads: null },
      };
      await tenant.put(defaultTenant, index, { ...made, createdMs });
    }
    const made = { kind: 'person', groups: [], createdMs };
    const before = (await principal.get(rootId))?.members ?? made;
    await principal.put(rootId, index, { ...before, role: 'operator', active: 1 });
    await this.#since.set(rootId, index);
    const id = fields.change?.accessKeyId;
    if (typeof id !== 'string') return this.#unnamedMs.set(rootId, createdMs);
    await this.#unnamedMs.delete(rootId);
    const key = { owner: rootId, thumbprint: null, active: 1, createdMs };
    await accessKey.put(id, index, key);
  }

  /** One key that no record names, and that was made by that start, is the one it made. */
  async #nameRootKey(read: Reader): Promise<void> {
    const { accessKey } = this.#things;
    const createdMs = await this.#unnamedMs.get(rootId);
    if (createdMs === undefined) return;
    const rows = await read.all<{ id: string }>(
      'SELECT id FROM access_keys WHERE tenant = ? AND principal = ? AND created_ms = ?',
      ...[defaultTenant, rootPrincipal, createdMs],
    );
    const unnamed: string[] = [];
    for (const { id } of rows) if (!(await accessKey.get(String(id)))) unnamed.push(String(id));
    const index = (await this.#since.get(rootId)) ?? 0;
    const key = { owner: rootId, thumbprint: null, createdMs };
    const [id, ...others] = unnamed;
    if (id !== undefined && others.length === 0) await accessKey.put(id, index, key);
  }

  /** What belongs to a tenant or a principal went with it, and members with their group. */
  async #forgetGone(kind: Kind): Promise<void> {
    const { tenant, group, [kind]: things } = this.#things;
    for await (const [id, { index, members }] of things.entries()) {
      const isKey = kind === 'accessKey' || kind === 'publicKey';
      const [of = ''] = (isKey ? String(members.owner) : id).split('/');
      const [, owner = '', isOwned] = id.split('/');
      const isGone = isKey
        ? await this.#isOwnerGone(String(members.owner), index)
        : isOwned !== undefined && !(await this.#things.principal.get(`${of}/${owner}`));
      if (isGone || !(await tenant.get(of))) await things.delete(id);
      else if (kind === 'principal' && Array.isArray(members.groups)) {
        const groups: unknown[] = [];
        for (const name of members.groups) if (await group.get(`${of}/${name}`)) groups.push(name);
        await things.put(id, index, { ...members, groups });
      }
    }
  }

  /** Is there nobody of this name since the key was made? */
  async #isOwnerGone(owner: string, index: number): Promise<boolean> {
    if (!(await this.#things.principal.get(owner))) return true;
    return index < ((await this.#since.get(owner)) ?? 0);
  }
}

const wholeKinds: ReadonlySet<Kind> = new Set<Kind>([
  ...(['grant', 'mount', 'ownMount', 'issuer', 'target', 'class'] as const),
]);

type KeyKind = 'accessKey' | 'publicKey';

interface Made {
  change: Members | undefined;
  createdMs: number | undefined;
  isRestored: boolean;
}

interface Place {
  /** `tenant`, or `tenant/name`. */
  id: string;
  /** Of keys: whose they are, `tenant/principal`. */
  owner: string | undefined;
  name: string;
}

const collections: ReadonlyMap<string, Kind> = new Map([
  ['Tenant', 'tenant'],
  ['Principal', 'principal'],
  ['Group', 'group'],
  ['AccessKey', 'accessKey'],
  ['PublicKey', 'publicKey'],
  ['Grant', 'grant'],
  ['Mount', 'mount'],
  ['OwnMount', 'ownMount'],
  ['Issuer', 'issuer'],
  ['Target', 'target'],
  ['Class', 'class'],
]);

function kindOf(noun: string): Kind | undefined {
  return collections.get(noun);
}

/** Of `tenants/cms/principals/alice/access-keys/ID`, as records name what they are about. */
function placeOf(target: string): Place | undefined {
  const form = /^tenants\/([^/]+)(?:\/([a-z]+)\/([^/]+)(?:\/[a-z-]+\/([^/]+))?)?$/;
  const [, tenant, , thing, key] = form.exec(target) ?? [];
  if (tenant === undefined) return undefined;
  if (thing === undefined) return { id: tenant, owner: undefined, name: tenant };
  const id = `${tenant}/${thing}`;
  return key === undefined
    ? { id, owner: undefined, name: thing }
    : { id: `${id}/${key}`, owner: id, name: key };
}

/** undefined: it was longer than records are, and its digest alone is there. */
function digestless(change: Members): Members | undefined {
  return typeof change.sha256 === 'string' && typeof change.bytes === 'number' ? undefined : change;
}

function shownPrincipal({ role, groups, active }: Members): Members {
  return {
    ...(role !== undefined && { role }),
    ...(groups !== undefined && { groups: sorted(groups) }),
    ...(active !== undefined && { active: Number(active) }),
  };
}
