// A C compiler that works, for the libraries that faults are made with.
import { execFileSync } from 'node:child_process';
import type { Tool } from '../tooling/tools.ts';

const path = process.env.CC ?? 'cc';

export const compiler: Tool = { name: 'a C compiler', variable: 'CC', path: find() };

function find(): string | undefined {
  try {
    execFileSync(path, ['--version'], { stdio: 'ignore' });
    return path;
  } catch {
    return undefined;
  }
}
