// Makes src/cli/api-types.ts, the answers of the native API as the commands read them, of the
// routes' own description. `npm run api-types` does that; a test says when it is due.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describeRoutes } from '#bursar/gateway/native/openapi.js';
import { routes } from '#bursar/gateway/native/routes.js';

const file = 'src/cli/api-types.ts';
const biome = fileURLToPath(new URL('../node_modules/.bin/biome', import.meta.url));

async function makeApiTypes() {
  const answers = answersOf(await describeRoutes(routes));
  const known = new Map();
  for (const { operation, schema } of answers) {
    const text = typeOf(schema, new Map());
    if (schema.properties && !known.has(text)) known.set(text, operation);
  }
  const members = answers.map(({ operation, call, schema }) => {
    const own = known.get(typeOf(schema, new Map())) === operation;
    return (
      `/** \`${call}\` */\n${operation}: ` +
      `${own ? bodyOf(schema, known) : typeOf(schema, known)};`
    );
  });
  const head =
    '// What the native API answers, by operation. Made by `npm run api-types`: not to be edited.';
  const text = `${head}
export interface Answers { ${members.join('\n')} }`;
  return execFileSync(biome, ['format', `--stdin-file-path=${file}`], { input: text }).toString();
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

/** `known`: the operations whose whole answers are of a type. */
function typeOf(schema, known) {
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map((one) => typeOf(one, known)).join(' | ');
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if ('const' in schema) return JSON.stringify(schema.const);
  const types = [schema.type].flat();
  return types.map((type) => typeOfOne({ ...schema, type }, known)).join(' | ');
}

function typeOfOne(schema, known) {
  switch (schema.type) {
    case 'integer':
    case 'number':
      return 'number';
    case 'string':
    case 'boolean':
    case 'null':
      return schema.type;
    case 'array':
      return `(${typeOf(schema.items ?? {}, known)})[]`;
    case 'object': {
      const operation = known.get(bodyOf(schema, new Map()));
      return operation ? `Answers['${operation}']` : bodyOf(schema, known);
    }
    default:
      return 'unknown';
  }
}

function bodyOf({ properties, required = [], additionalProperties }, known) {
  if (!properties) return `Record<string, ${typeOf(Object(additionalProperties), known)}>`;
  const members = Object.entries(properties).map(([name, schema]) => {
    const mark = required.includes(name) ? '' : '?';
    return `${JSON.stringify(name)}${mark}: ${typeOf(schema, known)};`;
  });
  return `{ ${members.join(' ')} }`;
}

process.stdout.write(await makeApiTypes());
