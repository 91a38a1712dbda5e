// The log is signed after batches, at most each 20 ms, by the keys that the database says sign.
import { generateKeyPairSync } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { isSigning, listLogKeys } from '#bursar/audit/log/log-keys.js';
import { parseNote, verifyNote } from '#bursar/audit/log/note.js';
import { newExtentId } from '#bursar/core/ids.js';
import { type LogKey, signerOf } from '#bursar/ledger/log-signing.js';
import { commitOf, type LedgerFixture, openLedger, putOf } from './fixture.ts';
import { hashTree, readLeaves } from './log-sheet.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(() => fixture.close());

function newKey(name = 'bursar/test'): LogKey {
  const { privateKey } = generateKeyPairSync('ed25519');
  return { name, privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString() };
}

function idOf(key: LogKey): string {
  return signerOf(key).key.id;
}

/** What a note says, and the ids of the keys that signed it. */
function read(note: string, keys: readonly LogKey[]) {
  const parsed = parseNote(note);
  const checkpoint = parseCheckpoint(parsed?.text ?? '');
  if (!parsed || !checkpoint) throw new Error('no checkpoint');
  const known = keys.map((key) => signerOf(key).key);
  const signedBy = verifyNote(parsed, known)?.map(({ key }) => key.id);
  return { ...checkpoint, signatures: parsed.signatures.length, signedBy };
}

/** The note that covers everything, once it has come. */
async function newest(keys: readonly LogKey[]) {
  const size = (await readLeaves(fixture.read)).length;
  const covers = () => fixture.checkpoints.some((note) => read(note, keys).size === size);
  await expect.poll(covers).toBe(true);
  return read(fixture.checkpoints.at(-1) as string, keys);
}

async function rotate(key: LogKey, retireMs: number): Promise<void> {
  const commit = commitOf({ kind: 'rotateLogKey', key, retireMs });
  expect(await fixture.ledger.commit(commit)).toMatchObject({ ok: true });
}

describe('a batch', () => {
  it('is signed once, after its commit, and every note is of the records up to it', async () => {
    const key = newKey();
    await fixture.ledger.signLog([key]);
    const commits = Array.from({ length: 800 }, (_, i) => putOf(`k${i}`));
    await Promise.all(commits.map((commit) => fixture.ledger.commit(commit)));
    const note = await newest([key]);
    expect(note).toMatchObject({ origin: 'bursar/test', size: 803, signedBy: [idOf(key)] });
    // The log of before, and those of the few batches that the commits were put into.
    expect(fixture.checkpoints.length).toBeLessThan(12);
    const leaves = await readLeaves(fixture.read);
    for (const text of fixture.checkpoints) {
      const { size, root } = read(text, [key]);
      expect(root).toEqual(hashTree(leaves.slice(0, size)));
    }
  });

  it('that soon follows another shares its signature, and is signed then', async () => {
    const key = newKey();
    await fixture.ledger.signLog([key]);
    const sinceMs = performance.now();
    for (let i = 0; i < 100; i++) await fixture.ledger.commit(putOf(`k${i}`));
    expect(await newest([key])).toMatchObject({ size: 103 });
    const tookMs = performance.now() - sinceMs;
    expect(fixture.checkpoints.length).toBeLessThan(tookMs / 20 + 3);
  });

  it('of which a request fails by a bug leaves tree, records and notes of the others', async () => {
    const key = newKey();
    await fixture.ledger.signLog([key]);
    const taken = newExtentId();
    for (let round = 0; round < 3; round++) {
      const commits = Array.from({ length: 100 }, (_, i) =>
        putOf(`k${round}-${i}`, { inlineId: i % 40 === 5 ? taken : newExtentId() }),
      );
      await Promise.all(commits.map((commit) => fixture.ledger.commit(commit)));
      const leaves = await readLeaves(fixture.read);
      expect(await newest([key])).toMatchObject({ size: leaves.length, root: hashTree(leaves) });
    }
    // The first use of the extent's id is none.
    expect(await readLeaves(fixture.read)).toHaveLength(3 + 300 - 8);
    await fixture.reopen();
    await fixture.ledger.signLog([key]);
    await fixture.ledger.commit(putOf('after'));
    const leaves = await readLeaves(fixture.read);
    expect(await newest([key])).toMatchObject({ root: hashTree(leaves) });
  });

  it('without a record is not signed again', async () => {
    await fixture.ledger.signLog([newKey()]);
    for (let i = 0; i < 5; i++) await fixture.ledger.maintain({ kind: 'sumUsage', max: 100 });
    await fixture.reopen();
    expect(fixture.checkpoints).toHaveLength(1);
  });
});

describe('the log', () => {
  it('is not signed before it is asked for, nor when there are no keys any more', async () => {
    const { ledger, checkpoints } = fixture;
    await ledger.commit(putOf('a'));
    expect(checkpoints).toEqual([]);
    const key = newKey();
    await ledger.signLog([key]);
    expect(await newest([key])).toMatchObject({ size: 4 });
    await ledger.signLog([]);
    await ledger.commit(putOf('b'));
    await rotate(newKey(), 0);
    await ledger.commit(putOf('c'));
    expect(checkpoints).toHaveLength(1);
  });

  it('has the same note after a restart, byte for byte', async () => {
    const key = newKey();
    await fixture.ledger.signLog([key]);
    await fixture.ledger.commit(putOf('a'));
    await newest([key]);
    await fixture.reopen();
    await fixture.ledger.signLog([key]);
    await expect.poll(() => fixture.checkpoints.length).toBe(3);
    expect(fixture.checkpoints[2]).toBe(fixture.checkpoints[1]);
  });

  it('is not signed by a key that the database does not know', async () => {
    await fixture.ledger.signLog([newKey()]);
    await fixture.ledger.signLog([newKey()]);
    await fixture.ledger.commit(putOf('a'));
    await fixture.reopen();
    expect(fixture.checkpoints).toHaveLength(1);
  });
});

describe('a key that follows another', () => {
  const hour = 3_600_000;

  it('signs from its own record on, beside the other until that retires', async () => {
    const [old, key] = [newKey(), newKey()];
    await fixture.ledger.signLog([old]);
    await rotate(key, Date.now() + hour);
    const rows = await listLogKeys(fixture.read);
    expect(rows.map((row) => [row.key.id, row.fromSize])).toEqual([
      [idOf(key), 4],
      [idOf(old), 0],
    ]);
    expect(rows.map((row) => isSigning(row, Date.now()))).toEqual([true, true]);
    expect(rows.map((row) => isSigning(row, Date.now() + 2 * hour))).toEqual([true, false]);
    const both = [idOf(key), idOf(old)];
    expect(await newest([old, key])).toMatchObject({ size: 4, signatures: 2, signedBy: both });
    await fixture.reopen();
    await fixture.ledger.signLog([old, key]);
    await fixture.ledger.commit(putOf('a'));
    expect(await newest([old, key])).toMatchObject({ size: 5, signedBy: both });
  });

  it('signs alone where there is no overlap, and what the other signed stays good', async () => {
    const [old, key] = [newKey(), newKey()];
    await fixture.ledger.signLog([old]);
    await fixture.ledger.commit(putOf('a'));
    await newest([old]);
    await rotate(key, 0);
    expect(await newest([old, key])).toMatchObject({ signatures: 1, signedBy: [idOf(key)] });
    const before = fixture.checkpoints.find((note) => read(note, [old]).size === 4);
    expect(read(before as string, [old, key]).signedBy).toEqual([idOf(old)]);
  });

  it('leaves those signing that end sooner to their own time', async () => {
    const [first, second, third] = [newKey(), newKey(), newKey()];
    await fixture.ledger.signLog([first]);
    const now = Date.now();
    await rotate(second, now + hour);
    await rotate(third, now + 5 * hour);
    const rows = await listLogKeys(fixture.read);
    expect(rows.map(({ retiredMs }) => retiredMs)).toEqual([null, now + 5 * hour, now + hour]);
  });
});

describe('a key that is revoked', () => {
  const revoke = (id: string) => fixture.ledger.commit(commitOf({ kind: 'revokeLogKey', id }));

  it('signs no more from its record on', async () => {
    const [old, key] = [newKey(), newKey()];
    await fixture.ledger.signLog([old]);
    await rotate(key, Date.now() + 3_600_000);
    expect(await revoke(idOf(old))).toMatchObject({ ok: true, index: 4 });
    expect(await newest([old, key])).toMatchObject({ size: 5, signedBy: [idOf(key)] });
    const [, row] = await listLogKeys(fixture.read);
    expect(row?.revokedMs).not.toBeNull();
    expect(row?.retiredMs).toBe(row?.revokedMs);
  });

  it('is on no newest note once that is answered, however soon it follows others', async () => {
    let old = newKey();
    await fixture.ledger.signLog([old]);
    for (let round = 0; round < 10; round++) {
      const key = newKey();
      await rotate(key, Date.now() + 3_600_000);
      await fixture.ledger.commit(putOf(`k${round}`));
      await revoke(idOf(old));
      // What the ledger's thread says before its next answer has come by then.
      await fixture.ledger.maintain({ kind: 'closeFolds', max: 1 });
      const note = fixture.checkpoints.at(-1) as string;
      const size = 3 + (round + 1) * 3;
      expect(read(note, [old, key])).toMatchObject({ size, signedBy: [idOf(key)] });
      old = key;
    }
  });

  it('is not the only one that signs: that is refused, with a record', async () => {
    const key = newKey();
    await fixture.ledger.signLog([key]);
    expect(await revoke(idOf(key))).toMatchObject({ ok: false, code: 'InUse', index: 3 });
    expect(await newest([key])).toMatchObject({ size: 4, signedBy: [idOf(key)] });
  });

  it('is not the only one that will go on: one that is to retire does not count', async () => {
    const [old, key, next] = [newKey(), newKey(), newKey()];
    await fixture.ledger.signLog([old]);
    await rotate(key, Date.now() + 3_600_000);
    expect(await revoke(idOf(key))).toMatchObject({ ok: false, code: 'InUse' });
    await rotate(next, Date.now() + 3_600_000);
    expect(await revoke(idOf(key))).toMatchObject({ ok: true });
    const rows = await listLogKeys(fixture.read);
    expect(rows.map(({ retiredMs }) => retiredMs === null)).toEqual([true, false, false]);
  });

  it('exists, and is not revoked already', async () => {
    const [old, key] = [newKey(), newKey()];
    await fixture.ledger.signLog([old]);
    await rotate(key, 0);
    expect(await revoke('00000000')).toMatchObject({ ok: false, code: 'NotFound' });
    expect(await revoke(idOf(old))).toMatchObject({ ok: true });
    expect(await revoke(idOf(old))).toMatchObject({ ok: false, code: 'NotFound' });
  });
});
