// Compiles the schema of a route when it is first asked for: all of them at once are a third of a
// start, and most are of calls that are never made. Invariant: what a schema lets pass, and what is
// said of what it does not, are the same as if Fastify's own compilers had been asked at the start.
import AjvCompiler, { type ValidatorFactory } from '@fastify/ajv-compiler';
import SerializerSelector, { type SerializerFactory } from '@fastify/fast-json-stringify-compiler';

const buildValidator = AjvCompiler();
const buildSerializer = SerializerSelector();

/** For Fastify's `schemaController.compilersFactory`. */
export const lazyCompilers = {
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
