// Tenants, principals, groups and access keys. Those that act are kept in memory. Invariant:
// nothing here gives out a secret except `findAccessKey`, and what was read before a change is not
// answered once the change is applied.
import type { AccessKey } from '../authz/authenticate.ts';
import { subjectsOf } from '../authz/grants/subjects.ts';
import type { Actor, Actors } from '../authz/identity.ts';
import { accessKeyContext } from '../authz/key-rows.ts';
import { type Page, readInTurns } from '../authz/paced-page.ts';
import { readPublicKey } from '../authz/tokens/keys.ts';
import type { Reader } from '../core/database.ts';
import { type Followed, Loads } from '../core/loads.ts';
import type { Principal, PrincipalKind, Role } from '../core/principal.ts';
import { principalId } from '../core/principal.ts';
import { type RecordReads, recordReadsDefault } from '../core/record-reads.ts';
import type { Sealer } from '../core/sealing.ts';
import type { LedgerEvent } from '../ledger/events.ts';

export interface TenantEntry {
  name: string;
  membersCreateBuckets: boolean;
  /** May members give other tenants' buckets names of their own? */
  membersMountBuckets: boolean;
  /** Name of the store for new buckets; null: the gateway's default. */
  defaultStore: string | null;
  recordReads: RecordReads;
  createdMs: number;
}

export interface PrincipalEntry {
  tenant: string;
  name: string;
  kind: PrincipalKind;
  role: Role;
  /** In the order of their names. */
  groups: string[];
  createdMs: number;
  /** False: nothing is done in its name, with any credential. */
  active: boolean;
}

export interface GroupEntry {
  tenant: string;
  name: string;
  createdMs: number;
}

/** An access key without its secret. */
export interface AccessKeyEntry {
  id: string;
  /** Of the public key that verifies its signatures; null: it has a secret. */
  thumbprint: string | null;
  createdMs: number;
  active: boolean;
}

export interface DirectoryOptions {
  read: Reader;
  sealer: Sealer;
  followed: Followed;
}

// Both bounds are far above what one gateway's working set needs; unknown ids, which anyone can
// invent without end, have their own so that they never push a real key out.
const knownKeysMax = 10_000;
const unknownKeysMax = 1_000;

interface ActorRow {
  tenant: string;
  principal: string;
  kind: PrincipalKind;
  role: Role;
  members_create_buckets: number;
  active: number;
}

interface AccessKeyRow extends ActorRow {
  id: string;
  sealed_secret: Uint8Array | null;
  /** Null where it is another principal's, or inactive. */
  jwk: string | null;
  enrolledAt: number | null;
}

interface PrincipalRow extends Omit<PrincipalEntry, 'groups' | 'active'> {
  active: number;
}

export class Directory implements Actors {
  readonly #read: Reader;
  readonly #sealer: Sealer;
  readonly #known = new Map<string, AccessKey>();
  readonly #unknown = new Set<string>();
  readonly #actors = new Map<string, Actor>();
  readonly #loads: Loads;
  /** The hits and misses of access keys. */
  readonly cache: { hits: number; misses: number; readonly entries: number };

  constructor(options: DirectoryOptions) {
    this.#read = options.read;
    this.#sealer = options.sealer;
    this.#loads = new Loads(options.followed);
    const known = this.#known;
    this.cache = {
      hits: 0,
      misses: 0,
      get entries() {
        return known.size;
      },
    };
  }

  /**
   * The access key with this id, its secret opened, and whose it is. Answers from memory when it
   * can. Throws when the stored secret does not open: the database or the key file is not ours.
   */
  async findAccessKey(id: string): Promise<AccessKey | undefined> {
    const known = this.#known.get(id);
    if (known) {
      this.cache.hits += 1;
      return known;
    }
    if (this.#unknown.has(id)) return undefined;
    this.cache.misses += 1;

    const { asOf } = this.#loads;
    const key = await this.#loadAccessKey(id);
    // What was changed while it was being read is used for this request only.
    if (this.#loads.isCurrent(asOf)) {
      if (key) remember(this.#known, knownKeysMax).set(id, key);
      else remember(this.#unknown, unknownKeysMax).add(id);
    }
    return key;
  }

  /**
   * The principal of this id (`tenant/name`) with its groups; undefined when there is none, or it
   * is not active. Answers from memory when it can.
   */
  async findActor(id: string): Promise<Actor | undefined> {
    const known = this.#actors.get(id);
    if (known) return known;
    const { asOf } = this.#loads;
    const slash = id.indexOf('/');
    const row = await this.#read.get<ActorRow>(
      `SELECT p.tenant, p.name AS principal, p.kind, p.role, p.active, t.members_create_buckets
       FROM principals p JOIN tenants t ON t.name = p.tenant WHERE p.tenant = ? AND p.name = ?`,
      id.slice(0, slash),
      id.slice(slash + 1),
    );
    if (!row || row.active === 0) return undefined;
    const actor = await this.#actorOf(row);
    if (this.#loads.isCurrent(asOf)) remember(this.#actors, knownKeysMax).set(id, actor);
    return actor;
  }

  apply(event: LedgerEvent, index: number): void {
    switch (event.kind) {
      case 'tenant':
      case 'principal':
      case 'group':
      case 'accessKey':
      case 'publicKey':
        this.#loads.outdate(index);
        this.#known.clear();
        this.#unknown.clear();
        this.#actors.clear();
    }
  }

  /** Whether anybody can administer the gateway: an active operator who has an access key. */
  async hasOperatorKey(): Promise<boolean> {
    const { sparing = this.#read } = this.#read;
    const row = await sparing.get(
      `SELECT 1 FROM principals p
       JOIN access_keys k ON k.tenant = p.tenant AND k.principal = p.name
       WHERE p.role = 'operator' AND p.active AND k.active LIMIT 1`,
    );
    return row !== undefined;
  }

  async readTenant(name: string): Promise<TenantEntry | undefined> {
    const row = await this.#read.get<TenantRow>(
      `SELECT ${tenantColumns} FROM tenants WHERE name = ?`,
      name,
    );
    return row && tenantEntry(row);
  }

  async listTenants(page: Page): Promise<TenantEntry[]> {
    const rows = await this.#read.all<TenantRow>(
      `SELECT ${tenantColumns} FROM tenants
       WHERE name > ? ORDER BY name LIMIT ?`,
      page.after,
      page.limit,
    );
    return rows.map(tenantEntry);
  }

  async readPrincipal(tenant: string, name: string): Promise<PrincipalEntry | undefined> {
    const row = await this.#read.get<PrincipalRow>(
      `SELECT tenant, name, kind, role, active, created_ms AS createdMs FROM principals
       WHERE tenant = ? AND name = ?`,
      tenant,
      name,
    );
    if (!row) return undefined;
    return (await this.#withGroups(tenant, [row]))[0];
  }

  async listPrincipals(tenant: string, page: Page): Promise<PrincipalEntry[]> {
    return readInTurns(page, async ({ after, limit }) => {
      const rows = await this.#read.all<PrincipalRow>(
        `SELECT tenant, name, kind, role, active, created_ms AS createdMs FROM principals
         WHERE tenant = ? AND name > ? ORDER BY name LIMIT ?`,
        tenant,
        after,
        limit,
      );
      return this.#withGroups(tenant, rows);
    });
  }

  async readGroup(tenant: string, name: string): Promise<GroupEntry | undefined> {
    return this.#read.get<GroupEntry>(
      'SELECT tenant, name, created_ms AS createdMs FROM groups WHERE tenant = ? AND name = ?',
      tenant,
      name,
    );
  }

  async listGroups(tenant: string, page: Page): Promise<GroupEntry[]> {
    return readInTurns(page, ({ after, limit }) =>
      this.#read.all<GroupEntry>(
        `SELECT tenant, name, created_ms AS createdMs FROM groups
         WHERE tenant = ? AND name > ? ORDER BY name LIMIT ?`,
        tenant,
        after,
        limit,
      ),
    );
  }

  /** Names of a group's members, in order. */
  async listGroupMembers(tenant: string, group: string): Promise<string[]> {
    const rows = await this.#read.all<{ principal: string }>(
      `SELECT principal FROM group_members WHERE tenant = ? AND group_name = ? ORDER BY principal`,
      tenant,
      group,
    );
    return rows.map((row) => row.principal);
  }

  async readAccessKey(
    tenant: string,
    principal: string,
    id: string,
  ): Promise<AccessKeyEntry | undefined> {
    const row = await this.#read.get<AccessKeyRowShown>(
      `SELECT id, thumbprint, active, created_ms AS createdMs FROM access_keys
       WHERE id = ? AND tenant = ? AND principal = ?`,
      id,
      tenant,
      principal,
    );
    return row && withActive(row);
  }

  async listAccessKeys(tenant: string, principal: string, page: Page): Promise<AccessKeyEntry[]> {
    const rows = await this.#read.all<AccessKeyRowShown>(
      `SELECT id, thumbprint, active, created_ms AS createdMs FROM access_keys
       WHERE tenant = ? AND principal = ? AND id > ? ORDER BY id LIMIT ?`,
      tenant,
      principal,
      page.after,
      page.limit,
    );
    return rows.map(withActive);
  }

  async #loadAccessKey(id: string): Promise<AccessKey | undefined> {
    const row = await this.#read.get<AccessKeyRow>(
      `SELECT k.id, k.tenant, k.principal, k.sealed_secret, u.jwk, p.kind, p.role,
              u.enrolled_seq AS enrolledAt,
              k.active AND p.active AS active, t.members_create_buckets
       FROM access_keys k
       JOIN principals p ON p.tenant = k.tenant AND p.name = k.principal
       JOIN tenants t ON t.name = k.tenant
       LEFT JOIN public_keys u ON u.thumbprint = k.thumbprint AND u.purpose = 'sigv4a'
         AND u.tenant = k.tenant AND u.principal = k.principal AND u.active
       WHERE k.id = ?`,
      id,
    );
    if (!row || row.active === 0) return undefined;
    const { sealed_secret: sealed, jwk } = row;
    const publicKey = sealed === null && jwk !== null ? readPublicKey(JSON.parse(jwk)) : undefined;
    if (sealed === null && publicKey === undefined) return undefined;
    const context = accessKeyContext(row.tenant, row.principal, row.id);
    return {
      id: row.id,
      secret: sealed && this.#sealer.open(sealed, context).toString('utf8'),
      publicKey: publicKey ?? null,
      ...(row.enrolledAt !== null && { enrolledAt: row.enrolledAt }),
      ...(await this.#actorOf(row)),
      delegation: null,
    };
  }

  async #actorOf(row: ActorRow): Promise<Actor> {
    const { tenant, principal: name, kind, role } = row;
    const memberships = await this.#read.all<{ group_name: string }>(
      'SELECT group_name FROM group_members WHERE tenant = ? AND principal = ?',
      tenant,
      name,
    );
    const principal: Principal = {
      tenant,
      name,
      id: principalId(tenant, name),
      kind,
      role,
      membersCreateBuckets: row.members_create_buckets !== 0,
    };
    const groups = memberships.map(({ group_name }) => group_name);
    return { principal, subjects: subjectsOf(principal, groups) };
  }

  /** Adds the groups of principals that are a run of one tenant's, in the order of their names. */
  async #withGroups(tenant: string, rows: PrincipalRow[]): Promise<PrincipalEntry[]> {
    const entries = rows.map((row) => ({ ...withActive(row), groups: [] as string[] }));
    const first = entries[0];
    const last = entries.at(-1);
    if (!first || !last) return entries;
    const memberships = await this.#read.all<{ principal: string; group_name: string }>(
      `SELECT principal, group_name FROM group_members
       WHERE tenant = ? AND principal BETWEEN ? AND ? ORDER BY group_name`,
      tenant,
      first.name,
      last.name,
    );
    const byName = new Map(entries.map((entry) => [entry.name, entry]));
    for (const { principal, group_name } of memberships) {
      byName.get(principal)?.groups.push(group_name);
    }
    return entries;
  }
}

type AccessKeyRowShown = Omit<AccessKeyEntry, 'active'> & { active: number };

/** SQLite has numbers instead of booleans. */
function withActive<R extends { active: number }>(row: R): Omit<R, 'active'> & { active: boolean } {
  return { ...row, active: row.active !== 0 };
}

const tenantColumns = `name, members_create_buckets, default_store AS defaultStore,
  NOT EXISTS (SELECT 1 FROM tenant_settings AS s WHERE s.tenant = tenants.name
    AND s.name = 'membersMountBuckets' AND s.document = 'false') AS membersMountBuckets,
  record_reads AS recordReads, created_ms AS createdMs`;

type TenantRow = Omit<
  TenantEntry,
  'membersCreateBuckets' | 'membersMountBuckets' | 'recordReads'
> & {
  members_create_buckets: number;
  membersMountBuckets: number;
  recordReads: RecordReads | null;
};

function tenantEntry(row: TenantRow): TenantEntry {
  const { members_create_buckets, membersMountBuckets, recordReads, ...rest } = row;
  return {
    ...rest,
    membersCreateBuckets: members_create_buckets !== 0,
    membersMountBuckets: membersMountBuckets !== 0,
    recordReads: recordReads ?? recordReadsDefault,
  };
}

/** Makes room for one more: the oldest entry leaves a collection that is full. */
function remember<C extends Map<string, unknown> | Set<string>>(entries: C, max: number): C {
  if (entries.size >= max) {
    for (const oldest of entries.keys()) {
      entries.delete(oldest);
      break;
    }
  }
  return entries;
}
