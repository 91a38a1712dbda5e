// The counters of all accounts that were ever charged or have limits, by name; tokens' are not
// among them.
import type { Reader } from '#bursar/core/database.js';
import { namesAfter, namesOf, selectNames } from '#bursar/quota/account-list.js';
import type { UsageRow } from '#bursar/quota/usage.js';

const listed = selectNames(`account, used_requests AS requests,
  used_ingress_bytes AS ingressBytes, used_egress_bytes AS egressBytes,
  used_stored_bytes AS storedBytes, used_stored_objects AS storedObjects,
  CAST(used_spend AS TEXT) AS spend`);

/** `tenant`: null: all tenants'. */
export function listUsage(read: Reader, tenant: string | null): Promise<UsageRow[]> {
  const names = namesAfter('', namesOf(tenant ?? undefined));
  return read.all<UsageRow>(listed, ...names, Number.MAX_SAFE_INTEGER);
}
