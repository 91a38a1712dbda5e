// What the instruments of one request take, alone: the calls that a GET of 4 KiB makes, in a loop. A loop
// has warm caches, so a request may pay more; but it tells a microsecond where requests vary by ten.
import { openSync } from 'node:fs';
import { Instruments } from '#bursar/instruments/instruments.js';
import { LogWriter } from '#bursar/instruments/log-writer.js';
import { makeLogger } from '#bursar/instruments/logger.js';
import { MetricRegistry } from '#bursar/instruments/metric-registry.js';
import { RequestLog } from '#bursar/instruments/request-log.js';
import { RequestMetrics } from '#bursar/instruments/request-metrics.js';
import { median } from './statistics.mjs';

const requests = 100_000;
const rounds = 9;
/** Lines of the log are written in between, as they are while a gateway waits. */
const linesBetween = 1000;
const noHeaders = {};

/** @returns {Promise<{name: string, title: string, ns: number}[]>} nanoseconds of CPU a request */
export async function timeInstruments() {
  const metrics = new Instruments([new RequestMetrics(new MetricRegistry())]);
  const writer = new LogWriter(openSync('/dev/null', 'w'));
  const logger = makeLogger('info', writer);
  const log = new RequestLog({ logger, isOn: true, slowMs: 60_000 });
  const clock = timed(metrics);
  const request = requestOf(clock);
  const none = new Instruments([]);
  const ways = [
    ['clock', 'stages: its clock, read at each change', () => timed(none).end()],
    [
      'metrics',
      'metrics: counted by operation, size, store and tenant',
      () => tell(metrics, request),
    ],
    ['timing', '`Server-Timing`, to those who are told', () => clock.describe()],
    ['line', 'the line of the log', () => log.observe(request)],
  ];
  const parts = [];
  for (const [name, title, run] of ways) {
    const tookNs = [];
    for (let round = 0; round < rounds; round++) {
      const before = process.cpuUsage();
      for (let i = 0; i < requests; i++) {
        run();
        if (name === 'line' && i % linesBetween === 0) await writer.flush(1000);
      }
      const { user, system } = process.cpuUsage(before);
      tookNs.push(((user + system) * 1000) / requests);
    }
    parts.push({ name, title, ns: median(tookNs) });
  }
  return parts;
}

/** A clock that went the way of a small GET; it runs. */
function timed(instruments) {
  const clock = instruments.begin();
  instruments.trace(noHeaders, clock);
  clock.enter('authenticate');
  clock.enter('decide');
  clock.enter('reserve');
  clock.enter('store');
  clock.during('reserve', null);
  clock.enter('firstByte');
  clock.answer();
  clock.enter('stream');
  clock.enter('commit');
  return clock;
}

function tell(instruments, request) {
  instruments.observe(request);
}

function requestOf(clock) {
  return {
    ...{ id: 'B4CDB7E28A4A7046', way: 's3', method: 'GET', operation: 'GetObject' },
    ...{ tenant: 'default', principal: 'admin', bucket: 'bench-small', store: 'local' },
    ...{ status: 200, error: null, bytesIn: 0, bytesOut: 4096, index: null, trace: null },
    ...{ source: '127.0.0.1', clock, durationMs: clock.end() },
  };
}
