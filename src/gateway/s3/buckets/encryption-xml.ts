// ServerSideEncryptionConfiguration, as S3 reads and shows it: GetBucketEncryption and
// PutBucketEncryption of the Amazon S3 API reference. Reading throws `Refusal`.
import type { BucketEncryption } from '../../../catalog/bucket-encryption.ts';
import { Refusal } from '../../../core/errors.ts';
import { childOf, onlyChildren, parseXml, textOf, type XmlElements } from '../../http/xml.ts';
import { checkAlgorithm, checkKmsKey } from '../objects/encryption.ts';

/** What a bucket has of which nothing was said, as on AWS since 2023. */
export const defaultEncryption: BucketEncryption = {
  algorithm: 'AES256',
  kmsKeyId: null,
  bucketKeyEnabled: false,
};

const root = 'ServerSideEncryptionConfiguration';
const parameters = 'ApplyServerSideEncryptionByDefault';

/** `wrappedBy`: the KMS key of the newest root key. */
export function parseEncryption(body: Buffer, wrappedBy: string | null): BucketEncryption {
  const [rule, another] = parseXml(body, root).children;
  if (rule?.name !== 'Rule' || another) throw new Refusal('MalformedXML');
  const [given, bucketKey, blocked] = onlyChildren(rule, [
    ...[parameters, 'BucketKeyEnabled', 'BlockedEncryptionTypes'],
  ]);
  if (!given) throw new Refusal('MalformedXML');
  let blocksCustomerKeys = false;
  for (const type of blocked?.children ?? []) {
    const isKnown = type.name === 'EncryptionType' && /^(SSE-C|NONE)$/.test(type.text.trim());
    if (!isKnown) throw new Refusal('MalformedXML');
    blocksCustomerKeys ||= type.text.trim() === 'SSE-C';
  }
  const algorithm = textOf(given, 'SSEAlgorithm')?.trim() ?? '';
  if (!/^(AES256|aws:kms|aws:kms:dsse)$/.test(algorithm)) throw new Refusal('MalformedXML');
  checkAlgorithm(algorithm, 'SSEAlgorithm');
  const kmsKeyId = childOf(given, 'KMSMasterKeyID')?.text.trim() ?? null;
  if (algorithm === 'AES256' && kmsKeyId !== null) {
    const message =
      'a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or ' +
      'aws:kms:dsse';
    const fields = { ArgumentName: 'ApplyServerSideEncryptionByDefault' };
    throw new Refusal('InvalidArgument', { message, fields });
  }
  if (algorithm === 'aws:kms') checkKmsKey(wrappedBy, kmsKeyId);
  const bucketKeyEnabled = parseTruth(bucketKey?.text);
  const blocks = blocksCustomerKeys && { blocksCustomerKeys };
  return { algorithm, kmsKeyId, bucketKeyEnabled, ...blocks };
}

function parseTruth(text = 'false'): boolean {
  const word = text.trim().toLowerCase();
  if (word !== 'true' && word !== 'false') throw new Refusal('MalformedXML');
  return word === 'true';
}

export function encryptionElements(set: BucketEncryption): XmlElements {
  return {
    Rule: {
      [parameters]: {
        SSEAlgorithm: set.algorithm,
        ...(set.kmsKeyId !== null && { KMSMasterKeyID: set.kmsKeyId }),
      },
      BucketKeyEnabled: set.bucketKeyEnabled,
      ...(set.blocksCustomerKeys && { BlockedEncryptionTypes: { EncryptionType: 'SSE-C' } }),
    },
  };
}
