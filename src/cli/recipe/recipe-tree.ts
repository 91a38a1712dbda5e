// What an object is made of, and that of what, as its recipes say it. Invariant: a tree ends, also
// where recipes go in circles; what is wrong with an input is said at it.

import { messageOfFailure } from '../../core/command-failure.ts';
import { parseRecipe, type Recipe, type RecipeInput, readRecipePlace } from '../../core/recipe.ts';
import type { Answers } from '../../gateway/native/routes.ts';
import { ApiRefusal, callApi } from '../api-client.ts';
import { S3Bucket, type S3Connection } from '../s3-bucket.ts';
import { shortName } from './own-place.ts';

type Told = Answers['GetRecipe'];

const depthMax = 32;
const nodesMax = 1000;

export interface Node {
  bucket: string;
  key: string;
  versionId?: string;
  /** Where its recipe is; `inline`; null: it has none. */
  recipe: string | null;
  lost: boolean;
  /** In words what is wrong with it; null: nothing is. */
  problem: string | null;
  inputs: Node[];
}

/** What is asked for: an input of a recipe, or an object whose digest is not known before. */
export type Wanted = Pick<RecipeInput, 'bucket' | 'key' | 'versionId'> & { sha256?: string };

export class RecipeTree {
  readonly #connection: S3Connection;
  readonly #tenant: string;
  #nodes = 0;

  constructor(connection: S3Connection, tenant: string) {
    this.#connection = connection;
    this.#tenant = tenant;
  }

  async build(wanted: Wanted, above: readonly string[] = []): Promise<Node> {
    const { key, versionId, sha256 } = wanted;
    const bucket = shortName(this.#tenant, wanted.bucket);
    const name = [bucket, key, ...(versionId === undefined ? [] : [versionId])].join('/');
    const node: Node = {
      ...{ bucket, key, ...(versionId === undefined ? {} : { versionId }) },
      ...{ recipe: null, lost: false, problem: null, inputs: [] },
    };
    const failed = (problem: string): Node => ({ ...node, problem });
    if (above.includes(name)) return failed('it is made of itself');
    if (above.length >= depthMax) return failed(`recipes go deeper than ${depthMax}`);
    if (++this.#nodes > nodesMax) return failed(`there are more than ${nodesMax} objects`);
    let told: Told;
    try {
      told = await this.tell(wanted);
    } catch (error) {
      if (!(error instanceof ApiRefusal) || error.status >= 500) throw error;
      return failed(error.status === 404 ? 'it is not there' : error.reason);
    }
    node.lost = told.lost;
    if (sha256 !== undefined && told.sha256 !== null && told.sha256 !== sha256) {
      return failed(`it has other bytes than the recipe means: ${told.sha256}`);
    }
    if (told.recipe === null) return told.lost ? failed('it is lost, and has no recipe') : node;
    node.recipe = told.recipe.startsWith('{') ? 'inline' : told.recipe;
    const recipe = await readRecipe(this.#connection, told.recipe);
    if (typeof recipe === 'string') return failed(recipe);
    for (const input of recipe.inputs) node.inputs.push(await this.build(input, [...above, name]));
    return node;
  }

  /** What the gateway knows of an object. Rejects with `ApiRefusal`. */
  async tell({ bucket, key, versionId }: Wanted): Promise<Told> {
    const path = ['tenants', this.#tenant, 'recipe'];
    const query = { bucket, key, versionId };
    return (await callApi(this.#connection, { method: 'GET', path, query })).json as Told;
  }
}

/** Gives the recipe that an object names, or in words why there is none. */
export async function readRecipe(connection: S3Connection, said: string): Promise<Recipe | string> {
  try {
    return await fetchRecipe(connection, said);
  } catch (error) {
    return `its recipe cannot be read: ${messageOfFailure(error)}`;
  }
}

/** The same. Rejects with `CommandFailure` where it cannot be read. */
export async function fetchRecipe(
  connection: S3Connection,
  said: string,
): Promise<Recipe | string> {
  const place = readRecipePlace(said);
  if (typeof place === 'string') return place;
  if (place.kind === 'inline') return place.recipe;
  const pieces: Buffer[] = [];
  const bucket = new S3Bucket(connection, place.bucket);
  for await (const piece of bucket.download(place.key, place.versionId)) {
    pieces.push(piece);
    // One byte more than is allowed is enough to be refused.
    if (pieces.reduce((sum, { length }) => sum + length, 0) > 128 * 1024) break;
  }
  return parseRecipe(Buffer.concat(pieces).toString('utf8'));
}

/** What is wrong anywhere in a tree. */
export function problemsOf(node: Node): string[] {
  const own = node.problem === null ? [] : [`s3://${node.bucket}/${node.key}: ${node.problem}`];
  return [...own, ...node.inputs.flatMap(problemsOf)];
}

/** A line for each object, deeper ones further to the right. */
export function linesOf(node: Node, depth = 0): string[] {
  const { bucket, key, versionId, recipe, lost, problem, inputs } = node;
  const version = versionId === undefined ? '' : ` version ${versionId}`;
  const by = recipe === null ? '' : `, by ${recipe}`;
  const state = [lost ? ' LOST' : '', problem === null ? '' : `  ! ${problem}`].join('');
  const line = `${'  '.repeat(depth)}s3://${bucket}/${key}${version}${by}${state}`;
  return [line, ...inputs.flatMap((one) => linesOf(one, depth + 1))];
}
