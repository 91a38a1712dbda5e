// Which tables say who there is, who may what and how much, and what of their rows is sealed
// (docs/formats/row-seals.md). One list, by which rows are sealed, verified and counted: a table
// that is in it is sealed wherever it is written, and a column that is not in it is said to be so
// here. Invariants: no two rows of a table have the same tenant and name; and the list of a table's
// fields never changes without another version of the form, because stored seals are made over it.

/** How a field is written in the message of a MAC. */
export type FieldType = 'text' | 'number' | 'bytes';

export interface SealedTable {
  name: string;
  /** What a row is, for people. */
  noun: string;
  /** The schema in which it came; absent: it was there when seals came. */
  since?: number;
  /** SQL of a row that is called `$`: the tenant whose rights it is about, '' for none. */
  tenant: string;
  /** The same: its name among the tenant's rows of the table. */
  row: string;
  /** Column, or SQL of a row that is called `$`, and its type. */
  fields: readonly (readonly [string, FieldType])[];
  /** Returns whom a row concerns, by its tenant and name. Null means everybody. */
  concerns: (tenant: string, row: string) => SealScope | null;
}

/** Whom a row that is not authentic concerns. They are not served until it is put right. */
export interface SealScope {
  tenant: string;
  principal?: string;
  bucket?: string;
}

const ofTenant = (tenant: string): SealScope => ({ tenant });
/** For rows whose names begin with a principal's. */
const ofPrincipal = (tenant: string, row: string): SealScope => ({
  tenant,
  principal: row.split('/', 1)[0] as string,
});
const ofBucket = (tenant: string, row: string): SealScope => ({
  tenant,
  bucket: row.split('/', 1)[0] as string,
});

function ofAccount(tenant: string, account: string): SealScope {
  const [, kind, name, rest] = /^([a-z]+):[^/]*\/([^/]*)(\/.*)?/.exec(account) ?? [];
  const isBuckets = kind === 'bucket' || kind === 'prefix' || (kind === 'writer' && rest);
  if (isBuckets) return { tenant, bucket: name as string };
  if (kind === 'principal' || kind === 'writer') return { tenant, principal: name as string };
  return { tenant };
}

/** Whom an account concerns; null: nobody, or that cannot be told from its name. */
export function accountScope(account: string): SealScope | null {
  const tenant = tenantOfAccount(account);
  return tenant === undefined ? null : ofAccount(tenant, account);
}

/** undefined: it is no tenant's, or that cannot be told from its name. */
export function tenantOfAccount(account: string): string | undefined {
  return /^(?:tenant|principal|bucket|prefix|writer|backend):([^/]*)/.exec(account)?.[1];
}

const made = ['created_ms', 'number'] as const;

/** `text tenant name` names fields of one type. */
function texts(names: string): (readonly [string, 'text'])[] {
  return names.split(' ').map((name) => [name, 'text'] as const);
}

export const sealedTables: readonly SealedTable[] = [
  {
    ...{ name: 'tenants', noun: 'tenant', tenant: '$.name', row: "''", concerns: ofTenant },
    fields: [
      ...texts('name default_store record_reads'),
      ['members_create_buckets', 'number'],
      made,
    ],
  },
  {
    ...{ name: 'tenant_keys', noun: 'key of a tenant', since: 15, concerns: ofTenant },
    ...{ tenant: '$.tenant', row: "''" },
    fields: [...texts('tenant'), ['sealed_key', 'bytes'], made],
  },
  {
    ...{ name: 'tenant_settings', noun: 'setting of a tenant', since: 16, concerns: ofTenant },
    ...{ tenant: '$.tenant', row: '$.name' },
    fields: texts('tenant name document'),
  },
  {
    ...{ name: 'retired_tenants', noun: 'name of a deleted tenant', concerns: ofTenant },
    ...{ tenant: '$.name', row: "''" },
    fields: texts('name'),
  },
  {
    ...{ name: 'principals', noun: 'principal', tenant: '$.tenant', row: '$.name' },
    concerns: ofPrincipal,
    fields: [...texts('tenant name kind role'), made, ['active', 'number']],
  },
  {
    ...{ name: 'groups', noun: 'group', tenant: '$.tenant', row: '$.name', concerns: ofTenant },
    fields: [...texts('tenant name'), made],
  },
  {
    ...{ name: 'group_members', noun: 'member of a group', tenant: '$.tenant' },
    ...{ row: "$.principal || '/' || $.group_name", concerns: ofPrincipal },
    fields: texts('tenant group_name principal'),
  },
  {
    ...{ name: 'access_keys', noun: 'access key', tenant: '$.tenant' },
    ...{ row: "$.principal || '/' || $.id", concerns: ofPrincipal },
    fields: [
      ...texts('id tenant principal'),
      ['sealed_secret', 'bytes'],
      ...texts('thumbprint'),
      made,
      ['active', 'number'],
    ],
  },
  {
    ...{ name: 'retired_names', noun: 'name that is not given again', concerns: ofTenant },
    ...{ tenant: '$.tenant', row: "$.kind || '/' || $.name" },
    fields: texts('tenant kind name'),
  },
  {
    ...{ name: 'public_keys', noun: 'public key', tenant: '$.tenant' },
    ...{ row: "$.principal || '/' || $.thumbprint", concerns: ofPrincipal },
    fields: [
      ...texts('thumbprint tenant principal jwk purpose proof'),
      made,
      ['active', 'number'],
      ['enrolled_seq', 'number'],
    ],
  },
  {
    ...{ name: 'grants', noun: 'grant', tenant: '$.tenant', row: '$.name', concerns: ofTenant },
    fields: [...texts('tenant name rule'), made],
  },
  {
    ...{ name: 'mounts', noun: 'mount', tenant: '$.tenant', row: '$.name', concerns: ofTenant },
    fields: [...texts('tenant name bucket_tenant bucket'), made],
  },
  {
    ...{ name: 'own_mounts', noun: 'mount', since: 16, tenant: '$.tenant' },
    ...{ row: "$.principal || '/' || $.name", concerns: ofPrincipal },
    fields: [...texts('tenant principal name bucket_tenant bucket'), made],
  },
  {
    ...{ name: 'classes', noun: 'storage class', since: 19, concerns: ofTenant },
    ...{ tenant: '$.tenant', row: '$.name' },
    fields: [...texts('tenant name definition'), made],
  },
  {
    ...{ name: 'issuers', noun: 'issuer', tenant: '$.tenant', row: '$.name', concerns: ofTenant },
    fields: [...texts('tenant name url audience mapping'), made],
  },
  {
    // The time and the count of a token's last use decide nothing; the count of a link's downloads
    // does.
    ...{ name: 'tokens', noun: 'token or share link', tenant: '$.tenant' },
    ...{ row: "$.principal || '/' || $.id", concerns: ofPrincipal },
    fields: [
      ...texts('id kind parent tenant principal access_key details'),
      made,
      ['expires_ms', 'number'],
      ["iif($.kind = 'share', $.uses, NULL)", 'number'],
      ['uses_max', 'number'],
      ['secret_hash', 'bytes'],
    ],
  },
  {
    ...{ name: 'revocations', noun: 'revocation', tenant: '$.tenant' },
    ...{ row: "$.principal || '/' || $.id", concerns: ofPrincipal },
    fields: [...texts('id tenant principal'), ['revoked_ms', 'number'], ['expires_ms', 'number']],
  },
  {
    ...{ name: 'buckets', noun: 'bucket', tenant: '$.tenant', row: '$.name', concerns: ofBucket },
    fields: [
      ['id', 'number'],
      ...texts('tenant name owner'),
      made,
      ['store', 'number'],
      ...texts('policy record_reads versioning object_lock public_access ownership'),
    ],
  },
  {
    // A setting of a bucket that is not there concerns nobody.
    ...{ name: 'bucket_settings', noun: 'setting of a bucket', concerns: ofBucket },
    tenant: "ifnull((SELECT tenant FROM buckets WHERE id = $.bucket_id), '')",
    row: "ifnull((SELECT name FROM buckets WHERE id = $.bucket_id), $.bucket_id) || '/' || $.name",
    fields: [['bucket_id', 'number'], ...texts('name document')],
  },
  {
    // Which versions are held, and for how long.
    ...{ name: 'snapshots', noun: 'snapshot', since: 12, tenant: '$.tenant', concerns: ofBucket },
    row: "$.bucket || '/' || $.seq",
    fields: [
      ['bucket_id', 'number'],
      ['seq', 'number'],
      ...texts('tenant bucket name prefix'),
      made,
      ['expires_ms', 'number'],
      ...texts('lock state'),
    ],
  },
  {
    // That there is such an account, its limits, and whose token it is; what it has used changes
    // with each request and has a MAC in its own row (quota/leases/account-macs.ts).
    ...{ name: 'quota_accounts', noun: 'limits of', row: '$.account', concerns: ofAccount },
    tenant: `CASE
      WHEN substr($.account, 1, 6) = 'token:' THEN ifnull($.token_tenant, '')
      WHEN substr($.account, 1, 6) = 'store:' THEN ''
      WHEN instr($.account, '/') > 0 THEN substr($.account, instr($.account, ':') + 1,
        instr($.account, '/') - instr($.account, ':') - 1)
      ELSE substr($.account, instr($.account, ':') + 1) END`,
    fields: [
      ...texts('account limits token_tenant token_principal'),
      ['token_expires_ms', 'number'],
    ],
  },
  {
    // Where alarms go. The gateway's own is nobody's: it is not used, and all are served.
    ...{ name: 'alarm_hooks', noun: 'webhook', tenant: "ifnull($.tenant, '')", row: '$.scope' },
    concerns: ofTenant,
    fields: [...texts('scope tenant url'), ['sealed_secret', 'bytes'], made],
  },
  {
    // Where changes of objects are told.
    ...{ name: 'targets', noun: 'target', since: 18, tenant: '$.tenant', row: '$.name' },
    concerns: ofTenant,
    fields: [...texts('tenant name kind url region'), ['sealed_secret', 'bytes'], made],
  },
  {
    // By what the tiers of storage go. A total is nobody's: all are served, and what accrues is
    // charged when it is put right.
    ...{ name: 'quota_storage_totals', noun: 'what was charged for storage of', tenant: "''" },
    ...{ row: "$.market || '/' || $.class || '/' || $.month_ms", concerns: ofTenant },
    fields: [...texts('market class'), ['month_ms', 'number'], ...texts('byte_ms')],
  },
  {
    // The position of its journal decides nothing.
    ...{ name: 'stores', noun: 'store', tenant: "''", row: '$.name', concerns: () => null },
    fields: [['number', 'number'], ...texts('name location')],
  },
];

/** SQL of a row that is called `alias`. */
export function sqlOf(expression: string, alias: string): string {
  return /^\w+$/.test(expression) ? `${alias}.${expression}` : expression.replaceAll('$', alias);
}

/** The fields of a row that is called `alias`, joined by commas. */
export function fieldsOf({ fields }: SealedTable, alias: string): string {
  return fields.map(([expression]) => sqlOf(expression, alias)).join(', ');
}

/** The columns that the seal of a row, and its name, are made of. */
export function columnsOf({ fields, tenant, row }: SealedTable): string {
  const columns = [...fields.map(([expression]) => expression), tenant, row].flatMap(
    (expression) =>
      /^\w+$/.test(expression) ? [expression] : [...expression.matchAll(/\$\.(\w+)/g)].map(nameOf),
  );
  return [...new Set(columns)].join(', ');
}

function nameOf([, column]: RegExpExecArray): string {
  return column as string;
}
