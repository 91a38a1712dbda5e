// The timer that has storage charged: at the start, and at the begin of each hour of the clock.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Repeated } from '#bursar/core/repeated.js';
import type { Maintenance } from '#bursar/ledger/commit.js';
import { chargeStorageHourly } from '#bursar/ledger/timers.js';

type Asked = Extract<Maintenance, { kind: 'chargeStorage' }>;

const hourMs = 3_600_000;
const nineMs = Date.UTC(2026, 10, 21, 9);
const books = new Map([[1, 'a-book']]);
let asked: Asked[];
let errors: unknown[];
/** What the ledger answers next; 0 after that. */
let answers: (number | Error)[];
let timer: Repeated;

beforeEach(() => {
  vi.useFakeTimers({ now: nineMs + 1234 });
  [asked, errors, answers] = [[], [], []];
  const maintain = async (work: Maintenance): Promise<number> => {
    asked.push(work as Asked);
    const answer = answers.shift() ?? 0;
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const onError = (error: unknown) => void errors.push(error);
  timer = chargeStorageHourly({
    ledger: { maintain },
    books: () => books,
    onError,
    nowMs: () => Date.now(),
  });
});
afterEach(() => {
  vi.useRealTimers();
});

const times = () => asked.map(({ beforeMs }) => beforeMs);

it('asks for what was not charged in this hour, at the start and when each begins', async () => {
  timer.start();
  await vi.advanceTimersByTimeAsync(1000);
  expect(times()).toEqual([nineMs]);
  await vi.advanceTimersByTimeAsync(3 * hourMs);
  expect(times()).toEqual([0, 1, 2, 3].map((hours) => nineMs + hours * hourMs));
  expect(asked[0]?.books).toBe(books);
  await timer.stop();
});

it('goes on until a batch is not full', async () => {
  answers = [200, 200, 199];
  timer.start();
  await vi.advanceTimersByTimeAsync(0);
  expect(times()).toEqual([nineMs, nineMs, nineMs]);
  await timer.stop();
});

it('asks again in the next hour when the ledger could not', async () => {
  answers = [new Error('the disk is full')];
  timer.start();
  await vi.advanceTimersByTimeAsync(hourMs);
  expect(errors).toHaveLength(1);
  expect(times()).toEqual([nineMs, nineMs + hourMs]);
  await timer.stop();
});

it('asks for nothing after it was stopped', async () => {
  timer.start();
  await timer.stop();
  await vi.advanceTimersByTimeAsync(5 * hourMs);
  expect(times()).toEqual([nineMs]);
});
