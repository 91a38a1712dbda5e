// Native API: the objects of a bucket that fit a query. It is described here with the other calls,
// and answered as a listing of S3's is (gateway/find/).
import type { FastifyInstance } from 'fastify';
import { findQuery, foundObjects } from '../find/find-schema.ts';
import type { NativeDeps } from './deps.ts';
import { schemaOf } from './openapi.ts';

const findRoute = {
  method: 'GET',
  url: '/_/v1/tenants/:t/buckets/:bucket/objects',
  operation: 'FindObjects',
  summary:
    'Objects of a bucket that fit a query, in the order of keys: of those that the caller may ' +
    'list and read. A page looks at 1000 objects, at the price of a listing; it may be empty and ' +
    'have a `next`.',
  query: findQuery,
  answer: foundObjects,
} as const;

export function addFind(native: FastifyInstance, deps: NativeDeps): void {
  native.route({
    ...{ method: findRoute.method, url: findRoute.url, schema: schemaOf(findRoute) },
    // Nothing of it is read before it is known who asks.
    validatorCompiler: () => () => true,
    handler: (request, reply) => {
      reply.hijack();
      deps.serveFind(request);
    },
  });
}
