// Promises of a Python script (see promises.py), one test each; the script runs once for all.
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { clientEnvironment, runTool } from '../tooling/tools.ts';
import type { ClientTarget } from './stores.ts';

const timeoutMs = 240_000;
/** Are the clients the oldest that docs/clients.md promises? Those cannot be asked everything. */
const areOldest = process.env.BURSAR_TEST_CLIENTS === 'oldest';

interface Outcome {
  skipped?: string;
  failed?: string;
}

/** `promises`: the function in the script, and what it promises. */
export function itKeepsPromises(
  python: string,
  script: string,
  targetOf: () => ClientTarget,
  promises: Record<string, string>,
): void {
  let outcomes: Record<string, Outcome>;

  beforeAll(async () => {
    const { endpoint, keys } = targetOf();
    const args = [join(import.meta.dirname, script), endpoint, ...Object.keys(promises)];
    const output = await runTool(python, args, clientEnvironment(keys));
    outcomes = JSON.parse(output.trimEnd().split('\n').at(-1) ?? '');
  }, timeoutMs);

  for (const [name, title] of Object.entries(promises)) {
    it(title, ({ skip }) => {
      const { failed, skipped } = outcomes[name] ?? { failed: 'was not tried' };
      expect(failed).toBeUndefined();
      // The newest clients, which CI has, can be asked everything.
      if (process.env.CI === 'true' && !areOldest) expect(skipped).toBeUndefined();
      skip(skipped !== undefined, skipped);
    });
  }
}
