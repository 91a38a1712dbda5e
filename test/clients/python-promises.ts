// Promises of a Python script (see promises.py), one test each; the script runs once for all.
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { clientEnvironment, runTool } from '../tooling/tools.ts';
import type { ClientTarget } from './stores.ts';

const timeoutMs = 240_000;

/** `promises`: the function in the script, and what it promises. */
export function itKeepsPromises(
  python: string,
  script: string,
  targetOf: () => ClientTarget,
  promises: Record<string, string>,
): void {
  let outcomes: Record<string, string | null>;

  beforeAll(async () => {
    const { endpoint, keys } = targetOf();
    const args = [join(import.meta.dirname, script), endpoint, ...Object.keys(promises)];
    const output = await runTool(python, args, clientEnvironment(keys));
    outcomes = JSON.parse(output.trimEnd().split('\n').at(-1) ?? '');
  }, timeoutMs);

  for (const [name, title] of Object.entries(promises)) {
    it(title, () => expect(outcomes[name]).toBeNull());
  }
}
