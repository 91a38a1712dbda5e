// What a gateway has of what a collaboration is described by, as entries of the same form.
import type { Answers } from '../../gateway/native/routes.ts';
import { ApiRefusal, type Connection, callApi, listAll } from '../api-client.ts';
import { plainMoney } from './document.ts';
import { type Entry, Gathered, type Kind, type Members, tenantOf, type Value } from './entries.ts';
import { forEach } from './many.ts';

type Grant = Answers['ListGrants']['grants'][number];

/** `wants`: whether entries of a kind of a tenant are looked for. `buckets`: their names. */
export async function readPresent(
  connection: Connection,
  tenants: Iterable<string>,
  wants: (tenant: string, kind: Kind) => boolean,
  buckets: Iterable<string> | 'all',
): Promise<Gathered> {
  const found = new Gathered();
  const there: string[] = [];
  for (const name of tenants) {
    const one = await readOne(connection, ['tenants', name]);
    if (one === null) continue;
    there.push(name);
    const settings = one as Answers['GetTenant'];
    const { membersCreateBuckets, membersMountBuckets, defaultStore, recordReads } = settings;
    const value = { membersCreateBuckets, membersMountBuckets, defaultStore, recordReads };
    found.add({ kind: 'tenant', name, value, at: '' });
  }
  for (const tenant of there) {
    for (const [kind, [collection, describe]] of Object.entries(collections)) {
      if (!wants(tenant, kind as Kind)) continue;
      const path = ['tenants', tenant, collection];
      for (const one of await listAll<{ name: string }>(connection, path, collection)) {
        const name = `${tenant}/${one.name}`;
        found.add({ kind: kind as Kind, name, value: describe(one as never), at: '' });
      }
    }
  }
  await addBuckets(
    connection,
    found,
    buckets === 'all' ? await findBuckets(connection, found) : buckets,
  );
  if (there.some((tenant) => wants(tenant, 'limit'))) await addLimits(connection, found, there);
  return found;
}

const collections: Partial<Record<Kind, [string, (one: never) => Members]>> = {
  group: ['groups', () => ({})],
  principal: [
    'principals',
    ({ kind, role, groups, active }: Answers['GetPrincipal']) => ({ kind, role, groups, active }),
  ],
  mount: [
    'mounts',
    ({ bucketTenant, bucket, at, where }: Answers['GetMount']) => ({
      bucket: `${bucketTenant}:${bucket}`,
      ...(at && { at }),
      ...(where && { where }),
    }),
  ],
  issuer: [
    'issuers',
    ({ url, audience, mapping }: Answers['GetIssuer']) =>
      ({ url, audience, mapping }) as unknown as Members,
  ],
  grant: [
    'grants',
    ({ tenant: _, name: _2, createdAt: _3, ...rule }: Grant) => rule as unknown as Members,
  ],
};

async function addBuckets(
  connection: Connection,
  found: Gathered,
  names: Iterable<string>,
): Promise<void> {
  await forEach(names, async (name) => {
    const [tenant = '', bucket = ''] = name.split('/');
    const one = await readOne(connection, ['tenants', tenant, 'buckets', bucket]);
    if (one === null) return;
    const { owner, recordReads, readsPaidBy, undelete } = one as Answers['GetBucket'];
    const value = { owner, recordReads, readsPaidBy, undeleteSeconds: undelete?.seconds ?? null };
    found.add({ kind: 'bucket', name, value, at: '' });
  });
}

/** Of all principals that were found. */
async function findBuckets(connection: Connection, found: Gathered): Promise<string[]> {
  const names: string[] = [];
  const principals = [...found.entries.values()].filter(({ kind }) => kind === 'principal');
  await forEach(principals, async (one) => {
    const [tenant = '', name = ''] = one.name.split('/');
    const path = ['tenants', tenant, 'principals', name, 'holdings'];
    type Holding = Answers['ListHoldings']['holdings'][number];
    for (const { kind, name: held } of await listAll<Holding>(connection, path, 'holdings')) {
      if (kind === 'bucket') names.push(`${tenant}/${held}`);
    }
  });
  return names.sort();
}

async function addLimits(
  connection: Connection,
  found: Gathered,
  tenants: readonly string[],
): Promise<void> {
  for (const one of await listAll<Answers['GetLimit']>(connection, ['limits'], 'limits')) {
    const entry: Entry = { kind: 'limit', name: one.account, value: limitsOf(one), at: '' };
    if (one.limits !== null && tenants.includes(tenantOf(entry))) found.add(entry);
  }
}

function limitsOf({ limits }: Answers['GetLimit']): Members {
  const said = limits as unknown as Record<string, Record<string, Value>>;
  const spend = Object.entries(said.spend ?? {}).map(([window, amount]) => {
    return [window, amount === null ? null : plainMoney(String(amount))] as const;
  });
  return { ...said, ...(spend.length > 0 && { spend: Object.fromEntries(spend) }) } as Members;
}

async function readOne(connection: Connection, path: readonly string[]): Promise<unknown> {
  try {
    return (await callApi(connection, { method: 'GET', path })).json;
  } catch (error) {
    if (error instanceof ApiRefusal && error.status === 404) return null;
    throw error;
  }
}
