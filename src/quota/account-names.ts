// Names of accounts, each made once, since they are keys of maps: a string that was looked up
// before has its hash already. The memory is bounded; when it is full, all names are forgotten and
// made again.

type NameOf = (tenant: string, name: string) => string;

const namesMax = 10_000;

export const principalAccount = remembered((tenant, name) => `principal:${tenant}/${name}`);
export const bucketAccount = remembered((tenant, name) => `bucket:${tenant}/${name}`);
const tenantAccounts = remembered((tenant) => `tenant:${tenant}`);

export function tenantAccount(tenant: string): string {
  return tenantAccounts(tenant, '');
}

function remembered(make: NameOf): NameOf {
  const byTenant = new Map<string, Map<string, string>>();
  let count = 0;
  return (tenant, name) => {
    const known = byTenant.get(tenant)?.get(name);
    if (known !== undefined) return known;
    if (count === namesMax) {
      byTenant.clear();
      count = 0;
    }
    const names = byTenant.get(tenant) ?? new Map<string, string>();
    const made = make(tenant, name);
    byTenant.set(tenant, names.set(name, made));
    count += 1;
    return made;
  };
}
