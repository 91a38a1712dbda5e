// Whose buckets are, where their bytes lie and how their reads are recorded, against the records.
// What else is set of them is compared by its digest (deep-catalog.ts). Invariant: an owner changes
// only by a record that says so, so a record that charges a bucket to who never owned one of its
// name was made of an altered row. A read that was under way is charged to the owner of before.
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import { listStores } from '../../catalog/stores.ts';
import type { Reader } from '../../core/database.ts';
import { parseJson } from '../../core/json.ts';
import { localStore } from '../../core/manifest.ts';
import { accountScope } from '../../core/seals/sealed-tables.ts';
import {
  ComparedThings,
  type Comparison,
  type Row,
  rowsOf,
  tenantOfName,
  walkTable,
} from './compared-things.ts';
import type { StagedMap, Staging } from './staging.ts';

const localStoreName = 'local';

export class DeepBuckets {
  readonly #things: ComparedThings;
  /** By `tenant/name`: all whom buckets of this name ever belonged to; null: whom is not known. */
  readonly #owners: StagedMap<readonly string[] | null>;
  /** By the same: the first record that charged it to somebody else. */
  readonly #misled: StagedMap<{ index: number; owner: string }>;

  constructor(staging: Staging) {
    this.#things = new ComparedThings(staging, 'bucket', tenantOfName);
    this.#owners = staging.map('owners of bucket');
    this.#misled = staging.map('misled bucket');
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    const { tenant, bucketTenant = tenant, bucket, bucketOwner, action } = fields;
    const name = bucket === undefined ? undefined : `${bucketTenant}/${bucket}`;
    // The record of the new owner, whom its bucket was handed over to.
    const isHandedOver =
      action === 'bursar:ChangeOwner' && isDone(fields) && bucketOwner === fields.change?.to;
    if (name !== undefined && bucketOwner !== undefined) {
      if (isHandedOver) await this.#handOver(name, index, bucketOwner);
      else await this.#charge(name, index, bucketOwner);
    }
    if (!isDone(fields)) return;
    if (action === 'bursar:UpdateBucket') await this.#update(index, fields);
    if (name === undefined) return;
    // A restore ends buckets, too, and says of versions besides which key they had.
    const isRestoredEnd = action === 'bursar:RestoreEnd' && fields.key === undefined;
    if (action === 's3:DeleteBucket' || isRestoredEnd) await this.#things.delete(name);
    if (action === 's3:CreateBucket' && fields.configures) await this.#make(name, index, fields);
    if (action === 'bursar:RestoreBucket') await this.#make(name, index, fields);
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    for await (const [name, { index, owner }] of this.#misled.entries()) {
      const what = `record ${index} charged it to ${owner}, whose it never was`;
      comparison.tell({ where: `bucket ${name}`, what });
    }
    await this.#things.compare(listBuckets(read), comparison);
  }

  async #make(name: string, index: number, fields: RecordFields): Promise<void> {
    const { action, change, principal, source, time } = fields;
    const isRestored = action === 'bursar:RestoreBucket';
    // One that the gateway made for itself is of another than its record; it says whose since
    // 0.2.0.
    const isOwn = source === 'bursar serve';
    const owner = textOf(change?.owner) ?? (isOwn ? undefined : principal);
    await this.#own(name, owner);
    await this.#things.put(name, index, {
      owner,
      store: textOf(change?.store),
      // Of one that is restored no record says these.
      recordReads: isRestored ? undefined : null,
      createdMs: isRestored ? undefined : Date.parse(time),
    });
  }

  async #handOver(name: string, index: number, owner: string): Promise<void> {
    await this.#own(name, owner);
    if (await this.#things.get(name)) await this.#things.change(name, index, { owner });
  }

  async #own(name: string, owner: string | undefined): Promise<void> {
    const owners = await this.#owners.get(name);
    if (owners === null) return;
    if (owner === undefined) return this.#owners.set(name, null);
    if (!owners?.includes(owner)) await this.#owners.set(name, [...(owners ?? []), owner]);
  }

  async #charge(name: string, index: number, owner: string): Promise<void> {
    const owners = await this.#owners.get(name);
    if (!owners || owners.includes(owner) || (await this.#misled.get(name))) return;
    await this.#misled.set(name, { index, owner });
  }

  async #update(index: number, { target = '', change }: RecordFields): Promise<void> {
    const [, tenant, name] = /^tenants\/([^/]+)\/buckets\/([^/]+)$/.exec(target) ?? [];
    const id = `${tenant}/${name}`;
    if (!(await this.#things.get(id))) return;
    await this.#things.change(id, index, { recordReads: change?.recordReads });
  }
}

async function* listBuckets(read: Reader): AsyncGenerator<Row> {
  const stores = new Map((await listStores(read)).map((store) => [store.number, store.name]));
  const rows = walkTable<Record<string, unknown> & { store: number }>(read, {
    columns: 'tenant, name, owner, store, record_reads AS recordReads, created_ms AS createdMs',
    from: 'buckets',
    keys: ['id'],
  });
  for await (const { tenant, name, store: number, owner, recordReads, createdMs } of rows) {
    const store = number === localStore ? localStoreName : stores.get(number);
    yield { id: `${tenant}/${name}`, members: { owner, recordReads, createdMs, store } };
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

// What accounts may use, against the records that set it. Invariant: of tokens nothing is compared,
// whose limits are in their links, as they were signed.

const actions = new Set(['bursar:PutLimit', 'bursar:DeleteLimit', 'bursar:RestoreLimits']);

export class DeepLimits {
  readonly #things: ComparedThings;

  constructor(staging: Staging) {
    this.#things = new ComparedThings(
      staging,
      'limits of',
      (account) => accountScope(account)?.tenant,
    );
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    const { action, limits, target = '' } = fields;
    if (!isDone(fields) || !actions.has(action)) return;
    const [, account] = /^limits\/(.+)$/.exec(target) ?? [];
    if (account === undefined) return;
    if (limits) await this.#things.put(account, index, { amounts: limits });
    else await this.#things.delete(account);
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    await this.#things.compare(listLimits(read), comparison);
  }
}

const listLimits = rowsOf(
  {
    columns: 'account, limits',
    from: 'quota_accounts',
    where: "limits IS NOT NULL AND account NOT LIKE 'token:%'",
    keys: ['account'],
  },
  ({ account, limits }) => ({
    id: String(account),
    members: { amounts: parseJson(String(limits)) ?? null },
  }),
);
