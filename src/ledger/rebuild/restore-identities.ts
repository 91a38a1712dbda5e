// Restores who there is, what they may and how much, in an order in which each thing finds what it
// is of, through the ledger as ordinary changes are made. Invariants: nothing is more than it was;
// where something may be missing of what the journals told, nobody is active and nothing is
// anybody's who comes without credentials, until an admin has looked; and whatever is not restored
// is reported.
import { randomBytes } from 'node:crypto';
import { targetContext } from '../../audit/changes/targets.ts';
import { recordedChange } from '../../audit/recorded-change.ts';
import type { Grant } from '../../authz/grants/grant.ts';
import { anyone } from '../../authz/grants/subjects.ts';
import type { RetiredKind } from '../../authz/identity-rows.ts';
import type { TokenDetails } from '../../authz/issued-tokens.ts';
import { accessKeyContext, type KeyPurpose } from '../../authz/key-rows.ts';
import type { IssuerMapping } from '../../authz/oidc/issuer.ts';
import type { Shared } from '../../authz/shares.ts';
import { tenantKeyContext } from '../../authz/tenant-keys.ts';
import { inParallel } from '../../core/in-parallel.ts';
import { type PrincipalKind, principalId, type Role } from '../../core/principal.ts';
import { readLimits } from '../../core/quota-terms.ts';
import { type RecordReads, recordReadsModes } from '../../core/record-reads.ts';
import { type HookOf, hookContext, originOf } from '../../quota/limits/alarm-hooks.ts';
import { decodeDefinition } from '../../tiering/classes/class-definition.ts';
import type { IdentityChange } from '../commands/identities.ts';
import type { Change } from '../commands/index.ts';
import { membersOf } from '../commands/index.ts';
import type { PresentEntry, PrincipalEntry, TokenEntry } from '../journal/identity-format.ts';
import type { About, TryCommit } from './committer.ts';
import type { StagedRetired } from './staged-identities.ts';
import type { Work } from './work.ts';

const commitsAtOnce = 500;
const secretBytes = 32;

export interface Restoring {
  work: Work;
  commit: TryCommit;
  /** Something may be missing of what the journals told. */
  isDoubtful: boolean;
  /** Whether nothing is to be restored of this, since the database has it. */
  isSettled?: (entry: PresentEntry) => Promise<boolean>;
  isRetired?: (retired: StagedRetired) => Promise<boolean>;
}

/** Tenants, groups and principals with their keys: what buckets need to be somebody's. */
export async function restorePeople(restoring: Restoring): Promise<void> {
  const { staging, report } = restoring.work;
  await each(restoring, staging.identities.list('tenant'), restoreTenant);
  for (const name of await staging.identities.listUntoldTenants()) {
    const members = { membersCreateBuckets: false, membersMountBuckets: false };
    const change = { kind: 'createTenant', name, ...members } as const;
    const about = { tenant: name, target: `tenants/${name}` };
    const made = { changes: [change], madeMs: Date.now() };
    if (await put(restoring, 'tenant', made, about)) report.tenants.push(name);
  }
  await inParallel(staging.identities.listRetired(), commitsAtOnce, async (retired) => {
    if (!(await restoring.isRetired?.(retired))) await retireName(restoring, retired);
  });
  await each(restoring, staging.identities.list('group'), restoreGroup);
  await each(restoring, staging.identities.list('principal'), restorePrincipal);
}

/** What they may, and how much. */
export async function restoreRights(restoring: Restoring): Promise<void> {
  const { staging } = restoring.work;
  await each(restoring, staging.identities.list('revocation'), restoreRevocation);
  await each(restoring, staging.identities.list('limits'), restoreLimits);
  await each(restoring, staging.identities.list('grant'), restoreGrant);
  await each(restoring, staging.identities.list('mount'), restoreMount);
  await each(restoring, staging.identities.list('issuer'), restoreIssuer);
  await each(restoring, staging.identities.list('class'), restoreClass);
  await each(restoring, staging.identities.list('webhook'), restoreWebhook);
  await each(restoring, staging.identities.list('target'), restoreTarget);
  await each(restoring, staging.identities.list('token'), restoreToken);
}

async function each<T extends PresentEntry>(
  restoring: Restoring,
  things: AsyncIterable<T>,
  restore: (restoring: Restoring, thing: T) => Promise<void>,
): Promise<void> {
  await inParallel(things, commitsAtOnce, async (thing) => {
    if (!(await restoring.isSettled?.(thing))) await restore(restoring, thing);
  });
}

type Of<K extends PresentEntry['kind']> = Extract<PresentEntry, { kind: K }>;

async function restoreTenant(restoring: Restoring, entry: Of<'tenant'>): Promise<void> {
  const { tenant: name, membersCreateBuckets, membersMountBuckets } = entry;
  const { defaultStore, createdMs: madeMs } = entry;
  const recordReads = readMode(entry.recordReads);
  const sealedKey = sealedKeyOf(restoring, entry);
  const change: IdentityChange = {
    ...{ kind: 'createTenant', name, membersCreateBuckets, defaultStore },
    ...(membersMountBuckets !== undefined && { membersMountBuckets }),
    ...(recordReads && { recordReads }),
    ...(sealedKey && { sealedKey }),
  };
  const target = `tenants/${name}`;
  await put(restoring, 'tenant', { changes: [change], madeMs }, { tenant: name, target });
}

/** The secret that was told of a tenant, to be stored; null: none was, or it does not open. */
export function sealedKeyOf(
  { work }: Pick<Restoring, 'work'>,
  { tenant, sealedKey }: Of<'tenant'>,
): Uint8Array | null {
  if (!sealedKey) return null;
  const sealed = sealAnew(work, sealedKey, tenantKeyContext(tenant));
  const { leftOut } = work.report.identities;
  if (!sealed) leftOut.add(`tenants/${tenant}: its key does not open`);
  return sealed;
}

async function retireName({ work, commit }: Restoring, retired: StagedRetired): Promise<void> {
  const { kind, tenant, name } = retired;
  const of: 'tenant' | RetiredKind = kind === 'publicKey' ? 'public-key' : kind;
  const place = {
    tenant: '',
    group: 'groups/',
    principal: 'principals/',
    publicKey: 'public-keys/',
  };
  const target = `tenants/${tenant}${name && `/${place[kind]}${name}`}`;
  const change = { changes: [], retired: { of, tenant, name }, madeMs: 0 };
  const about = { action: 'bursar:RestoreRetiredName', tenant, target };
  await commit({ kind: 'restoreIdentity', ...change }, about);
  work.report.identities.restored.retiredNames++;
}

async function restoreGroup(restoring: Restoring, entry: Of<'group'>): Promise<void> {
  const { tenant, name, createdMs: madeMs } = entry;
  const change = { kind: 'createGroup', tenant, name } as const;
  const target = `tenants/${tenant}/groups/${name}`;
  await put(restoring, 'group', { changes: [change], madeMs }, { tenant, target });
}

async function restorePrincipal(restoring: Restoring, entry: PrincipalEntry): Promise<void> {
  const { isDoubtful, work } = restoring;
  const { tenant, name, createdMs: madeMs } = entry;
  const groups: string[] = [];
  for (const group of entry.groups) {
    if (await work.staging.identities.has('group', tenant, group)) groups.push(group);
  }
  const active = entry.active && !isDoubtful;
  const principalKind = entry.is as PrincipalKind;
  const made = { role: entry.role as Role, groups };
  const changes: IdentityChange[] = [
    { kind: 'createPrincipal', tenant, name, principalKind, ...made },
  ];
  if (!active) changes.push({ kind: 'updatePrincipal', tenant, name, active });
  const target = `tenants/${tenant}/principals/${name}`;
  const about = {
    tenant,
    target,
    change: recordedChange({ kind: principalKind, ...made, active }),
  };
  if (!(await put(restoring, 'principal', { changes, madeMs }, about))) return;
  await restorePublicKeys(restoring, entry, target);
  await restoreAccessKeys(restoring, entry, target);
  await restoreOwnMounts(restoring, entry, target);
}

export async function restoreOwnMounts(
  restoring: Restoring,
  { tenant, name: principal, mounts = [] }: PrincipalEntry,
  of: string,
): Promise<void> {
  for (const { name, bucketTenant, bucket, createdMs: madeMs } of mounts) {
    const made = { name, bucketTenant, bucket, isByAdmin: true };
    const changes = [{ kind: 'putOwnMount', tenant, principal, ...made } as const];
    const target = `${of}/mounts/${name}`;
    await put(restoring, 'ownMount', { changes, madeMs }, { tenant, target });
  }
}

export async function restorePublicKeys(
  restoring: Restoring,
  { tenant, name: principal, publicKeys, accessKeys }: PrincipalEntry,
  of: string,
): Promise<void> {
  for (const { thumbprint, jwk, proof, purpose, active, createdMs: madeMs } of publicKeys) {
    const own = accessKeys.find((key) => key.thumbprint === thumbprint);
    const key = { tenant, principal, thumbprint };
    const made = { jwk, proof, purpose: purpose as KeyPurpose, accessKeyId: own?.id ?? null };
    const changes: IdentityChange[] = [{ kind: 'createPublicKey', ...key, ...made }];
    if (!active) changes.push({ kind: 'updatePublicKey', ...key, active });
    const target = `${of}/public-keys/${thumbprint}`;
    await put(restoring, 'publicKey', { changes, madeMs }, { tenant, target });
  }
}

export async function restoreAccessKeys(
  restoring: Restoring,
  { tenant, name: principal, accessKeys }: PrincipalEntry,
  of: string,
): Promise<void> {
  const { work } = restoring;
  const { report, withKeys } = work;
  for (const { id, thumbprint, sealedSecret, active, createdMs: madeMs } of accessKeys) {
    if (thumbprint !== null) continue;
    if (sealedSecret === null || !withKeys) {
      report.identities.withoutKey.add(`${principalId(tenant, principal)}: ${id}`);
      continue;
    }
    const sealed = sealAnew(work, sealedSecret, accessKeyContext(tenant, principal, id));
    if (!sealed) {
      report.identities.leftOut.add(`${of}/access-keys/${id}: its secret does not open`);
      continue;
    }
    const key = { tenant, principal, id };
    const changes: IdentityChange[] = [{ kind: 'createAccessKey', ...key, sealedSecret: sealed }];
    if (!active) changes.push({ kind: 'updateAccessKey', ...key, active });
    const target = `${of}/access-keys/${id}`;
    await put(restoring, 'accessKey', { changes, madeMs }, { tenant, target });
  }
}

/** Under the newest root key; null: it is not what was sealed. */
function sealAnew({ sealer }: Work, sealedHex: string, context: string): Uint8Array | null {
  try {
    return sealer.seal(sealer.open(Buffer.from(sealedHex, 'hex'), context), context);
  } catch {
    return null;
  }
}

async function restoreRevocation(restoring: Restoring, entry: Of<'revocation'>): Promise<void> {
  const { tenant, name: id, principal, revokedMs: madeMs, expiresMs } = entry;
  const change = { kind: 'revokeToken', id, tenant, principal, expiresMs } as const;
  const target = `tokens/${id}`;
  await put(restoring, 'revocation', { changes: [change], madeMs }, { tenant, target });
}

async function restoreLimits({ work, commit }: Restoring, entry: Of<'limits'>): Promise<void> {
  const { name: account } = entry;
  const limits = readLimits(JSON.parse(entry.limits));
  const target = `limits/${account}`;
  const leave = (why: string): void => work.report.identities.leftOut.add(`${target}: ${why}`);
  if (!limits) return leave('they are of another version');
  const [, tenant = ''] = /^[a-z]+:([^/]+)/.exec(account) ?? [];
  // An account of what is gone limits nobody.
  if (await work.staging.identities.isRetiredTenant(tenant)) return;
  const about = { action: 'bursar:RestoreLimits', tenant, target, limits };
  const refused = await commit({ kind: 'setLimits', account, limits }, about);
  if (refused) leave(refused);
  else work.report.identities.restored.limits++;
}

async function restoreGrant(restoring: Restoring, entry: Of<'grant'>): Promise<void> {
  const { tenant, name, createdMs: madeMs } = entry;
  const target = `tenants/${tenant}/grants/${name}`;
  const { leftOut } = restoring.work.report.identities;
  const grant = JSON.parse(entry.rule) as Grant;
  if (grant.name !== name || !isTexts(grant.subjects) || !isTexts(grant.actions)) {
    leftOut.add(`${target}: it is no grant`);
    return;
  }
  const isForAnyone = grant.effect !== 'deny' && grant.subjects.includes(anyone);
  if (restoring.isDoubtful && isForAnyone) {
    leftOut.add(`${target}: it lets anybody in, and may have been taken back`);
    return;
  }
  const change = { kind: 'putGrant', tenant, grant, isByAdmin: true } as const;
  await put(restoring, 'grant', { changes: [change], madeMs }, { tenant, target });
}

async function restoreMount(restoring: Restoring, entry: Of<'mount'>): Promise<void> {
  const { tenant, name, bucketTenant, bucket, createdMs: madeMs } = entry;
  const change = { kind: 'putMount', tenant, name, bucketTenant, bucket } as const;
  const target = `tenants/${tenant}/mounts/${name}`;
  await put(restoring, 'mount', { changes: [change], madeMs }, { tenant, target });
}

async function restoreIssuer(restoring: Restoring, entry: Of<'issuer'>): Promise<void> {
  const { tenant, name, url, audience, createdMs: madeMs } = entry;
  const mapping = JSON.parse(entry.mapping) as IssuerMapping;
  const change = { ...{ tenant, name, url, audience, mapping }, byOperator: true };
  const target = `tenants/${tenant}/issuers/${name}`;
  const changes = [{ kind: 'putIssuer', ...change } as const];
  await put(restoring, 'issuer', { changes, madeMs }, { tenant, target });
}

async function restoreClass(restoring: Restoring, entry: Of<'class'>): Promise<void> {
  const { tenant, name, createdMs: madeMs } = entry;
  const target = `tenants/${tenant}/classes/${name}`;
  const definition = decodeDefinition(entry.definition);
  if (!definition) {
    restoring.work.report.identities.leftOut.add(`${target}: it is of another version`);
    return;
  }
  const changes = [{ kind: 'createClass', tenant, name, definition } as const];
  await put(restoring, 'class', { changes, madeMs }, { tenant, target });
}

/** Whose webhook an entry of a journal tells of. */
export function hookOwnerOf({ tenant, name }: Pick<Of<'webhook'>, 'tenant' | 'name'>): HookOf {
  if (tenant === '') return { tenant: null, principal: null };
  return { tenant, principal: name === '' ? null : name };
}

/** How records name it. */
export function hookTargetOf({ tenant, principal }: HookOf): string {
  if (tenant === null) return 'alarm-hook';
  const whose = principal === null ? '' : `/principals/${principal}`;
  return `tenants/${tenant}${whose}/alarm-hook`;
}

async function restoreWebhook({ work, commit }: Restoring, entry: Of<'webhook'>): Promise<void> {
  const { url, sealedSecret } = entry;
  const of = hookOwnerOf(entry);
  const { tenant } = of;
  const { sealer, report, withKeys } = work;
  const context = hookContext(of);
  const target = hookTargetOf(of);
  const known = sealedSecret !== null && withKeys && sealAnew(work, sealedSecret, context);
  if (!known) report.identities.newWebhookSecrets.add(target);
  if (!URL.canParse(url)) {
    report.identities.leftOut.add(`${target}: its URL is none`);
    return;
  }
  const hook = { url, sealedSecret: known || sealer.seal(randomBytes(secretBytes), context) };
  const about = {
    ...{ action: 'bursar:RestoreAlarmWebhook', target, ...(tenant !== null && { tenant }) },
    change: recordedChange({ origin: originOf(url) }),
  };
  const refused = await commit({ kind: 'setAlarmHook', ...of, hook }, about);
  if (refused) report.identities.leftOut.add(`${target}: ${refused}`);
  else report.identities.restored.webhooks++;
}

/** What it was told is not known any more: it is told what comes. */
async function restoreTarget(restoring: Restoring, entry: Of<'target'>): Promise<void> {
  const { tenant, name, is, url, region, sealedSecret, createdMs: madeMs } = entry;
  const { sealer, report, withKeys } = restoring.work;
  const target = `tenants/${tenant}/targets/${name}`;
  if (!URL.canParse(url)) {
    report.identities.leftOut.add(`${target}: its URL is none`);
    return;
  }
  const context = targetContext(tenant, name);
  const known =
    sealedSecret !== null && withKeys && sealAnew(restoring.work, sealedSecret, context);
  if (is === 'webhook' && !known) report.identities.newWebhookSecrets.add(target);
  const secret = known || sealer.seal(randomBytes(secretBytes), context);
  const change = { kind: 'putTarget', tenant, name, is, url, region } as const;
  const changes = [{ ...change, sealedSecret: is === 'webhook' ? secret : null }];
  await put(restoring, 'target', { changes, madeMs }, { tenant, target });
}

async function restoreToken(restoring: Restoring, entry: TokenEntry): Promise<void> {
  const { tenant, principal, name: id, expiresMs, createdMs: madeMs } = entry;
  // What it would open is over.
  if (expiresMs < Date.now()) return;
  const own = { id, tenant, principal, accessKeyId: entry.accessKey, expiresMs };
  const target = `${entry.is === 'share' ? 'shares' : 'tokens'}/${id}`;
  if (entry.is === 'issued') {
    const details = JSON.parse(entry.details) as TokenDetails;
    const changes = [{ kind: 'addToken', ...own, details, issuedMs: madeMs } as const];
    await put(restoring, 'token', { changes, madeMs }, { tenant, target });
    return;
  }
  const shared = JSON.parse(entry.details) as Shared;
  const { usesMax: downloadsMax } = entry;
  const secretHash = Buffer.from(entry.secretHash ?? '', 'hex');
  const share = { ...own, shared, secretHash, downloadsMax };
  const changes = [{ kind: 'addShare', ...share } as const];
  const isMade = await put(restoring, 'share', { changes, madeMs }, { tenant, target });
  if (!isMade || downloadsMax === null) return;
  // How often it was used is not known: it may not be used as often again.
  const about = { action: 'bursar:RestoreShareUses', tenant, target };
  await restoring.commit({ kind: 'useUpShare', id }, about);
  restoring.work.report.identities.usedUpShares.add(id);
}

const counted = {
  tenant: ['tenants', 'Tenant'],
  group: ['groups', 'Group'],
  principal: ['principals', 'Principal'],
  accessKey: ['accessKeys', 'AccessKey'],
  publicKey: ['publicKeys', 'PublicKey'],
  revocation: ['revocations', 'Revocation'],
  grant: ['grants', 'Grant'],
  mount: ['mounts', 'Mount'],
  target: ['targets', 'Target'],
  ownMount: ['ownMounts', 'OwnMount'],
  issuer: ['issuers', 'Issuer'],
  class: ['classes', 'Class'],
  token: ['tokens', 'Token'],
  share: ['shares', 'Share'],
} as const;

/** Gives whether it was restored; what was refused is reported. */
async function put(
  { work, commit }: Restoring,
  kind: keyof typeof counted,
  made: { changes: readonly IdentityChange[]; madeMs: number },
  about: Omit<About, 'action'> & { target: string },
): Promise<boolean> {
  const [member, name] = counted[kind];
  const [first] = made.changes;
  const members = first ? membersOf(first) : null;
  const change: Change = { kind: 'restoreIdentity', ...made };
  const refused = await commit(change, {
    action: `bursar:Restore${name}`,
    ...(members && { change: recordedChange(members) }),
    ...about,
  });
  const { report } = work;
  if (refused) report.identities.leftOut.add(`${about.target}: ${refused}`);
  else report.identities.restored[member]++;
  work.onProgress('restoring who there is and what they may', ++report.identities.count);
  return refused === null;
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

export function readMode(text: string | null | undefined): RecordReads | null {
  return recordReadsModes.find((mode) => mode === text) ?? null;
}
