// Makes one lost object again: fetches the inputs of its recipe, runs the command in a folder of
// its own, and uploads what that made. Invariants: nothing is run that is not trusted, and nothing
// on inputs that are not, by their SHA-256, those that the recipe means; and the command learns
// nothing of the worker's keys.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Recipe, type RecipeInput, readRecipePlace } from '../../core/recipe.ts';
import { readCommandEnvironment } from '../../server/settings/config.ts';
import { refusedBy, S3Bucket, type S3Connection } from '../s3-bucket.ts';
import { readRecipe } from './recipe-tree.ts';
import type { LeasedJob } from './recipe-worker.ts';

export interface RemakeOptions {
  connection: S3Connection;
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

/** Rejects with `JobFailure`, or with what the gateway refuses. */
export async function remake(job: LeasedJob, options: RemakeOptions): Promise<Done> {
  const { connection, trusted, wrapper, signal } = options;
  if (job.recipe === null) throw new JobFailure('it has no recipe any more', true);
  checkTrust(job.recipe, trusted);
  const recipe = await readRecipe(connection, job.recipe);
  if (typeof recipe === 'string') throw new JobFailure(recipe);
  const index = recipe.outputs.findIndex(
    ({ bucket = job.bucket, key }) => bucket === job.bucket && key === job.key,
  );
  if (index < 0) throw new JobFailure('its recipe does not make it', true);
  if (recipe.container !== undefined && wrapper === undefined) {
    throw new JobFailure('its recipe wants a container: say by --with what runs it');
  }
  const folder = await mkdtemp(join(tmpdir(), 'bursar-recipe-'));
  try {
    const environment = await layOut(connection, folder, recipe, signal);
    await run(folder, recipe, environment, options);
    const made = environment[`RECIPE_OUTPUT_${index + 1}`] as string;
    return await upload(connection, job, made);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Throws `JobFailure` for a recipe that the worker's owner has not said to trust. */
function checkTrust(said: string, trusted: readonly string[]): void {
  const place = readRecipePlace(said);
  if (typeof place === 'string') throw new JobFailure(place, true);
  const name = place.kind === 'inline' ? 'inline' : `s3://${place.bucket}/${place.key}`;
  const fits = (one: string) => (one === 'inline' ? name === one : isBelow(name, one));
  if (trusted.some(fits)) return;
  throw new JobFailure(`this worker does not trust the recipe ${name}`);
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
  await pipeline(Readable.from(pieces), hashing, createWriteStream(path), { signal });
  if (hash.digest('hex') === sha256) return;
  throw new JobFailure(`the input s3://${bucket}/${key} has other bytes than the recipe means`);
}

const errorBytesMax = 200;

/** Rejects with `JobFailure` unless the command succeeds. */
async function run(
  folder: string,
  { command, container }: Recipe,
  environment: Record<string, string>,
  { wrapper, timeoutMs, signal }: RemakeOptions,
): Promise<void> {
  const [file = '', ...args] = container === undefined ? command : [wrapper as string, ...command];
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
  const end = () => endGroup(child);
  const timer = setTimeout(end, timeoutMs);
  signal.addEventListener('abort', end);
  let said = '';
  child.stderr?.on('data', (piece: Buffer) => {
    said = (said + piece.toString('utf8')).slice(-errorBytesMax);
  });
  try {
    if (signal.aborted) end();
    const [code, how] = (await once(child, 'close')) as [number | null, string | null];
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
    end();
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

/** Throws `JobFailure` where it is not what was lost. */
async function upload(connection: S3Connection, job: LeasedJob, path: string): Promise<Done> {
  const made = await stat(path).catch(() => null);
  if (!made?.isFile()) throw new JobFailure('the command has not made it');
  const hash = createHash('sha256');
  for await (const piece of createReadStream(path)) hash.update(piece as Buffer);
  const sha256 = hash.digest('hex');
  const file = { path, sizeBytes: made.size, sha256 };
  const given = job.headers as Record<string, string>;
  const headers = { ...given, 'x-bursar-remakes': String(job.id) };
  const answer = await new S3Bucket(connection, job.bucket).upload(job.key, file, headers);
  if (answer.status !== 200) {
    const { message } = refusedBy(answer.text, answer.status);
    throw new JobFailure(message);
  }
  if (answer.headers['x-bursar-remade'] === undefined) {
    const problem = `the command has made other bytes, which are a new version: ${sha256}`;
    throw new JobFailure(problem, true);
  }
  return { sha256, receipt: answer.headers['x-bursar-receipt']?.toString() ?? null };
}
