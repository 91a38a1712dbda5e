// Where a client's request belongs in a trace, as its headers say. Invariant: what is not exactly a
// trace context counts as none, and what is passed on is as long as it may be at most.
// Specification: W3C Trace Context, sections 3.2 and 3.3.
import type { IncomingHttpHeaders } from 'node:http';

export interface TraceContext {
  /** The header as the client sent it. */
  traceparent: string;
  traceId: string;
  spanId: string;
  /** The client wants it recorded, or has it recorded itself. */
  isSampled: boolean;
  tracestate: string | undefined;
}

// A later version may say more behind the four fields.
const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x21-\x7e]{0,200})?$/;
const noTrace = '0'.repeat(32);
const noSpan = '0'.repeat(16);
const tracestateCharsMax = 512;
const tracestateForm = /^[\x20-\x7e\t]+$/;

/** null: there is none, or none that is valid. */
export function readTraceContext({
  traceparent,
  tracestate,
}: IncomingHttpHeaders): TraceContext | null {
  const match = typeof traceparent === 'string' ? form.exec(traceparent) : null;
  if (!match) return null;
  const [text, version, traceId = '', spanId = '', flags = '', rest] = match;
  if (version === 'ff' || (version === '00' && rest !== undefined)) return null;
  if (traceId === noTrace || spanId === noSpan) return null;
  const isSampled = (Number.parseInt(flags, 16) & 1) === 1;
  return { traceparent: text, traceId, spanId, isSampled, tracestate: stateIn(tracestate) };
}

/** One that cannot be passed on as it is, is not passed on at all. */
function stateIn(given: string | string[] | undefined): string | undefined {
  const text = Array.isArray(given) ? given.join(',') : given;
  if (text === undefined || text.length > tracestateCharsMax) return undefined;
  return tracestateForm.test(text) ? text : undefined;
}

/** Headers of a request that belongs to the trace: names and values by turns. */
export function traceHeaders(traceparent: string, tracestate: string | undefined): string[] {
  const headers = ['traceparent', traceparent];
  if (tracestate !== undefined) headers.push('tracestate', tracestate);
  return headers;
}
