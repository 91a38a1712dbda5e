// Whose things records that say nothing may have changed. What a tenant's principals do changes
// what is theirs, or in the tenant whose bucket they meet; an operator changes anything, and may
// make operators. Invariant: what may have been changed by a record that was erased is never said
// not to have been.
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import { defaultTenant } from '../../core/principal.ts';
import type { Silent } from './deep-usage.ts';
import type { StagedMap, Staging } from './staging.ts';

const anybody = '';

export class DeepErasures {
  /** By tenant, or of anybody, the last record that says nothing. */
  readonly #last: StagedMap<number>;
  /** Tenants that ever had an operator. */
  readonly #ruling: StagedMap<true>;

  constructor(staging: Staging) {
    this.#last = staging.map('last erased');
    this.#ruling = staging.map('tenant of operators');
  }

  async visit(_: number, fields: RecordFields): Promise<void> {
    const { action, target = '', change } = fields;
    if (!isDone(fields) || !/^bursar:(Create|Update|Restore)Principal$/.test(action)) return;
    const [, tenant] = /^tenants\/([^/]+)\//.exec(target) ?? [];
    // Of a change that was longer than records are, its digest alone is there.
    const mayRule = !change || change.role === 'operator' || typeof change.sha256 === 'string';
    if (tenant !== undefined && mayRule) await this.#ruling.set(tenant, true);
  }

  async visitUnread(index: number, whose: Silent): Promise<void> {
    if (whose === null || (await this.#mayRule(whose.tenant))) {
      return this.#last.set(anybody, index);
    }
    await this.#last.set(whose.tenant, index);
    if (whose.bucketTenant) await this.#last.set(whose.bucketTenant, index);
  }

  /** -1: there is none. `tenant`: undefined: of all. */
  async lastOf(tenant: string | undefined): Promise<number> {
    let last = (await this.#last.get(anybody)) ?? -1;
    if (tenant !== undefined) return Math.max(last, (await this.#last.get(tenant)) ?? -1);
    for await (const [, index] of this.#last.entries()) last = Math.max(last, index);
    return last;
  }

  /** Once an operator's record is gone, who was made one is not known any more. */
  async #mayRule(tenant: string): Promise<boolean> {
    if (tenant === defaultTenant || (await this.#last.get(anybody)) !== undefined) return true;
    return (await this.#ruling.get(tenant)) === true;
  }
}
