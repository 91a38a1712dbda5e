// The document of one of a bucket's inventories, read strictly. Pure. Specification:
// PutBucketInventoryConfiguration and GetBucketInventoryConfiguration of the Amazon S3 API
// reference.
import {
  type InventoryConfig,
  type InventoryField,
  inventoryFields,
  inventoryFormats,
  inventoryFrequencies,
} from '../../../catalog/inventory.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { childOf, onlyChildren, type XmlElements, type XmlNode } from '../../http/xml.ts';
import { isBucketName } from '../bucket-lookup.ts';

const idForm = /^[A-Za-z0-9_.-]{1,64}$/;
const prefixBytesMax = 512;
const arnForm = /^arn:aws[a-z-]*:s3:::(.+)$/;
const members = [
  ...['Id', 'IsEnabled', 'Destination', 'Schedule', 'IncludedObjectVersions', 'Filter'],
  'OptionalFields',
];

/** `id`: that of the request's query. `by`: who puts it. Throws `Refusal`. */
export function parseInventory(root: XmlNode, id: string, by: string): InventoryConfig {
  if (!idForm.test(id)) throw invalidArgument('id', id, 'The id is malformed.');
  const [own, enabled, destination, schedule, versions, filter, optional] = onlyChildren(
    root,
    members,
  );
  if (own && own.text.trim() !== id) throw new Refusal('IdMismatch');
  if (!own || !enabled || !destination || !schedule || !versions) throw new Refusal('MalformedXML');
  const [frequency] = onlyChildren(schedule, ['Frequency']);
  const [prefix] = filter ? onlyChildren(filter, ['Prefix']) : [];
  return {
    ...{ id, by },
    isEnabled: oneOf(enabled, ['true', 'false']) === 'true',
    ...parseDestination(destination),
    frequency: oneOf(frequency, inventoryFrequencies),
    versions: oneOf(versions, ['All', 'Current']),
    filter: prefix?.text ?? '',
    fields: parseFields(optional),
  };
}

function oneOf<const W extends string>(node: XmlNode | undefined, words: readonly W[]): W {
  const text = node?.text.trim();
  const found = words.find((word) => word === text);
  if (found === undefined) throw new Refusal('MalformedXML');
  return found;
}

function parseDestination(
  node: XmlNode,
): Pick<InventoryConfig, 'destination' | 'arn' | 'prefix' | 'format'> {
  const place = childOf(node, 'S3BucketDestination');
  if (!place || node.children.length > 1) throw new Refusal('MalformedXML');
  const parts = ['AccountId', 'Bucket', 'Format', 'Prefix', 'Encryption'];
  const [, bucket, format, prefix, encryption] = onlyChildren(place, parts);
  if (encryption?.children.some(({ name }) => name !== 'SSE-S3')) {
    throw new Refusal('NotImplemented', { fields: { Header: 'SSE-KMS' } });
  }
  const arn = bucket?.text.trim() ?? '';
  const destination = arnForm.exec(arn)?.[1] ?? '';
  const [tenant, name = tenant] = destination.split(':');
  if (destination.split(':').length > 2 || !isBucketName(name ?? '')) {
    throw new Refusal('InvalidS3DestinationBucket');
  }
  if (format?.text.trim() === 'ORC') {
    throw new Refusal('NotImplemented', { fields: { Header: 'ORC' } });
  }
  const under = (prefix?.text ?? '').replace(/\/+$/, '');
  if (Buffer.byteLength(under) > prefixBytesMax) {
    throw invalidArgument('Prefix', '', 'The prefix has more than 512 bytes.');
  }
  return { destination, arn, format: oneOf(format, inventoryFormats), prefix: under };
}

/** What cannot be told of an object here is refused, so that no column is empty by mistake. */
function parseFields(node: XmlNode | undefined): InventoryField[] {
  const wanted = new Set(
    (node?.children ?? []).map(({ name, text }) => {
      if (name !== 'Field') throw new Refusal('MalformedXML');
      return text.trim();
    }),
  );
  for (const field of wanted) {
    if ((inventoryFields as readonly string[]).includes(field)) continue;
    if (unknownFields.has(field)) {
      throw new Refusal('NotImplemented', { fields: { Header: `OptionalFields: ${field}` } });
    }
    throw new Refusal('MalformedXML');
  }
  return inventoryFields.filter((field) => wanted.has(field));
}

const unknownFields = new Set([
  ...['EncryptionStatus', 'ObjectLockRetainUntilDate', 'ObjectLockMode', 'LifecycleExpirationDate'],
  ...['ObjectLockLegalHoldStatus', 'BucketKeyStatus', 'ObjectAccessControlList'],
]);

/** The content of an InventoryConfiguration. */
export function inventoryElements(config: InventoryConfig): XmlElements {
  const { arn, format, prefix, isEnabled, filter, id, versions, fields, frequency } = config;
  return {
    Destination: {
      S3BucketDestination: { Bucket: arn, Format: format, ...(prefix && { Prefix: prefix }) },
    },
    IsEnabled: isEnabled,
    ...(filter !== '' && { Filter: { Prefix: filter } }),
    Id: id,
    IncludedObjectVersions: versions,
    ...(fields.length > 0 && { OptionalFields: { Field: fields } }),
    Schedule: { Frequency: frequency },
  };
}
