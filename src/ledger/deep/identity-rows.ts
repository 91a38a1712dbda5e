// The rows of who there is and what they may, in the form in which records tell of them. Invariant:
// a row that cannot be what the gateway wrote is shown as one that no record tells of, and throws
// nothing.
import { recordedChange } from '../../audit/recorded-change.ts';
import { isObject, parseJson } from '../../core/json.ts';
import { type Columns, type ListRows, rowsOf } from './compared-things.ts';

const grantMembers = [
  ...['effect', 'subjects', 'actions', 'bucket', 'prefix', 'key', 'alias', 'conditions'],
];
const byName = ['tenant', 'name'];
const ofTenant = (row: Columns): string => `${row.tenant}/${row.name}`;

export const identityRows = {
  tenant: rowsOf(
    {
      columns: `name, members_create_buckets AS membersCreateBuckets,
        NOT EXISTS (SELECT 1 FROM tenant_settings AS s WHERE s.tenant = tenants.name
          AND s.name = 'membersMountBuckets' AND s.document = 'false') AS membersMountBuckets,
        default_store AS defaultStore, record_reads AS recordReads, created_ms AS createdMs`,
      from: 'tenants',
      keys: ['name'],
    },
    ({ name, ...members }) => ({
      id: String(name),
      members: {
        ...members,
        membersCreateBuckets: members.membersCreateBuckets === 1,
        membersMountBuckets: members.membersMountBuckets === 1,
      },
    }),
  ),
  principal: rowsOf(
    {
      columns: `tenant, name, kind, role, active, created_ms AS createdMs,
        (SELECT json_group_array(group_name) FROM (SELECT group_name FROM group_members AS m
          WHERE m.tenant = p.tenant AND m.principal = p.name ORDER BY group_name)) AS groups`,
      from: 'principals AS p',
      keys: byName,
    },
    (row) => {
      const { kind, role, active, createdMs, groups } = row;
      const members = { kind, role, active, createdMs, groups: sorted(parseJson(String(groups))) };
      return { id: ofTenant(row), members };
    },
  ),
  group: rowsOf(
    { columns: 'tenant, name, created_ms AS createdMs', from: 'groups', keys: byName },
    (row) => ({ id: ofTenant(row), members: { createdMs: row.createdMs } }),
  ),
  accessKey: rowsOf(
    {
      columns: `id, tenant || '/' || principal AS owner, thumbprint, active,
        created_ms AS createdMs`,
      from: 'access_keys',
      keys: ['id'],
    },
    ({ id, ...members }) => ({ id: String(id), members }),
  ),
  publicKey: rowsOf(
    {
      columns: `thumbprint, tenant || '/' || principal AS owner, jwk, purpose, active,
        created_ms AS createdMs, enrolled_seq AS enrolledSeq`,
      from: 'public_keys',
      keys: ['thumbprint'],
    },
    ({ thumbprint, jwk, ...members }) => ({
      id: String(thumbprint),
      members: { ...members, jwk: parseJson(String(jwk)) },
    }),
  ),
  grant: rowsOf(
    { columns: 'tenant, name, rule, created_ms AS createdMs', from: 'grants', keys: byName },
    (row) => {
      const rule = parseJson(String(row.rule));
      const named = isObject(rule) && rule.name === row.name ? rule : {};
      const told = Object.fromEntries(grantMembers.map((member) => [member, named[member]]));
      const { createdMs } = row;
      return { id: ofTenant(row), members: { rule: recordedChange(told), createdMs } };
    },
  ),
  mount: rowsOf(
    {
      columns: 'tenant, name, bucket_tenant AS bucketTenant, bucket, created_ms AS createdMs',
      from: 'mounts',
      keys: byName,
    },
    (row) => {
      const { bucketTenant, bucket, createdMs } = row;
      return { id: ofTenant(row), members: { rule: { bucketTenant, bucket }, createdMs } };
    },
  ),
  ownMount: rowsOf(
    {
      columns: `tenant, principal, name, bucket_tenant AS bucketTenant, bucket,
        created_ms AS createdMs`,
      from: 'own_mounts',
      keys: ['tenant', 'principal', 'name'],
    },
    ({ tenant, principal, name, bucketTenant, bucket, createdMs }) => ({
      id: `${tenant}/${principal}/${name}`,
      members: { rule: { bucketTenant, bucket }, createdMs },
    }),
  ),
  target: rowsOf(
    {
      columns: 'tenant, name, kind, url, region, created_ms AS createdMs',
      from: 'targets',
      keys: byName,
    },
    (row) => {
      const { kind, url, region, createdMs } = row;
      const origin = URL.canParse(String(url)) ? new URL(String(url)).origin : url;
      const rule = { kind, origin, ...(region !== null && { region }) };
      return { id: ofTenant(row), members: { rule, createdMs } };
    },
  ),
  issuer: rowsOf(
    {
      columns: 'tenant, name, url, audience, mapping, created_ms AS createdMs',
      from: 'issuers',
      keys: byName,
    },
    (row) => {
      const { url, audience, createdMs } = row;
      const told = { url, audience, mapping: parseJson(String(row.mapping)) };
      return { id: ofTenant(row), members: { rule: recordedChange(told), createdMs } };
    },
  ),
  class: rowsOf(
    {
      columns: 'tenant, name, definition, created_ms AS createdMs',
      from: 'classes',
      keys: byName,
    },
    (row) => {
      const { definition, createdMs } = row;
      const told = parseJson(String(definition));
      const rule = recordedChange(isObject(told) ? told : {});
      return { id: ofTenant(row), members: { rule, createdMs } };
    },
  ),
} as const satisfies Record<string, ListRows>;

/** As a set is compared; what is none is as it is. */
export function sorted(names: unknown): unknown {
  return Array.isArray(names) ? [...new Set(names)].sort() : names;
}
