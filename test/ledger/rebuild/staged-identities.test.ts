// Which word on an identity holds, by whatever journals and in whatever order it is read; and when
// what is read may not be all.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { IdentityEntry } from '#bursar/ledger/journal/identity-format.js';
import {
  chooseInstance,
  isDoubtful,
  type ToldIdentities,
} from '#bursar/ledger/rebuild/staged-identities.js';
import { Staging } from '#bursar/ledger/rebuild/staging.js';

let folder: string;
let staging: Staging;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-staging-'));
  staging = Staging.open(join(folder, 'staging.db'));
});
afterEach(() => {
  staging.close();
  rmSync(folder, { recursive: true });
});

const tenant = (toldSeq: number, name = 'cms'): IdentityEntry => ({
  ...{ kind: 'tenant', toldSeq, tenant: name, name: '', createdMs: 1 },
  ...{ membersCreateBuckets: true, defaultStore: null, recordReads: null },
});
const grant = (toldSeq: number, name = 'g', rule = `{"of":${toldSeq}}`): IdentityEntry => {
  return { kind: 'grant', toldSeq, tenant: 'cms', name, rule, createdMs: 1 };
};
const absent = (toldSeq: number, name = 'g'): IdentityEntry => {
  return { kind: 'absent', of: 'grant', toldSeq, tenant: 'cms', name };
};
const principal = (toldSeq: number, name: string): IdentityEntry => ({
  ...{ kind: 'principal', toldSeq, tenant: 'cms', name, is: 'person', role: 'admin' },
  ...{ createdMs: 1, active: true, groups: [], accessKeys: [], publicKeys: [] },
});
const retired = (of: 'tenant' | 'principal', name: string): IdentityEntry => {
  return { kind: 'retired', of, toldSeq: 1, tenant: 'cms', name };
};
const revocation = (name: string): IdentityEntry => ({
  ...{ kind: 'revocation', toldSeq: 1, tenant: 'cms', name, principal: 'alice' },
  ...{ revokedMs: 1, expiresMs: null },
});

async function take(entries: IdentityEntry[], revocationsAlone = false): Promise<void> {
  await staging.identities.take(entries, { revocationsAlone });
}

async function grants(): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, rule } of staging.identities.list('grant')) found.push(name + rule);
  return found;
}

async function names(kind: 'tenant' | 'principal' | 'revocation'): Promise<string[]> {
  const found: string[] = [];
  for await (const one of staging.identities.list(kind)) found.push(one.name || one.tenant);
  return found;
}

function orders<T>(things: T[]): T[][] {
  if (things.length < 2) return [things];
  return things.flatMap((first, i) =>
    orders(things.toSpliced(i, 1)).map((rest) => [first, ...rest]),
  );
}

describe('of what is said of a thing', () => {
  it('the newest word holds, in whatever order words come', async () => {
    const words = [grant(3), absent(5), grant(9), grant(4)];
    for (const [i, order] of orders(words).entries()) {
      await take(order.map((word) => ({ ...word, name: `g${i}` }) as IdentityEntry));
    }
    await take([tenant(1)]);
    await staging.identities.settle(0);
    const found = await grants();
    expect(found).toHaveLength(24);
    expect(found.every((one) => one.endsWith('{"of":9}'))).toBe(true);
  });

  it('that it is gone holds against what is equally new', async () => {
    for (const order of orders([grant(5), absent(5)])) await take([tenant(1), ...order]);
    await staging.identities.settle(0);
    expect(await grants()).toEqual([]);
  });

  it('a whole snapshot says also what is not there any more', async () => {
    // One store was away when it was taken back; the other has put a snapshot in the place of that.
    await take([tenant(10), grant(10, 'kept'), grant(4, 'kept'), grant(4, 'taken-back')]);
    await staging.identities.settle(11);
    expect(await grants()).toEqual(['kept{"of":10}']);
  });

  it('a name that is gone stays so, whoever tells of it later', async () => {
    const left = retired('principal', 'left');
    for (const order of orders([left, principal(9, 'left'), principal(2, 'alice')])) {
      await take([tenant(9), ...order]);
    }
    await staging.identities.settle(0);
    expect(await names('principal')).toEqual(['alice']);
  });

  it('nothing is there of a tenant that is gone, but what is revoked', async () => {
    await take([tenant(9), retired('tenant', ''), grant(9), principal(9, 'a'), revocation('jti')]);
    await staging.identities.settle(0);
    expect([...(await names('tenant')), ...(await names('principal'))]).toEqual([]);
    expect(await grants()).toEqual([]);
    expect(await names('revocation')).toEqual(['jti']);
  });

  it('a tenant of which nothing is told is known by what is in it', async () => {
    await take([principal(9, 'alice'), revocation('jti')]);
    await staging.identities.settle(0);
    expect(await staging.identities.listUntoldTenants()).toEqual(['cms']);
    expect(await names('principal')).toEqual(['alice']);
  });

  it('a revocation stays, whatever a snapshot or another database says', async () => {
    await take([revocation('old')]);
    const lifted: IdentityEntry = { ...absent(50, 'old'), of: 'revocation' } as IdentityEntry;
    await take([tenant(50), lifted]);
    await take([revocation('other'), grant(99), principal(99, 'eve')], true);
    await staging.identities.settle(51);
    expect(await names('revocation')).toEqual(['old', 'other']);
    expect([...(await grants()), ...(await names('principal'))]).toEqual([]);
  });
});

describe('what the journals told', () => {
  const whole = (lastSeq: number, told: Partial<ToldIdentities> = {}): ToldIdentities => {
    return { lastSeq, holes: [], floorSeq: 1, tells: 'identities', strange: 0, ...told };
  };
  const hole = { firstSeq: 10, lastSeq: 20 };

  it('is in doubt where a part is missing that no other journal tells', () => {
    expect(isDoubtful([])).toBe(false);
    expect(isDoubtful([whole(30)])).toBe(false);
    expect(isDoubtful([whole(30, { holes: [hole] })])).toBe(true);
    expect(isDoubtful([whole(30, { holes: [hole] }), whole(20)])).toBe(false);
    // It ended within, has another hole there, or tells nothing of identities.
    expect(isDoubtful([whole(30, { holes: [hole] }), whole(19)])).toBe(true);
    const other = whole(30, { holes: [{ firstSeq: 20, lastSeq: 21 }] });
    expect(isDoubtful([whole(30, { holes: [hole] }), other])).toBe(true);
    expect(isDoubtful([whole(30, { holes: [hole] }), whole(30, { tells: null })])).toBe(true);
  });

  it('is in doubt where a later version told what nobody knows', () => {
    expect(isDoubtful([whole(30, { strange: 1 }), whole(30)])).toBe(true);
  });

  it('is read together of one database alone: the newest, or the one asked for', () => {
    const of = (timeMs: number, instance?: string) => ({
      journal: { generation: `${String(timeMs).padStart(15, '0')}-00000000` },
      begin: instance === undefined ? {} : { instance },
    });
    const journals = [of(3, 'old'), of(7, 'new'), of(5, 'new'), of(9)];
    expect(chooseInstance(journals, undefined)).toBe('new');
    expect(chooseInstance(journals, journals[0]?.journal.generation)).toBe('old');
    expect(chooseInstance([of(9)], undefined)).toBeUndefined();
  });
});
