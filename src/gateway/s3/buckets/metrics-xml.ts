// The document of one configuration of a bucket's metrics, read strictly. Pure. Specification:
// PutBucketMetricsConfiguration of the Amazon S3 API reference.
import type { MetricsConfiguration } from '../../../catalog/bucket-metrics.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { onlyChildren, type XmlElements, type XmlNode } from '../../http/xml.ts';

const idForm = /^[A-Za-z0-9_.-]{1,64}$/;
const prefixBytesMax = 1024;

/** `id`: that of the request's query. Throws `Refusal`; NotImplemented for what else S3 filters. */
export function parseMetrics(root: XmlNode, id: string): MetricsConfiguration {
  if (!idForm.test(id)) throw invalidArgument('id', id, 'The id is malformed.');
  const [own, filter] = onlyChildren(root, ['Id', 'Filter']);
  if (!own) throw new Refusal('MalformedXML');
  if (own.text.trim() !== id) throw new Refusal('IdMismatch');
  if (!filter) return { id };
  const others = ['Tag', 'AccessPointArn', 'And'] as const;
  const [prefix, ...unsupported] = onlyChildren(filter, ['Prefix', ...others]);
  const found = unsupported.find((one) => one !== undefined);
  if (found) {
    const message = 'Metrics are filtered by a prefix alone.';
    throw new Refusal('NotImplemented', { message, fields: { Element: found.name } });
  }
  if (!prefix) throw new Refusal('MalformedXML');
  if (Buffer.byteLength(prefix.text) > prefixBytesMax) {
    throw new Refusal('InvalidRequest', { message: 'A prefix has at most 1024 bytes.' });
  }
  return { id, prefix: prefix.text };
}

/** The content of a MetricsConfiguration. */
export function metricsElements({ id, prefix }: MetricsConfiguration): XmlElements {
  return { Id: id, ...(prefix !== undefined && { Filter: { Prefix: prefix } }) };
}
