// Some rules, in as little memory as they need: most places have one.
import type { Rule } from './rule.ts';

export type RuleList = Rule | readonly Rule[];

export function addRule(list: RuleList | undefined, rule: Rule): RuleList {
  if (list === undefined) return rule;
  return isMany(list) ? [...list, rule] : [list, rule];
}

/** Without the rule of this name and tenant; the same list where it has none. */
export function removeRule(list: RuleList, rule: Rule): RuleList | undefined {
  if (!isMany(list)) return isSame(list, rule) ? undefined : list;
  const rest = list.filter((one) => !isSame(one, rule));
  if (rest.length === list.length) return list;
  return rest.length > 1 ? rest : rest[0];
}

export function countRules(list: RuleList | undefined): number {
  if (list === undefined) return 0;
  return isMany(list) ? list.length : 1;
}

export function pushRules(list: RuleList, to: Rule[]): void {
  if (isMany(list)) for (const rule of list) to.push(rule);
  else to.push(list);
}

export function isSame(a: Rule, b: Rule): boolean {
  return a.name === b.name && a.resource.tenant === b.resource.tenant;
}

function isMany(list: RuleList): list is readonly Rule[] {
  return Array.isArray(list);
}
