// What OpenTelemetry's variables make of tracing.
import { expect, it } from 'vitest';
import { chooseTracing } from '#bursar/server/settings/tracing-settings.js';

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
const batches = { waitingMax: 2048, spansMax: 512 };

it.each([
  ['nothing', {}],
  ['a name alone', { OTEL_SERVICE_NAME: 'gateway', OTEL_TRACES_SAMPLER: 'always_on' }],
  ['no exporter', { ...endpoint, OTEL_TRACES_EXPORTER: 'none' }],
  ['the SDK switched off', { ...endpoint, OTEL_SDK_DISABLED: 'true' }],
  ['an empty endpoint', { OTEL_EXPORTER_OTLP_ENDPOINT: '' }],
])('%s traces nothing', (_, environment) => {
  expect(chooseTracing(environment)).toBeNull();
});

it('an endpoint, or the exporter’s name, is enough', () => {
  const usual = { protocol: 'http/protobuf', share: 1, isParentBased: true, batches };
  expect(chooseTracing(endpoint)).toEqual(usual);
  expect(chooseTracing({ OTEL_TRACES_EXPORTER: 'otlp' })).toEqual(usual);
  expect(chooseTracing({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://c/v1/traces' })).toEqual(
    usual,
  );
});

it('the variables of traces come before the general ones', () => {
  const protocols = {
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json',
  };
  expect(chooseTracing({ ...endpoint, ...protocols })?.protocol).toBe('http/json');
});

it('samplers and limits are taken as they are called', () => {
  expect(
    chooseTracing({
      ...endpoint,
      OTEL_TRACES_SAMPLER: 'traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
      OTEL_BSP_MAX_QUEUE_SIZE: '100',
      OTEL_BSP_SCHEDULE_DELAY: '50',
      OTEL_BSP_EXPORT_TIMEOUT: '900',
    }),
  ).toMatchObject({
    share: 0.25,
    isParentBased: false,
    batches: { waitingMax: 100, spansMax: 100, intervalMs: 50, exportMsMax: 900 },
  });
  const off = { ...endpoint, OTEL_TRACES_SAMPLER: 'parentbased_always_off' };
  expect(chooseTracing(off)).toMatchObject({ share: 0, isParentBased: true });
});

it.each([
  ['OTEL_TRACES_EXPORTER', 'zipkin', /must be otlp or none/],
  ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc', /http\/protobuf or http\/json; gRPC is not spoken/],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318', /must be an http URL/],
  ['OTEL_TRACES_SAMPLER', 'jaeger_remote', /always_on, always_off or traceidratio/],
  ['OTEL_BSP_MAX_QUEUE_SIZE', '0', /from 1 to 100000/],
])('%s=%s stops the start, and says what would fit', (name, value, message) => {
  expect(() => chooseTracing({ ...endpoint, [name]: value })).toThrow(message);
});

it('a share of more than all stops the start', () => {
  const sampler = { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' };
  expect(() => chooseTracing({ ...endpoint, ...sampler })).toThrow(/must be 0 to 1/);
});
