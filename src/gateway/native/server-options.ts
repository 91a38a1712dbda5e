// What the native API needs of the Fastify instance it is added to, as these cannot be set later.
import type { FastifyServerOptions } from 'fastify';
import { Refusal } from '../../core/errors.ts';
import { targetBytesMax } from '../../core/limits.ts';
import { lazyCompilers } from './lazy-schemas.ts';
import { sendProblem } from './problem.ts';

export const nativeServerOptions = {
  // Nothing is dropped or converted silently; the first violation is enough.
  ajv: {
    customOptions: {
      removeAdditional: false,
      coerceTypes: false,
      useDefaults: true,
      allErrors: false,
    },
  },
  schemaController: { compilersFactory: lazyCompilers },
  // The target as a whole is bounded; a percent-encoded account is longer than Fastify's 100.
  routerOptions: { maxParamLength: targetBytesMax },
  /** Paths that no router can read, such as `/_/v1/tenants/%zz`. */
  frameworkErrors: (error, request, reply) => {
    sendProblem(request, reply, new Refusal('InvalidURI', { cause: error }));
  },
} as const satisfies FastifyServerOptions;
