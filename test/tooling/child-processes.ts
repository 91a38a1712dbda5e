// Processes that a process has started, as Linux knows them.
import { readdirSync, readFileSync } from 'node:fs';

/** Those whose command line has this word. */
export function childrenOf(pid: number, word: string): number[] {
  const children: number[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const parent = /\) \S (\d+)/.exec(readFileSync(`/proc/${name}/stat`, 'utf8'))?.[1];
      if (Number(parent) !== pid) continue;
      const words = readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0');
      if (words.includes(word)) children.push(Number(name));
    } catch {
      // It has ended meanwhile.
    }
  }
  return children;
}
