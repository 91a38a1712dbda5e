// The log of the process: JSON lines on standard output, of requests and of what went wrong in them. What
// an operator has to do something about is told on standard error, in words.
import { LogWriter } from '../instruments/log-writer.ts';
import { type Logger, makeLogger } from '../instruments/logger.ts';
import type { MetricRegistry } from '../instruments/metric-registry.ts';
import { RequestLog } from '../instruments/request-log.ts';
import type { Closers } from './closers.ts';
import type { Config } from './config.ts';

/** For the last lines of a gateway that stops. */
const flushMsMax = 1000;
const standardOutput = 1;

export interface WiredLog {
  logger: Logger;
  requestLog: RequestLog;
  watch(registry: MetricRegistry): void;
}

/** To be opened before all that writes to it, so that it is closed after it. */
export function openLog(
  { logLevel, requestLog: isOn, slowRequestMs: slowMs }: Config,
  closers: Closers,
): WiredLog {
  // Where standard output is a pipe, Node has it not block from its first use on.
  void process.stdout;
  const writer = new LogWriter(standardOutput);
  closers.push(() => writer.flush(flushMsMax));
  process.once('exit', () => writer.flushSync());
  const logger = makeLogger(logLevel, writer);
  return {
    logger,
    requestLog: new RequestLog({ logger, isOn, slowMs }),
    watch: (registry) =>
      registry.counter({
        name: 'bursar_log_lines_dropped_total',
        help: 'Lines of the log that could not be written as fast as they came, or at all.',
        collect: () => writer.droppedLines,
      }),
  };
}
