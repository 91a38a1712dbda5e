// A report: chapters, each with its conclusions and figures, before it is a page, CSV or JSON.
// JSON's schema is docs/admin/report.md's.
import type { Chapter } from './chapter.ts';
import { type Conclusion, concludeFrom } from './conclusions.ts';
import type { Cell, Column, Figure } from './figure.ts';
import { figuresOf } from './figures.ts';
import type { Measures } from './measures.ts';

export interface ReportedChapter {
  chapter: Chapter;
  conclusions: readonly Conclusion[];
  figures: readonly Figure[];
}

export interface Report {
  /** Milliseconds since the Unix epoch. */
  madeMs: number;
  count: number;
  leftOut: number;
  chapters: readonly ReportedChapter[];
}

export function makeReport({ count, leftOut, chapters }: Measures, madeMs: number): Report {
  return {
    madeMs,
    count,
    leftOut,
    chapters: chapters.map((chapter) => {
      return { chapter, conclusions: concludeFrom(chapter), figures: figuresOf(chapter) };
    }),
  };
}

/** `archive, by probes`; names are whatever somebody called a store or a host. */
export function nameChapter({ target, source }: Chapter): string {
  const name = nameTarget({ target });
  return source === 'probe' ? `${name}, by probes` : `${name}, by clients’ requests`;
}

/** What was measured, as it may be shown. */
export function nameTarget({ target }: Pick<Chapter, 'target'>): string {
  const plain = target.replaceAll(deceptive, '\ufffd');
  return plain.length > 80 ? `${plain.slice(0, 80)}…` : plain;
}

/** What commands terminals, is not to be seen, or turns the direction of a text. */
const deceptive = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** What `--json` answers; times are RFC 3339. */
export function jsonOf({ madeMs, count, leftOut, chapters }: Report): object {
  return {
    version: 1,
    made: isoOf(madeMs),
    samples: count,
    leftOut,
    chapters: chapters.map(({ chapter, conclusions, figures }) => ({
      target: chapter.target,
      source: chapter.source,
      samples: chapter.count,
      represents: Math.round(chapter.represented),
      from: isoOf(chapter.firstMs),
      to: isoOf(chapter.lastMs),
      conclusions,
      figures: figures.map(({ id, title, says, n, columns, rows }) => {
        return { id, title, says, n, rows: rows.map((row) => objectOf(columns, row)) };
      }),
    })),
  };
}

function isoOf(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

function objectOf(columns: readonly Column[], row: readonly Cell[]): Record<string, Cell> {
  return Object.fromEntries(columns.map(({ key }, index) => [key, row[index] ?? null]));
}
