// Most tests wait for processes, disks and timers: three files at a time keep even two cores busy.
import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';

// What is tested in here leaves nothing behind in the process, so many files share one, which
// starts and loads the rooms once.
const rooms = 'test/{audit,authz,catalog,core,gateway,ledger,quota,tiering}/**';

export default defineConfig({
  test: {
    globalSetup: 'test/tooling/own-environment.ts',
    maxWorkers: Math.max(3, availableParallelism()),
    // What is built is loaded as it is, by Node, which may have kept it compiled.
    server: { deps: { external: [/\/dist\//] } },
    // A busy machine may take its time; what never comes fails all the same.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 40_000 } },
    projects: [
      { extends: true, test: { name: 'rooms', include: [`${rooms}/*.test.ts`], isolate: false } },
      { extends: true, test: { name: 'all', exclude: [...configDefaults.exclude, rooms] } },
    ],
  },
});
