// Tokens that were issued here, share links and revocations, against the records. Invariants: what
// was made with a key is revoked with it; what has expired may have been forgotten; and links that
// others made and that were only seen in use are in no record, so their rows are not compared.
import { recordedChange } from '../../audit/recorded-change.ts';
import { isDone, type RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import type { IdentityChange } from '../commands/identities.ts';
import { membersOf } from '../commands/index.ts';
import { ComparedThings, type Comparison, rowsOf, walkTable } from './compared-things.ts';
import type { StagedMap, Staging } from './staging.ts';

/** Why something is to be refused until it expires. */
interface Revoked {
  index: number;
  /** null: never; undefined: nobody knows. */
  expiresMs?: number | null;
}

export class DeepTokens {
  readonly #tokens: ComparedThings;
  readonly #revoked: StagedMap<Revoked>;
  /** By access key: ids of what was asked for with it. */
  readonly #asked: StagedMap<readonly string[]>;
  /** By the thumbprint of a SigV4A key: its access key. */
  readonly #accessKeys: StagedMap<string>;
  /** By tenant, the record that deleted it. */
  readonly #gone: StagedMap<number>;
  readonly #lastMs: StagedMap<number>;

  constructor(staging: Staging) {
    this.#tokens = new ComparedThings(staging, 'token');
    this.#revoked = staging.map('revoked');
    this.#asked = staging.map('asked with');
    this.#accessKeys = staging.map('access key of public key');
    this.#gone = staging.map('tenant gone');
    this.#lastMs = staging.map('last time');
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    await this.#lastMs.set('', Date.parse(fields.time));
    if (!isDone(fields)) return;
    const { action, change = {}, target = '' } = fields;
    const [, thing] = /\/([^/]+)$/.exec(target) ?? [];
    switch (action) {
      case 'bursar:CreateToken':
      case 'bursar:CreateShare':
      case 'bursar:RestoreToken':
      case 'bursar:RestoreShare':
        return this.#make(thing, index, fields);
      case 'bursar:TransferShare':
        return this.#transfer(index, change);
      case 'bursar:RevokeToken':
      case 'bursar:RevokeShare':
      case 'bursar:RestoreRevocation': {
        const id = typeof change.id === 'string' ? change.id : thing;
        if (id !== undefined) await this.#revoke(id, { index, ...expiryOf(change) });
        return;
      }
      case 'bursar:CreatePublicKey':
        if (thing === undefined || typeof change.accessKeyId !== 'string') return;
        return this.#accessKeys.set(thing, change.accessKeyId);
      case 'bursar:UpdateAccessKey':
      case 'bursar:DeleteAccessKey':
      case 'bursar:UpdatePublicKey':
      case 'bursar:DeletePublicKey': {
        if (thing === undefined || change.active === true) return;
        const own = action.endsWith('AccessKey') ? thing : await this.#accessKeys.get(thing);
        if (own !== undefined) await this.#revokeAskedWith(own, index);
        return;
      }
      case 'bursar:DeleteTenant':
        if (thing !== undefined) await this.#gone.set(thing, index);
    }
  }

  async finish(read: Reader, comparison: Comparison): Promise<void> {
    const lastMs = (await this.#lastMs.get('')) ?? 0;
    for await (const [id, { index, members }] of this.#tokens.entries()) {
      const [tenant = ''] = String(members.owner).split('/');
      if (((await this.#gone.get(tenant)) ?? -1) > index) await this.#tokens.delete(id);
    }
    await this.#tokens.compare(listTokens(read), comparison, (_, { members }) => {
      return typeof members.expiresMs !== 'number' || members.expiresMs < lastMs;
    });
    await this.#compareRevocations(read, comparison);
    await this.#findLostRevocations(read, comparison, lastMs);
  }

  async #make(id: string | undefined, index: number, fields: RecordFields): Promise<void> {
    if (id === undefined) return;
    const { action, tenant, principal, accessKeyId, change, time } = fields;
    const isRestored = action.startsWith('bursar:Restore');
    await this.#tokens.put(id, index, {
      // What is restored is in the name of another than its record.
      owner: isRestored ? undefined : `${tenant}/${principal}`,
      kind: action.endsWith('Share') ? 'share' : 'issued',
      details: change,
      expiresMs: expiryOf(change).expiresMs ?? undefined,
      // With the key goes what was asked for with it.
      accessKey: isRestored ? undefined : (accessKeyId ?? null),
      createdMs: isRestored || action.endsWith('Token') ? undefined : Date.parse(time),
    });
    if (accessKeyId === undefined) return;
    const asked = (await this.#asked.get(accessKeyId)) ?? [];
    await this.#asked.set(accessKeyId, [...asked, id]);
  }

  /** It is in the same tenant, and the key of who made it is not its key any more. */
  async #transfer(index: number, { id, to }: Record<string, unknown>): Promise<void> {
    const told = typeof id === 'string' ? await this.#tokens.get(id) : undefined;
    if (!told || typeof id !== 'string') return;
    const { owner: before } = told.members;
    const [tenant] = String(before).split('/');
    const owner = before === undefined ? undefined : `${tenant}/${to}`;
    await this.#tokens.change(id, index, { owner, accessKey: null });
  }

  async #revoke(id: string, revoked: Revoked): Promise<void> {
    if (!(await this.#revoked.get(id))) await this.#revoked.set(id, revoked);
  }

  async #revokeAskedWith(accessKeyId: string, index: number): Promise<void> {
    for (const id of (await this.#asked.get(accessKeyId)) ?? []) {
      const told = await this.#tokens.get(id);
      if (told?.members.accessKey === null) continue;
      const expiresMs = told?.members.expiresMs;
      await this.#revoke(id, { index, ...(typeof expiresMs === 'number' && { expiresMs }) });
    }
    // What was asked for by it later could not be: it was gone or is active again.
    await this.#asked.delete(accessKeyId);
  }

  /** Whom it takes nothing from that a record did not is told, too. */
  async #compareRevocations(read: Reader, comparison: Comparison): Promise<void> {
    const walked = {
      columns:
        'id, expires_ms AS expiresMs, (SELECT access_key FROM tokens WHERE tokens.id = ' +
        'revocations.id) AS accessKey',
      from: 'revocations',
      keys: ['revocations.id'],
    };
    type Revocation = { id: string; expiresMs: unknown; accessKey: string | null };
    for await (const { id, expiresMs, accessKey } of walkTable<Revocation>(read, walked)) {
      const where = `revocation of ${id}`;
      const told = await this.#revoked.get(String(id));
      if (told && isEarlier(expiresMs, told.expiresMs)) {
        const { index } = told;
        const what = `it ends before what record ${index} revoked does`;
        conclude(comparison, { where, index, what });
      } else if (!told && accessKey === null) {
        conclude(comparison, { where, index: -1, what: 'no record made it' });
      }
    }
  }

  async #findLostRevocations(read: Reader, comparison: Comparison, lastMs: number): Promise<void> {
    for await (const [id, { index, expiresMs: told }] of this.#revoked.entries()) {
      const row = await read.get<{ tenant: string }>(
        'SELECT tenant FROM revocations WHERE id = ?',
        id,
      );
      if (row) continue;
      const token = await read.get<{ tenant: string; expiresMs: number }>(
        'SELECT tenant, expires_ms AS expiresMs FROM tokens WHERE id = ?',
        id,
      );
      const expiresMs = told === undefined ? (token?.expiresMs ?? 0) : told;
      if (expiresMs !== null && expiresMs < lastMs) continue;
      if (await this.#isTenantGone(id, index)) continue;
      const what = `it is missing, and record ${index} revoked it`;
      conclude(comparison, { where: `revocation of ${id}`, index, what });
    }
  }

  /** With a tenant go its tokens and their revocations. */
  async #isTenantGone(id: string, index: number): Promise<boolean> {
    const owner = (await this.#tokens.get(id))?.members.owner;
    for await (const [tenant, goneIndex] of this.#gone.entries()) {
      const isOwn = owner === undefined || String(owner).startsWith(`${tenant}/`);
      if (goneIndex > index && isOwn) return true;
    }
    return false;
  }
}

/** `expiresMs`: of a row. A later end takes nothing from anybody: what it refuses has expired. */
function isEarlier(expiresMs: unknown, told: Revoked['expiresMs']): boolean {
  if (told === undefined || expiresMs === null) return false;
  return told === null || typeof expiresMs !== 'number' || expiresMs < told;
}

function conclude(
  { lastErased, onUnknown, tell }: Comparison,
  { where, index, what }: { where: string; index: number; what: string },
): void {
  if (lastErased > index) onUnknown();
  else tell({ where, what });
}

/** When what a record tells of expires; null: never. */
function expiryOf(change: RecordFields['change']): { expiresMs?: number | null } {
  const expiresAt = change?.expiresAt;
  if (expiresAt === null) return { expiresMs: null };
  const expiresMs = typeof expiresAt === 'string' ? Date.parse(expiresAt) : Number.NaN;
  return Number.isNaN(expiresMs) ? {} : { expiresMs };
}

const listTokens = rowsOf(
  {
    columns: `id, kind, tenant || '/' || principal AS owner, details, created_ms AS createdMs,
      expires_ms AS expiresMs, uses_max AS downloadsMax, access_key AS accessKey`,
    from: 'tokens',
    where: "kind <> 'seen'",
    keys: ['id'],
  },
  (row) => {
    const { id, kind, owner, accessKey, createdMs, expiresMs } = row;
    const members = { kind, owner, accessKey, createdMs, expiresMs, details: tellOf(row) };
    return { id: String(id), members };
  },
);

/** What a record of making it says; undefined: it is none that could be made. */
function tellOf({ id, kind, details, expiresMs, downloadsMax }: Record<string, unknown>): unknown {
  try {
    const read = JSON.parse(String(details)) as object;
    const own = { id, expiresMs, downloadsMax };
    const change =
      kind === 'share'
        ? { kind: 'addShare', ...own, shared: read }
        : { kind: 'addToken', ...own, details: read };
    return recordedChange(membersOf(change as unknown as IdentityChange) ?? {});
  } catch {
    return undefined;
  }
}
