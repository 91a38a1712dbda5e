// CopyObject: a row that shares the source's extents. No data moves, whatever the size.
import { sealObject } from '../../catalog/authentic.ts';
import type { Attributes } from '../../catalog/versions.ts';
import { s3Time } from '../../core/clock.ts';
import { invalidArgument, Refusal } from '../../core/errors.ts';
import { decodeManifest } from '../../core/manifest.ts';
import { checksumElement, parseAlgorithm } from '../checksum-headers.ts';
import { writeConditions } from '../conditional.ts';
import type { Context, Reply } from '../context.ts';
import { type CopySource, digestRuns, findCopySource } from '../copy-source.ts';
import { readAttributes, readClass } from '../object-attributes.ts';
import type { Operation } from '../operation.ts';
import { quoted, xmlReply } from '../replies.ts';
import { header } from '../request.ts';

export const copyObject: Operation = {
  name: 'CopyObject',
  action: 's3:PutObject',
  resource: 'object',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const { bucket, key, request } = context;
  const storageClass = readClass(request);
  const source = await findCopySource(context);
  const { version } = source;
  const attributes = await composeAttributes(context, source);
  const sha256 = version.sha256;
  const { timeMs } = await context.commit(
    {
      kind: 'copyObject',
      bucketId: bucket.id,
      key,
      conditions: writeConditions(request),
      source: { bucketId: version.bucketId, key: version.key, seq: version.seq },
      object: sealObject(context.rooms.keyring, {
        tenant: bucket.tenant,
        sizeBytes: version.sizeBytes,
        etag: version.etag,
        sha256,
        class: storageClass,
        owner: bucket.owner,
        attributes: JSON.stringify(attributes),
        manifest: version.manifest,
      }),
    },
    {
      sizeBytes: version.sizeBytes,
      etag: version.etag,
      sha256: sha256 ? Buffer.from(sha256).toString('hex') : null,
      class: storageClass,
    },
  );
  const { checksum } = attributes;
  return xmlReply('CopyObjectResult', {
    LastModified: s3Time(timeMs),
    ETag: quoted(version.etag),
    ChecksumType: checksum?.type,
    ...(checksum ? { [checksumElement(checksum.algorithm)]: checksum.value } : {}),
  });
}

/** The source's attributes, or the request's own, with the checksum of bytes that stay the same. */
async function composeAttributes(context: Context, source: CopySource): Promise<Attributes> {
  const { request } = context;
  const { version } = source;
  const replaces = parseDirective(header(request, 'x-amz-metadata-directive'));
  if (!replaces && version.bucketId === context.bucket.id && version.key === context.key) {
    const message =
      "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.";
    throw new Refusal('InvalidRequest', { message });
  }
  const kept = JSON.parse(version.attributes) as Attributes;
  const attributes: Attributes = replaces ? { ...kept, ...readAttributes(request) } : kept;
  const asked = header(request, 'x-amz-checksum-algorithm');
  if (asked === undefined) return attributes;
  const algorithm = parseAlgorithm(asked, 'x-amz-checksum-algorithm');
  if (kept.checksum?.algorithm === algorithm) return attributes;
  const { checksum } = await digestRuns(context, decodeManifest(version.manifest), algorithm);
  if (checksum) attributes.checksum = { algorithm, value: checksum, type: 'FULL_OBJECT' };
  return attributes;
}

function parseDirective(text: string | undefined): boolean {
  if (text === undefined || text === 'COPY') return false;
  if (text === 'REPLACE') return true;
  throw invalidArgument('x-amz-metadata-directive', text, 'Unknown metadata directive.');
}
