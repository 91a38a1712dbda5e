// Where two logs part, and what of it can be told from what is known.
import { describe, expect, it } from 'vitest';
import { type ForkReport, reportFork, type Sighting } from '#bursar/audit/log/fork-report.js';
import { findForkPoint, type Tree } from '#bursar/audit/log/log-comparison.js';
import { rootOf } from '#bursar/audit/log/merkle.js';
import { entriesOf, tilesOf } from './made-log.ts';

/** The first `common` entries, and then others. */
function treeOf(size: number, common = size): Tree {
  const entries = [...entriesOf(common), ...entriesOf(size, 'other').slice(common)];
  return { size, tiles: tilesOf(entries).tiles };
}

async function seen(tree: Tree, size = tree.size): Promise<Sighting> {
  return { by: `${size}`, size, root: await rootOf(tree.tiles, size) };
}

function relations(report: ForkReport): string[] {
  return report.sightings.map(({ relation }) => relation);
}

describe('the fork point of two trees', () => {
  it.each([
    [0, 0, 0],
    [0, 5, 0],
    [5, 5, 5],
    [700, 300, 300],
    [300, 700, 255],
    [300, 700, 256],
    [300, 700, 257],
    [600, 600, 0],
    [600, 600, 599],
  ])('of %i and %i leaves, of which the first %i are the same, is exact', async (a, b, common) => {
    const point = Math.min(common, a, b);
    expect(await findForkPoint(treeOf(a), treeOf(b, point))).toBe(point);
    expect(await findForkPoint(treeOf(b, point), treeOf(a))).toBe(point);
  });
});

describe('a report', () => {
  it('of what all have seen finds nothing missing', async () => {
    const tree = treeOf(400);
    const report = await reportFork(tree, [await seen(tree, 300), await seen(tree)], null);
    expect(report).toMatchObject({ agreedSize: 400, isExact: true, missing: null, doubtful: null });
    expect(relations(report)).toEqual(['same so far', 'same so far']);
  });

  it('of leaves that nobody has seen yet doubts none of them', async () => {
    const tree = treeOf(400);
    const report = await reportFork(tree, [await seen(tree, 300)], null);
    expect(report).toMatchObject({
      agreedSize: 300,
      isExact: false,
      missing: null,
      doubtful: null,
    });
  });

  it('of a shorter log says what is missing, and what may be another', async () => {
    const lost = treeOf(500);
    const sightings = [await seen(lost, 200), await seen(lost), { by: 'w', size: 450, root: null }];
    const report = await reportFork(treeOf(400), sightings, null);
    expect(report).toMatchObject({
      agreedSize: 200,
      isExact: false,
      missing: { from: 400, to: 499 },
      doubtful: { from: 200, to: 399 },
    });
    expect(relations(report)).toEqual(['same so far', 'longer than here', 'longer than here']);
  });

  it('of a log that grew in another way says from where on it may be another', async () => {
    const lost = treeOf(300);
    const sightings = [await seen(lost, 250), await seen(lost), { by: 'w', size: 300, root: null }];
    const report = await reportFork(treeOf(400, 260), sightings, null);
    expect(report).toMatchObject({ agreedSize: 250, doubtful: { from: 250, to: 399 } });
    expect(relations(report)).toEqual(['same so far', 'another log', 'unknown']);
  });

  it('is exact with a copy of the log that was seen', async () => {
    const other = { by: 'copy', tree: treeOf(300) };
    const report = await reportFork(treeOf(400, 260), [await seen(other.tree)], other);
    expect(report).toMatchObject({
      agreedSize: 260,
      isExact: true,
      missing: { from: 260, to: 299 },
      doubtful: { from: 260, to: 399 },
    });
    expect(relations(report)).toEqual(['another log', 'another log']);
    const same = await reportFork(treeOf(260), [], other);
    expect(same).toMatchObject({
      agreedSize: 260,
      missing: { from: 260, to: 299 },
      doubtful: null,
    });
    expect(relations(same)).toEqual(['longer than here']);
  });
});
