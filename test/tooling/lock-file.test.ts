// `npm start` and `npm test` begin with `npm ci`, which refuses a lock file that misses a package
// of another platform, and a lock written on one platform may miss those of all others.
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

interface LockedPackage {
  version?: string;
  resolved?: string;
  optionalDependencies?: Record<string, string>;
}

const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
  packages: Record<string, LockedPackage>;
};

it('the lock file has the packages of every platform', () => {
  const wanted = Object.values(lock.packages).flatMap((one) =>
    Object.keys(one.optionalDependencies ?? {}),
  );
  const missing = wanted.filter((name) => !lock.packages[`node_modules/${name}`]);
  expect(wanted.length).toBeGreaterThan(0);
  expect(missing).toEqual([]);
});

it('the lock file names no registry, so that each user’s own is asked', () => {
  expect(Object.values(lock.packages).filter((one) => one.resolved !== undefined)).toEqual([]);
});
