// Bucket policies: IAM's JSON, read strictly, to rules. Invariant: what is not understood refuses
// the policy, because it may have been a restriction; so a policy that is stored is a policy that
// holds in full.
// Specification: "IAM JSON policy elements reference" of the IAM user guide, "Bucket policies" and
// "The meaning of public" of the Amazon S3 user guide. What of them: docs/formats/policy.md.
import { Refusal } from '../../core/errors.ts';
import { isObject, type JsonObject, otherMember } from '../tokens/strict-json.ts';
import type { ActionLevel } from './actions.ts';
import { policyBytesMax } from './bounds.ts';
import { Pattern } from './pattern.ts';
import { oneOf, type PolicyForm, readActions, readPolicy, textsOf } from './policy-document.ts';
import {
  type Effect,
  isForAnyone,
  type PatternResource,
  type Rule,
  type Subjects,
} from './rule.ts';
import { RuleFault, show } from './rule-fault.ts';
import { subjectOfPrincipal } from './subjects.ts';

export interface PolicyBucket {
  tenant: string;
  name: string;
}

/**
 * The rules of a policy's text, which is kept as it is beside them. Throws `Refusal`
 * MalformedPolicy, which says what is wrong with it.
 */
export function parsePolicy(text: Uint8Array, bucket: PolicyBucket): readonly Rule[] {
  try {
    return readPolicy(text, formOf(bucket));
  } catch (cause) {
    if (!(cause instanceof RuleFault)) throw cause;
    throw new Refusal('MalformedPolicy', { message: cause.message, cause });
  }
}

/** Does the policy let everybody in, as PolicyStatus defines it? */
export function isPublic(rules: readonly Rule[]): boolean {
  return rules.some((rule) => rule.effect === 'allow' && isForAnyone(rule));
}

function formOf(bucket: PolicyBucket): PolicyForm {
  return {
    source: 'policy',
    bytesMax: policyBytesMax,
    fields: ['Principal', 'NotPrincipal', 'Action', 'NotAction', 'Resource', 'NotResource'],
    readStatement(value, effect) {
      const { actions, levels } = readActions(value);
      const resource = readResource(value, bucket);
      checkLevels(levels, resource);
      return { subjects: readSubjects(value, effect), actions, resource };
    },
  };
}

function readSubjects(value: JsonObject, effect: Effect): Subjects {
  const [principal, isExcept] = oneOf(value, 'Principal', 'Principal');
  if (isExcept && effect === 'allow') throw new RuleFault('Allow with NotPrincipal is not allowed');
  if (typeof principal === 'string') {
    if (principal !== '*') throw new RuleFault(`Invalid principal in policy: ${show(principal)}`);
    return { names: [subjectOfPrincipal(principal)], isExcept };
  }
  const form = 'Invalid principal in policy: it is "*" or has AWS alone';
  if (!isObject(principal) || otherMember(principal, ['AWS'])) throw new RuleFault(form);
  const names = textsOf(principal.AWS, form).map(subjectOfPrincipal);
  return { names, isExcept };
}

const resourceForm = /^arn:aws:s3::([^:/]*):([^/*?$]+)(\*$|\/.*)?$/s;

function readResource(value: JsonObject, bucket: PolicyBucket): PatternResource {
  const [resource, isExcept] = oneOf(value, 'Resource', 'Resource');
  const texts = textsOf(resource, 'Policy has invalid resource');
  let hasBucket = false;
  const keys: string[] = [];
  for (const text of texts) {
    const [, tenant, name, rest = ''] = resourceForm.exec(text) ?? [];
    if (name !== bucket.name || (tenant !== '' && tenant !== bucket.tenant)) {
      throw new RuleFault(`Policy has invalid resource: ${show(text)}`);
    }
    if (rest === '' || rest === '*') hasBucket = true;
    if (rest !== '') keys.push(rest === '*' ? '*' : rest.slice(1));
  }
  return {
    form: 'patterns',
    tenant: bucket.tenant,
    bucket: bucket.name,
    hasBucket,
    keys: keys.map((key) => new Pattern(key, { wildcards: true })),
    isExcept,
  };
}

/** Throws RuleFault for an action that is about nothing that the statement names. */
function checkLevels(levels: readonly Set<ActionLevel>[], resource: PatternResource): void {
  if (resource.isExcept) return;
  for (const one of levels) {
    const fits =
      (one.has('bucket') && resource.hasBucket) || (one.has('object') && resource.keys.length > 0);
    if (!fits) throw new RuleFault('Action does not apply to any resource(s) in statement');
  }
}
