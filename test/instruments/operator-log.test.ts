// What an operator has to know is in the log, with what was thrown, and in words for who looks.
import { type Logger, pino } from 'pino';
import { beforeEach, describe, expect, it } from 'vitest';
import { OperatorLog } from '#bursar/instruments/operator-log.js';

let shown: string[];
let lines: Record<string, unknown>[];

beforeEach(() => {
  shown = [];
  lines = [];
});

function logOf(level = 'info'): OperatorLog {
  const write = (line: string): void => void lines.push(JSON.parse(line));
  const logger: Logger = pino({ level, base: null }, { write });
  const end = (): never => {
    throw new Error('ended');
  };
  return new OperatorLog(logger, { show: (line) => void shown.push(line), end });
}

describe("an operator's log", () => {
  it('has what was thrown in its line, and its message in words', () => {
    logOf().warn('a sweep ended', new Error('no room'));
    expect(shown).toEqual(['a sweep ended: no room']);
    expect(lines).toMatchObject([{ level: 40, msg: 'a sweep ended', err: { message: 'no room' } }]);
  });

  it('shows texts of others on one line and without what would command a terminal', () => {
    logOf().warn('the probe', 'one\n\x1b[2Jtwo');
    expect(shown).toEqual(['the probe: one: \\u001b[2Jtwo']);
  });

  it('shows in words also what the log is not to have', () => {
    const log = logOf('silent');
    log.note('the store is back');
    log.warn('records were not archived');
    expect(shown).toEqual(['the store is back', 'records were not archived']);
    expect(lines).toEqual([]);
  });

  it('says why before the process ends', () => {
    expect(() => logOf().stop('the ledger cannot go on')).toThrow('ended');
    expect(shown).toEqual(['the ledger cannot go on']);
    expect(lines).toMatchObject([{ level: 60, msg: 'the ledger cannot go on' }]);
  });
});
