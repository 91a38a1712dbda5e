// A served gateway with folder stores and classes in them, and what tests ask of it.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import * as s3 from '@aws-sdk/client-s3';
import { expect, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { type Served, Workplace } from './command.ts';

export const keys = { accessKeyId: 'ROOTKEYOFTHETEST', secretAccessKey: 'root-secret-of-the-test' };
export const environment = {
  BURSAR_ROOT_ACCESS_KEY: keys.accessKeyId,
  BURSAR_ROOT_SECRET_KEY: keys.secretAccessKey,
};
export const MB = 1_000_000;

export let place: Workplace;
export let served: Served;
export let client: s3.S3Client;
export let config: string;

/** Settings besides, by the names of their environment variables. */
let settings: Record<string, string> = {};

/** Serves a gateway with three folder stores, and makes classes and two buckets. */
export const startRig = (): Promise<void> => startRigWith({});

/** `prices`: of two of the stores, that of the bucket `second` among them. */
export async function startRigWith(
  besides: Record<string, string>,
  prices = 'none',
): Promise<void> {
  settings = besides;
  place = new Workplace();
  const stores = ['near', 'disk1', 'disk2'].map((name) => {
    mkdirSync(folderOf(name));
    const url = pathToFileURL(folderOf(name)).href;
    const own = name === 'disk1' ? 'aws/us-east-1' : prices;
    const declared = `domains: [${name}], annualLoss: 0.01`;
    const drills = name === 'disk1' ? 'no' : 'yes';
    return `  ${name}: { url: "${url}", prices: ${own}, ${declared}, drills: ${drills} }`;
  });
  for (const name of ['tape', 'vault']) {
    mkdirSync(folderOf(name));
    const url = pathToFileURL(folderOf(name)).href;
    stores.push(`  ${name}: { url: "${url}", prices: none, kind: archive, recallDelay: 5s }`);
  }
  config = join(place.folder, 'config.yaml');
  writeFileSync(config, ['stores:', ...stores, ''].join('\n'));
  await serve();
  const classes = join(place.folder, 'classes.yaml');
  const leg = (...names: string[]) => names.map((store) => ({ store }));
  const durability = { legs: leg('disk1') };
  const list = [
    { name: 'derived', aliases: ['ONEZONE_IA'], durability, loss: 'report' },
    { name: 'kept', aliases: [], durability: { legs: leg('disk2') }, loss: 'refuse' },
    { name: 'home', aliases: ['GLACIER_IR'], durability: { legs: leg('local') } },
    { name: 'twice', aliases: ['STANDARD_IA'], durability: { legs: leg('disk1', 'disk2') } },
    { name: 'pair', aliases: ['EXPRESS_ONEZONE'], durability: { legs: leg('disk2', 'near') } },
    { name: 'mirror', durability: { legs: leg('disk2', 'near') }, loss: 'report' },
    { name: 'spare', durability: { legs: leg('near') }, loss: 'report' },
    { name: 'any', durability: { legs: leg('disk2', 'near') }, availability: { answer: 'any' } },
    { name: 'loose', aliases: [], durability: { legs: leg('disk2', 'near'), ack: 1 } },
    {
      ...{ name: 'cold', aliases: ['DEEP_ARCHIVE'], durability: { legs: leg('tape') } },
      ...{ access: 'restore', restoreWithinHours: 1 },
    },
    { name: 'homes', durability: { legs: leg('local', 'disk1') }, loss: 'report' },
    {
      ...{ name: 'homely', durability: { legs: leg('disk1', 'local'), ack: 1 } },
      availability: { answer: 'any' },
    },
    { name: 'floor', durability, minimum: { days: 10, bytes: 1_000_000 } },
    { name: 'again', aliases: ['REDUCED_REDUNDANCY'], durability, loss: 'recipe' },
  ];
  writeFileSync(classes, JSON.stringify({ classes: list }));
  await run('class', 'create', 'default', classes);
  await client.send(new s3.CreateBucketCommand({ Bucket: 'first' }));
  await makeBucketIn('near', 'second');
}

export async function stopRig(): Promise<void> {
  client.destroy();
  await place.remove();
}

export function folderOf(store: string): string {
  return join(place.folder, store);
}

export async function serve(): Promise<void> {
  served = await place.serve(['--config', config], { ...environment, ...settings });
  client?.destroy();
  client = new s3.S3Client({
    ...{ endpoint: served.endpoint, region: 'us-east-1', credentials: keys },
    ...{ forcePathStyle: true, maxAttempts: 1 },
  });
}

/** What takes long says now and then how far it has come. */
const progress = /^\d[^\n]* (read|compared|[^ \n]+\/s)\n/gm;

export async function run(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await place.run(args);
  expect(stderr.replace(progress, '')).toBe('');
  expect(code).toBe(0);
  return stdout;
}

async function makeBucketIn(store: string, Bucket: string): Promise<void> {
  const command = new s3.CreateBucketCommand({ Bucket });
  command.middlewareStack.add(
    (next) => (args) => {
      const { request } = args as unknown as { request: { headers: Record<string, string> } };
      request.headers['x-bursar-store'] = store;
      return next(args);
    },
    { step: 'build' },
  );
  await client.send(command);
}

/** The paths of a folder store's extents within it. */
export function extentsIn(store: string): string[] {
  const extents = join(folderOf(store), 'extents');
  if (!existsSync(extents)) return [];
  return readdirSync(extents, { recursive: true, withFileTypes: true })
    .filter((one) => one.isFile())
    .map((one) => join('extents', one.name.slice(30), one.name));
}

/** The path of a copy of an extent that the data folder has, by that in a folder store. */
export function localCopy(path: string): string {
  const name = basename(path);
  return join(place.data, 'extents', name.slice(28, 30), name.slice(30), name);
}

export const countIn = (store: string): number => extentsIn(store).length;

export const put = (Bucket: string, Key: string, Body: Buffer | string, StorageClass?: string) =>
  client.send(
    new s3.PutObjectCommand({ Bucket, Key, Body, StorageClass: StorageClass as s3.StorageClass }),
  );
export const head = (Bucket: string, Key: string) =>
  client.send(new s3.HeadObjectCommand({ Bucket, Key }));

export async function read(Bucket: string, Key: string): Promise<Buffer> {
  const { Body } = await client.send(new s3.GetObjectCommand({ Bucket, Key }));
  return Buffer.from((await Body?.transformToByteArray()) ?? []);
}

export const bytesOf = (size: number) => Buffer.alloc(size, `${size} bytes, `);

/** Changes one byte of a chunk in the middle of a file. */
export function damage(path: string): void {
  const bytes = readFileSync(path);
  const at = bytes.length >> 1;
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}

export const refusal = (sent: Promise<unknown>) =>
  sent.then(
    () => 'done',
    ({ name, $metadata }: s3.S3ServiceException) => `${$metadata.httpStatusCode} ${name}`,
  );

/** What a store has now and had not before. */
export const newIn = (store: string, before: readonly string[]): string[] =>
  extentsIn(store).filter((path) => !before.includes(path));
export const bytesIn = (store: string, path: string): Buffer =>
  readFileSync(join(folderOf(store), path));

export async function becomesWhole(path: string): Promise<void> {
  await vi.waitFor(() => expect(bytesIn('disk2', path).equals(bytesIn('near', path))).toBe(true), {
    timeout: 60_000,
    interval: 100,
  });
}

/** Copies that are to be made, or made again, of what is still stored. */
export async function copiesWaiting(): Promise<unknown[]> {
  const db = openDatabase(join(place.data, 'bursar.db'), { readonly: true, cacheKib: 1024 });
  const rows = await db.tx.all(
    `SELECT hex(extent_id) AS id, c.store FROM extent_copies AS c JOIN extents AS e
       ON e.id = extent_id WHERE c.state >= 2 AND e.state = 1`,
  );
  db.close();
  return rows;
}
