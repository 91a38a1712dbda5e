// Samples, sorted into chapters: one for each target and source. Invariant: a folder of
// samples is read once, and however large it is takes no more memory than the chapters' bounds.
import type { Sample } from '../sample.ts';
import { Chapter, type Source } from './chapter.ts';

export interface Measures {
  /** Samples that are in a chapter. */
  count: number;
  /** Samples of targets that were over the bound. */
  leftOut: number;
  /** Those with most samples first. */
  chapters: readonly Chapter[];
}

export const chaptersMax = 16;

/** `target`: only this one. Ends when the samples do, and throws what they throw. */
export async function collectMeasures(
  samples: AsyncIterable<Sample> | Iterable<Sample>,
  { target }: { target?: string | undefined } = {},
): Promise<Measures> {
  const chapters = new Map<string, Chapter>();
  let count = 0;
  let leftOut = 0;
  for await (const sample of samples) {
    if (target !== undefined && sample.target !== target) continue;
    const source: Source = sample.series === 'traffic' ? 'traffic' : 'probe';
    const id = `${source} ${sample.target}`;
    let chapter = chapters.get(id);
    if (!chapter && chapters.size < chaptersMax) {
      chapter = new Chapter(sample.target, source);
      chapters.set(id, chapter);
    }
    if (chapter) count++;
    else leftOut++;
    chapter?.add(sample);
  }
  const sorted = [...chapters.values()].sort((a, b) => b.count - a.count);
  return { count, leftOut, chapters: sorted };
}
