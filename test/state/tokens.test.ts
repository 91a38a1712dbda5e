// What the tables know of tokens: who may revoke what, and what is forgotten when.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { noteTokenUse, purgeTokens } from '#bursar/authz/issued-tokens.js';
import { type SeenLink, TokenUse, type TokenUses } from '#bursar/authz/token-use.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { seenTokensPerPrincipalMax } from '#bursar/core/limits.js';
import { type IdentityChange, identityCommandOf } from '#bursar/ledger/commands/identities.js';
import { schema } from '#bursar/ledger/schema.js';
import { Revocations } from '#bursar/state/revocations.js';
import { ToldMemory } from './told-memory.ts';

const hour = 3_600_000;
const day = 24 * hour;
const now = Date.now();
const thumbprint = 'T'.repeat(43);
const alice = { tenant: 'cms', principal: 'alice' };

let db: OpenDatabase;
let revocations: Revocations;
let memory: ToldMemory;

beforeEach(async () => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 256 });
  db.exec(schema);
  memory = new ToldMemory();
  await apply({ kind: 'createTenant', name: 'cms', membersCreateBuckets: true });
  for (const name of ['alice', 'bob']) {
    const person = { principalKind: 'person', role: 'member' } as const;
    await apply({ kind: 'createPrincipal', tenant: 'cms', name, ...person, groups: [] });
  }
  const sealedSecret = Buffer.alloc(1);
  await apply({ kind: 'createAccessKey', ...alice, id: 'AK', sealedSecret });
  await db.tx.run(
    "INSERT INTO public_keys VALUES (?, 'cms', 'alice', '', 'token', '', 0, 1, 7)",
    thumbprint,
  );
  revocations = await Revocations.load(db.tx);
  memory.projections.push(revocations);
});
afterEach(() => db.close());

/** As the native API does it. */
async function apply(change: IdentityChange): Promise<string> {
  const commit = () => identityCommandOf(change).apply(db.tx, change, { timeMs: now, seq: 0 });
  const verdict = await memory.change(db.tx, change, commit);
  return verdict.ok ? 'ok' : verdict.code;
}

function linkOf(id: string, more: Partial<SeenLink> = {}): SeenLink {
  const details = {
    scope: 'storage.read:/raw',
    ...{ signer: null, holder: null, depth: 0, depthMax: 0, issuedMs: now, notBeforeMs: now },
  };
  return { id, parent: null, ...alice, details, expiresMs: now + hour, ...more };
}

function add(id: string, expiresMs = now + hour, accessKeyId: string | null = 'AK') {
  const { details } = linkOf(id);
  return apply({ kind: 'addToken', ...alice, id, accessKeyId, details, issuedMs: now, expiresMs });
}

function revoke(id: string, principal = 'alice', expiresMs: number | null = null) {
  return apply({ kind: 'revokeToken', id, tenant: 'cms', principal, expiresMs });
}

const note = (seen: SeenLink[], used: TokenUses['used'] = [], timeMs = now) =>
  noteTokenUse(db.tx, { seen, used }, timeMs);

async function ids(): Promise<string[]> {
  const rows = await db.tx.all<{ id: string }>('SELECT id FROM tokens ORDER BY id');
  return rows.map(({ id }) => id);
}

describe('a revocation', () => {
  test('is for whose the token is, or what it lies below, though it was never seen', async () => {
    await add('root');
    expect(await revoke('root.child', 'bob')).toBe('NoSuchToken');
    expect(await revoke('root.child')).toBe('ok');
    expect(revocations.has(['root'])).toBe(false);
    expect(revocations.has(['root', 'root.child', 'root.child.x'])).toBe(true);
    expect(await revoke(`${thumbprint}.unseen`, 'bob')).toBe('NoSuchToken');
    expect(await revoke(`${thumbprint}.unseen`)).toBe('ok');
    for (const id of ['unknown', 'roo', 'rootless', 'unknown.root', '']) {
      expect(await revoke(id)).toBe('NoSuchToken');
    }
  });

  test('of what ids lie below ends them all, and what only looks alike goes on', async () => {
    expect(await revoke(thumbprint)).toBe('ok');
    expect(revocations.has([`${thumbprint}.a`])).toBe(true);
    expect(revocations.has([`${thumbprint}.a`, `${thumbprint}.a.b`])).toBe(true);
    expect(revocations.has([`${thumbprint}x.a`])).toBe(false);
    expect(revocations.has(['x'])).toBe(false);
    expect((await Revocations.load(db.tx)).has([`${thumbprint}.a`])).toBe(true);
  });

  test('is remembered until what it refuses has expired, for ever if that is unknown', async () => {
    await add('soon', now + hour);
    await revoke('soon', 'alice', now + hour);
    await revoke(thumbprint);
    await purgeTokens(db.tx, 100, now + hour);
    expect((await Revocations.load(db.tx)).has(['soon'])).toBe(true);
    await purgeTokens(db.tx, 100, now + 40 * day);
    expect((await Revocations.load(db.tx)).has(['soon'])).toBe(false);
    expect((await Revocations.load(db.tx)).has([`${thumbprint}.a`])).toBe(true);
    // Once unknown, nobody can make it shorter.
    await revoke(thumbprint, 'alice', now);
    expect((await Revocations.load(db.tx)).has([`${thumbprint}.a`])).toBe(true);
  });

  test('is of all that was asked for with an access key, when that goes', async () => {
    await add('asked');
    await add('other', now + hour, null);
    await apply({ kind: 'deleteAccessKey', ...alice, id: 'AK' });
    expect(await add('late')).toBe('AccessDenied');
    expect(revocations.has(['asked'])).toBe(true);
    expect(revocations.has(['other'])).toBe(false);
  });
});

describe('use', () => {
  test('is counted for each link of a chain, and told in one piece', async () => {
    const written: TokenUses[] = [];
    let nowMs = now;
    const use = new TokenUse({ write: async (uses) => written.push(uses), nowMs: () => nowMs });
    const [ab, a] = [['a', 'a.b'], ['a']];
    use.see([linkOf('a'), linkOf('a.b', { parent: 'a' })]);
    use.note(ab);
    nowMs = now + 5;
    use.note(ab);
    use.note(a);
    await use.close();
    expect(written).toHaveLength(1);
    await note([...(written[0]?.seen ?? [])], written[0]?.used);
    const rows = await db.tx.all('SELECT id, kind, parent, uses, last_used_ms FROM tokens');
    expect(rows).toEqual([
      { id: 'a', kind: 'seen', parent: null, uses: 3, last_used_ms: now + 5 },
      { id: 'a.b', kind: 'seen', parent: 'a', uses: 2, last_used_ms: now + 5 },
    ]);
  });

  test('makes no row for what the gateway issued, and takes none away', async () => {
    await add('issued');
    await note(
      [linkOf('issued', { principal: 'bob' })],
      [{ id: 'issued', uses: 1, lastUsedMs: 1 }],
    );
    const row = await db.tx.get('SELECT kind, principal, uses FROM tokens');
    expect(row).toEqual({ kind: 'issued', principal: 'alice', uses: 1 });
  });

  test('of more links than are kept forgets the oldest of the same principal', async () => {
    await note([linkOf('bobs', { principal: 'bob' }), linkOf('first')], [], now);
    const more = Array.from({ length: seenTokensPerPrincipalMax }, (_, i) => linkOf(`l${i}`));
    await note(more, [], now + 1);
    const left = await ids();
    expect(left).toHaveLength(seenTokensPerPrincipalMax + 1);
    expect(left).toContain('bobs');
    expect(left).not.toContain('first');
  });

  test('of what expired a month ago is forgotten, a batch at a time', async () => {
    await note(['a', 'b', 'c'].map((id) => linkOf(id)));
    await note([linkOf('young', { expiresMs: now + 30 * day })]);
    expect(await purgeTokens(db.tx, 2, now + 31 * day)).toBe(2);
    expect(await purgeTokens(db.tx, 2, now + 31 * day)).toBe(1);
    expect(await ids()).toEqual(['young']);
  });
});
