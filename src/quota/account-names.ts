// Names of accounts, each made once: they are keys of maps, and a text that was looked up before
// has its hash. Bounded; what was not asked for lately is forgotten with all others, and made
// again.

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
