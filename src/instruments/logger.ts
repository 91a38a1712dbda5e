// The log: a JSON object a line, by pino, on its way without anybody waiting for it. Invariant: of
// requests it says what observed-request.ts lets it, so no key, query, header or token stands in
// it.
import { type Logger, pino } from 'pino';
import type { LogWriter } from './log-writer.ts';

export type { Logger } from 'pino';

/** `level`: pino's, the least that is written. */
export function makeLogger(level: string, writer: LogWriter): Logger {
  return pino(
    {
      level,
      // Neither the process's id nor its host: who collects lines knows where they are from.
      base: null,
      formatters: { level: (label) => ({ level: label }) },
      timestamp,
    },
    writer,
  );
}

let second = 0;
let secondText = '';

/**
 * The member of a line that says the time, in ISO 8601 with milliseconds. A second is formatted
 * once for all of its lines.
 */
function timestamp(): string {
  const now = Date.now();
  const millis = now % 1000;
  if (now - millis !== second || secondText === '') {
    second = now - millis;
    secondText = new Date(second).toISOString().slice(0, 20);
  }
  return `,"time":"${secondText}${String(millis).padStart(3, '0')}Z"`;
}
