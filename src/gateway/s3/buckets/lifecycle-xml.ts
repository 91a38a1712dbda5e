// LifecycleConfiguration as S3's XML has it: read strictly, since a rule that is misunderstood
// deletes what it should not, and written again. Invariant: what is read and written is read as the
// same.
// Specification: "PutBucketLifecycleConfiguration" and "Lifecycle configuration elements" of the
// Amazon S3 documentation.
import { randomUUID } from 'node:crypto';
import type {
  Expiration,
  LifecycleFilter,
  LifecycleRule,
  NoncurrentExpiration,
  NoncurrentTransition,
  Transition,
  TransitionTarget,
} from '../../../catalog/lifecycle.ts';
import { isoTime } from '../../../core/clock.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import {
  keyBytesMax,
  lifecycleIdLengthMax,
  lifecycleRulesMax,
  tagKeyLengthMax,
  tagValueLengthMax,
} from '../../../core/limits.ts';
import { childOf, textOf, type XmlElements, type XmlNode } from '../../http/xml.ts';

const dayMs = 86_400_000;
const countMax = 2 ** 31 - 1;
const newerVersionsMax = 100;

/**
 * The rules of a document, which has this root. `targetOf` gives the class that a transition names.
 * Throws `Refusal` MalformedXML, InvalidArgument or InvalidRequest, or what `targetOf` does.
 */
export function parseLifecycle(root: XmlNode, targetOf: TargetOf): LifecycleRule[] {
  allowOnly(root, ['Rule']);
  const nodes = root.children;
  if (nodes.length === 0) throw malformed('a configuration has at least one rule');
  if (nodes.length > lifecycleRulesMax) {
    throw invalidRequest(`A lifecycle configuration has at most ${lifecycleRulesMax} rules.`);
  }
  const rules = nodes.map((node) => parseRule(node, targetOf));
  if (new Set(rules.map(({ id }) => id)).size < rules.length) {
    throw badArgument('Rule ID must be unique. Found same ID for more than one rule');
  }
  return rules;
}

export type TargetOf = (name: string) => TransitionTarget;

/** What a document of these rules has. `shown`: what clients are shown of a class. */
export function lifecycleElements(
  rules: readonly LifecycleRule[],
  shown: (name: string) => string,
): XmlElements {
  return { Rule: rules.map((rule) => ruleElements(rule, shown)) };
}

function parseRule(node: XmlNode, targetOf: TargetOf): LifecycleRule {
  allowOnly(node, [
    ...['ID', 'Prefix', 'Filter', 'Status', 'Transition', 'NoncurrentVersionTransition'],
    ...['Expiration', 'NoncurrentVersionExpiration', 'AbortIncompleteMultipartUpload'],
  ]);
  const plainPrefix = textOf(node, 'Prefix');
  const filterNode = childOf(node, 'Filter');
  if ((plainPrefix === undefined) === (filterNode === undefined)) {
    throw malformed('a rule has a filter or a prefix, and not both');
  }
  const filter = filterNode ? parseFilter(filterNode) : { prefix: parsePrefix(plainPrefix ?? '') };
  const rule: LifecycleRule = {
    id: parseId(textOf(node, 'ID')),
    isEnabled: parseStatus(textOf(node, 'Status')),
    filter,
    ...(filterNode ? {} : { isPlain: true as const }),
    ...parseActions(node),
    ...parseTransitions(node, targetOf),
  };
  checkActions(rule);
  checkTransitions(rule);
  return rule;
}

function parseActions(
  node: XmlNode,
): Pick<LifecycleRule, 'expiration' | 'noncurrent' | 'abortDays'> {
  const expiration = childOf(node, 'Expiration');
  const noncurrent = childOf(node, 'NoncurrentVersionExpiration');
  const abort = childOf(node, 'AbortIncompleteMultipartUpload');
  return {
    ...(expiration && { expiration: parseExpiration(expiration) }),
    ...(noncurrent && { noncurrent: parseNoncurrent(noncurrent) }),
    ...(abort && { abortDays: parseAbort(abort) }),
  };
}

function parseTransitions(
  node: XmlNode,
  targetOf: TargetOf,
): Pick<LifecycleRule, 'transitions' | 'noncurrentTransitions'> {
  const named = (name: string) => node.children.filter((child) => child.name === name);
  const [current, noncurrent] = [named('Transition'), named('NoncurrentVersionTransition')];
  return {
    ...(current.length > 0 && {
      transitions: current.map((one) => parseTransition(one, targetOf)),
    }),
    ...(noncurrent.length > 0 && {
      noncurrentTransitions: noncurrent.map((one) => parseNoncurrentTransition(one, targetOf)),
    }),
  };
}

function parseTransition(node: XmlNode, targetOf: TargetOf): Transition {
  allowOnly(node, ['Days', 'Date', 'StorageClass']);
  const [days, date] = [textOf(node, 'Days'), textOf(node, 'Date')];
  if ((days === undefined) === (date === undefined)) {
    throw malformed('a transition has days or a date, and not both');
  }
  const target = targetOf(classNameIn(node));
  if (date !== undefined) return { ...target, dateMs: parseDate(date.trim()) };
  return { ...target, days: parseCount('Days', 'Transition', days ?? '') };
}

function parseNoncurrentTransition(node: XmlNode, targetOf: TargetOf): NoncurrentTransition {
  allowOnly(node, ['NoncurrentDays', 'NewerNoncurrentVersions', 'StorageClass']);
  const action = 'NoncurrentVersionTransition';
  const days = textOf(node, 'NoncurrentDays');
  if (days === undefined) throw malformed(`${action} has NoncurrentDays`);
  const newer = textOf(node, 'NewerNoncurrentVersions');
  return {
    ...targetOf(classNameIn(node)),
    days: parseCount('NoncurrentDays', action, days),
    ...(newer !== undefined && { newerVersions: parseNewer(action, newer) }),
  };
}

function classNameIn(node: XmlNode): string {
  const name = textOf(node, 'StorageClass')?.trim();
  if (!name) throw malformed('a transition has a StorageClass');
  return name;
}

/** What AWS refuses of transitions, but for what it says of its own classes. */
function checkTransitions({
  filter,
  isPlain,
  expiration,
  transitions = [],
  noncurrent,
  noncurrentTransitions = [],
}: LifecycleRule): void {
  const of = `filter '(prefix=${filter.prefix ?? ''})'`;
  for (const [action, list] of [
    ['Transition', transitions],
    ['NoncurrentVersionTransition', noncurrentTransitions],
  ] as const) {
    if (new Set(list.map((one) => one.class)).size < list.length) {
      const message = `'StorageClass' must be different for '${action}' actions in same 'Rule'`;
      throw invalidRequest(`${message} with ${of}`);
    }
  }
  if (isPlain && noncurrentTransitions.some((one) => one.newerVersions !== undefined)) {
    throw invalidRequest('NewerNoncurrentVersions can only be specified with a Filter.');
  }
  if (noncurrent && noncurrentTransitions.some(({ days }) => days >= noncurrent.days)) {
    throw laterThan('NoncurrentDays', 'NoncurrentVersionExpiration', of);
  }
  if (!expiration || 'loneMarkers' in expiration) return;
  for (const one of transitions) {
    if ('days' in one !== 'days' in expiration) {
      throw invalidRequest(
        "Found mixed 'Date' and 'Days' based Expiration and Transition actions in lifecycle rule " +
          `for ${of}`,
      );
    }
    const isEarlier =
      'days' in one
        ? 'days' in expiration && one.days < expiration.days
        : 'dateMs' in expiration && one.dateMs < expiration.dateMs;
    if (!isEarlier) throw laterThan('days' in one ? 'Days' : 'Date', 'Expiration', of);
  }
}

function laterThan(name: string, action: string, of: string): Refusal {
  const moving = action === 'Expiration' ? 'Transition' : 'NoncurrentVersionTransition';
  const after = `must be greater than '${name}' in the ${moving} action`;
  return badArgument(`'${name}' in the ${action} action for ${of} ${after}`);
}

/** What no rule can say at once. */
function checkActions(rule: LifecycleRule): void {
  const { filter, isPlain, expiration, noncurrent, abortDays } = rule;
  const isMoving = rule.transitions || rule.noncurrentTransitions;
  if (!expiration && !noncurrent && abortDays === undefined && !isMoving) {
    throw invalidRequest('At least one action needs to be specified in a rule');
  }
  const { tags, sizeAbove, sizeBelow } = filter;
  if (abortDays !== undefined) {
    const action = 'AbortIncompleteMultipartUpload';
    if (tags) throw invalidRequest(`${action} cannot be specified with Tags.`);
    if (sizeAbove !== undefined || sizeBelow !== undefined) {
      throw invalidRequest(`${action} cannot be specified with Object Size.`);
    }
  }
  if (tags && expiration && 'loneMarkers' in expiration) {
    throw invalidRequest('ExpiredObjectDeleteMarker cannot be specified with Tags.');
  }
  if (isPlain && noncurrent?.newerVersions !== undefined) {
    throw invalidRequest('NewerNoncurrentVersions can only be specified with a Filter.');
  }
}

function parseId(text: string | undefined): string {
  if (text === undefined || text === '') return randomUUID();
  if (text.length <= lifecycleIdLengthMax) return text;
  const message = `ID length should not exceed allowed limit of ${lifecycleIdLengthMax}`;
  throw badArgument(message);
}

function parseStatus(text: string | undefined): boolean {
  if (text === 'Enabled') return true;
  if (text === 'Disabled') return false;
  throw malformed('a status is Enabled or Disabled');
}

function parsePrefix(text: string): string {
  if (Buffer.byteLength(text) <= keyBytesMax) return text;
  throw invalidRequest(`The maximum size of a prefix is ${keyBytesMax}.`);
}

const filterNames = ['Prefix', 'Tag', 'ObjectSizeGreaterThan', 'ObjectSizeLessThan'];

function parseFilter(node: XmlNode): LifecycleFilter {
  allowOnly(node, [...filterNames, 'And']);
  if (node.children.length > 1) throw malformed('a filter of several conditions has And');
  const and = childOf(node, 'And');
  if (!and) return parseConditions(node);
  allowOnly(and, filterNames);
  if (and.children.length < 2) throw malformed('And joins at least two conditions');
  return parseConditions(and);
}

function parseConditions(node: XmlNode): LifecycleFilter {
  const prefix = textOf(node, 'Prefix');
  const sizeAbove = textOf(node, 'ObjectSizeGreaterThan');
  const sizeBelow = textOf(node, 'ObjectSizeLessThan');
  const tags = node.children.filter(({ name }) => name === 'Tag').map(parseTag);
  if (new Set(tags.map(([name]) => name)).size < tags.length) {
    throw invalidRequest('Duplicate Tag Keys are not allowed.');
  }
  const filter: LifecycleFilter = {
    ...(prefix !== undefined && { prefix: parsePrefix(prefix) }),
    ...(tags.length > 0 && { tags }),
    ...(sizeAbove !== undefined && { sizeAbove: parseSize('ObjectSizeGreaterThan', sizeAbove) }),
    ...(sizeBelow !== undefined && { sizeBelow: parseSize('ObjectSizeLessThan', sizeBelow) }),
  };
  const { sizeAbove: above, sizeBelow: below } = filter;
  if (above !== undefined && below !== undefined && above >= below) {
    throw invalidRequest('ObjectSizeGreaterThan must be less than ObjectSizeLessThan.');
  }
  return filter;
}

export function parseTag(node: XmlNode): readonly [string, string] {
  allowOnly(node, ['Key', 'Value']);
  const name = textOf(node, 'Key');
  const value = textOf(node, 'Value');
  if (name === undefined || value === undefined) throw malformed('a tag has a key and a value');
  if (name === '' || name.length > tagKeyLengthMax) {
    throw new Refusal('InvalidTag', { message: 'The TagKey you have provided is invalid' });
  }
  if (value.length > tagValueLengthMax) {
    throw new Refusal('InvalidTag', { message: 'The TagValue you have provided is invalid' });
  }
  return [name, value];
}

function parseSize(name: string, text: string): number {
  const sizeBytes = Number(text.trim());
  if (/^\d{1,16}$/.test(text.trim()) && Number.isSafeInteger(sizeBytes)) return sizeBytes;
  throw malformed(`${name} is a number of bytes`);
}

function parseExpiration(node: XmlNode): Expiration {
  allowOnly(node, ['Days', 'Date', 'ExpiredObjectDeleteMarker']);
  if (node.children.length !== 1) throw malformed('an expiration says one thing');
  const days = textOf(node, 'Days');
  if (days !== undefined) return { days: parsePositive('Days', 'Expiration', days) };
  const date = textOf(node, 'Date');
  if (date !== undefined) return { dateMs: parseDate(date.trim()) };
  const text = textOf(node, 'ExpiredObjectDeleteMarker')?.trim();
  if (text !== 'true' && text !== 'false') throw malformed('a switch is true or false');
  return { loneMarkers: text === 'true' };
}

function parseNoncurrent(node: XmlNode): NoncurrentExpiration {
  allowOnly(node, ['NoncurrentDays', 'NewerNoncurrentVersions']);
  const action = 'NoncurrentVersionExpiration';
  const days = textOf(node, 'NoncurrentDays');
  if (days === undefined) throw malformed(`${action} has NoncurrentDays`);
  const newer = textOf(node, 'NewerNoncurrentVersions');
  if (newer === undefined) return { days: parsePositive('NoncurrentDays', action, days) };
  const newerVersions = parseNewer(action, newer);
  return { days: parsePositive('NoncurrentDays', action, days), newerVersions };
}

function parseNewer(action: string, text: string): number {
  const newerVersions = parsePositive('NewerNoncurrentVersions', action, text);
  if (newerVersions <= newerVersionsMax) return newerVersions;
  throw badArgument(`'NewerNoncurrentVersions' must be at most ${newerVersionsMax}`);
}

function parseAbort(node: XmlNode): number {
  allowOnly(node, ['DaysAfterInitiation']);
  const days = textOf(node, 'DaysAfterInitiation');
  if (days === undefined) throw malformed('an abort has DaysAfterInitiation');
  return parsePositive('DaysAfterInitiation', 'AbortIncompleteMultipartUpload', days);
}

function parsePositive(name: string, action: string, text: string): number {
  const count = parseWhole(name, text);
  if (count > 0) return count;
  throw badArgument(`'${name}' for ${action} action must be a positive integer`);
}

function parseCount(name: string, action: string, text: string): number {
  const count = parseWhole(name, text);
  if (count >= 0) return count;
  throw badArgument(`'${name}' in ${action} action must be nonnegative`);
}

function parseWhole(name: string, text: string): number {
  const count = Number(text.trim());
  if (/^-?\d{1,16}$/.test(text.trim()) && count <= countMax) return count;
  throw malformed(`${name} is a whole number`);
}

const dateForm = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?$/;

/** ISO 8601; without a time it is midnight UTC. */
function parseDate(text: string): number {
  const timeMs = dateForm.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(timeMs)) throw malformed('a date is one of ISO 8601');
  if (timeMs % dayMs !== 0) throw invalidArgument('Date', text, "'Date' must be at midnight GMT");
  return timeMs;
}

function ruleElements(rule: LifecycleRule, shown: (name: string) => string): XmlElements {
  const { id, isEnabled, filter, isPlain, expiration, noncurrent, abortDays } = rule;
  const { transitions, noncurrentTransitions } = rule;
  return {
    ID: id,
    ...(isPlain ? { Prefix: filter.prefix } : { Filter: filterElements(filter) }),
    Status: isEnabled ? 'Enabled' : 'Disabled',
    Transition: transitions?.map((one) => ({
      ...('days' in one ? { Days: one.days } : { Date: isoTime(one.dateMs) }),
      StorageClass: shown(one.class),
    })),
    NoncurrentVersionTransition: noncurrentTransitions?.map((one) => ({
      NoncurrentDays: one.days,
      NewerNoncurrentVersions: one.newerVersions,
      StorageClass: shown(one.class),
    })),
    Expiration: expiration && expirationElements(expiration),
    NoncurrentVersionExpiration: noncurrent && {
      NoncurrentDays: noncurrent.days,
      NewerNoncurrentVersions: noncurrent.newerVersions,
    },
    AbortIncompleteMultipartUpload:
      abortDays === undefined ? undefined : { DaysAfterInitiation: abortDays },
  };
}

function filterElements({ prefix, tags = [], sizeAbove, sizeBelow }: LifecycleFilter): XmlElements {
  const conditions: XmlElements = {
    Prefix: prefix,
    Tag: tags.map(([Key, Value]) => ({ Key, Value })),
    ObjectSizeGreaterThan: sizeAbove,
    ObjectSizeLessThan: sizeBelow,
  };
  const others = [prefix, sizeAbove, sizeBelow].filter((one) => one !== undefined);
  return others.length + tags.length > 1 ? { And: conditions } : conditions;
}

function expirationElements(expiration: Expiration): XmlElements {
  if ('days' in expiration) return { Days: expiration.days };
  if ('dateMs' in expiration) return { Date: isoTime(expiration.dateMs) };
  return { ExpiredObjectDeleteMarker: expiration.loneMarkers };
}

/** An element that is not known may narrow the rule. */
function allowOnly(node: XmlNode, names: readonly string[]): void {
  for (const { name } of node.children) {
    if (!names.includes(name)) throw malformed(`${node.name} has no ${name}`);
  }
}

function malformed(reason: string): Refusal {
  return new Refusal('MalformedXML', { cause: new Error(reason) });
}

function badArgument(message: string): Refusal {
  return new Refusal('InvalidArgument', { message });
}

function invalidRequest(message: string): Refusal {
  return new Refusal('InvalidRequest', { message });
}
