// Makes one lost object again: fetches the inputs of its recipe, runs the command in a folder of
// its own, and uploads what that made. Invariants: nothing is run that is not trusted, and nothing
// on inputs that are not, by their SHA-256, those that the recipe means; what is uploaded is a file
// that the command made, and none that it points to; and where a wrapper is named, it runs all
// commands, since who writes a recipe chooses whether that names a container.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { constants, createWriteStream } from 'node:fs';
import { type FileHandle, mkdir, mkdtemp, open, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Recipe, type RecipeInput, readRecipePlace } from '../../core/recipe.ts';
import { readCommandEnvironment } from '../../server/settings/config.ts';
import { S3Refusal } from '../api-client.ts';
import { refusedBy, S3Bucket, type S3Connection } from '../s3-bucket.ts';
import { fullName } from './own-place.ts';
import { fetchRecipe } from './recipe-tree.ts';
import type { LeasedJob } from './recipe-worker.ts';

export interface RemakeOptions {
  connection: S3Connection;
  /** The caller's. */
  tenant: string;
  trusted: readonly string[];
  wrapper: string | undefined;
  timeoutMs: number;
  /** The job is somebody else's from then on, or nobody's. */
  signal: AbortSignal;
}

export interface Done {
  sha256: string;
  /** The index of the record of it. */
  receipt: string | null;
}

/** Why a job was not done, in words. */
export class JobFailure extends Error {
  override readonly name = 'JobFailure';
  /** Trying again would not help. */
  readonly isFinal: boolean;

  constructor(message: string, isFinal = false) {
    super(message);
    this.isFinal = isFinal;
  }
}

/** This worker is not to do it; others may. */
export class NotMine extends Error {
  override readonly name = 'NotMine';
}

/** Rejects with `NotMine`, `JobFailure`, or with what the gateway refuses. */
export async function remake(job: LeasedJob, options: RemakeOptions): Promise<Done> {
  const { connection, tenant, wrapper, signal } = options;
  if (job.recipe === null) {
    throw new NotMine('it has no recipe any more, or one in tags that this worker may not read');
  }
  checkTrust(job.recipe, options);
  const recipe = await fetchRecipe(connection, job.recipe);
  if (typeof recipe === 'string') throw new JobFailure(recipe);
  const wanted = fullName(tenant, job.bucket);
  const index = recipe.outputs.findIndex(
    ({ bucket = job.bucket, key }) => fullName(tenant, bucket) === wanted && key === job.key,
  );
  if (index < 0) throw new JobFailure('its recipe does not make it', true);
  if (recipe.container !== undefined && wrapper === undefined) {
    throw new NotMine('its recipe wants a container: say by --with what runs it');
  }
  const folder = await mkdtemp(join(tmpdir(), 'bursar-recipe-'));
  try {
    const environment = await layOut(connection, folder, recipe, signal);
    await run(folder, recipe, environment, options);
    await using made = await openMade(folder, String(index + 1));
    return await upload(connection, job, made);
  } finally {
    // What is left there of a command that has not ended undoes nothing.
    await rm(folder, { recursive: true, force: true }).catch(() => {});
  }
}

/** Throws `NotMine` for a recipe that the worker's owner has not said to trust. */
function checkTrust(said: string, { tenant, trusted }: RemakeOptions): void {
  const place = readRecipePlace(said);
  if (typeof place === 'string') throw new JobFailure(place, true);
  const inFull = (name: string) =>
    name.replace(/^s3:\/\/([^/]+)/, (_, bucket: string) => `s3://${fullName(tenant, bucket)}`);
  const name = place.kind === 'inline' ? 'inline' : `s3://${place.bucket}/${place.key}`;
  const fits = (one: string) => isBelow(inFull(name), inFull(one));
  if (place.kind === 'inline' ? trusted.includes(name) : trusted.some(fits)) return;
  throw new NotMine(`this worker does not trust the recipe ${name}`);
}

/** A place is a bucket, a folder, or an object: `s3://a/b` is not below `s3://a/b2`'s folder. */
function isBelow(name: string, place: string): boolean {
  const folder = place.endsWith('/') ? place : `${place}/`;
  return name === place || name.startsWith(folder);
}

/** Fetches the inputs; gives the variables that the command finds. */
async function layOut(
  connection: S3Connection,
  folder: string,
  recipe: Recipe,
  signal: AbortSignal,
): Promise<Record<string, string>> {
  for (const name of ['in', 'out', 'work']) await mkdir(join(folder, name));
  const environment: Record<string, string> = {};
  for (const [i, input] of recipe.inputs.entries()) {
    const path = join(folder, 'in', String(i + 1));
    await fetchInput(connection, input, path, signal);
    environment[`RECIPE_INPUT_${i + 1}`] = path;
  }
  recipe.outputs.forEach((_, i) => {
    environment[`RECIPE_OUTPUT_${i + 1}`] = join(folder, 'out', String(i + 1));
  });
  if (recipe.container !== undefined) environment.RECIPE_CONTAINER = recipe.container;
  return environment;
}

async function fetchInput(
  connection: S3Connection,
  { bucket, key, versionId, sha256 }: RecipeInput,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const hash = createHash('sha256');
  const hashing = new Transform({
    transform(piece: Buffer, _, done) {
      hash.update(piece);
      done(null, piece);
    },
  });
  const pieces = new S3Bucket(connection, bucket).download(key, versionId);
  const name = `the input s3://${bucket}/${key}`;
  try {
    await pipeline(Readable.from(pieces), hashing, createWriteStream(path), { signal });
  } catch (error) {
    if (!(error instanceof S3Refusal)) throw error;
    const { code, reason, status } = error;
    throw new S3Refusal({ code, reason: `${name}: ${reason}` }, status);
  }
  if (hash.digest('hex') === sha256) return;
  throw new JobFailure(`${name} has other bytes than the recipe means`);
}

const errorBytesMax = 200;
/** For what it said on standard error before it ended. */
const lastWordsMsMax = 1000;
const killedMsMax = 10_000;

/** Rejects with `JobFailure` unless the command succeeds. */
async function run(
  folder: string,
  { command }: Recipe,
  environment: Record<string, string>,
  { wrapper, timeoutMs, signal }: RemakeOptions,
): Promise<void> {
  const [file = '', ...args] = wrapper === undefined ? command : [wrapper, ...command];
  const child = spawn(file, args, {
    cwd: join(folder, 'work'),
    env: {
      ...readCommandEnvironment(),
      HOME: join(folder, 'work'),
      TMPDIR: join(folder, 'work'),
      ...environment,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
    // What it starts ends with it.
    detached: true,
  });
  const givingUp = new AbortController();
  const end = () => {
    endGroup(child);
    // A disk or a file server may keep what was killed.
    setTimeout(() => givingUp.abort(), killedMsMax).unref();
  };
  const timer = setTimeout(end, timeoutMs);
  signal.addEventListener('abort', end);
  let said = '';
  child.stderr?.on('data', (piece: Buffer) => {
    said = (said + piece.toString('utf8')).slice(-errorBytesMax);
  });
  const closed = once(child, 'close').catch(() => {});
  try {
    if (signal.aborted) end();
    const exited = once(child, 'exit', { signal: givingUp.signal });
    const [code, how] = (await exited) as [number | null, string | null];
    // What it has left behind in a group of its own may hold its standard error for ever.
    await Promise.race([closed, sleep(lastWordsMsMax)]);
    if (signal.aborted) throw new JobFailure('the lease has ended');
    if (code === 0) return;
    const ended = code === null ? `was ended by ${how}` : `ended with ${code}`;
    throw new JobFailure(`the command ${ended}: ${said.trim()}`);
  } catch (error) {
    if (error instanceof JobFailure) throw error;
    throw new JobFailure(`cannot run ${file}: ${(error as Error).message}`);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
    child.stderr?.destroy();
    endGroup(child);
  }
}

function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

/** Rejects with `JobFailure` unless it is a file in the folder for outputs: no link, no pipe. */
async function openMade(folder: string, name: string): Promise<FileHandle> {
  const out = join(folder, 'out');
  const missing = new JobFailure('the command has not made it');
  const isThere = (await realpath(out).catch(() => '')) === join(await realpath(folder), 'out');
  if (!isThere) throw missing;
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(join(out, name), flags).catch(() => null);
  if (file === null) throw missing;
  if ((await file.stat()).isFile()) return file;
  await file.close();
  throw missing;
}

/** Rejects with `JobFailure` where it is not what was lost. */
async function upload(connection: S3Connection, job: LeasedJob, made: FileHandle): Promise<Done> {
  const { size: sizeBytes } = await made.stat();
  const bytes = () =>
    sizeBytes === 0
      ? Readable.from([])
      : made.createReadStream({ start: 0, end: sizeBytes - 1, autoClose: false });
  const hash = createHash('sha256');
  for await (const piece of bytes()) hash.update(piece as Buffer);
  const sha256 = hash.digest('hex');
  const other = `the command has made other bytes, of the SHA-256 ${sha256}`;
  const isOther = job.sha256 !== null && job.sha256 !== sha256;
  // Without versioning they would take the place of what is lost, so the gateway takes none.
  if (isOther && job.versionId === 'null') throw new JobFailure(other, true);
  const given = job.headers as Record<string, string>;
  const headers = { ...given, 'x-bursar-remakes': String(job.id) };
  const bucket = new S3Bucket(connection, job.bucket);
  const answer = await bucket.upload(job.key, { bytes: bytes(), sizeBytes, sha256 }, headers);
  if (answer.status === 412) {
    throw new JobFailure(isOther ? other : refusedBy(answer.text, 412).message, true);
  }
  if (answer.status !== 200) throw refusedBy(answer.text, answer.status);
  if (answer.headers['x-bursar-remade'] === undefined) {
    throw new JobFailure(`${other}: they are a new version`, true);
  }
  return { sha256, receipt: answer.headers['x-bursar-receipt']?.toString() ?? null };
}
