// The process itself: its main thread, its memory and its garbage. Invariant: what is told only
// grows, however many read it, so that none of them takes anything from another.
import { PerformanceObserver, performance } from 'node:perf_hooks';
import { monotonicMs } from '../core/clock.ts';
import { Histogram, secondBounds } from './histogram.ts';
import type { Labels, MetricRegistry } from './metric-registry.ts';
import { StallWatch } from './stall-watch.ts';
import { ThreadTimes } from './thread-times.ts';

const delayCheckMs = 20;

/** Until `close`. `version`: Bursar's. To be made by the main thread. */
export class ProcessMetrics {
  readonly #times = new ThreadTimes();
  readonly #timer: NodeJS.Timeout;
  readonly #collections: PerformanceObserver;

  constructor(registry: MetricRegistry, version: string) {
    const delays = new Histogram(secondBounds);
    const stalls = new StallWatch();
    this.#timer = watchDelay(delays, stalls, this.#times);
    const pauses = new Histogram(secondBounds);
    this.#collections = watchCollections(pauses);
    registry.histogram({
      name: 'bursar_event_loop_delay_seconds',
      help: 'How late the main thread was for a timer of 20 ms.',
      collect: () => delays,
    });
    registry.histogram({
      name: 'bursar_event_loop_stall_seconds',
      help: 'How late that timer was, where it was 50 ms or more, by what kept the thread.',
      collect: () => stalls.late(),
    });
    if (this.#times.areKnown) {
      registry.histogram({
        name: 'bursar_event_loop_stall_own_seconds',
        help: 'Of each such stall, what is left without waiting for a processor that others had.',
        collect: () => stalls.own(),
      });
      registry.counter({
        name: 'bursar_event_loop_stall_processor_seconds_total',
        help: 'Of such stalls, the time in which the main thread had a processor.',
        collect: () => stalls.processorSeconds(),
      });
    }
    registry.counter({
      name: 'bursar_event_loop_active_seconds_total',
      help: 'Time in which the main thread did not wait for something to do.',
      collect: () => performance.eventLoopUtilization().active / 1000,
    });
    registry.histogram({
      name: 'bursar_garbage_collection_seconds',
      help: 'Pauses of the main thread for garbage collection.',
      collect: () => pauses,
    });
    registry.counter({
      name: 'bursar_process_cpu_seconds_total',
      help: 'Processor time of all threads.',
      collect: cpuSeconds,
    });
    registry.gauge({
      name: 'bursar_process_memory_bytes',
      help: 'Memory of the process, and of the main thread.',
      collect: memoryBytes,
    });
    registry.gauge({
      name: 'bursar_process_start_time_seconds',
      help: 'When the process started, since the Unix epoch.',
      collect: () => performance.timeOrigin / 1000,
    });
    registry.gauge({
      name: 'bursar_build_info',
      help: '1. What runs.',
      isPrivate: true,
      collect: () => [[{ version, node: process.version }, 1]],
    });
  }

  close(): void {
    clearInterval(this.#timer);
    this.#times.close();
    this.#collections.disconnect();
  }
}

function watchDelay(delays: Histogram, stalls: StallWatch, times: ThreadTimes): NodeJS.Timeout {
  let sinceMs = monotonicMs();
  const given = { processorMs: 0, queuedMs: 0 };
  const check = (): void => {
    const now = monotonicMs();
    const lateMs = Math.max(0, now - sinceMs - delayCheckMs);
    delays.record(lateMs / 1000);
    const { processorMs, queuedMs } = times;
    times.read();
    given.processorMs = times.processorMs - processorMs;
    given.queuedMs = times.queuedMs - queuedMs;
    stalls.check(lateMs, now, given);
    sinceMs = now;
  };
  return setInterval(check, delayCheckMs).unref();
}

function watchCollections(pauses: Histogram): PerformanceObserver {
  const observer = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) pauses.record(duration / 1000);
  });
  observer.observe({ entryTypes: ['gc'] });
  return observer;
}

function cpuSeconds(): (readonly [Labels, number])[] {
  const { user, system } = process.cpuUsage();
  return [
    [{ mode: 'user' }, user / 1e6],
    [{ mode: 'system' }, system / 1e6],
  ];
}

function memoryBytes(): (readonly [Labels, number])[] {
  const { rss, heapUsed, heapTotal, external, arrayBuffers } = process.memoryUsage();
  return [
    [{ kind: 'resident' }, rss],
    [{ kind: 'heapUsed' }, heapUsed],
    [{ kind: 'heapTotal' }, heapTotal],
    [{ kind: 'external' }, external],
    [{ kind: 'arrayBuffers' }, arrayBuffers],
  ];
}
