// How series are told apart: by colour, by dashes and by shape at once, so that neither colour-
// blind readers nor a print without colours lose one. The colours are the page's (page-style.ts).

const dashes = ['solid', [7, 4], [2, 3], [9, 3, 2, 3], [5, 2, 2, 2, 2, 2], [3, 3]] as const;
/** As paths in a square of 10 by 10. */
const shapes = [
  'M0 5a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z',
  'M0.5 0.5h9v9h-9z',
  'M5 0l5 9.5h-10z',
  'M5 -0.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z',
  'M3.3 0h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z',
  'M0 1l10 0l-5 9z',
] as const;

export function dashesOf(style: number): 'solid' | readonly number[] {
  return dashes[style % dashes.length] ?? 'solid';
}

export function shapeOf(style: number): string {
  return shapes[style % shapes.length] ?? shapes[0];
}
