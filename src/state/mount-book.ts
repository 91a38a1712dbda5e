// The mounts of all tenants, kept in memory as the database has them: every request for a bucket
// that is not there looks for one.
import type { Page } from '../authz/paced-page.ts';
import type { Reader } from '../core/database.ts';
import type { LedgerEvent } from '../ledger/events.ts';

export interface Mount {
  /** The tenant in whose namespace it is, and its name there. */
  tenant: string;
  name: string;
  bucketTenant: string;
  bucket: string;
}

export interface MountEntry extends Mount {
  createdMs: number;
}

const columns = `tenant, name, bucket_tenant AS bucketTenant, bucket, created_ms AS createdMs`;

export class MountBook {
  readonly #read: Reader;
  readonly #mounts = new Map<string, Mount>();

  private constructor(read: Reader) {
    this.#read = read;
  }

  static async load(read: Reader): Promise<MountBook> {
    const book = new MountBook(read);
    const sql = 'SELECT tenant, name, bucket_tenant AS bucketTenant, bucket FROM mounts';
    for (const mount of await read.all<Mount>(sql)) book.#add(mount);
    return book;
  }

  find(tenant: string, name: string): Mount | undefined {
    return this.#mounts.get(`${tenant}/${name}`);
  }

  /** As the database has it. */
  async read(tenant: string, name: string): Promise<MountEntry | undefined> {
    const sql = `SELECT ${columns} FROM mounts WHERE tenant = ? AND name = ?`;
    return this.#read.get<MountEntry>(sql, tenant, name);
  }

  async list(tenant: string, page: Page, prefix = ''): Promise<MountEntry[]> {
    const { after, limit } = page;
    return this.#read.all<MountEntry>(
      `SELECT ${columns} FROM mounts
         WHERE tenant = ? AND name > ? AND substr(name, 1, length(?)) = ?
         ORDER BY name LIMIT ?`,
      tenant,
      after,
      prefix,
      prefix,
      limit,
    );
  }

  apply(event: LedgerEvent): void {
    if (event.kind === 'mount') {
      const { tenant, name, to } = event;
      if (to) this.#add({ tenant, name, bucketTenant: to.tenant, bucket: to.bucket });
      else this.#mounts.delete(`${tenant}/${name}`);
    } else if (event.kind === 'tenant' && event.isGone) {
      for (const [id, { tenant }] of this.#mounts) {
        if (tenant === event.name) this.#mounts.delete(id);
      }
    }
  }

  #add(mount: Mount): void {
    this.#mounts.set(`${mount.tenant}/${mount.name}`, mount);
  }
}
