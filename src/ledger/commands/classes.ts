// Commands of storage classes. A class never changes: another one is made, and objects are moved.
import { missing, tenantExists } from '../../authz/identity-rows.ts';
import { type ClassRow, isClassUsed, listRivals, noteClasses } from '../../catalog/class-rows.ts';
import { classesPerTenantMax } from '../../core/limits.ts';
import {
  type ClassDefinition,
  decodeDefinition,
  encodeDefinition,
  tieringAlias,
} from '../../tiering/classes/class-definition.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, type Named, tellsOf } from './identity-command.ts';

/** Makes a class of a tenant; one of the gateway's own tenant is everybody's. */
export interface CreateClass extends Named {
  kind: 'createClass';
  definition: ClassDefinition;
}

export const createClass = identityCommand<CreateClass>({
  check: async (tx, { tenant, name, definition }) => {
    if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
    const rivals = await listRivals(tx, tenant);
    if (rivals.some((one) => one.name === name)) return 'AlreadyExists';
    const own = rivals.filter((one) => one.tenant === tenant);
    const taken = own.flatMap((one) => decodeDefinition(one.definition)?.aliases ?? []);
    if (definition.aliases.some((alias) => taken.includes(alias))) return 'AlreadyExists';
    if (own.length >= classesPerTenantMax) return 'TooManyClasses';
    return definition.tier && findTierConflict(definition.tier, own);
  },
  write: async (tx, { tenant, name, definition }, timeMs) => {
    await tx.run(
      'INSERT INTO classes (tenant, name, definition, created_ms) VALUES (?, ?, ?, ?)',
      ...[tenant, name, encodeDefinition(definition), timeMs],
    );
    await noteClasses(tx);
  },
  takesFrom: null,
  told: tellsOf('class'),
  account: ({ definition }) => ({ ...definition }),
  causes: ({ tenant, name, definition }) => [
    { kind: 'class', tenant, name, definition: encodeDefinition(definition) },
  ],
});

/** A tier is of a class of the same tenant that follows use, and has a place of its own there. */
function findTierConflict(
  tier: NonNullable<ClassDefinition['tier']>,
  own: readonly ClassRow[],
): 'NoSuchClass' | 'AlreadyExists' | undefined {
  const first = own.find(({ name }) => name === tier.of);
  if (!first || !decodeDefinition(first.definition)?.aliases.includes(tieringAlias)) {
    return 'NoSuchClass';
  }
  const places = tiersOf(own, tier.of).map(({ afterDays, archive }) => afterDays ?? archive);
  return places.includes(tier.afterDays ?? tier.archive) ? 'AlreadyExists' : undefined;
}

function tiersOf(own: readonly Pick<ClassRow, 'definition'>[], name: string) {
  const tiers = own.map(({ definition }) => decodeDefinition(definition)?.tier);
  return tiers.filter((tier) => tier !== undefined).filter(({ of }) => of === name);
}

export interface DeleteClass extends Named {
  kind: 'deleteClass';
}

/** Deletes a class that nothing was ever written to in a bucket that is there. */
export const deleteClass = identityCommand<DeleteClass>({
  check: async (tx, { tenant, name }) => {
    const sql = 'SELECT 1 FROM classes WHERE tenant = ? AND name = ?';
    if (!(await tx.get(sql, tenant, name))) return missing(tx, tenant, 'NoSuchClass');
    const own = (await listRivals(tx, tenant)).filter((one) => one.tenant === tenant);
    if (tiersOf(own, name).length > 0) return 'InUse';
    return (await isClassUsed(tx, { tenant, name })) ? 'InUse' : undefined;
  },
  write: async (tx, { tenant, name }) => {
    await noteClasses(tx);
    await tx.run('DELETE FROM classes WHERE tenant = ? AND name = ?', tenant, name);
  },
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: tellsOf('class'),
  account: null,
  causes: ({ tenant, name }) => [{ kind: 'class', tenant, name, definition: null }],
});
