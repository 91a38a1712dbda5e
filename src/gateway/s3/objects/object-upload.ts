// The bytes of a write on their way into the store of their class. Invariants: their extents are
// declared before they are written; and the sink that a request has opened is the request's until
// what it holds is committed: the pipeline aborts it when the request fails before that.
import { inlineStore, localStore } from '../../../core/manifest.ts';
import type { ChecksumAlgorithm } from '../../../tiering/checksums.ts';
import { CustomerSink, type CustomerWrite } from '../../../tiering/customer-sink.ts';
import type { Digests, ObjectSink, WriteOptions } from '../../../tiering/object-writer.ts';
import type { Reserved } from '../stages.ts';
import { severalLegs, storeOfClass } from './written-class.ts';

/** `value`: in base64. */
export interface NamedChecksum {
  algorithm: ChecksumAlgorithm;
  value: string;
}

/** Bytes that have come, with the digests that they have. To be sealed, and then committed. */
export interface Upload {
  sink: ObjectSink;
  digests: Digests;
  /** Those that were computed, the client's own first. */
  checksums: readonly NamedChecksum[];
}

/** What is said of bytes besides that they are the key's. */
export interface UploadPlace {
  /** The name of the class that they are in. */
  storageClass: string;
  /** The part that they are; absent: an object. */
  upload?: { id: string; part: number };
  /** Only the most that can come is known. */
  isAtMost?: true;
  /** A customer's key encrypts them; the code of their checksums is loaded. */
  customer?: CustomerWrite;
}

/** Opens the request's sink in the store of the class, which for STANDARD is the bucket's. */
export function openSink(
  context: Reserved<'object'>,
  given: UploadPlace & Pick<WriteOptions, 'sizeBytes' | 'checksums'>,
): ObjectSink {
  const { services, bucket, key } = context;
  const { sizeBytes, isAtMost, checksums, upload, storageClass, customer } = given;
  const { tenant, name, id: bucketId } = bucket;
  const store = storeOfClass(services, bucket, storageClass);
  const legs = severalLegs(services, bucket, storageClass);
  const others = legs?.stores.slice(1);
  context.writeTo(store, storageClass);
  const place: WriteOptions['place'] = { tenant, bucket: name, bucketId, key };
  if (upload) place.upload = upload;
  const write: WriteOptions = {
    store,
    place,
    sizeBytes,
    checksums,
    takeId: () => services.intents.take(store, others),
    party: { tenant: context.tenant, principal: context.requester },
    recall: () => context.cut(),
  };
  if (isAtMost) write.isAtMost = isAtMost;
  if (store !== localStore) write.tally = context.tallyOf(store);
  if (legs) write.legs = { ...legs, tallyOf: (one) => context.tallyOf(one) };
  const sink = customer
    ? new CustomerSink(customer, checksums, (own) => services.writer.begin({ ...write, ...own }))
    : services.writer.begin(write);
  context.sink = sink;
  return sink;
}

/** The ids of the extents that are in a store, as opposed to inline. */
export function storedIds(runs: readonly { id: Buffer; store: number }[]): Buffer[] {
  return runs.filter((run) => run.store !== inlineStore).map((run) => run.id);
}
