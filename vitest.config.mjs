// Most tests wait for processes, disks and timers: three files at a time keep even two cores busy.
import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    maxWorkers: Math.max(3, availableParallelism()),
    // A busy machine may take its time; what never comes fails all the same.
    testTimeout: 30_000,
    hookTimeout: 30_000,
    expect: { poll: { timeout: 20_000 } },
  },
});
