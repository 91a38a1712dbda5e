// Makes src/cli/api-types.ts, the answers of the native API that the commands read, of the
// routes' own description. `npm run api-types` does that; a test says when it is due.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describeRoutes } from '#bursar/gateway/native/openapi.js';
import { routes } from '#bursar/gateway/native/routes.js';

const folder = 'src/cli';
const biome = fileURLToPath(new URL('../node_modules/.bin/biome', import.meta.url));

async function makeApiTypes() {
  const answers = answersOf(await describeRoutes(routes));
  const read = readByCommands();
  // Where a shape is written first: there it is written out, and elsewhere that place is named.
  const places = new Map();
  const members = answers
    .filter(({ operation }) => read.has(operation))
    .map(({ operation, call, schema }) => {
      const type = typeOf(schema, `Answers['${operation}']`, places);
      return `/** \`${call}\` */\n${operation}: ${type};`;
    });
  const head =
    '// What the native API answers to commands, by operation. Made by `npm run api-types`: not ' +
    'to be\n// edited.';
  const text = `${head}
export interface Answers { ${members.join('\n')} }`;
  return execFileSync(biome, ['format', `--stdin-file-path=${folder}/api-types.ts`], {
    input: text,
  }).toString();
}

/** The operations whose answers commands read. */
function readByCommands() {
  const commands = readdirSync(folder).filter((name) => name !== 'api-types.ts');
  const texts = commands.map((name) => readFileSync(`${folder}/${name}`, 'utf8'));
  return new Set(texts.join('\n').match(/(?<=Answers\[')\w+(?='\])/g));
}

/** The answers of success that are JSON. */
function answersOf({ paths }) {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { operationId: operation, responses }]) => {
      const [, success] = Object.entries(responses).find(([status]) => /^2/.test(status)) ?? [];
      const schema = success?.content?.['application/json']?.schema;
      if (!schema || schema.type === 'null') return [];
      return [{ operation, call: `${method.toUpperCase()} ${path}`, schema }];
    }),
  );
}

/** `place`: how the type is named; absent: it cannot be, as it is one of several. */
function typeOf(schema, place, places) {
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map((one) => typeOf(one, undefined, places)).join(' | ');
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if ('const' in schema) return JSON.stringify(schema.const);
  const types = [schema.type].flat();
  const own = types.length === 1 ? place : undefined;
  return types.map((type) => typeOfOne({ ...schema, type }, own, places)).join(' | ');
}

function typeOfOne(schema, place, places) {
  switch (schema.type) {
    case 'integer':
    case 'number':
      return 'number';
    case 'string':
    case 'boolean':
    case 'null':
      return schema.type;
    case 'array':
      return `(${typeOf(schema.items ?? {}, place && `${place}[number]`, places)})[]`;
    case 'object': {
      const shape = bodyOf(schema, undefined, new Map());
      const first = places.get(shape);
      if (first) return first;
      if (schema.properties && place) places.set(shape, place);
      return bodyOf(schema, place, places);
    }
    default:
      return 'unknown';
  }
}

function bodyOf({ properties, required = [], additionalProperties }, place, places) {
  if (!properties)
    return `Record<string, ${typeOf(Object(additionalProperties), undefined, places)}>`;
  const members = Object.entries(properties).map(([name, schema]) => {
    const isRequired = required.includes(name);
    const own = isRequired && place ? `${place}['${name}']` : undefined;
    return `${JSON.stringify(name)}${isRequired ? '' : '?'}: ${typeOf(schema, own, places)};`;
  });
  return `{ ${members.join(' ')} }`;
}

process.stdout.write(await makeApiTypes());
