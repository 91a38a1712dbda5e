// Takes traces as a collector of OpenTelemetry does, in OTLP's JSON form.
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ReceivedSpan {
  name: string;
  /** 1: internal, 2: server, 3: client. */
  kind: number;
  traceId: string;
  spanId: string;
  parentSpanId: string | undefined;
  durationMs: number;
  attributes: Record<string, unknown>;
  isFailed: boolean;
}

export interface OtlpReceiver {
  endpoint: string;
  spans: ReceivedSpan[];
  /** Attributes of what sent the latest spans. */
  resource: Record<string, unknown>;
  headers: IncomingHttpHeaders;
  /** All that came, as it came. */
  text: string;
  /** Resolves when `find` gives something; rejects after some seconds. */
  wait<T>(find: (spans: readonly ReceivedSpan[]) => T | undefined): Promise<T>;
  stop(): Promise<void>;
}

interface Attribute {
  key: string;
  value: Record<string, unknown>;
}

interface SentSpan extends Omit<ReceivedSpan, 'attributes' | 'durationMs' | 'isFailed'> {
  attributes: Attribute[];
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  status: { code?: number };
}

interface Sent {
  resourceSpans: {
    resource: { attributes: Attribute[] };
    scopeSpans: { spans: SentSpan[] }[];
  }[];
}

const waitMsMax = 10_000;
const pauseMs = 20;

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    take(receiver, Buffer.concat(pieces).toString());
    receiver.headers = request.headers;
    response.setHeader('content-type', 'application/json').end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const receiver: OtlpReceiver = {
    endpoint: `http://127.0.0.1:${port}`,
    spans: [],
    resource: {},
    headers: {},
    text: '',
    wait: async (find) => {
      for (let waitedMs = 0; waitedMs < waitMsMax; waitedMs += pauseMs) {
        const found = find(receiver.spans);
        if (found !== undefined) return found;
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
      throw new Error(`not received: ${JSON.stringify(receiver.spans, null, 1)}`);
    },
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return receiver;
}

function take(receiver: OtlpReceiver, text: string): void {
  receiver.text += text;
  for (const { resource, scopeSpans } of (JSON.parse(text) as Sent).resourceSpans) {
    receiver.resource = plain(resource.attributes);
    receiver.spans.push(...scopeSpans.flatMap(({ spans }) => spans.map(received)));
  }
}

function received(span: SentSpan): ReceivedSpan {
  const { name, kind, traceId, spanId, parentSpanId, attributes, status } = span;
  const lastedNs = BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano);
  return {
    ...{ name, kind, traceId, spanId, parentSpanId },
    durationMs: Number(lastedNs) / 1e6,
    attributes: plain(attributes),
    isFailed: status.code === 2,
  };
}

function plain(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
