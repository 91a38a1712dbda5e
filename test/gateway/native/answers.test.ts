// What commands take the gateway's answers for is what the schemas of the routes say of them. The
// compiler decides that, with the rest of the tests (`npm run check`): each line below that must
// not compile is expected not to.
import { describe, expectTypeOf, it } from 'vitest';
import type { Answers } from '#bursar/gateway/native/routes.js';

describe('the types of answers', () => {
  it('have what the schema of an answer has, and nothing else', () => {
    expectTypeOf<Answers['GetTenant']>().toHaveProperty('recordReads');
    expectTypeOf<Answers['GetTenant']['defaultStore']>().toEqualTypeOf<string | null>();
    // @ts-expect-error: no tenant is answered with a colour.
    expectTypeOf<Answers['GetTenant']['colour']>().toBeUndefined();
  });

  it('have lists, choices and what may be absent', () => {
    expectTypeOf<Answers['ListGroups']['groups'][number]['name']>().toEqualTypeOf<string>();
    expectTypeOf<Answers['GetPrincipal']['kind']>().toEqualTypeOf<'person' | 'robot'>();
    expectTypeOf<Answers['GetGrant']['bucket']>().toEqualTypeOf<string | undefined>();
    expectTypeOf<Answers['GetGroup']['members']>().toEqualTypeOf<string[]>();
    // @ts-expect-error: there is no such operation.
    expectTypeOf<Answers['GetColour']>().toBeUndefined();
  });
});
