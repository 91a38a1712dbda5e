// `bursar recipe`: how objects are made of others, written down, shown, and carried out.
import { createHash } from 'node:crypto';
import { type Command, InvalidArgumentError } from 'commander';
import { CommandFailure } from '../../core/command-failure.ts';
import { printable } from '../../core/printable.ts';
import { parseRecipe, type Recipe, type RecipeInput } from '../../core/recipe.ts';
import { findTenant } from '../bucket-names.ts';
import type { CommandFlags } from '../command-arguments.ts';
import { findConnection } from '../find-connection.ts';
import { print, printJson, writeOutput } from '../output.ts';
import { S3Bucket, type S3Connection } from '../s3-bucket.ts';
import { findOwnPlace, fullName } from './own-place.ts';
import { linesOf, type Node, problemsOf, RecipeTree, readRecipe } from './recipe-tree.ts';
import { RecipeWorker } from './recipe-worker.ts';

const createHelp = `
The command finds the path of each input in RECIPE_INPUT_1, RECIPE_INPUT_2 …, and writes its outputs
to the paths in RECIPE_OUTPUT_1 ….

  bursar recipe create hist.json --input s3://raw/run7.csv --output s3://derived/run7.hist \\
    -- sh -c 'cut -d, -f2 "$RECIPE_INPUT_1" | sort | uniq -c > "$RECIPE_OUTPUT_1"'
  aws s3 cp hist.json s3://recipes/hist.json
  aws s3 cp run7.hist s3://derived/run7.hist --storage-class ONEZONE_IA \\
    --metadata bursar-recipe=s3://recipes/hist.json`;

const workerHelp = `
It runs commands that others have written: those of recipes in the places that --trust names, and no
others. --with names a program that runs every command, as in a container: it gets the command as
its arguments, and the image in RECIPE_CONTAINER if the recipe names one. With --unconfined commands
are run as they are, and can read all that you can, also the keys of the worker.

  bursar recipe worker --bucket s3://derived --trust s3://recipes/ --with ./in-container.sh`;

interface CreateFlags {
  input: string[];
  output: string[];
  container?: string;
}

interface WorkerFlags {
  bucket?: string;
  trust: string[];
  with?: string;
  unconfined?: boolean;
  parallel: number;
  visibility: number;
  timeout: number;
  once?: boolean;
}

export function addRecipeCommands(program: Command): void {
  const recipe = program
    .command('recipe')
    .description('how objects are made of others, and to make lost ones again');
  recipe
    .command('create')
    .argument('<file>', 'where to write it')
    .argument('<command...>', 'behind --: the program that makes the outputs, and its arguments')
    .description('write a recipe down, with the versions and digests of its inputs')
    .option('--input <place>', 's3://BUCKET/KEY, maybe with ?versionId=ID; once each', collect, [])
    .requiredOption('--output <place>', 's3://BUCKET/KEY; once each', collect, [])
    .option('--container <image>', 'the image that the command runs in: NAME@sha256:DIGEST')
    .addHelpText('after', createHelp)
    .action(async (file: string, given: string[], flags: CreateFlags, command: Command) => {
      const made = await create(connectionOf(command), given, flags);
      writeOutput(file, `${JSON.stringify(made, null, 2)}\n`, { mode: 0o644, ifExists: 'refuse' });
      if (command.optsWithGlobals<CommandFlags>().json) printJson(made);
      else print(`${file}: ${made.inputs.length} inputs, ${made.outputs.length} outputs`);
    });
  recipe
    .command('show <object>')
    .description('show the recipe of an object, also of one that is lost: s3://BUCKET/KEY')
    .action(async (place: string, _: object, command: Command) => {
      const connection = connectionOf(command);
      const { recipe: said } = await (await treeOf(connection)).tell(await wantedOf(place));
      if (said === null) throw new CommandFailure('failed', `${place} has no recipe`);
      const found = await readRecipe(connection, said);
      if (typeof found === 'string') throw new CommandFailure('failed', found);
      printJson(found);
    });
  recipe
    .command('explain <object>')
    .description('show what an object is made of, and that of what; 1: something is missing')
    .action(async (place: string, _: object, command: Command) => {
      const node = await (await treeOf(connectionOf(command))).build(await wantedOf(place));
      if (command.optsWithGlobals<CommandFlags>().json) printJson(node);
      else for (const line of linesOf(node)) print(printable(line));
      const [problem] = problemsOf(node);
      if (problem !== undefined) throw new CommandFailure('failed', printable(problem));
    });
  addWorker(recipe);
}

function addWorker(recipe: Command): void {
  recipe
    .command('worker')
    .description('make lost objects again by their recipes, as they are found')
    .option(
      '--bucket <place>',
      's3://BUCKET or s3://BUCKET/PREFIX (default: all that you may write)',
    )
    .requiredOption(
      '--trust <place>',
      'recipes that are run: below s3://BUCKET/PREFIX, or `inline`; once each',
      collect,
      [],
    )
    .option('--with <program>', 'runs all commands, as in a container: see below')
    .option('--unconfined', 'run commands as they are, with all that you may')
    .option('--parallel <count>', 'jobs at once', parseCount(1, 64), 2)
    .option(
      '--visibility <seconds>',
      'how long a job is held at a time',
      parseCount(10, 43_200),
      900,
    )
    .option('--timeout <seconds>', 'a command ends after that', parseCount(1, 604_800), 21_600)
    .option('--once', 'end when nothing is due any more')
    .addHelpText('after', workerHelp)
    .action(async (flags: WorkerFlags, command: Command) => {
      if ((flags.with === undefined) === (flags.unconfined !== true)) {
        throw new CommandFailure('usage', 'give either --with PROGRAM or --unconfined');
      }
      const connection = connectionOf(command);
      const { path, query } = await findOwnPlace(connection, flags.bucket);
      const tenant = path[1] as string;
      const asJson = command.optsWithGlobals<CommandFlags>().json === true;
      const worker = new RecipeWorker({
        ...{ connection, tenant, path, query, asJson, trusted: flags.trust, wrapper: flags.with },
        ...{ parallel: flags.parallel, visibilityMs: flags.visibility * 1000 },
        ...{ timeoutMs: flags.timeout * 1000, isOnce: flags.once === true },
      });
      for (const signal of ['SIGINT', 'SIGTERM'] as const)
        process.once(signal, () => worker.stop());
      const { failed, left } = await worker.run();
      if (flags.once && failed + left > 0) {
        throw new CommandFailure('failed', `${failed} jobs failed, and ${left} were left`);
      }
    });
}

function connectionOf(command: Command): S3Connection {
  return findConnection(command.optsWithGlobals<CommandFlags>());
}

async function treeOf(connection: S3Connection): Promise<RecipeTree> {
  return new RecipeTree(connection, await findTenant(connection));
}

/** Throws `CommandFailure` for what names no object. */
async function wantedOf(text: string): Promise<Omit<RecipeInput, 'sha256'>> {
  const [, bucket, key, versionId] =
    /^s3:\/\/([^/]+)\/(.+?)(?:\?versionId=(null|[0-9a-f]{32}))?$/s.exec(text) ?? [];
  if (bucket === undefined || key === undefined) {
    throw new CommandFailure('usage', `${text} must be s3://BUCKET/KEY`);
  }
  return { bucket, key, ...(versionId === undefined ? {} : { versionId }) };
}

async function create(
  connection: S3Connection,
  command: string[],
  { input, output, container }: CreateFlags,
): Promise<Recipe> {
  const tenant = await findTenant(connection);
  const tree = new RecipeTree(connection, tenant);
  // Whoever carries it out may be of another tenant.
  const inFull = async (text: string) => {
    const wanted = await wantedOf(text);
    return { ...wanted, bucket: fullName(tenant, wanted.bucket) };
  };
  const outputs = await Promise.all(output.map(inFull));
  const inputs: RecipeInput[] = [];
  for (const place of input) {
    const wanted = await inFull(place);
    const node = await tree.build(wanted);
    refuseUnfit(node, outputs.map(nameOf), tenant);
    const { versionId, sha256 } = await tree.tell(wanted);
    const version = versionId === 'null' ? {} : { versionId };
    const digest = sha256 ?? (await digestOf(connection, { ...wanted, ...version }));
    inputs.push({ ...wanted, ...version, sha256: digest });
  }
  const made = { inputs, command, outputs, ...(container === undefined ? {} : { container }) };
  const parsed = parseRecipe(JSON.stringify(made));
  if (typeof parsed === 'string') throw new CommandFailure('usage', parsed);
  return made;
}

/** Throws `CommandFailure` for an input that is missing, or made of what is to be made. */
function refuseUnfit(node: Node, outputs: readonly string[], tenant: string): void {
  const [problem] = problemsOf(node);
  if (problem !== undefined) throw new CommandFailure('failed', printable(problem));
  const visit = (one: Node): void => {
    const { bucket, key, versionId = 'null' } = one;
    // A new version may well be made of an older one.
    if (
      versionId === 'null' &&
      outputs.includes(nameOf({ key, bucket: fullName(tenant, bucket) }))
    ) {
      const name = `s3://${nameOf(one)}`;
      throw new CommandFailure('failed', printable(`${name} would be made of itself`));
    }
    one.inputs.forEach(visit);
  };
  visit(node);
}

function nameOf({ bucket, key }: { bucket: string; key: string }): string {
  return `${bucket}/${key}`;
}

/** Of what was uploaded in parts, whose digest the gateway does not know. */
async function digestOf(
  connection: S3Connection,
  { bucket, key, versionId }: Omit<RecipeInput, 'sha256'>,
): Promise<string> {
  const hash = createHash('sha256');
  const pieces = new S3Bucket(connection, bucket).download(key, versionId);
  for await (const piece of pieces) hash.update(piece);
  return hash.digest('hex');
}

function collect(value: string, before: string[]): string[] {
  return [...before, value];
}

function parseCount(min: number, max: number): (value: string) => number {
  return (value) => {
    const count = /^\d{1,9}$/.test(value) ? Number(value) : -1;
    if (count < min || count > max) throw new InvalidArgumentError(`Must be ${min} to ${max}.`);
    return count;
  };
}
