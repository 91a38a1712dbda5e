// Long works take turns: however many there are, the event loop is nobody's for long.
import { expect, it } from 'vitest';
import { Pace } from '#bursar/core/pace.js';

/** Keeps the thread for so long, as one step does. */
function keepBusy(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

/** The turns of the event loop that pass until `done`. */
async function countTurns(done: Promise<unknown>): Promise<number> {
  let isDone = false;
  let turns = 0;
  const end = done.then(() => {
    isDone = true;
  });
  while (!isDone) {
    await new Promise((resolve) => setImmediate(resolve));
    turns++;
  }
  await end;
  return turns;
}

it('gives each work a turn of its own, where several begin at once', async () => {
  const steps = async () => {
    const pace = new Pace();
    for (let i = 0; i < 3; i++) {
      keepBusy(12);
      await pace.rest();
    }
  };
  // Each first step is its caller's; the two others and the end come one in a turn.
  expect(await countTurns(Promise.all([steps(), steps(), steps()]))).toBeGreaterThanOrEqual(9);
});

it('counts the time of all that go on in a turn together', () => {
  const [first, second] = [new Pace(), new Pace()];
  keepBusy(12);
  expect([first.isDue, second.isDue, new Pace().isDue]).toEqual([true, true, true]);
});

it('lets short works end in the turn in which they began', async () => {
  const before = Promise.resolve('before');
  const work = async () => {
    const pace = new Pace();
    for (let i = 0; i < 10; i++) await pace.rest();
    return 'work';
  };
  await before;
  await new Promise((resolve) => setImmediate(resolve));
  const turn = new Promise((resolve) => setImmediate(() => resolve('turn')));
  expect(await Promise.race([turn, work()])).toBe('work');
});

it('ends those that wait, whoever else begins meanwhile', async () => {
  let isOver = false;
  const others = async () => {
    while (!isOver) {
      new Pace();
      keepBusy(11);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const work = async () => {
    const pace = new Pace();
    await pace.wait();
    // In its turn it has the whole of its time, though others have used theirs.
    const isDue = pace.isDue;
    isOver = true;
    return isDue;
  };
  const busy = others();
  expect(await work()).toBe(false);
  await busy;
});
