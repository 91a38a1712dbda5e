// What the native API needs of the Fastify instance it is added to, as these cannot be set later.
import AjvCompiler, { type ValidatorFactory } from '@fastify/ajv-compiler';
import SerializerSelector, { type SerializerFactory } from '@fastify/fast-json-stringify-compiler';
import type { FastifyServerOptions } from 'fastify';
import { Refusal } from '../../core/errors.ts';
import { targetBytesMax } from '../../core/limits.ts';
import { sendProblem } from './problem.ts';

const buildValidator = AjvCompiler();
const buildSerializer = SerializerSelector();

/**
 * Compiles the schema of a route when it is first asked for: all of them at once are a third of a
 * start, and most are of calls that are never made. What a schema accepts, and what is said of what
 * it does not, is what Fastify's own compilers would say.
 */
const lazyCompilers = {
  buildValidator: ((...given: Parameters<typeof buildValidator>) => {
    const compile = buildValidator(...given);
    return (...route: Parameters<typeof compile>) => {
      let compiled: ReturnType<typeof compile> | undefined;
      const validate = (data: unknown) => {
        compiled ??= compile(...route);
        const isValid = compiled(data);
        validate.errors = compiled.errors;
        return isValid;
      };
      validate.errors = undefined as ReturnType<typeof compile>['errors'];
      return validate;
    };
  }) as unknown as ValidatorFactory,
  buildSerializer: ((...given: Parameters<typeof buildSerializer>) => {
    const compile = buildSerializer(...given);
    return (...route: Parameters<typeof compile>) => {
      let compiled: ReturnType<typeof compile> | undefined;
      return (document: unknown) => {
        compiled ??= compile(...route);
        return compiled(document);
      };
    };
  }) as SerializerFactory,
};

export const nativeServerOptions = {
  // Nothing is dropped or converted silently; the first violation is enough.
  ajv: {
    customOptions: {
      removeAdditional: false,
      coerceTypes: false,
      useDefaults: true,
      allErrors: false,
      /** A message about a name says which. */
      verbose: true,
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
