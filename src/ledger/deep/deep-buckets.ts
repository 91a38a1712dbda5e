// Whose buckets are, where their bytes lie and how their reads are recorded, against the records. What
// else is set of them is compared by its digest (deep-catalog.ts). Invariant: an owner never changes,
// so a record that charges a bucket to who never owned one of its name was made of an altered row.
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import { listStores } from '../../catalog/stores.ts';
import type { Reader } from '../../core/database.ts';
import { localStore } from '../../core/manifest.ts';
import { ComparedThings, type Comparison } from './compared-things.ts';

const localStoreName = 'local';

export class DeepBuckets {
  readonly #things = new ComparedThings('bucket');
  /** By `tenant/name`: all whom buckets of this name ever belonged to; null: whom is not known. */
  readonly #owners = new Map<string, Set<string> | null>();
  /** By the same: the first record that charged it to somebody else. */
  readonly #misled = new Map<string, { index: number; owner: string }>();

  visit(index: number, fields: RecordFields): void {
    const { tenant, bucketTenant = tenant, bucket, bucketOwner, action } = fields;
    const name = bucket === undefined ? undefined : `${bucketTenant}/${bucket}`;
    if (name !== undefined && bucketOwner !== undefined) this.#charge(name, index, bucketOwner);
    if (!isDone(fields)) return;
    if (action === 'bursar:UpdateBucket') this.#update(index, fields);
    if (name === undefined) return;
    // A restore ends buckets, too, and says of versions besides which key they had.
    const isRestoredEnd = action === 'bursar:RestoreEnd' && fields.key === undefined;
    if (action === 's3:DeleteBucket' || isRestoredEnd) this.#things.delete(name);
    if (action === 's3:CreateBucket' && fields.configures) this.#make(name, index, fields);
    if (action === 'bursar:RestoreBucket') this.#make(name, index, fields);
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    for (const [name, { index, owner }] of this.#misled) {
      const what = `record ${index} charged it to ${owner}, whose it never was`;
      comparison.tell({ where: `bucket ${name}`, what });
    }
    const stores = new Map((await listStores(read)).map((store) => [store.number, store.name]));
    const rows = await read.all<Record<string, unknown> & { store: number }>(
      `SELECT tenant, name, owner, store, record_reads AS recordReads, created_ms AS createdMs
         FROM buckets ORDER BY id`,
    );
    const shown = rows.map(({ tenant, name, store, ...members }) => ({
      id: `${tenant}/${name}`,
      members: {
        ...members,
        store: store === localStore ? localStoreName : stores.get(store),
      },
    }));
    this.#things.compare(shown, comparison);
  }

  #make(name: string, index: number, fields: RecordFields): void {
    const { action, change, principal, source, time } = fields;
    const isRestored = action === 'bursar:RestoreBucket';
    // One that the gateway made for itself is of another than its record; it says whose since 0.2.0.
    const isOwn = source === 'bursar serve';
    const owner = textOf(change?.owner) ?? (isOwn ? undefined : principal);
    this.#own(name, owner);
    this.#things.put(name, index, {
      owner,
      store: textOf(change?.store),
      // Of one that is restored no record says these.
      recordReads: isRestored ? undefined : null,
      createdMs: isRestored ? undefined : Date.parse(time),
    });
  }

  #own(name: string, owner: string | undefined): void {
    const owners = this.#owners.get(name);
    if (owners === null) return;
    if (owner === undefined) this.#owners.set(name, null);
    else if (owners) owners.add(owner);
    else this.#owners.set(name, new Set([owner]));
  }

  #charge(name: string, index: number, owner: string): void {
    const owners = this.#owners.get(name);
    if (!owners || owners.has(owner) || this.#misled.has(name)) return;
    this.#misled.set(name, { index, owner });
  }

  #update(index: number, { target = '', change }: RecordFields): void {
    const [, tenant, name] = /^tenants\/([^/]+)\/buckets\/([^/]+)$/.exec(target) ?? [];
    const id = `${tenant}/${name}`;
    if (this.#things.get(id)) this.#things.change(id, index, { recordReads: change?.recordReads });
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
