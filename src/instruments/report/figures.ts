// All figures of a chapter, in the order of the report. Invariant: every chapter has every figure;
// of what was not measured it says how it could be.
import type { Chapter } from './chapter.ts';
import type { Figure } from './figure.ts';
import { availabilityFigure, costFigure, partsFigure, threadsFigure } from './load-figures.ts';
import { stagesFigure } from './stage-figure.ts';
import {
  bandwidthFigure,
  dailyFigure,
  hourlyFigure,
  latencyFigure,
  pairsFigure,
  rateFigure,
} from './transfer-figures.ts';

export function figuresOf(chapter: Chapter): Figure[] {
  const figures = [
    bandwidthFigure(chapter, 'read'),
    bandwidthFigure(chapter, 'write'),
    dailyFigure(chapter, 'read'),
    dailyFigure(chapter, 'write'),
    hourlyFigure(chapter, 'read'),
    hourlyFigure(chapter, 'write'),
    rateFigure(chapter),
    latencyFigure(chapter),
    pairsFigure(chapter, 'read'),
    pairsFigure(chapter, 'write'),
    threadsFigure(chapter),
    partsFigure(chapter),
    availabilityFigure(chapter),
    costFigure(chapter),
    stagesFigure(chapter),
  ];
  return figures.map((figure) => (figure.n > 0 ? figure : { ...figure, says: figure.howTo }));
}
