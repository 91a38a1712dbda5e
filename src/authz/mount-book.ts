// The mounts of all tenants, in memory as they are in the database: one is looked for in every
// request for a bucket that is not there.
import type { Reader } from '../core/database.ts';
import type { AuthzChange, Follower } from './changes.ts';
import type { Page } from './directory.ts';
import { Turns } from './turns.ts';

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

export class MountBook implements Follower {
  readonly #read: Reader;
  readonly #mounts = new Map<string, Mount>();
  readonly #turns = new Turns();

  private constructor(read: Reader) {
    this.#read = read;
  }

  static async load(read: Reader): Promise<MountBook> {
    const book = new MountBook(read);
    for (const mount of await read.all<MountEntry>(`SELECT ${columns} FROM mounts`))
      book.#add(mount);
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
      `SELECT ${columns} FROM mounts WHERE tenant = ? AND name > ? AND substr(name, 1, length(?)) = ?
         ORDER BY name LIMIT ?`,
      tenant,
      after,
      prefix,
      prefix,
      limit,
    );
  }

  async follow(change: AuthzChange): Promise<() => void | Promise<void>> {
    switch (change.type) {
      case 'putMount':
      case 'deleteMount':
        return this.#inTurn(change.tenant, async () => {
          const mount = await this.read(change.tenant, change.name);
          if (mount) this.#add(mount);
          else this.#mounts.delete(`${change.tenant}/${change.name}`);
        });
      case 'deleteTenant':
        return this.#inTurn(change.name, async () => {
          const sql = 'SELECT 1 FROM tenants WHERE name = ?';
          if (await this.#read.get(sql, change.name)) return;
          for (const [id, { tenant }] of this.#mounts) {
            if (tenant === change.name) this.#mounts.delete(id);
          }
        });
      default:
        return () => {};
    }
  }

  async #inTurn(tenant: string, update: () => Promise<void>): Promise<() => Promise<void>> {
    const end = await this.#turns.take(tenant);
    return async () => {
      try {
        await update();
      } finally {
        end();
      }
    };
  }

  #add(mount: Mount): void {
    this.#mounts.set(`${mount.tenant}/${mount.name}`, mount);
  }
}
