// The tables of who there is, what they may and how much, as entries of the journal. Invariant: an
// entry and its `toldSeq` are read in one statement, so an entry is what the tables said when that
// record was the newest, however many commit meanwhile.
import type { Reader, SqlValue } from '../../core/database.ts';
import { pages } from '../../core/pages.ts';
import { scopeOf } from '../../quota/limits/alarm-hooks.ts';
import type {
  IdentityEntry,
  PresentEntry,
  RetiredEntry,
  Thing,
  ThingKind,
} from './identity-format.ts';

type Row = Record<string, unknown> & { toldSeq: number };

/** How one kind of thing is stored. */
interface Stored {
  table: string;
  /** The primary key: of tenant and name, or of one of them. */
  key: readonly string[];
  keyOf(thing: Thing): SqlValue[];
  /** SQL by member of the entry, `tenant` and `name` among them. */
  columns: Record<string, string>;
  /** Null: of this row nothing is told. */
  entryOf(row: Row): PresentEntry | null;
}

const byBoth = { key: ['tenant', 'name'], keyOf: ({ tenant, name }: Thing) => [tenant, name] };
const named = { tenant: 'tenant', name: 'name', createdMs: 'created_ms' };

/** Of a webhook: empty where it is no principal's. */
const principalOfScope = `CASE WHEN scope GLOB 'principal:*'
  THEN substr(scope, instr(scope, '/') + 1) ELSE '' END`;

const secretOf = (withKeys: boolean): string =>
  withKeys ? 'CASE WHEN sealed_secret IS NOT NULL THEN hex(sealed_secret) END' : 'NULL';

/** JSON of the rows of a principal in another table. */
const listOf = (table: string, owner: string, members: Record<string, string>): string => {
  const pairs = Object.entries(members).map(([name, sql]) => `'${name}', ${sql}`);
  return `(SELECT json_group_array(json_object(${pairs.join(', ')})) FROM ${table} AS o
    WHERE o.tenant = principals.tenant AND o.${owner} = principals.name)`;
};

function storedKinds(withKeys: boolean): Record<Exclude<ThingKind, 'publicKey'>, Stored> {
  const secret = secretOf(withKeys);
  return {
    tenant: {
      table: 'tenants',
      key: ['name'],
      keyOf: ({ tenant }) => [tenant],
      columns: {
        ...{ tenant: 'name', name: "''", createdMs: 'created_ms' },
        ...{ membersCreateBuckets: 'members_create_buckets', defaultStore: 'default_store' },
        recordReads: 'record_reads',
        membersMountBuckets: `NOT EXISTS (SELECT 1 FROM tenant_settings AS s
          WHERE s.tenant = tenants.name AND s.name = 'membersMountBuckets'
            AND s.document = 'false')`,
        // Told always: nobody could read the tenant's bytes without it.
        sealedKey: `(SELECT hex(sealed_key) FROM tenant_keys
          WHERE tenant_keys.tenant = tenants.name)`,
      },
      entryOf: ({ membersCreateBuckets, membersMountBuckets, sealedKey, ...row }) =>
        present('tenant', {
          ...row,
          membersCreateBuckets: membersCreateBuckets !== 0,
          membersMountBuckets: membersMountBuckets !== 0,
          sealedKey: lower(sealedKey),
        }),
    },
    group: { ...byBoth, table: 'groups', columns: named, entryOf: (row) => present('group', row) },
    principal: {
      ...byBoth,
      table: 'principals',
      columns: {
        ...{ ...named, is: 'kind', role: 'role', active: 'active' },
        groups: listOf('group_members', 'principal', { name: 'group_name' }),
        accessKeys: listOf('access_keys', 'principal', {
          ...{ id: 'id', thumbprint: 'thumbprint', createdMs: 'created_ms', active: 'active' },
          sealedSecret: secret,
        }),
        publicKeys: listOf('public_keys', 'principal', {
          ...{ thumbprint: 'thumbprint', jwk: 'jwk', purpose: 'purpose', proof: 'proof' },
          ...{ createdMs: 'created_ms', active: 'active' },
        }),
        mounts: listOf('own_mounts', 'principal', {
          ...{ name: 'name', bucketTenant: 'bucket_tenant', bucket: 'bucket' },
          createdMs: 'created_ms',
        }),
      },
      entryOf: ({ active, groups, accessKeys, publicKeys, mounts, ...row }) =>
        present('principal', {
          ...row,
          active: active !== 0,
          groups: (JSON.parse(groups as string) as { name: string }[]).map(({ name }) => name),
          accessKeys: withActive(accessKeys),
          publicKeys: withActive(publicKeys),
          mounts: JSON.parse(mounts as string) as object[],
        }),
    },
    grant: {
      ...byBoth,
      table: 'grants',
      columns: { ...named, rule: 'rule' },
      entryOf: (row) => present('grant', row),
    },
    mount: {
      ...byBoth,
      table: 'mounts',
      columns: { ...named, bucketTenant: 'bucket_tenant', bucket: 'bucket' },
      entryOf: (row) => present('mount', row),
    },
    issuer: {
      ...byBoth,
      table: 'issuers',
      columns: { ...named, url: 'url', audience: 'audience', mapping: 'mapping' },
      entryOf: (row) => present('issuer', row),
    },
    class: {
      ...byBoth,
      table: 'classes',
      columns: { ...named, definition: 'definition' },
      entryOf: (row) => present('class', row),
    },
    limits: {
      table: 'quota_accounts',
      key: ['account'],
      keyOf: ({ name }) => [name],
      columns: { tenant: "''", name: 'account', limits: 'limits' },
      // Those of a token are in the token.
      entryOf: (row) =>
        row.limits === null || String(row.name).startsWith('token:')
          ? null
          : present('limits', row),
    },
    webhook: {
      table: 'alarm_hooks',
      key: ['scope'],
      keyOf: ({ tenant, name }) => [
        scopeOf({ tenant: tenant === '' ? null : tenant, principal: name === '' ? null : name }),
      ],
      columns: {
        ...{ tenant: "coalesce(tenant, '')", name: principalOfScope, scope: 'scope' },
        ...{ url: 'url', createdMs: 'created_ms', sealedSecret: secret },
      },
      entryOf: ({ scope: _, ...row }) => present('webhook', row),
    },
    target: {
      ...byBoth,
      table: 'targets',
      columns: {
        ...{ ...named, is: 'kind', url: 'url', region: 'region', sealedSecret: secret },
      },
      entryOf: (row) => present('target', row),
    },
    revocation: {
      table: 'revocations',
      key: ['id'],
      keyOf: ({ name }) => [name],
      columns: {
        ...{ tenant: 'tenant', name: 'id', principal: 'principal' },
        ...{ revokedMs: 'revoked_ms', expiresMs: 'expires_ms' },
      },
      entryOf: (row) => present('revocation', row),
    },
    token: {
      table: 'tokens',
      key: ['id'],
      keyOf: ({ name }) => [name],
      columns: {
        ...{ tenant: 'tenant', name: 'id', is: 'kind', principal: 'principal' },
        ...{ accessKey: 'access_key', details: 'details', createdMs: 'created_ms' },
        ...{ expiresMs: 'expires_ms', usesMax: 'uses_max', secretHash: 'hex(secret_hash)' },
      },
      // What was only seen decides nothing.
      entryOf: ({ secretHash, ...row }) =>
        row.is === 'seen'
          ? null
          : present('token', { ...row, secretHash: row.is === 'share' ? lower(secretHash) : null }),
    },
  };
}

function present(kind: PresentEntry['kind'], row: Row): PresentEntry {
  const { sealedSecret } = row;
  const secret = sealedSecret === undefined ? {} : { sealedSecret: lower(sealedSecret) };
  return { ...row, ...secret, kind } as unknown as PresentEntry;
}

/** SQLite writes hexadecimal digits in capitals. */
function lower(hex: unknown): string | null {
  return typeof hex === 'string' ? hex.toLowerCase() : null;
}

function withActive(json: unknown): object[] {
  const keys = JSON.parse(json as string) as { active: number; sealedSecret?: string | null }[];
  return keys.map(({ active, sealedSecret, ...key }) => ({
    ...key,
    active: active !== 0,
    ...(sealedSecret !== undefined && { sealedSecret: lower(sealedSecret) }),
  }));
}

const newest = '(SELECT coalesce(max(idx), 0) FROM records)';

function columnsOf({ columns }: Stored): string {
  const all = Object.entries({ toldSeq: newest, ...columns });
  return all.map(([name, sql]) => `${sql} AS "${name}"`).join(', ');
}

/** One row always: where there is no such thing, `toldSeq` and no name. */
function findSql(stored: Stored): string {
  const { table, key, columns } = stored;
  const nothing = Object.keys(columns).map(() => 'NULL');
  return `SELECT ${columnsOf(stored)} FROM ${table}
    WHERE ${key.map((column) => `${column} = ?`).join(' AND ')}
    UNION ALL SELECT ${[newest, ...nothing].join(', ')} LIMIT 1`;
}

function listSql(stored: Stored): string {
  const { table, key } = stored;
  const marks = key.map(() => '?').join(', ');
  return `SELECT ${columnsOf(stored)}${key.map((column, i) => `, ${column} AS "key${i}"`).join('')}
    FROM ${table} WHERE (${key.join(', ')}) > (${marks}) ORDER BY ${key.join(', ')} LIMIT ?`;
}

const rowsPerPage = 200;

/** Reads identities; `withKeys`: the sealed secrets of access keys and webhooks, too. */
export class IdentityRows {
  readonly #read: Reader;
  readonly #kinds: Record<string, Stored & { find: string; list: string }>;

  constructor(read: Reader, { withKeys }: { withKeys: boolean }) {
    this.#read = read;
    const kinds = Object.entries(storedKinds(withKeys));
    this.#kinds = Object.fromEntries(
      kinds.map(([kind, stored]) => {
        return [kind, { ...stored, find: findSql(stored), list: listSql(stored) }];
      }),
    );
  }

  /** What there is of a thing, or that there is nothing. */
  async find(thing: Thing): Promise<IdentityEntry> {
    const { kind, tenant, name } = thing;
    const stored = this.#kinds[kind];
    if (!stored) return this.#findRetired(thing);
    const row = await this.#read.get<Row>(stored.find, ...stored.keyOf(thing));
    if (!row) throw new Error(`nothing is said of ${kind} ${tenant}/${name}`);
    const entry = row.name === null ? null : stored.entryOf(row);
    if (entry) return entry;
    const of = kind === 'tenant' || kind === 'principal' || kind === 'group';
    const retired = of ? await this.#isRetired(thing) : false;
    const { toldSeq } = row;
    return retired
      ? { kind: 'retired', of: kind as RetiredEntry['of'], toldSeq, tenant, name }
      : { kind: 'absent', of: kind, toldSeq, tenant, name };
  }

  /** All things of a kind, in runs that may be empty. */
  async *list(kind: Exclude<ThingKind, 'publicKey'>): AsyncGenerator<PresentEntry[]> {
    const stored = this.#kinds[kind] as Stored & { list: string };
    for await (const rows of pages<Row>((last) => {
      const after = stored.key.map((_, i) => (last?.[`key${i}`] ?? '') as string);
      return this.#read.all(stored.list, ...after, rowsPerPage);
    })) {
      yield rows.flatMap((row) => stored.entryOf(withoutKey(row)) ?? []);
    }
  }

  /** All names that are not given again. */
  async *listRetired(): AsyncGenerator<RetiredEntry[]> {
    const read = this.#read;
    const tenants = `SELECT ${newest} AS toldSeq, name AS tenant FROM retired_tenants
      WHERE name > ? ORDER BY name LIMIT ?`;
    for await (const rows of pages<{ toldSeq: number; tenant: string }>((last) =>
      read.all(tenants, last?.tenant ?? '', rowsPerPage),
    )) {
      yield rows.map((row) => ({ kind: 'retired', of: 'tenant', ...row, name: '' }));
    }
    const names = `SELECT ${newest} AS toldSeq, tenant, kind AS "of", name FROM retired_names
      WHERE (tenant, kind, name) > (?, ?, ?) ORDER BY tenant, kind, name LIMIT ?`;
    type Named = { toldSeq: number; tenant: string; of: string; name: string };
    const first = { tenant: '', of: '', name: '' };
    for await (const rows of pages<Named>((last) => {
      const { tenant, of, name } = last ?? first;
      return read.all(names, tenant, of, name, rowsPerPage);
    })) {
      yield rows.map(({ of, ...row }) => ({
        ...row,
        kind: 'retired',
        of: of === 'public-key' ? 'publicKey' : (of as RetiredEntry['of']),
      }));
    }
  }

  /** Of a public key only that it is gone is told by itself: else its principal has it. */
  async #findRetired(thing: Thing): Promise<IdentityEntry> {
    const { kind, tenant, name } = thing;
    const row = await this.#read.get<{ toldSeq: number }>(`SELECT ${newest} AS toldSeq`);
    const toldSeq = row?.toldSeq ?? 0;
    return (await this.#isRetired(thing))
      ? { kind: 'retired', of: 'publicKey', toldSeq, tenant, name }
      : { kind: 'absent', of: kind, toldSeq, tenant, name };
  }

  async #isRetired({ kind, tenant, name }: Thing): Promise<boolean> {
    if (kind === 'tenant') {
      const sql = 'SELECT 1 FROM retired_tenants WHERE name = ?';
      return (await this.#read.get(sql, tenant)) !== undefined;
    }
    const of = kind === 'publicKey' ? 'public-key' : kind;
    const sql = 'SELECT 1 FROM retired_names WHERE tenant = ? AND kind = ? AND name = ?';
    return (await this.#read.get(sql, tenant, of, name)) !== undefined;
  }
}

function withoutKey({ key0: _, key1: _1, ...row }: Row): Row {
  return row as Row;
}
