// Who there is and what they may, against the records: each change is made once more in memory, as
// src/authz makes it in the tables. Invariants: names are not given again, so what belonged to who is
// gone is gone, but for the operator that a start can make anew; and what a record names by its digest
// alone is compared where the row says all of it.
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import { defaultTenant, rootPrincipal } from '../../authz/identity-changes.ts';
import type { Reader } from '../../core/database.ts';
import { ComparedThings, type Comparison, type Members, type Row } from './compared-things.ts';
import { identityRows, sorted } from './identity-rows.ts';

const nouns = {
  tenant: 'tenant',
  principal: 'principal',
  group: 'group',
  accessKey: 'access key',
  publicKey: 'public key',
  grant: 'grant',
  mount: 'mount',
  issuer: 'issuer',
} as const;

type Kind = keyof typeof nouns;

const rootId = `${defaultTenant}/${rootPrincipal}`;

export class DeepIdentities {
  readonly #things = Object.fromEntries(
    Object.entries(nouns).map(([kind, noun]) => [kind, new ComparedThings(noun)]),
  ) as Record<Kind, ComparedThings>;
  /** By principal: the record since which it has none of the keys of before. */
  readonly #since = new Map<string, number>();
  /** When a start made the root key, where its record does not say which, as those up to 0.1.0. */
  #unnamedRootKeyMs: number | undefined;

  visit(index: number, fields: RecordFields): void {
    if (!isDone(fields)) return;
    const { action, target = '', time } = fields;
    const [, verb, noun = ''] =
      /^bursar:(Create|Update|Delete|Put|Restore)([A-Za-z]+)$/.exec(action) ?? [];
    if (verb === undefined) return;
    if (noun === 'RootKey') this.#putRootKey(index, fields);
    const kind = kindOf(noun);
    const place = kind && placeOf(target);
    if (!kind || !place) return;
    // When what was restored was made, and whether it is active, its record does not say.
    const createdMs = verb === 'Restore' ? undefined : Date.parse(time);
    // Of grants, mounts and issuers the digest is compared with that of the row.
    const isWhole = kind === 'grant' || kind === 'mount' || kind === 'issuer';
    const change = fields.change && (isWhole ? fields.change : digestless(fields.change));
    if (verb === 'Delete') this.#delete(kind, place);
    else if (verb === 'Update') this.#update(kind, place, index, change);
    else this.#make(kind, place, index, { change, createdMs, isRestored: verb === 'Restore' });
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    const kinds = Object.keys(nouns) as Kind[];
    for (const kind of kinds) this.#forgetGone(kind);
    for (const kind of kinds) {
      const rows = await identityRows[kind](read);
      if (kind === 'accessKey') this.#nameRootKey(rows);
      this.#things[kind].compare(rows, comparison);
    }
  }

  #make(kind: Kind, place: Place, index: number, { change, createdMs, isRestored }: Made): void {
    const active = isRestored ? undefined : 1;
    const things = this.#things[kind];
    const { id, owner } = place;
    switch (kind) {
      case 'tenant': {
        const { membersCreateBuckets, defaultStore = null, recordReads = null } = change ?? {};
        const members = { membersCreateBuckets, defaultStore, recordReads };
        things.put(id, index, { ...(change && members), createdMs });
        break;
      }
      case 'principal': {
        const told = change?.active === undefined ? active : Number(change.active);
        const { kind: is, role, groups } = change ?? {};
        things.put(id, index, { kind: is, role, groups: sorted(groups), active: told, createdMs });
        this.#since.set(id, index);
        break;
      }
      case 'group':
        things.put(id, index, { createdMs });
        break;
      case 'accessKey':
        things.put(place.name, index, { owner, thumbprint: null, active, createdMs });
        break;
      case 'publicKey': {
        const { jwk, purpose, accessKeyId } = change ?? {};
        const enrolledSeq = isRestored ? undefined : index;
        things.put(place.name, index, { owner, jwk, purpose, active, createdMs, enrolledSeq });
        if (typeof accessKeyId !== 'string') break;
        const key = { owner, thumbprint: place.name, active, createdMs };
        this.#things.accessKey.put(accessKeyId, index, key);
        break;
      }
      case 'grant':
      case 'mount':
        things.put(id, index, { rule: change ?? undefined, createdMs });
        break;
      case 'issuer': {
        const before = things.get(id);
        const first = before ? before.members.createdMs : createdMs;
        things.put(id, index, { rule: change ?? undefined, createdMs: first });
        break;
      }
    }
  }

  #update(kind: Kind, { id, name }: Place, index: number, change: Members | undefined): void {
    const things = this.#things[kind];
    if (kind === 'accessKey' || kind === 'publicKey') {
      const active = change?.active === undefined ? undefined : Number(change.active);
      this.#switchKeys(kind, name, index, active);
    } else if (kind === 'tenant' && things.get(id)) {
      const unknown = {
        membersCreateBuckets: undefined,
        defaultStore: undefined,
        recordReads: undefined,
      };
      things.change(id, index, change ?? unknown);
    } else if (kind === 'principal' && things.get(id)) {
      const unknown = { role: undefined, groups: undefined, active: undefined };
      things.change(id, index, change ? shownPrincipal(change) : unknown);
    }
  }

  /** A SigV4A key is a row of each, which are switched together. */
  #switchKeys(
    kind: 'accessKey' | 'publicKey',
    name: string,
    index: number,
    active: number | undefined,
  ): void {
    const { accessKey, publicKey } = this.#things;
    if (this.#things[kind].get(name)) this.#things[kind].change(name, index, { active });
    const id = kind === 'accessKey' ? thumbprintOf(accessKey, name) : accessKeyOf(accessKey, name);
    const other = kind === 'accessKey' ? publicKey : accessKey;
    if (id !== undefined && other.get(id)) other.change(id, index, { active });
  }

  #delete(kind: Kind, { id, name }: Place): void {
    const { accessKey, publicKey } = this.#things;
    if (kind === 'accessKey') {
      const thumbprint = thumbprintOf(accessKey, name);
      if (thumbprint !== undefined) publicKey.delete(thumbprint);
      accessKey.delete(name);
    } else if (kind === 'publicKey') {
      const own = accessKeyOf(accessKey, name);
      if (own !== undefined) accessKey.delete(own);
      publicKey.delete(name);
    } else this.#things[kind].delete(id);
  }

  /** The start made `default/admin` an operator, with this key and no other. */
  #putRootKey(index: number, fields: RecordFields): void {
    const { tenant, principal } = this.#things;
    const createdMs = Date.parse(fields.time);
    if (!tenant.get(defaultTenant)) {
      const made = { membersCreateBuckets: true, defaultStore: null, recordReads: null };
      tenant.put(defaultTenant, index, { ...made, createdMs });
    }
    const made = { kind: 'person', groups: [], createdMs };
    const before = principal.get(rootId)?.members ?? made;
    principal.put(rootId, index, { ...before, role: 'operator', active: 1 });
    this.#since.set(rootId, index);
    const id = fields.change?.accessKeyId;
    const key = { owner: rootId, thumbprint: null, active: 1, createdMs };
    this.#unnamedRootKeyMs = typeof id === 'string' ? undefined : createdMs;
    if (typeof id === 'string') this.#things.accessKey.put(id, index, key);
  }

  /** One key that no record names, and that was made by that start, is the one it made. */
  #nameRootKey(rows: readonly Row[]): void {
    const { accessKey } = this.#things;
    const createdMs = this.#unnamedRootKeyMs;
    if (createdMs === undefined) return;
    const [row, ...others] = rows.filter(
      ({ id, members: { owner, createdMs: madeMs } }) =>
        owner === rootId && madeMs === createdMs && !accessKey.get(id),
    );
    const index = this.#since.get(rootId) ?? 0;
    const key = { owner: rootId, thumbprint: null, createdMs };
    if (row && others.length === 0) accessKey.put(row.id, index, key);
  }

  /** What belongs to a tenant or a principal went with it, and members with their group. */
  #forgetGone(kind: Kind): void {
    const { tenant, principal, group, [kind]: things } = this.#things;
    for (const [id, { index, members }] of [...things.entries()]) {
      const [of = ''] = (kind.endsWith('Key') ? String(members.owner) : id).split('/');
      const isKey = kind === 'accessKey' || kind === 'publicKey';
      const owner = String(members.owner);
      const isOwnerGone = isKey && (!principal.get(owner) || index < (this.#since.get(owner) ?? 0));
      if (!tenant.get(of) || isOwnerGone) things.delete(id);
      else if (kind === 'principal' && Array.isArray(members.groups)) {
        const groups = members.groups.filter((name) => group.get(`${of}/${name}`));
        things.put(id, index, { ...members, groups });
      }
    }
  }
}

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
  ['Issuer', 'issuer'],
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

function thumbprintOf(accessKeys: ComparedThings, id: string): string | undefined {
  const thumbprint = accessKeys.get(id)?.members.thumbprint;
  return typeof thumbprint === 'string' ? thumbprint : undefined;
}

/** Of a SigV4A key; keys are few, and switched seldom. */
function accessKeyOf(accessKeys: ComparedThings, thumbprint: string): string | undefined {
  for (const [id, { members }] of accessKeys.entries()) {
    if (members.thumbprint === thumbprint) return id;
  }
  return undefined;
}
