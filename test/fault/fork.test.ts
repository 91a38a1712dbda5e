// A data folder that is put back from a backup: the log that is in it is shorter than, or another
// than, the one that was signed. What was kept beside the database tells, and what a real witness
// has seen.
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { parseCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { parseNote, parseVerifier, verifyNote } from '#bursar/audit/log/note.js';
import { parseProof } from '#bursar/audit/log/proof-text.js';
import { Workplace } from '../cli/command.ts';
import { type RunningWitness, startLitewitness } from '../tooling/litewitness.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, litewitness } from '../tooling/tools.ts';
import { type Answer, S3Client } from './s3-client.ts';

// Gateways are started and stopped, and a witness is asked every few seconds.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

let dataDir: string;
let gateway: ServedGateway;
let client: S3Client;
const place = new Workplace();

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'bursar-fork-'));
});

afterEach(async () => {
  await gateway.kill();
  rmSync(dataDir, { recursive: true, force: true });
});

afterAll(() => place.remove());

async function serve(...args: string[]): Promise<void> {
  gateway = await startServedGateway({ dataDir, args: ['--prices', 'none', ...args] });
  client = new S3Client(gateway);
}

async function stop(): Promise<void> {
  client.close();
  await gateway.stop();
}

function put(key: string): Promise<Answer> {
  return client.send('PUT', `/box/${key}`, { body: Buffer.from(key) });
}

async function fill(count: number): Promise<void> {
  await client.send('PUT', '/box');
  for (let i = 0; i < count; i++) expect((await put(`key-${i}`)).status).toBe(200);
}

// biome-ignore lint/suspicious/noExplicitAny: JSON is whatever the schema says.
async function native(path: string, query: [string, string][] = []): Promise<any> {
  const { body } = await client.send('GET', path, { query });
  return JSON.parse(body.toString());
}

async function fetchText(path: string): Promise<{ status: number; text: string }> {
  const answer = await fetch(`${gateway.endpoint}${path}`);
  return { status: answer.status, text: await answer.text() };
}

/** The newest of `/_/log/checkpoint`. */
async function signedSize(): Promise<number> {
  const { text } = await fetchText('/_/log/checkpoint');
  return parseCheckpoint(parseNote(text)?.text ?? '')?.size ?? -1;
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  const untilMs = Date.now() + 40_000;
  while (!(await isSo())) {
    if (Date.now() > untilMs) throw new Error(`it never was so:\n${gateway.output()}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** The files of the data folder as they are now, to be put back later. */
function backUp(): (wanted: (name: string) => boolean) => void {
  const copy = mkdtempSync(join(tmpdir(), 'bursar-backup-'));
  cpSync(dataDir, copy, { recursive: true });
  return (wanted) => {
    for (const name of readdirSync(dataDir).filter(wanted)) {
      rmSync(join(dataDir, name), { recursive: true });
    }
    for (const name of readdirSync(copy).filter(wanted)) {
      cpSync(join(copy, name), join(dataDir, name), { recursive: true });
    }
    rmSync(copy, { recursive: true });
  };
}

const isDatabase = (name: string): boolean => name.startsWith('bursar.db');

/** Writes are refused and say why, nothing is signed, and what is stored can be read. */
async function expectRefused(reason: RegExp): Promise<void> {
  const refused = await put('refused');
  expect(refused.status).toBe(503);
  expect(refused.body.toString()).toMatch(reason);
  const created = await client.send('POST', '/_/v1/tenants', {
    headers: { 'content-type': 'application/json' },
    body: Buffer.from('{"name":"cms"}'),
  });
  expect(created.status).toBe(503);
  expect((await client.send('GET', '/box/key-0')).body.toString()).toBe('key-0');
  expect((await fetchText('/_/log/checkpoint')).status).toBe(503);
  const health = await fetchText('/_/health');
  const problems = ['The log is not signed.'];
  const told = { ready: false, reads: true, writes: false, problems };
  expect([health.status, JSON.parse(health.text)]).toEqual([503, told]);
  expect((await native('/_/v1/health')).log).toMatchObject({ ready: false });
  expect((await native('/_/v1/log')).refusal).toMatch(reason);
  await expect.poll(() => gateway.output()).toMatch(reason);
}

describe('the checkpoint that is kept beside the database', () => {
  /** A data folder with some records, and the log's index of the last of them. */
  const template = mkdtempSync(join(tmpdir(), 'bursar-fork-template-'));
  let lastIndex: number;

  beforeAll(async () => {
    dataDir = join(template, 'data');
    await serve();
    await fill(3);
    lastIndex = Number((await put('before')).headers['x-bursar-receipt']);
    await stop();
  });

  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'bursar-fork-'));
    cpSync(join(template, 'data'), dataDir, { recursive: true });
  });

  afterAll(() => rmSync(template, { recursive: true }));

  it('lets a database go on that has all that was signed', async () => {
    await serve();
    expect((await put('last')).status).toBe(200);
    await gateway.kill();
    await serve();
    const size = await signedSize();
    expect((await put('more')).status).toBe(200);
    await until(async () => (await signedSize()) > size);
    await stop();
    const kept = readFileSync(join(dataDir, 'log-checkpoint'), 'utf8');
    expect(parseCheckpoint(parseNote(kept)?.text ?? '')?.size).toBeGreaterThan(size);
  });

  it('has nothing signed by a database that is put back, until its log is ended', async () => {
    const putBack = backUp();
    await serve();
    await fill(3);
    const lost = await signedSize();
    await stop();
    putBack(isDatabase);
    const { stdout } = await place.run(['log', 'fork-point', '--data', dataDir, '--json']);
    const { size, sightings, missing, doubtful } = JSON.parse(stdout);
    expect(missing.from).toBe(size);
    expect(missing.to).toBeGreaterThanOrEqual(lost - 1);
    expect(doubtful).toEqual({ from: 0, to: size - 1 });
    expect(sightings).toMatchObject([{ relation: 'longer than here' }]);

    await serve();
    await expectRefused(/records were signed, and \d+ are here/);
    const [oldName = ''] = (await fetchText('/_/log/key')).text.split('+');
    await stop();
    await expectRestart(oldName);
  });

  /**
   * A log that is deliberately ended goes on under another name, and nothing is said against it.
   */
  async function expectRestart(oldName: string): Promise<void> {
    const restart = ['log', 'restart', '--data', dataDir, '--prices', 'none'];
    const again = await place.run([...restart, '--origin', oldName, '--reason', 'a test']);
    expect(again.code).toBe(1);
    const asked = ['--origin', 'log.test/two', '--reason', 'a test', '--json'];
    const done = await place.run([...restart, ...asked]);
    expect(done).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(done.stdout)).toEqual({ origin: 'log.test/two', before: oldName });

    await serve();
    expect((await put('after')).status).toBe(200);
    const { text: keys } = await fetchText('/_/log/key');
    const [key] = keys.split('\n').map(parseVerifier);
    expect(key?.name).toBe('log.test/two');
    const receipt = await client.send('GET', `/_/v1/receipts/${lastIndex}`);
    const note = parseNote(parseProof(receipt.body.toString())?.checkpoint ?? '');
    expect(note && verifyNote(note, key ? [key] : [])).toHaveLength(1);
    const { records } = await native('/_/v1/records', [['action', 'bursar:RestartLog']]);
    expect(records).toMatchObject([{ change: { before: oldName, reason: 'a test' } }]);
  }

  it('has nothing signed by a database that grew in another way since', async () => {
    const putBack = backUp();
    await serve();
    await fill(1);
    await stop();
    const kept = readFileSync(join(dataDir, 'log-checkpoint'));
    putBack((name) => isDatabase(name) || name === 'log-checkpoint');
    await serve();
    await fill(8);
    await stop();
    writeFileSync(join(dataDir, 'log-checkpoint'), kept);
    await serve();
    await expectRefused(/the first \d+ records are not those that were signed/);
  });

  it('has no new database take the name of a log that is lost', async () => {
    rmSync(dataDir, { recursive: true });
    const named = ['--log-origin', 'log.test/one'];
    await serve(...named);
    await fill(1);
    await stop();
    for (const name of readdirSync(dataDir).filter(isDatabase)) rmSync(join(dataDir, name));
    await serve(...named);
    expect((await client.send('PUT', '/box')).body.toString()).toMatch(/records were signed/);
    await stop();
    await serve('--log-origin', 'log.test/two');
    expect((await client.send('PUT', '/box')).status).toBe(200);
    expect((await fetchText('/_/log/checkpoint')).text).toMatch(/^log\.test\/two\n/);
    const ended = readFileSync(join(dataDir, 'log-checkpoint.ended'), 'utf8');
    expect(ended).toMatch(/^log\.test\/one\n/);
  });

  it('stops nothing quietly where it is damaged', async () => {
    const file = join(dataDir, 'log-checkpoint');
    writeFileSync(file, readFileSync(file).subarray(0, 40));
    await serve();
    await expectRefused(/kept beside the database is damaged/);
  });
});

describeWithTool(litewitness, 'a witness', (path) => {
  let witness: RunningWitness;

  beforeAll(async () => {
    witness = await startLitewitness(path, 'witness.test/one');
  });

  afterAll(() => witness.stop());

  /** A log with some records, that the witness knows. */
  async function introduce(): Promise<string> {
    await serve();
    await fill(2);
    const [line = ''] = (await fetchText('/_/log/key')).text.split('\n');
    const origin = parseVerifier(line)?.name ?? '';
    await witness.knowLog(origin, line);
    await stop();
    return origin;
  }

  const cosigned = async (): Promise<number> =>
    (await native('/_/v1/log')).witnesses[0].cosignedSize ?? -1;

  it('cosigns what is signed, at the start and as it grows, and receipts carry it', async () => {
    const origin = await introduce();
    await serve('--witness', witness.setting);
    const first = await cosigned();
    expect(first).toBeGreaterThan(0);
    const answer = await client.send('PUT', '/box/grown', { body: Buffer.from('grown') });
    const index = Number(answer.headers['x-bursar-receipt']);
    await until(async () => (await cosigned()) > index);
    expect(await witness.seenSize(origin)).toBeGreaterThan(index);

    const receipt = (await client.send('GET', `/_/v1/receipts/${index}`)).body.toString();
    const note = parseNote(parseProof(receipt)?.checkpoint ?? '');
    const key = parseVerifier(witness.verifier);
    const by = note && key && verifyNote(note, [key]);
    expect(by).toMatchObject([{ key: { name: 'witness.test/one' } }]);
    expect(by?.[0]?.timeS).toBeGreaterThan(1_700_000_000);

    await stop();
    await serve();
    const { text } = parseNote(
      parseProof((await client.send('GET', `/_/v1/receipts/${index}`)).body.toString())
        ?.checkpoint ?? '',
    ) ?? { text: '' };
    expect(parseCheckpoint(text)?.size).toBeGreaterThan(index);
  });

  it('has nothing signed by a whole folder that is put back', async () => {
    await introduce();
    const putBack = backUp();
    await serve('--witness', witness.setting);
    await fill(4);
    await until(async () => (await cosigned()) >= 8);
    const seen = await cosigned();
    await stop();
    putBack(() => true);
    const args = ['log', 'fork-point', '--data', dataDir, '--witness', witness.setting, '--json'];
    const report = JSON.parse((await place.run(args)).stdout);
    expect(report.missing.to).toBeGreaterThanOrEqual(seen - 1);
    expect(report.sightings).toContainEqual(
      expect.objectContaining({ by: 'witness.test/one', relation: 'longer than here' }),
    );

    await serve('--witness', witness.setting);
    await expectRefused(/witness witness\.test\/one has seen \d+ records of this log/);
  });

  it('has signing ended later, where it could not be asked at the start', async () => {
    await introduce();
    const putBack = backUp();
    await serve('--witness', witness.setting);
    await fill(1);
    await until(async () => (await cosigned()) >= 5);
    await stop();
    putBack(() => true);
    await witness.kill();
    await serve('--witness', witness.setting);
    // The same number of records, or more, and others: only a proof tells that.
    await fill(6);
    expect((await native('/_/v1/log')).witnesses[0].problem).not.toBeNull();
    await witness.restart();
    await until(async () => (await native('/_/v1/log')).refusal !== null);
    await expectRefused(/witness witness\.test\/one has seen another log/);
  });

  it('that does not know the log stops nothing', async () => {
    await serve('--witness', witness.setting);
    await fill(1);
    await until(async () => (await native('/_/v1/log')).witnesses[0].problem !== null);
    const [{ problem }] = (await native('/_/v1/log')).witnesses;
    expect(problem).toMatch(/404/);
    expect((await put('more')).status).toBe(200);
  });
});
