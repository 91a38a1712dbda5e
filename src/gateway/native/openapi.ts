// The native API's description, OpenAPI 3.1, made from the routes' own schemas when it is first
// asked for, since what makes it takes long to load.
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import fastify, { type FastifyInstance, type FastifySchema, type RouteOptions } from 'fastify';
import { problemSchema } from './problem.ts';
import { type NativeRoute, statusOf } from './route.ts';
import { closedObject } from './schemas.ts';

const parameters: Record<string, string> = {
  t: 'Tenant name.',
  p: 'Principal name.',
  g: 'Group name.',
  grant: 'Grant name.',
  mount: 'Mount name.',
  bucket: 'Bucket name.',
  upload: 'Upload id.',
  id: 'Access key id.',
  index: "A record's log index.",
  account: 'Percent-encoded account: `principal:cms%2Falice`.',
};

const document: FastifyDynamicSwaggerOptions['openapi'] = {
  openapi: '3.1.0',
  info: {
    title: 'Bursar native API',
    version: '1',
    description:
      'Administration, usage and records. Requests are signed with AWS Signature Version 4, ' +
      'service `s3`, like those of the S3 API. Errors are problem details (RFC 9457).',
  },
  components: {
    securitySchemes: {
      sigv4: {
        type: 'apiKey',
        in: 'header',
        name: 'authorization',
        description: 'AWS Signature Version 4; `x-amz-content-sha256` covers the body.',
      },
    },
  },
  security: [{ sigv4: [] }],
};

type ShownRoute = Pick<RouteOptions, 'method' | 'url' | 'schema'>;

/** Collects the routes that are added to `native` after this call; gives what describes them. */
export function describeApi(native: FastifyInstance): () => Promise<string> {
  const shown: ShownRoute[] = [];
  native.addHook('onRoute', ({ method, url, schema }) => {
    if (method !== 'HEAD' && !schema?.hide) shown.push({ method, url, schema });
  });
  let description: Promise<string> | undefined;
  return () => {
    description ??= describe(shown).catch((error) => {
      description = undefined;
      throw error;
    });
    return description;
  };
}

/** The document of these routes, JSON. */
async function describe(shown: readonly ShownRoute[]): Promise<string> {
  const { default: swagger } = await import('@fastify/swagger');
  const app = fastify({ exposeHeadRoutes: false });
  // Nothing is asked of it.
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => JSON.stringify);
  await app.register(swagger, { openapi: document });
  for (const route of shown) app.route({ ...route, handler: () => {} });
  await app.ready();
  const text = JSON.stringify(app.swagger());
  await app.close();
  return text;
}

/** What is said of a route, which may be another's than this API's own. */
export type DescribedRoute = Omit<NativeRoute, 'action' | 'run'> &
  Partial<Pick<NativeRoute, 'action'>>;

/** A route's schema: what its requests are checked against and what the description shows. */
export function schemaOf(route: DescribedRoute): FastifySchema {
  const names = [...route.url.matchAll(/:(\w+)/g)].map((match) => match[1] as string);
  const answer = route.answer ?? { type: 'null', description: 'No content.' };
  const success = route.answerType
    ? { description: 'Success.', content: { [route.answerType]: { schema: answer } } }
    : answer;
  const schema: FastifySchema = {
    operationId: route.operation ?? (route.action ?? '').replace('bursar:', ''),
    summary: route.summary,
    querystring: closedObject(route.query ?? {}),
    response: { [statusOf(route)]: success, default: problemContent },
  };
  if (route.body) schema.body = route.body;
  if (names.length > 0) {
    const shown = names.map((name) => [name, { type: 'string', description: parameters[name] }]);
    schema.params = { type: 'object', properties: Object.fromEntries(shown) };
  }
  return schema;
}

const problemContent = {
  description: 'A problem document.',
  content: { 'application/problem+json': { schema: problemSchema } },
};
