// Temporary keys and their session tokens, on a real SQLite file with the ledger's schema.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Actor, Delegation } from '#bursar/authz/identity.js';
import { onlyPrivate } from '#bursar/authz/oidc/address-policy.js';
import { ChainConditions } from '#bursar/authz/tokens/conditions.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { Sealer } from '#bursar/core/sealing.js';
import { type IdentityChange, identityCommandOf } from '#bursar/ledger/commands/identities.js';
import { schema } from '#bursar/ledger/schema.js';
import { Directory } from '#bursar/state/directory.js';
import { OutsideTokens } from '#bursar/state/outside-tokens.js';
import { Sessions, sessionTokenBytesMax } from '#bursar/state/sessions.js';
import { ToldMemory } from './told-memory.ts';

const now = Date.parse('2026-11-21T12:00:00Z');
const hour = 3_600_000;
const chainId = 'MDEyMzQ1Njc4OWFiY2RlZg';
const thumbprint = 'k'.repeat(43);
const outsideId = 'oidc.cms.keyDcloak.n-1';

let folder: string;
let db: OpenDatabase;
let keyring: Keyring;
let directory: Directory;
let sessions: Sessions;
let outside: OutsideTokens;
let memory: ToldMemory;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-sessions-'));
  db = openDatabase(join(folder, 'test.db'), { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  keyring = new Keyring([{ epoch: 1, key: Buffer.alloc(32, 7) }]);
  memory = new ToldMemory();
  directory = new Directory({ read: db.tx, sealer: new Sealer(keyring), followed: memory });
  const rest = { read: db.tx, directory, followed: memory };
  outside = await OutsideTokens.load({ ...rest, policy: onlyPrivate([]) });
  sessions = new Sessions({ ...rest, keyring, outside });
  memory.projections.push(directory, outside, sessions);
  await apply({ kind: 'createTenant', name: 'cms', membersCreateBuckets: true });
  await apply({ kind: 'createGroup', tenant: 'cms', name: 'shifters' });
  await apply({
    ...{ kind: 'createPrincipal', tenant: 'cms', name: 'alice', groups: [] },
    ...{ principalKind: 'person', role: 'member' },
  });
});

afterEach(() => {
  db.close();
  rmSync(folder, { recursive: true });
});

/** Applies as the gateway does: what keeps in memory is told in its order. */
async function apply(change: IdentityChange) {
  const verdict = await memory.change(db.tx, change, async () => {
    db.exec('BEGIN IMMEDIATE');
    const made = await identityCommandOf(change).apply(db.tx, change, { timeMs: now, seq: 0 });
    db.exec('COMMIT');
    return made;
  });
  expect(verdict).toMatchObject({ ok: true });
}

async function run(sql: string) {
  await db.tx.run(sql);
  await memory.tell(
    { kind: 'issuer', tenant: 'cms', name: 'any' },
    { kind: 'principal', tenant: 'cms', name: 'any' },
    { kind: 'publicKey', thumbprint: 'any' },
  );
}

async function alice(): Promise<Actor> {
  return (await directory.findActor('cms/alice')) as Actor;
}

function delegation(given: Partial<Delegation> = {}): Delegation {
  return {
    ids: [chainId, `${chainId}.b`],
    scope: parseScope('storage.read:/raw/2026 storage.create:/out'),
    conditions: new ChainConditions([{ networks: ['192.0.2.0/24'] }, { objectBytesMax: 100 }]),
    accounts: [
      { name: `token:${chainId}`, limits: { requests: { hour: 3 } }, expiresAtMs: now + hour },
    ],
    policies: [],
    expiresAtMs: now + 12 * hour,
    ...given,
  };
}

async function issue(given: Partial<Parameters<Sessions['issue']>[0]> = {}) {
  const actor = await alice();
  const { issuersAsOf } = sessions;
  const times = { nowMs: now, durationMs: hour, issuersAsOf };
  return sessions.issue({ actor, delegation: delegation(), policy: null, ...times, ...given });
}

function find({ accessKeyId, sessionToken }: { accessKeyId: string; sessionToken: string }) {
  return sessions.find(accessKeyId, sessionToken, now);
}

function mappingOf(pathPrefix: string): string {
  return JSON.stringify({ pathPrefix, principals: {}, groups: {}, defaultPrincipal: null });
}

const refused = (code: string) => expect.objectContaining({ code });

describe('temporary keys', () => {
  test('have what the token left of the principal, and no more', async () => {
    const keys = await issue();
    expect(keys.accessKeyId).toMatch(/^ASIA[A-Z2-7]{16}$/);
    const found = await find(keys);
    expect(found).toMatchObject({ id: keys.accessKeyId, secret: keys.secretAccessKey });
    expect(found.principal.id).toBe('cms/alice');
    const { conditions, ...rest } = delegation();
    expect(found.delegation).toMatchObject({ ...rest, expiresAtMs: now + hour });
    expect(found.delegation?.conditions.allowSource('192.0.2.9')).toBe(true);
    expect(found.delegation?.conditions.allowSource('198.51.100.9')).toBe(false);
    expect(found.delegation?.conditions.allowSize(101)).toBe(false);
    expect(await find(keys)).toBe(found);
  });

  test('never outlive the token', async () => {
    const short = delegation({ expiresAtMs: now + 60_000 });
    const keys = await issue({ delegation: short, durationMs: 12 * hour });
    expect(keys.expiresAtMs).toBe(now + 60_000);
    expect((await find(keys)).delegation?.expiresAtMs).toBe(now + 60_000);
  });

  test('of a token without scope have none, and a policy narrows them all the same', async () => {
    const policy = JSON.stringify({
      Version: '2012-10-17',
      Statement: { Effect: 'Allow', Action: 's3:GetObject', Resource: 'arn:aws:s3:::raw/*' },
    });
    const found = await find(await issue({ delegation: delegation({ scope: null }), policy }));
    expect(found.delegation?.scope).toBeNull();
    expect(found.delegation?.policies).toHaveLength(1);
  });

  test('are not made with a policy that is not understood', async () => {
    await expect(issue({ policy: '{"Statement":[]}' })).rejects.toEqual(
      refused('MalformedPolicyDocument'),
    );
  });

  test('are refused where they would not fit into a header', async () => {
    // What cannot be packed: 64 paths of random digits.
    const path = () => Array.from({ length: 200 }, () => Math.random().toString(36)[2]).join('');
    const entries = Array.from({ length: 64 }, () => `storage.read:/raw/${path()}`);
    const wide = delegation({ scope: parseScope(entries.join(' ')) });
    await expect(issue({ delegation: wide })).rejects.toEqual(refused('PackedPolicyTooLarge'));
    const ids = Array.from({ length: 8 }, (_, i) => `${chainId}${`.${chainId}`.repeat(i)}`);
    const { sessionToken } = await issue({ delegation: delegation({ ids }) });
    expect(sessionToken.length).toBeLessThan(sessionTokenBytesMax / 8);
  });
});

test('what is kept of temporary keys is bounded by what it takes in memory', async () => {
  const Resource = Array.from({ length: 450 }, () => '*');
  const Statement = { Effect: 'Allow', Action: 's3:*', Resource };
  const policy = JSON.stringify({ Version: '2012-10-17', Statement });
  const first = await issue({ policy });
  // It compresses to next to nothing, and takes 170 KB when it is read.
  expect(first.sessionToken.length).toBeLessThan(1000);
  const found = await find(first);
  expect(await find(first)).toBe(found);
  for (let i = 0; i < 400; i++) await find(await issue({ policy }));
  expect(await find(first)).not.toBe(found);
});

describe('a session token', () => {
  test('that was altered anywhere is refused', async () => {
    const { accessKeyId, sessionToken } = await issue();
    for (let at = 0; at < sessionToken.length; at++) {
      const other = sessionToken[at] === 'A' ? 'B' : 'A';
      const altered = sessionToken.slice(0, at) + other + sessionToken.slice(at + 1);
      await expect(find({ accessKeyId, sessionToken: altered })).rejects.toEqual(
        refused('InvalidToken'),
      );
    }
  });

  test.each(['', 'A', '%', 'A'.repeat(8192), 'é'])(
    'that is %j is refused',
    async (sessionToken) => {
      const { accessKeyId } = await issue();
      await expect(find({ accessKeyId, sessionToken })).rejects.toEqual(refused('InvalidToken'));
    },
  );

  test('is good with its own access key alone, also once it is known', async () => {
    const [one, other] = [await issue(), await issue()];
    const swapped = { accessKeyId: other.accessKeyId, sessionToken: one.sessionToken };
    await expect(find(swapped)).rejects.toEqual(refused('InvalidToken'));
    await find(one);
    await expect(find(swapped)).rejects.toEqual(refused('InvalidToken'));
  });

  test('of another gateway is refused', async () => {
    const keys = await issue();
    const others = new Keyring([{ epoch: 1, key: Buffer.alloc(32, 8) }]);
    const elsewhere = new Sessions({
      ...{ read: db.tx, directory, outside, followed: memory },
      keyring: others,
    });
    await expect(elsewhere.find(keys.accessKeyId, keys.sessionToken, now)).rejects.toEqual(
      refused('InvalidToken'),
    );
  });

  test('stays good when the root key is changed', async () => {
    const keys = await issue();
    keyring.learn({ epoch: 2, key: Buffer.alloc(32, 9) });
    keyring.begin(2);
    expect((await find(keys)).id).toBe(keys.accessKeyId);
    expect((await find(await issue())).principal.id).toBe('cms/alice');
  });
});

describe('temporary keys end at once', () => {
  test('when their principal is switched off or deleted', async () => {
    const keys = await issue();
    await find(keys);
    const update = { kind: 'updatePrincipal', tenant: 'cms', name: 'alice' } as const;
    await apply({ ...update, active: false } as IdentityChange);
    await expect(find(keys)).rejects.toEqual(refused('InvalidAccessKeyId'));
    await apply({ ...update, active: true } as IdentityChange);
    expect((await find(keys)).id).toBe(keys.accessKeyId);
    await apply({ kind: 'deletePrincipal', tenant: 'cms', name: 'alice' });
    await expect(find(keys)).rejects.toEqual(refused('InvalidAccessKeyId'));
  });

  test('when the enrolled key that signed the first link is switched off', async () => {
    await run(`INSERT INTO public_keys (thumbprint, tenant, principal, jwk, purpose, proof,
      created_ms, enrolled_seq) VALUES ('${thumbprint}', 'cms', 'alice', '{}', 'token', '', 0, 7)`);
    const keys = await issue({ delegation: delegation({ ids: [`${thumbprint}.a`] }) });
    // Its holder chooses what follows the thumbprint.
    const odd = await issue({ delegation: delegation({ ids: [`${thumbprint}.a.b.c`] }) });
    expect((await find(keys)).principal.id).toBe('cms/alice');
    await find(odd);
    await run('UPDATE public_keys SET active = 0');
    await expect(find(keys)).rejects.toEqual(refused('InvalidAccessKeyId'));
    await expect(find(odd)).rejects.toEqual(refused('InvalidAccessKeyId'));
    await run('UPDATE public_keys SET active = 1');
    await find(keys);
    await run('DELETE FROM public_keys');
    await expect(find(keys)).rejects.toEqual(refused('InvalidAccessKeyId'));
  });

  test('when the outside issuer of their token is trusted otherwise, or no more', async () => {
    const addIssuer = (mapping: string) =>
      run(`INSERT INTO issuers (tenant, name, url, audience, mapping, created_ms)
        VALUES ('cms', 'key.cloak', 'https://issuer.example', 'bursar', '${mapping}', 0)`);
    await addIssuer(mappingOf('/'));
    const outside = delegation({ ids: [outsideId] });
    const keys = await issue({ delegation: outside });
    expect((await find(keys)).principal.id).toBe('cms/alice');
    await run(`UPDATE issuers SET mapping = '${mappingOf('/raw')}'`);
    await expect(find(keys)).rejects.toEqual(refused('InvalidAccessKeyId'));
    const renewed = await issue({ delegation: outside });
    expect((await find(renewed)).id).toBe(renewed.accessKeyId);
    await run('DELETE FROM issuers');
    await expect(find(renewed)).rejects.toEqual(refused('AccessDenied'));
    await expect(issue({ delegation: outside })).rejects.toEqual(refused('AccessDenied'));
    await addIssuer(mappingOf('/'));
    const last = await issue({ delegation: outside });
    await run(`UPDATE principals SET role = 'operator' WHERE name = 'alice'`);
    await expect(find(last)).rejects.toEqual(refused('InvalidAccessKeyId'));
  });

  test('and are not made while the issuer of their token is changed', async () => {
    await run(`INSERT INTO issuers (tenant, name, url, audience, mapping, created_ms)
      VALUES ('cms', 'key.cloak', 'https://issuer.example', 'bursar', '${mappingOf('/')}', 0)`);
    const outside = delegation({ ids: [outsideId] });
    // The token was verified by what was in memory, whatever the tables say by now.
    const { issuersAsOf } = sessions;
    await db.tx.run(`UPDATE issuers SET mapping = '${mappingOf('/raw')}'`);
    const early = await issue({ delegation: outside, issuersAsOf });
    await expect(find(early)).rejects.toEqual(refused('InvalidAccessKeyId'));
    await memory.tell({ kind: 'issuer', tenant: 'cms', name: 'key.cloak' });
    const late = issue({ delegation: outside, issuersAsOf });
    await expect(late).rejects.toEqual(refused('SlowDown'));
    expect((await find(await issue({ delegation: outside }))).principal.id).toBe('cms/alice');
  });

  test('to be in a group that only the issuer put them in, once it is gone', async () => {
    const actor = await alice();
    const mapped = { ...actor, subjects: [...actor.subjects, 'group:cms/shifters'] };
    const keys = await issue({ actor: mapped });
    expect((await find(keys)).subjects).toContain('group:cms/shifters');
    await apply({ kind: 'deleteGroup', tenant: 'cms', name: 'shifters' });
    const { subjects } = await find(keys);
    expect(subjects).not.toContain('group:cms/shifters');
    expect(subjects).toContain('principal:cms/alice');
  });
});
