// GetObjectAttributes: what HeadObject tells, as a document, and the parts of an object one by one.
import type { S3Action } from '../../../authz/grants/actions.ts';
import type { Attributes, Version } from '../../../catalog/versions.ts';
import { httpTime } from '../../../core/clock.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { listKeysMax } from '../../../core/limits.ts';
import { emptyReply, largeXmlReply, quoted, type Reply } from '../../http/reply.ts';
import type { XmlElements } from '../../http/xml.ts';
import { findAsked, versionHeaders } from '../asked-version.ts';
import { checkReadConditions } from '../conditional.ts';
import { checksumElement } from '../objects/checksum-headers.ts';
import { openCustomer } from '../objects/customer-key.ts';
import { partChecksumsOf, partSizesOf } from '../objects/object-parts.ts';
import { shownClass } from '../objects/written-class.ts';
import type { Operation } from '../operation.ts';
import type { S3Request } from '../request.ts';
import type { Asked, Reserved } from '../stages.ts';

export const getObjectAttributes: Operation<'object'> = {
  name: 'GetObjectAttributes',
  action: 's3:GetObjectAttributes',
  versionAction: 's3:GetObjectVersionAttributes',
  resource: 'object',
  price: 'get',
  admit,
  run,
};

/** As on S3: attributes tell of an object's content, so it must be one's to read as well. */
async function admit(asked: Asked<'object'>): Promise<void> {
  await asked.authorizeKey(asked.action as S3Action);
  const isNewest = asked.versionId === undefined;
  await asked.authorizeKey(isNewest ? 's3:GetObject' : 's3:GetObjectVersion', { wanted: 'stat' });
}

async function run(context: Reserved<'object'>): Promise<Reply> {
  const { request, bucket } = context;
  const wanted = readWanted(request);
  const page = readPage(request);
  const version = await findAsked(context);
  const attributes = JSON.parse(version.attributes) as Attributes;
  openCustomer(request, 'own', attributes, bucket, context.services);
  const { sizeBytes, etag } = version;
  context.detail = { ...context.detail, sizeBytes, etag, class: version.class };
  const headers = {
    'last-modified': httpTime(version.createdMs),
    ...versionHeaders(bucket, version),
  };
  if (checkReadConditions(request, version) === 'notModified') {
    return emptyReply(304, { ...headers, etag: quoted(etag) });
  }
  const reply = await largeXmlReply(
    'GetObjectAttributesResponse',
    describe(context, { version, attributes }, wanted, page),
  );
  Object.assign(reply.headers, headers);
  return reply;
}

const attributeNames = ['ETag', 'Checksum', 'ObjectParts', 'StorageClass', 'ObjectSize'] as const;
type AttributeName = (typeof attributeNames)[number];

const wantedHeader = 'x-amz-object-attributes';

/** Throws `Refusal` InvalidRequest or InvalidArgument. */
function readWanted(request: S3Request): Set<AttributeName> {
  const text = request.headers[wantedHeader]?.trim() ?? '';
  if (text === '') {
    const message =
      `The ${wantedHeader} header specifying the attributes to be retrieved is either missing ` +
      'or empty';
    throw new Refusal('InvalidRequest', { message });
  }
  const names = text.split(',').map((one) => {
    const name = attributeNames.find((known) => known === one.trim());
    if (!name) throw invalidArgument(wantedHeader, text, 'Invalid attribute name specified.');
    return name;
  });
  return new Set(names);
}

/** Which parts are wanted. */
interface Page {
  after: number;
  max: number;
}

const markerHeader = 'x-amz-part-number-marker';

/**
 * Throws `Refusal` InvalidArgument for a marker that is none; as S3, takes a bad maximum for none.
 */
function readPage(request: S3Request): Page {
  const max = readCount(request.headers['x-amz-max-parts']) ?? listKeysMax;
  const marker = request.headers[markerHeader];
  const after = marker === undefined ? 0 : readCount(marker);
  if (after !== undefined) return { after, max: Math.min(max, listKeysMax) };
  const message = `Argument ${markerHeader} must be an integer between 0 and 2147483647`;
  throw invalidArgument(markerHeader, marker ?? '', message);
}

function readCount(text: string | undefined): number | undefined {
  const isCount = text !== undefined && /^\d{1,10}$/.test(text) && Number(text) <= 0x7fffffff;
  return isCount ? Number(text) : undefined;
}

function describe(
  { services, bucket }: Reserved<'object'>,
  { version, attributes }: { version: Version; attributes: Attributes },
  wanted: Set<AttributeName>,
  page: Page,
): XmlElements {
  const { checksum } = attributes;
  const all: Record<AttributeName, string | number | XmlElements | undefined> = {
    // Without quotes, here alone.
    ETag: version.etag,
    Checksum: checksum && {
      // Here alone, too, without the number of parts.
      [checksumElement(checksum.algorithm)]: checksum.value.replace(/-\d+$/, ''),
      ChecksumType: checksum.type,
    },
    ObjectParts: describeParts(attributes, page),
    StorageClass: shownClass(services, bucket.tenant, version.class),
    ObjectSize: version.sizeBytes,
  };
  return Object.fromEntries(
    attributeNames.filter((name) => wanted.has(name)).map((name) => [name, all[name]]),
  );
}

function describeParts(attributes: Attributes, { after, max }: Page): XmlElements | undefined {
  const { checksum } = attributes;
  const sizes = partSizesOf(attributes);
  if (!sizes) return undefined;
  // As on S3, only the parts of a composite checksum are told one by one.
  if (checksum?.type !== 'COMPOSITE') return { PartsCount: sizes.length };
  const shown = sizes.slice(after, after + max);
  const last = shown.length > 0 ? after + shown.length : 0;
  const checksumOf = partChecksumsOf(attributes);
  return {
    PartsCount: sizes.length,
    PartNumberMarker: after,
    NextPartNumberMarker: last,
    MaxParts: max,
    IsTruncated: shown.length > 0 && last < sizes.length,
    Part: shown.map((Size, i) => {
      const PartNumber = after + i + 1;
      const value = checksumOf(PartNumber);
      const element = checksum && value ? { [checksumElement(checksum.algorithm)]: value } : {};
      return { PartNumber, ...element, Size };
    }),
  };
}
