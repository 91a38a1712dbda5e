// A recipe says how an object is made of others: docs/users/recipes.md has its form. Invariant:
// what is parsed has nothing that is not said there, and each part is bounded; so whoever carries
// it out gets no surprise from whoever wrote it. Pure.
import { isObject, parseJson } from './json.ts';

/** Under this name a recipe is attached: as user metadata, or as a tag. */
export const recipeName = 'bursar-recipe';

export const recipeBytesMax = 64 * 1024;
const inputsMax = 100;
const outputsMax = 100;
const argumentsMax = 100;
const argumentLengthMax = 8192;
const keyBytesMax = 1024;

export interface RecipeInput {
  /** As S3 clients name it. */
  bucket: string;
  key: string;
  /** The version; absent: the newest, which has to have the digest. */
  versionId?: string;
  /** Of all its bytes, hex. */
  sha256: string;
}

export interface RecipeOutput {
  /** Absent: that of the object that is made again. */
  bucket?: string;
  key: string;
}

export interface Recipe {
  inputs: RecipeInput[];
  /** The program and its arguments. */
  command: string[];
  /** The image that it runs in, by digest; absent: none is needed. */
  container?: string;
  outputs: RecipeOutput[];
}

/** Gives the recipe, or in words why the text is none. */
export function parseRecipe(text: string): Recipe | string {
  if (Buffer.byteLength(text) > recipeBytesMax) {
    return `A recipe has at most ${recipeBytesMax} bytes.`;
  }
  const value = parseJson(text);
  if (!isObject(value)) return 'A recipe is a JSON object.';
  // Which of the two counts is not the same for all who read it.
  if (countNames(text) !== countMembers(value)) return 'A member is there twice.';
  const unknown = strange(value, ['inputs', 'command', 'container', 'outputs']);
  if (unknown !== null) return unknown;
  const { command, container, outputs } = value;
  const inputs: unknown = value.inputs ?? [];
  if (!Array.isArray(inputs) || inputs.length > inputsMax) {
    return `\`inputs\` is a list of at most ${inputsMax}.`;
  }
  for (const [i, one] of inputs.entries()) {
    const wrong = wrongInput(one);
    if (wrong !== null) return `Input ${i + 1}: ${wrong}`;
  }
  if (!isCommand(command)) {
    return (
      `\`command\` is a list of 1 to ${argumentsMax} texts of at most ${argumentLengthMax} ` +
      'characters, the program first.'
    );
  }
  if (container !== undefined && !isImage(container)) {
    return '`container` is an image by its digest: `NAME@sha256:` and 64 hexadecimal digits.';
  }
  if (!Array.isArray(outputs) || outputs.length < 1 || outputs.length > outputsMax) {
    return `\`outputs\` is a list of 1 to ${outputsMax}.`;
  }
  for (const [i, one] of outputs.entries()) {
    const wrong = wrongOutput(one);
    if (wrong !== null) return `Output ${i + 1}: ${wrong}`;
  }
  const recipe = { inputs, command, outputs } as Recipe;
  if (container !== undefined) recipe.container = container;
  return recipe;
}

/** Of JSON: strings that a colon follows. */
function countNames(text: string): number {
  let count = 0;
  for (const [, colon] of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/gs)) if (colon) count++;
  return count;
}

/** Of all objects in it. Does not go deeper for what is nested deeper. */
function countMembers(value: unknown): number {
  let count = 0;
  const left = [value];
  while (left.length > 0) {
    const one = left.pop();
    if (typeof one !== 'object' || one === null) continue;
    if (!Array.isArray(one)) count += Object.keys(one).length;
    for (const inner of Object.values(one)) left.push(inner);
  }
  return count;
}

function wrongInput(value: unknown): string | null {
  if (!isObject(value)) return 'it is no object.';
  const unknown = strange(value, ['bucket', 'key', 'versionId', 'sha256']);
  if (unknown !== null) return unknown;
  const { bucket, key, versionId, sha256 } = value;
  if (!isBucket(bucket)) return '`bucket` is the name of a bucket, as S3 clients write it.';
  if (!isKey(key)) return `\`key\` is a key of at most ${keyBytesMax} bytes.`;
  if (versionId !== undefined && !isVersion(versionId)) return '`versionId` is no id of a version.';
  if (typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256)) return null;
  return '`sha256` is its SHA-256, 64 hexadecimal digits in lower case.';
}

function wrongOutput(value: unknown): string | null {
  if (!isObject(value)) return 'it is no object.';
  const unknown = strange(value, ['bucket', 'key']);
  if (unknown !== null) return unknown;
  const { bucket, key } = value;
  if (bucket !== undefined && !isBucket(bucket)) {
    return '`bucket` is the name of a bucket, as S3 clients write it.';
  }
  return isKey(key) ? null : `\`key\` is a key of at most ${keyBytesMax} bytes.`;
}

function strange(value: Record<string, unknown>, known: readonly string[]): string | null {
  const name = Object.keys(value).find((one) => !known.includes(one));
  return name === undefined ? null : `There is no member \`${name.slice(0, 100)}\`.`;
}

function isCommand(value: unknown): boolean {
  if (!Array.isArray(value) || value.length < 1 || value.length > argumentsMax) return false;
  const fits = (one: unknown) =>
    typeof one === 'string' && one.length <= argumentLengthMax && !one.includes('\0');
  return value.every(fits) && value[0] !== '';
}

function isImage(value: unknown): value is string {
  return typeof value === 'string' && /^[\w./:-]{1,255}@sha256:[0-9a-f]{64}$/.test(value);
}

function isBucket(value: unknown): value is string {
  return typeof value === 'string' && /^(?:[\w.@-]{1,128}:)?[a-z0-9.-]{3,63}$/.test(value);
}

function isKey(value: unknown): value is string {
  if (typeof value !== 'string' || value === '' || value.includes('\0')) return false;
  return value.isWellFormed() && Buffer.byteLength(value) <= keyBytesMax;
}

function isVersion(value: unknown): boolean {
  return typeof value === 'string' && /^(?:null|[0-9a-f]{32})$/.test(value);
}

/** Where a recipe is: in an object, or in the text itself. */
export type RecipePlace =
  | { kind: 'object'; bucket: string; key: string; versionId: string | undefined }
  | { kind: 'inline'; recipe: Recipe };

/** What an object says of its recipe; or in words why that means nothing. */
export function readRecipePlace(text: string): RecipePlace | string {
  if (text.startsWith('{')) {
    const recipe = parseRecipe(text);
    return typeof recipe === 'string' ? recipe : { kind: 'inline', recipe };
  }
  const [, bucket, key, versionId] =
    /^s3:\/\/([^/]+)\/(.+?)(?:\?versionId=(null|[0-9a-f]{32}))?$/s.exec(text) ?? [];
  if (isBucket(bucket) && isKey(key)) return { kind: 'object', bucket, key, versionId };
  return 'A recipe is a JSON object, or where one is: s3://BUCKET/KEY, maybe with ?versionId=ID.';
}

/** What an object says of its recipe, in its metadata or else in its tags; undefined: nothing. */
export function attachedRecipe({
  metadata,
  tags = [],
}: {
  metadata: Readonly<Record<string, string>>;
  tags?: readonly (readonly [string, string])[];
}): string | undefined {
  if (Object.hasOwn(metadata, recipeName)) return metadata[recipeName];
  return tags.find(([name]) => name === recipeName)?.[1];
}
