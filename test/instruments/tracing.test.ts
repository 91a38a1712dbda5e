// Traces as a collector gets them and a store sees them: of a gateway on a real S3 server, whose
// requests a proxy writes down.
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { BoundedSpans } from '#bursar/instruments/bounded-spans.js';
import { StageClock } from '#bursar/instruments/stage-clock.js';
import { openTracing } from '#bursar/instruments/tracing.js';
import { type BackedGateway, startBackedGateway } from '../fault/backed-gateway.ts';
import { S3Client } from '../fault/s3-client.ts';
import { FaultProxy, type ProxiedRequest } from '../tooling/fault-proxy.ts';
import { parseMetrics, totalOf } from '../tooling/metrics-text.ts';
import {
  type OtlpReceiver,
  type ReceivedSpan,
  startOtlpReceiver,
} from '../tooling/otlp-receiver.ts';
import { readMetrics, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const server = 2;
const client = 3;

describeWithTool(versitygw, 'a request that is traced', (path) => {
  let collector: OtlpReceiver;
  let proxy: FaultProxy;
  let backed: BackedGateway;
  let s3: S3Client;
  /** What the store was sent. */
  let seen: ProxiedRequest[] = [];
  const key = `secret-${randomUUID()}`;
  const record = (request: ProxiedRequest): undefined => void seen.push(request);

  beforeAll(async () => {
    collector = await startOtlpReceiver();
    backed = await startBackedGateway({
      path,
      endpointOf: async ({ port }) => {
        proxy = await FaultProxy.start(port);
        return proxy.endpoint;
      },
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
        OTEL_EXPORTER_OTLP_HEADERS: 'x-collector-key=abc',
        OTEL_SERVICE_NAME: 'gateway-under-test',
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=lab',
        OTEL_BSP_SCHEDULE_DELAY: '50',
      },
    });
    s3 = new S3Client(backed.gateway);
    expect((await s3.send('PUT', '/traced')).status).toBe(200);
    proxy.choose = record;
  });
  afterAll(async () => {
    await backed?.stop();
    await proxy?.stop();
    await collector?.stop();
  });
  afterEach(() => {
    proxy.choose = record;
    seen = [];
  });

  /** A traceparent of a client, and its parts. */
  function begin(flags = '01') {
    const traceId = randomBytes(16).toString('hex');
    const spanId = randomBytes(8).toString('hex');
    return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-${flags}` };
  }

  const spansOf = (traceId: string, kind: number): ReceivedSpan[] =>
    collector.spans.filter((span) => span.traceId === traceId && span.kind === kind);

  const requestOf = (traceId: string): Promise<ReceivedSpan> =>
    collector.wait(() => spansOf(traceId, server)[0]);

  /** Trace contexts that the store got of extents. */
  const contextsOf = (method: string): (string | undefined)[] =>
    seen
      .filter((one) => one.method === method && one.target.includes('/extents/'))
      .map((one) => one.headers.traceparent as string | undefined);

  const contextOf = ({ traceId, spanId }: ReceivedSpan): string => `00-${traceId}-${spanId}-01`;

  it('is a child of its client’s span, and each try at the store is a child of it', async () => {
    const { traceId, spanId, traceparent } = begin();
    const headers = { traceparent, tracestate: 'vendor=1' };
    const body = randomBytes(9 * 1024 * 1024);
    const put = await s3.send('PUT', `/traced/${key}`, { headers, body });
    expect(put.status).toBe(200);
    const request = await requestOf(traceId);
    expect(request).toMatchObject({ name: 'PutObject', parentSpanId: spanId, isFailed: false });
    expect(request.attributes).toMatchObject({
      'http.request.method': 'PUT',
      'http.response.status_code': 200,
      'bursar.bucket': 'traced',
      'bursar.store': 'cloud',
      'bursar.tenant': 'default',
      'bursar.request_id': put.headers['x-amz-request-id'],
      'bursar.bytes_in': body.length,
    });
    const tries = spansOf(traceId, client);
    expect(tries.map((one) => one.parentSpanId)).toEqual(tries.map(() => request.spanId));
    expect(contextsOf('PUT')).toHaveLength(2);
    expect(contextsOf('PUT').sort()).toEqual(tries.map(contextOf).sort());
    // The journal's own requests are no part of a trace.
    const traced = seen.find(({ method, headers: sent }) => method === 'PUT' && sent.traceparent);
    expect(traced?.headers.tracestate).toBe('vendor=1');
    expect(collector.resource).toMatchObject({
      'service.name': 'gateway-under-test',
      'deployment.environment.name': 'lab',
    });
    expect(collector.headers['x-collector-key']).toBe('abc');
  });

  it('has a span for each stage that took time, inside its own', async () => {
    const { traceId, traceparent } = begin();
    await s3.send('PUT', `/traced/${key}-2`, { headers: { traceparent }, body: randomBytes(4096) });
    const request = await requestOf(traceId);
    const stages = spansOf(traceId, 1);
    expect(stages.map(({ name }) => name)).toContain('store');
    expect(stages.map((one) => one.parentSpanId)).toEqual(stages.map(() => request.spanId));
    const sumMs = stages.reduce((sum, { durationMs }) => sum + durationMs, 0);
    expect(sumMs).toBeLessThanOrEqual(request.durationMs + 0.01);
  });

  it('marks a try after a failure, of a range as of a whole', async () => {
    const { traceId, traceparent } = begin();
    let left = 1;
    proxy.choose = (request) => {
      record(request);
      const isRead = request.method === 'GET' && request.target.includes('/extents/');
      return isRead && left-- > 0 ? { kind: 'status', status: 503, code: 'SlowDown' } : undefined;
    };
    const headers = { traceparent, range: 'bytes=300000-300099' };
    expect((await s3.send('GET', `/traced/${key}`, { headers })).status).toBe(206);
    const request = await requestOf(traceId);
    expect(request.name).toBe('GetObject');
    const [first, second] = spansOf(traceId, client);
    expect(first).toMatchObject({
      parentSpanId: request.spanId,
      isFailed: true,
      attributes: { 'error.type': 'http-503', 'http.response.status_code': 503 },
    });
    expect(first?.attributes['http.request.resend_count']).toBeUndefined();
    expect(second).toMatchObject({
      isFailed: false,
      attributes: {
        'http.request.resend_count': 1,
        'http.response.status_code': 206,
        'server.address': '127.0.0.1',
        'server.port': Number(new URL(proxy.endpoint).port),
      },
    });
    const tries = [first, second] as ReceivedSpan[];
    expect(contextsOf('GET')).toEqual(tries.map(contextOf));
  });

  it('is not recorded when its client does not want it, yet goes on to the store', async () => {
    const unwanted = begin('00');
    const wanted = begin();
    for (const { traceparent } of [unwanted, wanted]) {
      await s3.send('GET', `/traced/${key}-2`, { headers: { traceparent } });
    }
    await requestOf(wanted.traceId);
    expect(collector.spans.filter(({ traceId }) => traceId === unwanted.traceId)).toEqual([]);
    const [context] = contextsOf('GET');
    expect(context).toMatch(new RegExp(`^00-${unwanted.traceId}-[0-9a-f]{16}-00$`));
  });

  it('begins a trace of its own when the header is none', async () => {
    const traceparent = '00-0000-1111-01';
    const answer = await s3.send('GET', '/traced/absent', { headers: { traceparent } });
    expect(answer.status).toBe(404);
    const id = answer.headers['x-amz-request-id'];
    const request = await collector.wait((spans) =>
      spans.find((one) => one.attributes['bursar.request_id'] === id),
    );
    expect(request.parentSpanId).toBeFalsy();
    expect(request.attributes['bursar.error']).toBe('NoSuchKey');
    expect(request.isFailed).toBe(false);
  });

  it('is one of the native API as well', async () => {
    const { traceId, spanId, traceparent } = begin();
    await s3.send('GET', '/_/v1/tenants', { headers: { traceparent } });
    const request = await requestOf(traceId);
    expect(request).toMatchObject({ name: 'ListTenants', parentSpanId: spanId });
    expect(request.attributes).toMatchObject({
      'bursar.way': 'native',
      'bursar.principal': 'admin',
    });
  });

  it('names no key and no credential, and is counted', async () => {
    const { traceId, traceparent } = begin();
    await s3.send('GET', `/traced/${key}-2`, {
      headers: { traceparent },
      query: [['response-content-language', 'unheard-of']],
    });
    await requestOf(traceId);
    for (const secret of ['secret-', backed.gateway.accessKeyId, 'unheard-of', 'Signature']) {
      expect(collector.text).not.toContain(secret);
    }
    const text = await readMetrics(backed.gateway);
    const count = (outcome: string) =>
      totalOf(parseMetrics(text), 'bursar_trace_spans_total', { outcome });
    expect(count('exported')).toBeGreaterThan(0);
    expect(count('dropped') + count('failed')).toBe(0);
  });
});

/** Of traces that nobody takes. */
const options = {
  exporter: { export: () => {}, shutdown: async () => {} },
  ...{ share: 1, isParentBased: true, version: '1' },
  batches: { waitingMax: 10 },
};
const attempt = { store: 's', host: 'h:1', method: 'GET', earlierTries: 0, isSecond: false };

describe('a collector that hangs', () => {
  it('delays no request and no end of the gateway', async () => {
    const hanging = createServer(() => {});
    await new Promise<void>((resolve) => hanging.listen(0, '127.0.0.1', resolve));
    const { port } = hanging.address() as AddressInfo;
    const gateway = await startServedGateway({
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
        OTEL_EXPORTER_OTLP_TIMEOUT: '200',
        OTEL_BSP_SCHEDULE_DELAY: '10',
        OTEL_BSP_MAX_QUEUE_SIZE: '4',
      },
    });
    try {
      const s3 = new S3Client(gateway);
      for (let i = 0; i < 5; i++) expect((await s3.send('GET', '/')).status).toBe(200);
      const text = await readMetrics(gateway);
      const outcomes = parseMetrics(text);
      const dropped = totalOf(outcomes, 'bursar_trace_spans_total', { outcome: 'dropped' });
      expect(dropped).toBeGreaterThan(0);
      expect(totalOf(outcomes, 'bursar_trace_spans_waiting')).toBeLessThanOrEqual(4);
    } finally {
      await gateway.stop();
      hanging.closeAllConnections();
      hanging.close();
    }
  });

  it('keeps a closing no longer than it may', async () => {
    const tracing = openTracing({ ...options, isTrusting: false });
    const trace = tracing.begin({}, new StageClock());
    for (let i = 0; i < 30; i++) trace.begin(attempt).end(null, 'reset');
    // Ten were given to it, ten wait.
    expect(tracing.counts).toEqual({ exported: 0, dropped: 10, failed: 0 });
    expect(tracing.waiting).toBe(10);
    await tracing.close(10);
  });
});

describe('a gateway that stops', () => {
  it('exports the spans that wait', async () => {
    const names: string[] = [];
    const exporter: SpanExporter = {
      export: (spans, done) => {
        names.push(...spans.map(({ name }) => name));
        done({ code: 0 });
      },
      shutdown: async () => {},
    };
    const tracing = openTracing({ ...options, exporter, isTrusting: false });
    tracing.begin({}, new StageClock()).begin(attempt).end(200, null);
    expect(names).toEqual([]);
    await tracing.close(10_000);
    expect(names).toEqual(['GET']);
    expect(tracing.counts.exported).toBe(1);
  });
});

describe('a client that wants to be traced', () => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  it.each([
    [false, '00'],
    [true, '01'],
  ])('has its way when it is trusted: %s', async (isTrusting, flags) => {
    const tracing = openTracing({ ...options, share: 0, isTrusting });
    const trace = tracing.begin({ traceparent }, new StageClock());
    const [, sent] = trace.begin(attempt).headers;
    expect(sent?.slice(-3)).toBe(`-${flags}`);
    expect(trace.traceId).toBe(traceparent.slice(3, 35));
    await tracing.close(10);
  });
});

describe('finished spans', () => {
  const spans = (count: number) => Array.from({ length: count }, () => ({}) as ReadableSpan);

  it('are counted by what the collector says', () => {
    const codes = [0, 1];
    let take: (batch: ReadableSpan[]) => void = () => {};
    const bounded = new BoundedSpans(
      5,
      {
        export: (_, done) => done({ code: codes.shift() as number }),
        shutdown: async () => {},
      },
      (exporter) => {
        take = (batch) => exporter.export(batch, () => {});
        const nothing = async () => {};
        return { onStart: () => {}, onEnd: () => {}, forceFlush: nothing, shutdown: nothing };
      },
    );
    for (const span of spans(7)) bounded.onEnd(span);
    expect(bounded.waiting).toBe(5);
    take(spans(3));
    take(spans(2));
    expect(bounded.counts).toEqual({ exported: 3, dropped: 2, failed: 2 });
    expect(bounded.waiting).toBe(0);
  });
});
