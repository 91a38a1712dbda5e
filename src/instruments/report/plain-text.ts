// The conclusions of a report as lines for a terminal.
import { topics } from './conclusions.ts';
import { showCount, showSpan } from './numbers.ts';
import type { Report } from './report.ts';
import { nameChapter } from './report.ts';

export function linesOf({ chapters }: Report): string[] {
  if (chapters.length === 0) {
    return [
      'There are no samples: have `bursar probe` measure something, or clients use the gateway.',
    ];
  }
  return chapters.flatMap(({ chapter, conclusions }, index) => [
    ...(index > 0 ? [''] : []),
    `${nameChapter(chapter)}: ${showCount(chapter.count)} samples, ${showSpan(chapter)}`,
    ...conclusions.map(({ rule, says, n }) => `  ${topics[rule]}: ${says} (n = ${showCount(n)})`),
  ]);
}
