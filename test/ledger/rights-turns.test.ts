// The order in which commits are decided again: none that could outdate each other at a time, all
// in the end, and nobody behind very many of somebody else.
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { RightsTurns, type Stake } from '#bursar/ledger/rights-turns.js';
import { randomBelow, randomOf, seededRandom } from '../fuzz/seeded-random.ts';

const scopes = ['a', 'b', 'c', 'd'];

function conflict(one: Stake, other: Stake): boolean {
  const outdates = (x: Stake, y: Stake) => x.takes !== null && y.depends.includes(x.takes);
  return (
    outdates(one, other) ||
    outdates(other, one) ||
    (one.takes !== null && one.takes === other.takes)
  );
}

it('those that could outdate each other never have their turns at once, and all come', async () => {
  const seed = Date.now() % 2 ** 31;
  const random = seededRandom(seed);
  const turns = new RightsTurns();
  const having = new Set<Stake>();
  const done = Array.from({ length: 500 }, async () => {
    const stake = {
      requester: randomOf(random, ['x', 'y', 'z']),
      depends: scopes.filter(() => random() < 0.4),
      takes: random() < 0.5 ? randomOf(random, scopes) : null,
    };
    for (let i = randomBelow(random, 50); i > 0; i--) await setImmediate();
    const turn = turns.take(stake);
    await turn.come;
    for (const other of having) expect(conflict(stake, other), `seed ${seed}`).toBe(false);
    having.add(stake);
    for (let i = randomBelow(random, 3); i > 0; i--) await setImmediate();
    having.delete(stake);
    turn.end();
  });
  await Promise.all(done);
  await setImmediate();
  expect(scopes.filter((scope) => turns.isTaken(scope))).toEqual([]);
});

it('those that only depend on the same have their turns together', async () => {
  const turns = new RightsTurns();
  const stakes = ['x', 'y'].map((requester) => ({ requester, depends: ['a', 'b'], takes: null }));
  const both = stakes.map((stake) => turns.take(stake));
  await Promise.all(both.map(({ come }) => come));
  expect(turns.isTaken('a')).toBe(true);
  for (const { end } of both) end();
});

it('an administrator is next but one, however many changes somebody else asks for', async () => {
  const turns = new RightsTurns();
  const order: string[] = [];
  const stand = (requester: string): Promise<void> => {
    const turn = turns.take({ requester, depends: ['a'], takes: 'a' });
    return turn.come.then(async () => {
      await setImmediate();
      order.push(requester);
      turn.end();
    });
  };
  const flood = Array.from({ length: 200 }, () => stand('somebody'));
  await Promise.all([...flood, stand('administrator')]);
  expect(order.indexOf('administrator')).toBe(1);
  expect(order).toHaveLength(201);
});

it('one that gave up keeps its place until those before it have ended', async () => {
  const turns = new RightsTurns();
  const [first, second, third] = ['x', 'y', 'z'].map((requester) =>
    turns.take({ requester, depends: [], takes: 'a' }),
  ) as [ReturnType<RightsTurns['take']>, ...ReturnType<RightsTurns['take']>[]];
  second?.end();
  let hasCome = false;
  const come = third?.come.then(() => {
    hasCome = true;
  });
  await setImmediate();
  expect(hasCome).toBe(false);
  first.end();
  await come;
  third?.end();
});
