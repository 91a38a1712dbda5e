// The document of a bucket's notifications, read strictly. Pure.
// Specification: PutBucketNotificationConfiguration and GetBucketNotificationConfiguration of the
// Amazon S3 API reference; "Supported event types" and "Configuring event notifications using
// object key name filtering" of the user guide.
import { randomUUID } from 'node:crypto';
import type { AskedNotifications, NotificationRule } from '../../../catalog/notifications.ts';
import { Refusal } from '../../../core/errors.ts';
import { notificationRulesMax } from '../../../core/limits.ts';
import { childOf, textOf, type XmlElements, type XmlNode } from '../../http/xml.ts';

type AskedRule = AskedNotifications['rules'][number];

/** Events by their families. Those that never happen here can be named all the same. */
const families: Readonly<Record<string, readonly string[]>> = {
  'ObjectCreated:': ['*', 'Put', 'Post', 'Copy', 'CompleteMultipartUpload'],
  'ObjectRemoved:': ['*', 'Delete', 'DeleteMarkerCreated'],
  'ObjectRestore:': ['*', 'Post', 'Completed', 'Delete'],
  ReducedRedundancyLostObject: [''],
  'Replication:': [
    ...['*', 'OperationFailedReplication', 'OperationMissedThreshold'],
    ...['OperationReplicatedAfterThreshold', 'OperationNotTracked'],
  ],
  'LifecycleExpiration:': ['*', 'Delete', 'DeleteMarkerCreated'],
  LifecycleTransition: [''],
  IntelligentTiering: [''],
  'ObjectTagging:': ['*', 'Put', 'Delete'],
  'ObjectAcl:': ['Put'],
};
const known: ReadonlySet<string> = new Set(
  Object.entries(families).flatMap(([family, names]) => names.map((one) => `s3:${family}${one}`)),
);

const single = [...known].filter((name) => !name.endsWith('*'));

/** Where AWS tells besides queues, and what names the place in its document. */
const destinations: Readonly<Record<string, string>> = {
  QueueConfiguration: 'Queue',
  TopicConfiguration: 'Topic',
  CloudFunctionConfiguration: 'CloudFunction',
};

const idLengthMax = 255;
const valueBytesMax = 1024;

/**
 * The rules of a document. `targets`: names of what can be told, by their ARNs. Throws `Refusal`
 * MalformedXML, InvalidArgument, or NotImplemented for EventBridge.
 */
export function parseNotificationRules(
  { children }: XmlNode,
  targets: ReadonlyMap<string, string>,
): AskedRule[] {
  if (children.some(({ name }) => name === 'EventBridgeConfiguration')) {
    throw new Refusal('NotImplemented', { fields: { Header: 'EventBridgeConfiguration' } });
  }
  if (children.length > notificationRulesMax) {
    throw invalid(`A bucket has at most ${notificationRulesMax} notification configurations.`);
  }
  const rules = children.map((child) => parseRule(child, targets));
  if (new Set(rules.map(({ id }) => id)).size < rules.length) {
    throw invalid('Same ID used for multiple configurations. IDs must be unique.');
  }
  checkOverlaps(rules);
  return rules;
}

function parseRule(node: XmlNode, targets: ReadonlyMap<string, string>): AskedRule {
  const place = destinations[node.name];
  if (place === undefined) throw new Refusal('MalformedXML');
  const allowed = ['Id', place, 'Event', 'Filter'];
  if (!node.children.every(({ name }) => allowed.includes(name))) throw new Refusal('MalformedXML');
  const id = textOf(node, 'Id') ?? randomUUID();
  if (id.length > idLengthMax) throw invalid('An ID is at most 255 characters long.', 'Id', id);
  const arn = textOf(node, place)?.trim();
  const events = node.children
    .filter(({ name }) => name === 'Event')
    .map(({ text }) => text.trim());
  if (!arn || events.length === 0) throw new Refusal('MalformedXML');
  const strange = events.find((event) => !known.has(event));
  if (strange !== undefined) {
    throw invalid('A specified event is not supported for notifications.', 'Event', strange);
  }
  const target = place === 'Queue' ? targets.get(arn) : undefined;
  if (target === undefined) {
    const message = 'Unable to validate the following destination configurations';
    throw invalid(message, arn, 'The destination does not exist');
  }
  return { id, target, arn, events: [...new Set(events)], ...parseFilter(node) };
}

function parseFilter(node: XmlNode): Pick<NotificationRule, 'prefix' | 'suffix'> {
  const found = { prefix: '', suffix: '' };
  const filter = childOf(node, 'Filter');
  if (!filter) return found;
  if (filter.children.some(({ name }) => name !== 'S3Key')) throw new Refusal('MalformedXML');
  const seen = new Set<string>();
  for (const rule of childOf(filter, 'S3Key')?.children ?? []) {
    if (rule.name !== 'FilterRule') throw new Refusal('MalformedXML');
    const name = textOf(rule, 'Name')?.trim().toLowerCase();
    const value = textOf(rule, 'Value');
    if (value === undefined) throw new Refusal('MalformedXML');
    if (name !== 'prefix' && name !== 'suffix') {
      throw invalid('filter rule name must be either prefix or suffix', 'FilterRule.Name', name);
    }
    if (seen.has(name)) {
      const message = `Cannot specify more than one ${name} rule in a filter.`;
      throw invalid(message, 'FilterRule.Name', name);
    }
    if (Buffer.byteLength(value) > valueBytesMax) {
      throw invalid('Size of filter rule value cannot exceed 1024 bytes in UTF-8', 'FilterRule');
    }
    seen.add(name);
    found[name] = value;
  }
  return found;
}

/** As on S3, no change is told by two rules of a bucket. */
function checkOverlaps(rules: readonly AskedRule[]): void {
  const all = rules.map((rule) => ({ ...rule, kinds: bitsOf(rule.events) }));
  for (const [place, one] of all.entries()) {
    for (const other of all.slice(place + 1)) {
      if ((one.kinds & other.kinds) === 0 || !isNested(one, other)) continue;
      throw invalid(
        'Configurations overlap. Configurations on the same bucket cannot share a common event ' +
          'type.',
      );
    }
  }
}

type Filter = Pick<AskedRule, 'prefix' | 'suffix'>;

/** Can a key fit both? */
function isNested(one: Filter, other: Filter): boolean {
  return (
    (one.prefix.startsWith(other.prefix) || other.prefix.startsWith(one.prefix)) &&
    (one.suffix.endsWith(other.suffix) || other.suffix.endsWith(one.suffix))
  );
}

/** A bit for each event that is meant. There are fewer than 32. */
function bitsOf(events: readonly string[]): number {
  let bits = 0;
  for (const [place, name] of single.entries()) {
    const isMeant = events.some((one) =>
      one.endsWith('*') ? name.startsWith(one.slice(0, -1)) : one === name,
    );
    if (isMeant) bits |= 1 << place;
  }
  return bits;
}

function invalid(message: string, name?: string, value?: string): Refusal {
  const fields = {
    ...(name !== undefined && { ArgumentName: name }),
    ...(value !== undefined && { ArgumentValue: value }),
  };
  return new Refusal('InvalidArgument', { message, fields });
}

/** The content of a NotificationConfiguration. */
export function notificationElements(rules: readonly NotificationRule[]): XmlElements {
  return {
    QueueConfiguration: rules.map(({ id, arn, events, prefix, suffix }) => {
      const filters = Object.entries({ Prefix: prefix, Suffix: suffix });
      const set = filters.filter(([, value]) => value !== '');
      return {
        ...{ Id: id, Queue: arn, Event: events },
        ...(set.length > 0 && {
          Filter: { S3Key: { FilterRule: set.map(([Name, Value]) => ({ Name, Value })) } },
        }),
      };
    }),
  };
}
