// Rows that belong to what is not there, or that say another thing than what they belong to. A
// gateway leaves none; one that somebody adds before its owner is made would be the owner's from
// its beginning.
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import {
  ComparedThings,
  type Comparison,
  type Row,
  show,
  tenantOfName,
  walkTable,
} from './compared-things.ts';
import type { StagedMap, Staging } from './staging.ts';

interface Kind {
  what: string;
  /** Gives the `name` of each, at most `max`. */
  sql: string;
}

/** Of an account that is called `a`, as JSON, whatever is there. */
const leases = "CASE WHEN json_valid(a.leases) THEN a.leases ELSE '{}' END";

const kinds: readonly Kind[] = [
  {
    what: 'it is of a group or a principal that is not there',
    sql: `SELECT 'member ' || tenant || '/' || group_name || '/' || principal AS name
      FROM group_members AS m
      WHERE NOT EXISTS (SELECT 1 FROM principals AS p
          WHERE p.tenant = m.tenant AND p.name = m.principal)
        OR NOT EXISTS (SELECT 1 FROM groups AS g
          WHERE g.tenant = m.tenant AND g.name = m.group_name)`,
  },
  {
    what: 'it is of a bucket that is not there',
    sql: `SELECT 'setting ' || name || ' of bucket ' || bucket_id AS name FROM bucket_settings
      WHERE bucket_id NOT IN (SELECT id FROM buckets)`,
  },
  {
    what: 'it is of an upload that is not there',
    sql: `SELECT 'part ' || upload_id || '/' || number AS name FROM parts
      WHERE upload_id NOT IN (SELECT id FROM uploads)`,
  },
  {
    what: 'it is of an extent that is not there',
    sql: `SELECT 'copy of ' || hex(extent_id) || ' in store ' || store AS name
      FROM extent_copies WHERE extent_id NOT IN (SELECT id FROM extents)`,
  },
  {
    what: 'its key has no uploads',
    sql: `SELECT 'deletion during uploads of ' || key AS name FROM deleted_during_uploads AS d
      WHERE NOT EXISTS (SELECT 1 FROM uploads AS u
          WHERE u.bucket_id = d.bucket_id AND u.key = d.key)`,
  },
  {
    what: 'there is no such account',
    sql: `SELECT 'the ' || window || ' of ' || account AS name FROM quota_windows
      WHERE account NOT IN (SELECT account FROM quota_accounts)`,
  },
  {
    what: 'its account has no such lease',
    sql: `SELECT 'lease of ' || account || ' by ' || holder AS name FROM quota_leases AS l
      WHERE NOT EXISTS (SELECT 1 FROM quota_accounts AS a
        WHERE a.account = l.account
          AND EXISTS (SELECT 1 FROM json_each(${leases}) WHERE key = l.holder))`,
  },
  {
    what: 'nobody would end it, were its run to die',
    sql: `SELECT 'lease of ' || a.account || ' by ' || one.key AS name
      FROM quota_accounts AS a, json_each(${leases}) AS one
      WHERE a.leases IS NOT NULL AND NOT EXISTS (SELECT 1 FROM quota_leases AS l
        WHERE l.account = a.account AND l.holder = one.key)`,
  },
];

/** Of each kind. */
const shownMax = 100;

export class DeepStrays {
  /** The highest number that a bucket was given. */
  readonly #last: StagedMap<number>;

  constructor(staging: Staging) {
    this.#last = staging.map('last bucket');
  }

  async visit(_: number, { configures }: RecordFields): Promise<void> {
    if (!configures) return;
    const last = (await this.#last.get('')) ?? 0;
    if (configures.bucket > last) await this.#last.set('', configures.bucket);
  }

  async finish(read: Reader, { tell }: Comparison): Promise<void> {
    for (const { what, sql } of kinds) {
      const rows = await read.all<{ name: unknown }>(`${sql} LIMIT ?`, shownMax);
      for (const { name } of rows) tell({ where: String(name), what });
    }
    const last = (await this.#last.get('')) ?? 0;
    const row = await read.get<{ seq: unknown }>(
      "SELECT seq FROM sqlite_sequence WHERE name = 'buckets'",
    );
    if (typeof row?.seq === 'number' ? row.seq >= last : last === 0) return;
    // What is left of the bucket that had the number would be in the next one.
    const what = `the last one is ${show(row?.seq)}, and a bucket had number ${last}`;
    tell({ where: 'numbers of buckets', what });
  }
}

// Names that are not given again, against the records of what had them. With a tenant go the names
// in it.

const nameKinds: ReadonlyMap<string, string> = new Map([
  ['principals', 'principal'],
  ['groups', 'group'],
  ['public-keys', 'public-key'],
]);

export class DeepRetired {
  readonly #names: ComparedThings;
  /** By access key of a SigV4A key: its thumbprint. */
  readonly #thumbprints: StagedMap<string>;
  readonly #gone: StagedMap<number>;

  constructor(staging: Staging) {
    this.#names = new ComparedThings(staging, 'retired name', tenantOfName);
    this.#thumbprints = staging.map('thumbprint of');
    this.#gone = staging.map('tenant and its names gone');
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    const { action, target = '', change } = fields;
    if (!isDone(fields)) return;
    const form = /^tenants\/([^/]+)(?:\/(?:principals\/[^/]+\/)?([a-z-]+)\/([^/]+))?$/;
    const [, tenant, collection = '', name] = form.exec(target) ?? [];
    if (tenant === undefined) return;
    if (action === 'bursar:CreatePublicKey' && typeof change?.accessKeyId === 'string') {
      if (name !== undefined) await this.#thumbprints.set(change.accessKeyId, name);
      return;
    }
    const isRetired = action.startsWith('bursar:Delete') || action === 'bursar:RestoreRetiredName';
    if (!isRetired) return;
    if (name === undefined) {
      const isTenant = action === 'bursar:DeleteTenant' || action === 'bursar:RestoreRetiredName';
      if (action === 'bursar:DeleteTenant') await this.#gone.set(tenant, index);
      if (isTenant) await this.#names.put(tenant, index, {});
      return;
    }
    const thumbprint = collection === 'access-keys' ? await this.#thumbprints.get(name) : undefined;
    const kind = thumbprint === undefined ? nameKinds.get(collection) : 'public-key';
    if (kind) await this.#names.put(`${tenant}/${kind}/${thumbprint ?? name}`, index, {});
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    for await (const [id, { index }] of this.#names.entries()) {
      const [tenant = '', kind] = id.split('/');
      const isGone = ((await this.#gone.get(tenant)) ?? -1) > index;
      if (kind !== undefined && isGone) await this.#names.delete(id);
    }
    await this.#names.compare(listRetired(read), comparison);
  }
}

async function* listRetired(read: Reader): AsyncGenerator<Row> {
  const tenants = { columns: 'name', from: 'retired_tenants', keys: ['name'] };
  for await (const { name } of walkTable<{ name: string }>(read, tenants)) {
    yield { id: String(name), members: {} };
  }
  const keys = ['tenant', 'kind', 'name'];
  const names = { columns: keys.join(', '), from: 'retired_names', keys };
  type Retired = Record<'tenant' | 'kind' | 'name', string>;
  for await (const { tenant, kind, name } of walkTable<Retired>(read, names)) {
    yield { id: `${tenant}/${kind}/${name}`, members: {} };
  }
}
