// What of a client's trace context is believed, and which requests are traced by it.
import { ROOT_CONTEXT, SpanKind, trace } from '@opentelemetry/api';
import { describe, expect, it } from 'vitest';
import { passOn } from '#bursar/instruments/request-trace.js';
import { readTraceContext } from '#bursar/instruments/trace-context.js';
import { RequestSampler } from '#bursar/instruments/trace-sampler.js';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const spanId = '00f067aa0ba902b7';
const traceparent = `00-${traceId}-${spanId}-01`;

describe('a trace context', () => {
  it('is read from a valid header, with what a later version adds', () => {
    const read = { traceId, spanId, isSampled: true, traceparent, tracestate: undefined };
    expect(readTraceContext({ traceparent })).toEqual(read);
    const later = `01-${traceId}-${spanId}-02-more`;
    expect(readTraceContext({ traceparent: later })).toMatchObject({
      traceparent: later,
      isSampled: false,
    });
  });

  it.each([
    ['nothing', ''],
    ['no trace', `00-${'0'.repeat(32)}-${spanId}-01`],
    ['no span', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['capital letters', traceparent.toUpperCase()],
    ['the version that is none', `ff-${traceId}-${spanId}-01`],
    ['more than its version has', `${traceparent}-more`],
    ['a later version without end', `01-${traceId}-${spanId}-01-${'x'.repeat(300)}`],
    ['two headers', `${traceparent}, ${traceparent}`],
    ['a line break', `${traceparent}\r\nx-evil: 1`],
  ])('of %s is none', (_, given) => {
    expect(readTraceContext({ traceparent: given })).toBeNull();
  });

  it('has its tracestate where that can be passed on, and stays without', () => {
    expect(readTraceContext({ traceparent, tracestate: 'a=1,b=2' })?.tracestate).toBe('a=1,b=2');
    for (const tracestate of ['x'.repeat(513), 'a=\u0001', 'a=ü', '']) {
      const read = readTraceContext({ traceparent, tracestate });
      expect(read?.traceId).toBe(traceId);
      expect(read?.tracestate).toBeUndefined();
    }
  });

  it('goes on to the store as it came where nobody traces', () => {
    const headers = { traceparent, tracestate: 'a=1' };
    const passed = passOn(headers);
    expect(passed?.traceId).toBe(traceId);
    const attempt = { store: 's', host: 'h', method: 'GET', earlierTries: 0, isSecond: false };
    const asSent = ['traceparent', traceparent, 'tracestate', 'a=1'];
    expect(passed?.begin(attempt).headers).toEqual(asSent);
    expect(passOn({})).toBeNull();
    expect(passOn({ traceparent: 'nonsense' })).toBeNull();
  });
});

describe('of requests, what is traced', () => {
  const newTraceId = () => 'f'.repeat(32);
  /** By the trace id, as samplers of a share are. */
  const root = {
    shouldSample: (_: unknown, id: string) => ({ decision: id.startsWith('0') ? 2 : 0 }),
    toString: () => 'root',
  };
  const clients = (id: string, traceFlags: number) =>
    trace.setSpanContext(ROOT_CONTEXT, { traceId: id, spanId, traceFlags, isRemote: true });
  const decide = (
    choice: { isParentBased: boolean; isTrusting: boolean },
    context: typeof ROOT_CONTEXT,
    id: string,
  ) => {
    const sampler = new RequestSampler({ root, newTraceId, ...choice });
    return sampler.shouldSample(context, id, 'request', SpanKind.SERVER, {}, []).decision;
  };
  const chosen = '0'.repeat(31).concat('1');

  it('is the sampler’s choice for those that begin here', () => {
    const choice = { isParentBased: true, isTrusting: false };
    expect(decide(choice, ROOT_CONTEXT, chosen)).toBe(2);
    expect(decide(choice, ROOT_CONTEXT, newTraceId())).toBe(0);
  });

  it('grows neither by a client’s flag nor by its trace id', () => {
    for (const isParentBased of [true, false]) {
      const choice = { isParentBased, isTrusting: false };
      expect(decide(choice, clients(chosen, 1), chosen)).toBe(0);
    }
  });

  it('shrinks by a client’s flag where parents have a say', () => {
    const chosenHere = { root, newTraceId: () => chosen };
    const sampler = (isParentBased: boolean) =>
      new RequestSampler({ ...chosenHere, isParentBased, isTrusting: false });
    const ask = (isParentBased: boolean) =>
      sampler(isParentBased).shouldSample(clients(chosen, 0), chosen, '', SpanKind.SERVER, {}, []);
    expect(ask(true).decision).toBe(0);
    expect(ask(false).decision).toBe(2);
  });

  it('is what trusted clients say', () => {
    const choice = { isParentBased: true, isTrusting: true };
    expect(decide(choice, clients(newTraceId(), 1), newTraceId())).toBe(2);
    expect(decide({ ...choice, isParentBased: false }, clients(chosen, 0), chosen)).toBe(2);
  });

  it('is traced with all of its stages and tries', () => {
    const inside = (traceFlags: number) =>
      trace.setSpanContext(ROOT_CONTEXT, { traceId: newTraceId(), spanId, traceFlags });
    const choice = { isParentBased: false, isTrusting: false };
    expect(decide(choice, inside(1), newTraceId())).toBe(2);
    expect(decide(choice, inside(0), chosen)).toBe(0);
  });
});
