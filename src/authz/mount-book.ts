// The mounts of all tenants, in memory as they are in the database.
import type { Reader } from '../core/database.ts';

export interface Mount {
  /** The tenant in whose namespace it is, and its name there. */
  tenant: string;
  name: string;
  bucketTenant: string;
  bucket: string;
}

export class MountBook {
  readonly #mounts = new Map<string, Mount>();

  static async load(read: Reader): Promise<MountBook> {
    const book = new MountBook();
    const rows = await read.all<Mount>(
      'SELECT tenant, name, bucket_tenant AS bucketTenant, bucket FROM mounts',
    );
    for (const mount of rows) book.#mounts.set(`${mount.tenant}/${mount.name}`, mount);
    return book;
  }

  find(tenant: string, name: string): Mount | undefined {
    return this.#mounts.get(`${tenant}/${name}`);
  }
}
