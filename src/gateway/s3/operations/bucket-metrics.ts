// Which requests of a bucket are counted by themselves, each kind under an id, as S3 sets and shows
// it. What is counted is told by the gateway's own metrics.
import { metricsElements, parseMetrics } from '../buckets/metrics-xml.ts';
import { configurationsOf } from './configurations.ts';

export const bucketMetrics = configurationsOf({
  ...{ setting: 'metrics', name: 'Metrics', listed: 'ListMetricsConfigurationsResult' },
  actions: { read: 's3:GetMetricsConfiguration', write: 's3:PutMetricsConfiguration' },
  putStatus: 204,
  parse: (root, id) => parseMetrics(root, id),
  elements: metricsElements,
});
