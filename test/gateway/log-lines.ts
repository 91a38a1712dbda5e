// The log of a served gateway, as those who collect it read it.
import { vi } from 'vitest';
import type { ServedGateway } from '../tooling/served-gateway.ts';

export interface LogLine {
  level: string;
  time: string;
  msg: string;
  requestId: string;
  way: string;
  method: string;
  operation?: string;
  tenant?: string;
  principal?: string;
  bucket?: string;
  store?: string;
  status: number;
  error?: string;
  bytesIn: number;
  bytesOut: number;
  durationMs: number;
  firstByteMs: number;
  receipt?: number;
  source: string;
  stagesMs?: Record<string, number>;
}

/** Of requests, in the order of their ends; a line that is not whole yet is left out. */
export function readLines({ output }: Pick<ServedGateway, 'output'>): LogLine[] {
  const lines = output().split('\n').slice(0, -1);
  return lines
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as LogLine)
    .filter(({ requestId }) => requestId !== undefined);
}

/** The one line that fits; waits for it. */
export async function findLine(
  gateway: Pick<ServedGateway, 'output'>,
  fits: (line: LogLine) => boolean,
): Promise<LogLine> {
  const look = (): LogLine => {
    const found = readLines(gateway).filter(fits);
    if (found.length !== 1) throw new Error(`${found.length} lines fit: ${gateway.output()}`);
    return found[0] as LogLine;
  };
  return vi.waitFor(look, { timeout: 20_000, interval: 20 });
}
