// The mounts of all tenants and of their principals, kept in memory as the database has them: every
// request looks for one of its principal's own, and, where the bucket is not there, for one of its
// tenant's.
import type { Page } from '../authz/paced-page.ts';
import type { Reader } from '../core/database.ts';
import { getOrMake } from '../core/maps.ts';
import { principalId } from '../core/principal.ts';
import type { LedgerEvent } from '../ledger/events.ts';

export interface Mount {
  /** The tenant in whose namespace it is, and its name there. */
  tenant: string;
  name: string;
  bucketTenant: string;
  bucket: string;
  /** The name of the bucket's snapshot that it shows; null: the bucket as it is. */
  at: string | null;
  /** The query that what it shows fits; null: it shows all. */
  where: string | null;
}

export interface MountEntry extends Mount {
  createdMs: number;
}

/** One that means something to its principal alone. */
export interface OwnMountEntry extends MountEntry {
  principal: string;
}

const columns = `tenant, name, bucket_tenant AS bucketTenant, bucket, created_ms AS createdMs`;

/** As it is stored, what a mount leads to is `BUCKET[@SNAPSHOT][?QUERY]`. */
type StoredMount = Omit<Mount, 'at' | 'where'>;
type Stored<E extends Mount> = Omit<E, 'at' | 'where'>;

function readMount<M extends StoredMount>(stored: M): M & Mount {
  const [, bucket = '', at = null, where = null] = targetForm.exec(stored.bucket) ?? [];
  return { ...stored, bucket, at, where };
}

/** No name of a bucket has either sign, and none of a snapshot the second. */
const targetForm = /^([^@?]*)(?:@([^?]*))?(?:\?(.*))?$/s;

/** What a mount leads to, in the form in which it is stored. */
export function storedTarget(bucket: string, at: string | null, where: string | null): string {
  const shown = at === null ? bucket : `${bucket}@${at}`;
  return where === null ? shown : `${shown}?${where}`;
}

export class MountBook {
  readonly #read: Reader;
  readonly #mounts = new Map<string, Mount>();
  /** By principal (`tenant/name`), and by name. */
  readonly #own = new Map<string, Map<string, Mount>>();

  private constructor(read: Reader) {
    this.#read = read;
  }

  static async load(read: Reader): Promise<MountBook> {
    const book = new MountBook(read);
    const sql = 'SELECT tenant, name, bucket_tenant AS bucketTenant, bucket FROM mounts';
    for (const mount of await read.all<StoredMount>(sql)) book.#add(readMount(mount));
    const own = `SELECT tenant, principal, name, bucket_tenant AS bucketTenant, bucket
      FROM own_mounts`;
    for (const stored of await read.all<StoredMount & { principal: string }>(own)) {
      const { principal, ...mount } = stored;
      book.#addOwn(principal, readMount(mount));
    }
    return book;
  }

  find(tenant: string, name: string): Mount | undefined {
    return this.#mounts.get(`${tenant}/${name}`);
  }

  /** One of the principal's (`tenant/name`) own. */
  findOwn(id: string, name: string): Mount | undefined {
    return this.#own.get(id)?.get(name);
  }

  /** All of the principal's own. */
  listOwn(id: string): Iterable<Mount> {
    return this.#own.get(id)?.values() ?? [];
  }

  /** As the database has it. */
  async read(tenant: string, name: string): Promise<MountEntry | undefined> {
    const sql = `SELECT ${columns} FROM mounts WHERE tenant = ? AND name = ?`;
    const stored = await this.#read.get<Stored<MountEntry>>(sql, tenant, name);
    return stored && readMount(stored);
  }

  async list(tenant: string, page: Page, prefix = ''): Promise<MountEntry[]> {
    const { after, limit } = page;
    const stored = await this.#read.all<Stored<MountEntry>>(
      `SELECT ${columns} FROM mounts
         WHERE tenant = ? AND name > ? AND substr(name, 1, length(?)) = ?
         ORDER BY name LIMIT ?`,
      tenant,
      after,
      prefix,
      prefix,
      limit,
    );
    return stored.map(readMount);
  }

  /** As the database has it. */
  async readOwn(
    tenant: string,
    principal: string,
    name: string,
  ): Promise<OwnMountEntry | undefined> {
    const sql = `SELECT principal, ${columns} FROM own_mounts
      WHERE tenant = ? AND principal = ? AND name = ?`;
    const stored = await this.#read.get<Stored<OwnMountEntry>>(sql, tenant, principal, name);
    return stored && readMount(stored);
  }

  async pageOwn(tenant: string, principal: string, page: Page): Promise<OwnMountEntry[]> {
    const stored = await this.#read.all<Stored<OwnMountEntry>>(
      `SELECT principal, ${columns} FROM own_mounts
         WHERE tenant = ? AND principal = ? AND name > ? ORDER BY name LIMIT ?`,
      ...[tenant, principal, page.after, page.limit],
    );
    return stored.map(readMount);
  }

  /** Those of all principals of a tenant. `after` is `principal/name`. */
  async pageOwnOfAll(tenant: string, { after, limit }: Page): Promise<OwnMountEntry[]> {
    const slash = after.indexOf('/');
    const stored = await this.#read.all<Stored<OwnMountEntry>>(
      `SELECT principal, ${columns} FROM own_mounts
         WHERE tenant = ? AND (principal, name) > (?, ?) ORDER BY principal, name LIMIT ?`,
      ...[tenant, slash < 0 ? after : after.slice(0, slash)],
      ...[slash < 0 ? '' : after.slice(slash + 1), limit],
    );
    return stored.map(readMount);
  }

  apply(event: LedgerEvent): void {
    if (event.kind === 'mount') {
      const { tenant, name, to } = event;
      if (to) {
        this.#add(readMount({ tenant, name, bucketTenant: to.tenant, bucket: to.bucket }));
      } else this.#mounts.delete(`${tenant}/${name}`);
    } else if (event.kind === 'ownMount') this.#applyOwn(event);
    else if (event.kind === 'tenant' && event.isGone) {
      for (const [id, { tenant }] of this.#mounts) {
        if (tenant === event.name) this.#mounts.delete(id);
      }
      for (const id of this.#own.keys()) {
        if (id.startsWith(`${event.name}/`)) this.#own.delete(id);
      }
    }
  }

  #applyOwn({ tenant, principal, name, to }: Extract<LedgerEvent, { kind: 'ownMount' }>): void {
    const id = principalId(tenant, principal);
    if (name !== null && to) {
      const stored = { tenant, name, bucketTenant: to.tenant, bucket: to.bucket };
      this.#addOwn(principal, readMount(stored));
      return;
    }
    const own = this.#own.get(id);
    if (name !== null) own?.delete(name);
    if (name === null || own?.size === 0) this.#own.delete(id);
  }

  #addOwn(principal: string, mount: Mount): void {
    const id = principalId(mount.tenant, principal);
    getOrMake(this.#own, id, () => new Map<string, Mount>()).set(mount.name, mount);
  }

  #add(mount: Mount): void {
    this.#mounts.set(`${mount.tenant}/${mount.name}`, mount);
  }
}
