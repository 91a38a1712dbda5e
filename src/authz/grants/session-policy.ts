// Session policies: what who asks for temporary keys lets them do, in IAM's JSON. Invariant: such a
// policy only takes away; what it allows, the token and the principal must be allowed as well.
// Specification: "Session policies" of the IAM user guide. What of it: docs/formats/policy.md.
import { Refusal } from '../../core/errors.ts';
import type { JsonObject } from '../tokens/strict-json.ts';
import { sessionPolicyBytesMax } from './bounds.ts';
import { Pattern } from './pattern.ts';
import { oneOf, type PolicyForm, readActions, readPolicy, textsOf } from './policy-document.ts';
import type { NameResource, Rule, Subjects } from './rule.ts';
import { RuleFault, show } from './rule-fault.ts';

/** Whoever holds the temporary keys. */
const everybody: Subjects = { names: [], isExcept: true };

/**
 * The rules of a session policy's text, for a principal of `tenant`. Throws `Refusal`
 * MalformedPolicyDocument, which says what is wrong with it.
 */
export function parseSessionPolicy(text: string, tenant: string): readonly Rule[] {
  try {
    return readPolicy(Buffer.from(text), formOf(tenant));
  } catch (cause) {
    if (!(cause instanceof RuleFault)) throw cause;
    throw new Refusal('MalformedPolicyDocument', { message: cause.message, cause });
  }
}

function formOf(tenant: string): PolicyForm {
  return {
    source: 'session',
    bytesMax: sessionPolicyBytesMax,
    fields: ['Action', 'NotAction', 'Resource', 'NotResource'],
    readStatement: (value) => ({
      subjects: everybody,
      actions: readActions(value).actions,
      resource: readResource(value, tenant),
    }),
  };
}

const resourceForm = /^(?:\*|arn:aws:s3::([^:/*?$]*):(.+))$/s;

function readResource(value: JsonObject, tenant: string): NameResource {
  const [resource, isExcept] = oneOf(value, 'Resource', 'Resource');
  const names = textsOf(resource, 'Policy has invalid resource').map((text) => {
    const [whole, owner, name = '*'] = resourceForm.exec(text) ?? [];
    if (whole === undefined) throw new RuleFault(`Policy has invalid resource: ${show(text)}`);
    const full = owner ? `${owner}:${name}` : name;
    // No name of a bucket has a colon: this is one of the own tenant, in full.
    const own = full.startsWith(`${tenant}:`) ? full.slice(tenant.length + 1) : full;
    return new Pattern(own, { wildcards: true });
  });
  return { form: 'names', tenant, names, isExcept };
}
