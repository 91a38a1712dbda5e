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
  /** The name of the bucket's snapshot that it shows; null: the bucket as it is. */
  at: string | null;
}

export interface MountEntry extends Mount {
  createdMs: number;
}

const columns = `tenant, name, bucket_tenant AS bucketTenant, bucket, created_ms AS createdMs`;

/** As it is stored: what a mount of a snapshot leads to is `BUCKET@SNAPSHOT`. */
type StoredMount = Omit<Mount, 'at'>;

function readMount<M extends StoredMount>(stored: M): M & Mount {
  const { bucket } = stored;
  const mark = bucket.indexOf('@');
  if (mark < 0) return { ...stored, at: null };
  return { ...stored, bucket: bucket.slice(0, mark), at: bucket.slice(mark + 1) };
}

/** What a mount leads to, in the form in which it is stored. */
export function storedTarget(bucket: string, at: string | null): string {
  return at === null ? bucket : `${bucket}@${at}`;
}

export class MountBook {
  readonly #read: Reader;
  readonly #mounts = new Map<string, Mount>();

  private constructor(read: Reader) {
    this.#read = read;
  }

  static async load(read: Reader): Promise<MountBook> {
    const book = new MountBook(read);
    const sql = 'SELECT tenant, name, bucket_tenant AS bucketTenant, bucket FROM mounts';
    for (const mount of await read.all<StoredMount>(sql)) book.#add(readMount(mount));
    return book;
  }

  find(tenant: string, name: string): Mount | undefined {
    return this.#mounts.get(`${tenant}/${name}`);
  }

  /** As the database has it. */
  async read(tenant: string, name: string): Promise<MountEntry | undefined> {
    const sql = `SELECT ${columns} FROM mounts WHERE tenant = ? AND name = ?`;
    const stored = await this.#read.get<Omit<MountEntry, 'at'>>(sql, tenant, name);
    return stored && readMount(stored);
  }

  async list(tenant: string, page: Page, prefix = ''): Promise<MountEntry[]> {
    const { after, limit } = page;
    const stored = await this.#read.all<Omit<MountEntry, 'at'>>(
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

  apply(event: LedgerEvent): void {
    if (event.kind === 'mount') {
      const { tenant, name, to } = event;
      if (to) {
        this.#add(readMount({ tenant, name, bucketTenant: to.tenant, bucket: to.bucket }));
      } else this.#mounts.delete(`${tenant}/${name}`);
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
