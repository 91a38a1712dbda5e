// Names that are not given again, against the records of what had them. With a tenant go the names
// in it.
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import { ComparedThings, type Comparison, type Row, tenantOfName } from './compared-things.ts';
import type { StagedMap, Staging } from './staging.ts';
import { walkTable } from './table-walk.ts';

const kinds: ReadonlyMap<string, string> = new Map([
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
    const kind = thumbprint === undefined ? kinds.get(collection) : 'public-key';
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
