// The rows of who there is and what they may, in the form in which records tell of them. Invariant: a
// row that cannot be what the gateway wrote is shown as one that no record tells of, and throws nothing.
import { recordedChange } from '../../audit/recorded-change.ts';
import { isObject } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import type { Row } from './compared-things.ts';

type Columns = Record<string, unknown>;
type ListRows = (read: Reader) => Promise<Row[]>;

const grantMembers = ['effect', 'subjects', 'actions', 'bucket', 'prefix', 'key', 'conditions'];
const ofTenant = (row: Columns): string => `${row.tenant}/${row.name}`;

export const identityRows = {
  tenant: rowsOf(
    `SELECT name, members_create_buckets AS membersCreateBuckets, default_store AS defaultStore,
       record_reads AS recordReads, created_ms AS createdMs FROM tenants`,
    ({ name, ...members }) => ({
      id: String(name),
      members: { ...members, membersCreateBuckets: members.membersCreateBuckets === 1 },
    }),
  ),
  principal: rowsOf(
    `SELECT tenant, name, kind, role, active, created_ms AS createdMs,
       (SELECT json_group_array(group_name) FROM (SELECT group_name FROM group_members AS m
          WHERE m.tenant = p.tenant AND m.principal = p.name ORDER BY group_name)) AS groups
       FROM principals AS p`,
    (row) => {
      const { tenant: _, name: _2, groups, ...members } = row;
      return { id: ofTenant(row), members: { ...members, groups: sorted(parse(groups)) } };
    },
  ),
  group: rowsOf('SELECT tenant, name, created_ms AS createdMs FROM groups', (row) => ({
    id: ofTenant(row),
    members: { createdMs: row.createdMs },
  })),
  accessKey: rowsOf(
    `SELECT id, tenant || '/' || principal AS owner, thumbprint, active, created_ms AS createdMs
       FROM access_keys`,
    ({ id, ...members }) => ({ id: String(id), members }),
  ),
  publicKey: rowsOf(
    `SELECT thumbprint, tenant || '/' || principal AS owner, jwk, purpose, active,
       created_ms AS createdMs, enrolled_seq AS enrolledSeq FROM public_keys`,
    ({ thumbprint, jwk, ...members }) => ({
      id: String(thumbprint),
      members: { ...members, jwk: parse(jwk) },
    }),
  ),
  grant: rowsOf('SELECT tenant, name, rule, created_ms AS createdMs FROM grants', (row) => {
    const rule = parse(row.rule);
    const named = isObject(rule) && rule.name === row.name ? rule : {};
    const told = Object.fromEntries(grantMembers.map((member) => [member, named[member]]));
    return { id: ofTenant(row), members: { rule: recordedChange(told), createdMs: row.createdMs } };
  }),
  mount: rowsOf(
    'SELECT tenant, name, bucket_tenant AS bucketTenant, bucket, created_ms AS createdMs FROM mounts',
    (row) => {
      const { bucketTenant, bucket, createdMs } = row;
      return { id: ofTenant(row), members: { rule: { bucketTenant, bucket }, createdMs } };
    },
  ),
  issuer: rowsOf(
    'SELECT tenant, name, url, audience, mapping, created_ms AS createdMs FROM issuers',
    (row) => {
      const { url, audience, createdMs } = row;
      const told = { url, audience, mapping: parse(row.mapping) };
      return { id: ofTenant(row), members: { rule: recordedChange(told), createdMs } };
    },
  ),
} as const satisfies Record<string, ListRows>;

function rowsOf(sql: string, show: (row: Columns) => Row): ListRows {
  return async (read) => (await read.all<Columns>(sql)).map(show);
}

/** As a set is compared; what is none is as it is. */
export function sorted(names: unknown): unknown {
  return Array.isArray(names) ? [...new Set(names)].sort() : names;
}

/** undefined: it is no JSON. */
function parse(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}
