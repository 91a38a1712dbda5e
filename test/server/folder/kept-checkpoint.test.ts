// The file of the checkpoint that is kept beside the database.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { renderCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { rootOf } from '#bursar/audit/log/merkle.js';
import { signNote } from '#bursar/audit/log/note.js';
import { CheckpointKeeper, compareWithKept } from '#bursar/server/folder/kept-checkpoint.js';
import { entriesOf, signerOf, tilesOf } from '../../audit/log/made-log.ts';

const origin = 'log.test/one';
const { tiles } = tilesOf(entriesOf(300));

async function noteOf(size: number, name = origin): Promise<string> {
  const root = await rootOf(tiles, size);
  return signNote(renderCheckpoint({ origin: name, size, root }), [signerOf(name)]);
}

let folder: string;
let file: string;
let errors: unknown[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-kept-'));
  file = join(folder, 'data', 'log-checkpoint');
  mkdirSync(join(folder, 'data'));
  errors = [];
});

afterEach(() => rmSync(folder, { recursive: true }));

function newKeeper(newest: () => string | null): CheckpointKeeper {
  return new CheckpointKeeper(file, newest, (error) => errors.push(error));
}

describe('a keeper', () => {
  it('has the newest in the file once it is closed, and leaves nothing else', async () => {
    writeFileSync(
      `${file}.tmp`,
      'what a crash left, which is longer than any checkpoint'.repeat(20),
    );
    let newest = await noteOf(1);
    const keeper = newKeeper(() => newest);
    await vi.waitFor(async () => expect(readFileSync(file, 'utf8')).toBe(newest), 10_000);
    newest = await noteOf(300);
    await keeper.close();
    expect(readFileSync(file, 'utf8')).toBe(await noteOf(300));
    expect(readdirSync(join(folder, 'data'))).toEqual(['log-checkpoint']);
    expect(errors).toEqual([]);
  });

  it('of a log that was not signed writes nothing', async () => {
    await newKeeper(() => null).close();
    expect(existsSync(file)).toBe(false);
  });

  it('says when it cannot write, and writes later, for its owner alone', async () => {
    rmSync(join(folder, 'data'), { recursive: true });
    const note = await noteOf(1);
    const keeper = newKeeper(() => note);
    await keeper.close();
    expect(errors).toEqual([expect.objectContaining({ code: 'ENOENT' })]);
    mkdirSync(join(folder, 'data'));
    await keeper.close();
    expect(readFileSync(file, 'utf8')).toBe(note);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });
});

describe('what was kept', () => {
  const compare = (size: number, known: string[] | null = [origin]) =>
    compareWithKept(file, { size, tiles }, { origin, known });

  it('is extended by the same log and by a longer one', async () => {
    expect(await compare(5)).toBeNull();
    writeFileSync(file, await noteOf(200));
    expect(await compare(200)).toBeNull();
    expect(await compare(300)).toBeNull();
  });

  it('is not extended by a shorter log', async () => {
    writeFileSync(file, await noteOf(200));
    expect(await compare(199)).toMatch(/200 records were signed, and 199 are here/);
    expect(await compare(0, null)).toMatch(/200 records were signed, and 0 are here/);
  });

  it('is not extended by another log', async () => {
    writeFileSync(file, await noteOf(200));
    const other = tilesOf(entriesOf(300, 'other')).tiles;
    const reason = await compareWithKept(file, { size: 300, tiles: other }, { origin, known: [] });
    expect(reason).toMatch(/first 200 records are not those/);
  });

  it('of a log that the database does not know is no help', async () => {
    writeFileSync(file, await noteOf(200, 'log.test/two'));
    expect(await compare(300)).toMatch(/of log log\.test\/two, which the database does not know/);
    expect(existsSync(file)).toBe(true);
  });

  it('of an older name of the log, or beside a database that has none, is put aside', async () => {
    for (const known of [[origin, 'log.test/two'], null]) {
      writeFileSync(file, await noteOf(200, 'log.test/two'));
      expect(await compare(3, known)).toBeNull();
      expect(existsSync(file)).toBe(false);
      expect(readFileSync(`${file}.ended`, 'utf8')).toBe(await noteOf(200, 'log.test/two'));
    }
  });

  it('of which not each byte is there is never taken for none', async () => {
    const note = await noteOf(200);
    for (const bytes of [0, 1, 20, note.length - 1]) {
      writeFileSync(file, note.slice(0, bytes));
      expect(await compare(300)).toMatch(/damaged/);
    }
  });
});
