// Whom a rule concerns. A subject is a text: `principal:cms/alice`, `group:cms/shifters`,
// `tenant:cms` (all its principals) or `anyone` (with and without credentials), of any tenant.
// Invariant: a requester has exactly the subjects that `subjectsOf` names, and rules concern nobody
// by any other way.
import { namePart } from '../../core/names.ts';
import type { Principal } from '../../core/principal.ts';
import { RuleFault, show } from './rule-fault.ts';

export const anyone = 'anyone';

/** The subjects of a requester; null: it came without credentials. */
export function subjectsOf(who: Principal | null, groups: readonly string[]): readonly string[] {
  if (who === null) return [anyone];
  const own = [`principal:${who.id}`, `tenant:${who.tenant}`, anyone];
  return own.concat(groups.map((group) => `group:${who.tenant}/${group}`));
}

const subjectForm = new RegExp(
  `^(?:anyone|tenant:${namePart}|(?:principal|group):${namePart}/${namePart})$`,
);

/** Checks a subject as grants write it. Throws RuleFault. */
export function checkSubject(text: string): void {
  if (subjectForm.test(text)) return;
  const forms = 'principal:TENANT/NAME, group:TENANT/NAME, tenant:TENANT or anyone';
  throw new RuleFault(`The subject ${show(text)} is not of the form ${forms}`);
}

const arnForm = new RegExp(
  `^arn:aws:iam::(${namePart}):(?:(root)|user/(${namePart})|group/(${namePart}))$`,
);
const plainForm = new RegExp(`^(${namePart})(?:/(${namePart}))?$`);

/** The subject that the value of a policy's `AWS` principal means. Throws RuleFault. */
export function subjectOfPrincipal(text: string): string {
  if (text === '*') return anyone;
  const [, tenant, root, user, group] = arnForm.exec(text) ?? [];
  if (tenant !== undefined) {
    if (root !== undefined) return `tenant:${tenant}`;
    return user === undefined ? `group:${tenant}/${group}` : `principal:${tenant}/${user}`;
  }
  const plain = plainForm.exec(text);
  if (!plain) throw new RuleFault(`Invalid principal in policy: ${show(text)}`);
  return plain[2] === undefined ? `tenant:${plain[1]}` : `principal:${plain[1]}/${plain[2]}`;
}

/** The ARN by which policies name a principal. */
export function principalArn({ tenant, name: own }: Principal): string {
  return `arn:aws:iam::${tenant}:user/${own}`;
}
