// What records say of who could read a bucket: each change is made once more, in the order of the
// log (docs/audit/access.md). Invariant: what a record does not say is not guessed: it is in
// `notTold`, with the record that leaves it open.
import type { Grant } from '../../authz/grants/grant.ts';
import { isObject, type JsonObject } from '../../authz/tokens/strict-json.ts';
import type { Acl } from '../../core/acl.ts';

/** The members of a record that are needed, none of which is believed to be there. */
export interface ToldRecord {
  readonly index: number;
  readonly time: string;
  readonly action: string;
  readonly tenant: string;
  readonly principal: string;
  readonly status: number;
  readonly error?: string;
  readonly accessKeyId?: string;
  readonly tokens?: readonly string[];
  readonly bucket?: string;
  readonly bucketTenant?: string;
  readonly key?: string;
  readonly target?: string;
  readonly change?: JsonObject;
  readonly reads?: number;
  readonly lastRead?: string;
}

export interface ToldPrincipal {
  tenant: string;
  name: string;
  role: string;
  active: boolean;
  groups: readonly string[];
}

/** A token or a share link that was issued, as long as it was not revoked. */
export interface ToldDelegation {
  kind: 'token' | 'share';
  id: string;
  tenant: string;
  principal: string;
  accessKeyId: string | undefined;
  /** Of a token; undefined: all that its principal may. */
  scope: string | undefined;
  /** Of a share link: what it opens. */
  key: string;
  expiresMs: number;
}

export interface ToldBucket {
  owner: string;
  /** As it was set; null: none. */
  policy: string | null;
  /** What keeps the public out; null: nothing. */
  restrictsPublic: boolean;
  ignoresPublicAcls: boolean;
  /** Nobody has set these two: they are those of new buckets. */
  isAsMade: boolean;
  ownership: string | null;
  acls: Map<string, Acl>;
}

/** A principal as the gateway has it now, beside what records tell. */
export interface KnownPrincipal extends ToldPrincipal {
  createdMs: number;
}

/** So many names are in a line. */
const shownMax = 20;

export class AccessHistory {
  readonly #tenant: string;
  readonly #name: string;
  readonly principals = new Map<string, ToldPrincipal>();
  /** Those of which all is told, who is in them too: from their beginning on. */
  readonly tenants = new Set<string>();
  readonly grants = new Map<string, Grant>();
  readonly delegations = new Map<string, ToldDelegation>();
  readonly notTold = new Set<string>();
  bucket: ToldBucket | null = null;
  /** Those that no record met yet has told of, the oldest first. */
  readonly #awaited: KnownPrincipal[];
  readonly #takenIn: string[] = [];
  /** Of the bucket's tenant, with the first record of each. */
  readonly #guessed: string[] = [];
  /** Counts changes of what is decided by. */
  changes = 0;

  /** `known`: principals of the bucket's tenant, as they are now. */
  constructor(tenant: string, bucket: string, known: readonly KnownPrincipal[] = []) {
    this.#tenant = tenant;
    this.#name = bucket;
    this.#awaited = [...known].sort((a, b) => a.createdMs - b.createdMs);
  }

  /**
   * Takes in who was made before that time, and whose making is in none of the records until then:
   * somebody of another tenant made them. Gives when the first of them was made; null: nobody was.
   */
  takeIn(beforeMs: number): number | null {
    for (;;) {
      const [next] = this.#awaited;
      if (!next || next.createdMs >= beforeMs) return null;
      this.#awaited.shift();
      const { tenant, name, role, active, groups, createdMs } = next;
      const id = `${tenant}/${name}`;
      if (this.principals.has(id)) continue;
      this.principals.set(id, { tenant, name, role, active, groups });
      this.changes += 1;
      this.#takenIn.push(id);
      return createdMs;
    }
  }

  /** Says whose role and groups are guessed, are those of now, or are not what they are now. */
  compare(known: readonly KnownPrincipal[]): void {
    if (this.#guessed.length > 0) {
      this.notTold.add(
        'role and groups of those whose making is in no record, who are taken for members of ' +
          `${this.#tenant} from their first record on: ${shortened(this.#guessed)}`,
      );
    }
    if (this.#takenIn.length > 0) {
      this.notTold.add(
        'since when they have their role and groups, which are shown as they are now, as ' +
          `somebody of another tenant made them: ${shortened(this.#takenIn)}`,
      );
    }
    for (const { tenant, name, role } of known) {
      const id = `${tenant}/${name}`;
      const told = this.principals.get(id);
      if (!told || told.role === role) continue;
      this.notTold.add(
        `since when ${id} is ${role}, which it is now: the records until then say ${told.role}`,
      );
    }
  }

  /** Is the record about the bucket? */
  isAbout({ bucket, bucketTenant, tenant }: ToldRecord): boolean {
    return bucket === this.#name && (bucketTenant ?? tenant) === this.#tenant;
  }

  visit(record: ToldRecord): void {
    const { action, error, status, index } = record;
    if (action !== 'bursar:PutRootKey') this.#meet(record);
    if (error !== undefined || status >= 400) return;
    const [, verb = '', noun = ''] =
      /^bursar:(Create|Update|Delete|Put|Restore|Revoke|Erase)([A-Za-z]+)$/.exec(action) ?? [];
    if (action === 'bursar:Rebuild') {
      this.notTold.add(`what was before record ${index}: the database was made anew there`);
    } else if (action === 'bursar:MigrateDatabase') this.#upgrade(record);
    else if (verb === 'Erase') {
      this.notTold.add(`what the records said that record ${index} erased`);
    } else if (noun !== '') this.#visitIdentity(record, verb, noun);
    else if (action === 'bursar:ChangeOwner') this.#changeOwner(record);
    if (action.startsWith('s3:') && this.isAbout(record)) this.#visitBucket(record);
    if (action === 'bursar:RestoreBucket' && this.isAbout(record)) {
      this.bucket = { ...newBucket(record.principal), restrictsPublic: false };
      this.changes += 1;
      this.notTold.add(`the policy, lists and block that record ${index} restored the bucket with`);
    }
  }

  /** Who did something was there, whoever made them. */
  #meet({ tenant, principal, index }: ToldRecord): void {
    const id = `${tenant}/${principal}`;
    if (principal === '' || principal === 'anonymous' || this.principals.has(id)) return;
    this.#putPrincipal(tenant, principal, {});
    this.changes += 1;
    // Roles hold in one's own tenant only; strangers whom rules mean by groups are told elsewhere.
    if (tenant === this.#tenant) this.#guessed.push(`${id} (record ${index})`);
  }

  #visitIdentity(record: ToldRecord, verb: string, noun: string): void {
    const { target = '', change, index } = record;
    const [, tenant = '', thing = '', key = ''] =
      /^tenants\/([^/]+)(?:\/[a-z-]+\/([^/]+)(?:\/[a-z-]+\/([^/]+))?)?$/.exec(target) ?? [];
    const id = `${tenant}/${thing}`;
    const before = this.changes;
    this.changes += 1;
    switch (noun) {
      case 'RootKey':
        this.tenants.add('default');
        this.#putPrincipal('default', 'admin', { role: 'operator', active: true });
        break;
      case 'Principal':
        if (verb === 'Delete') this.principals.delete(id);
        else this.#putPrincipal(tenant, thing, this.#read(change, `who ${id} was`, index));
        break;
      case 'Group':
        if (verb === 'Delete') this.#dropGroup(tenant, thing);
        break;
      case 'Tenant':
        if (verb === 'Delete') this.#dropTenant(tenant);
        else if (verb !== 'Update') this.tenants.add(tenant);
        break;
      case 'Grant':
        // Those of other tenants are not about the bucket.
        if (tenant !== this.#tenant) this.changes = before;
        else if (verb === 'Delete') this.grants.delete(id);
        else this.#putGrant(id, thing, this.#read(change, `what the grant ${id} said`, index));
        break;
      case 'AccessKey':
      case 'PublicKey':
        if (verb === 'Delete' || change?.active === false) this.#dropKey(key);
        break;
      case 'Token':
      case 'Share':
        if (verb === 'Revoke') this.delegations.delete(String(change?.id));
        else this.#putDelegation(record, noun === 'Token' ? 'token' : 'share');
        break;
      default:
        this.changes = before;
    }
  }

  #putPrincipal(tenant: string, name: string, change: JsonObject): void {
    const id = `${tenant}/${name}`;
    const known = { role: 'member', active: true, groups: [], ...this.principals.get(id) };
    const { role = known.role, active = known.active, groups = known.groups } = change;
    this.principals.set(id, {
      ...{ tenant, name, role: String(role), active: active !== false },
      groups: Array.isArray(groups) ? groups.map(String) : [],
    });
  }

  #putGrant(id: string, name: string, rule: JsonObject): void {
    if (Array.isArray(rule.subjects)) this.grants.set(id, { ...rule, name } as unknown as Grant);
    else this.grants.delete(id);
  }

  #putDelegation({ tenant, principal, accessKeyId, change }: ToldRecord, kind: 'token' | 'share') {
    if (typeof change?.id !== 'string') return;
    const { id, scope, key = '', expiresAt, bucket, bucketTenant = tenant } = change;
    if (kind === 'share' && (bucket !== this.#name || bucketTenant !== this.#tenant)) return;
    this.delegations.set(id, {
      ...{ kind, id, tenant, principal, accessKeyId, key: String(key) },
      scope: typeof scope === 'string' ? scope : undefined,
      expiresMs: Date.parse(String(expiresAt)),
    });
  }

  #dropKey(id: string): void {
    for (const [one, { accessKeyId }] of this.delegations) {
      if (accessKeyId === id) this.delegations.delete(one);
    }
  }

  #dropGroup(tenant: string, group: string): void {
    for (const one of this.principals.values()) {
      if (one.tenant === tenant) one.groups = one.groups.filter((name) => name !== group);
    }
  }

  #dropTenant(tenant: string): void {
    for (const of of [this.principals, this.grants]) {
      for (const id of of.keys()) if (id.startsWith(`${tenant}/`)) of.delete(id);
    }
  }

  /** Release 0.1.0, whose schema is 3, made buckets without a block. */
  #upgrade({ change }: ToldRecord): void {
    if (change?.from !== 3 || !this.bucket?.isAsMade) return;
    this.bucket.restrictsPublic = false;
    this.bucket.ignoresPublicAcls = false;
    this.changes += 1;
  }

  #changeOwner({ target, change }: ToldRecord): void {
    if (target !== `tenants/${this.#tenant}/buckets/${this.#name}/owner` || !this.bucket) return;
    this.bucket.owner = String(change?.to);
    this.changes += 1;
  }

  #visitBucket({ action, change, key, principal, index }: ToldRecord): void {
    if (action === 's3:CreateBucket') {
      this.bucket = newBucket(String(change?.owner ?? principal));
      if (typeof change?.ownership === 'string') this.bucket.ownership = change.ownership;
      this.changes += 1;
    } else if (action === 's3:DeleteBucket') {
      this.bucket = null;
      this.changes += 1;
    } else this.#visitSettings(action, this.#read(change, `${action} said`, index), key);
  }

  #visitSettings(action: string, change: JsonObject, key: string | undefined): void {
    const { bucket } = this;
    if (!bucket) return;
    const before = this.changes;
    this.changes += 1;
    switch (action) {
      case 's3:PutBucketPolicy':
        bucket.policy = typeof change.policy === 'string' ? change.policy : null;
        break;
      case 's3:DeleteBucketPolicy':
        bucket.policy = null;
        break;
      case 's3:PutBucketPublicAccessBlock': {
        bucket.isAsMade = false;
        const block = isObject(change.publicAccess) ? change.publicAccess : {};
        bucket.restrictsPublic = block.restrictPublicBuckets === true;
        bucket.ignoresPublicAcls = block.ignorePublicAcls === true;
        break;
      }
      case 's3:PutBucketOwnershipControls':
        bucket.ownership = typeof change.ownership === 'string' ? change.ownership : null;
        break;
      case 's3:PutObjectAcl':
      case 's3:PutObject':
        this.changes = setAcl(bucket, key ?? '', change.acl) ? this.changes : before;
        break;
      case 's3:DeleteObject':
        this.changes = bucket.acls.delete(key ?? '') ? this.changes : before;
        break;
      default:
        this.changes = before;
    }
  }

  /** What is longer than records are is there by its digest alone. */
  #read(change: JsonObject | undefined, what: string, index: number): JsonObject {
    if (change && typeof change.sha256 === 'string' && typeof change.bytes === 'number') {
      this.notTold.add(`what ${what} at record ${index}: it is longer than records tell`);
      return {};
    }
    return change ?? {};
  }
}

function shortened(names: readonly string[]): string {
  const more = names.length - shownMax;
  return `${names.slice(0, shownMax).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** As on AWS since 2023, a new bucket keeps the public out. */
function newBucket(owner: string): ToldBucket {
  return {
    ...{ owner, policy: null, restrictsPublic: true, ignoresPublicAcls: true, ownership: null },
    ...{ isAsMade: true, acls: new Map() },
  };
}

/** Gives whether that changed anything. */
function setAcl({ acls }: ToldBucket, key: string, acl: unknown): boolean {
  if (!Array.isArray(acl)) return acls.delete(key);
  acls.set(key, acl as unknown as Acl);
  return true;
}
