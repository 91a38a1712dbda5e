// How series are told apart: by colour, by dashes and by shape at once, so that neither colour-blind
// readers nor a print without colours lose one. The colours are the page's (page-style.ts).

const dashes = ['solid', [7, 4], [2, 3], [9, 3, 2, 3], [5, 2, 2, 2, 2, 2], [3, 3]] as const;
const shapes = ['circle', 'rect', 'triangle', 'diamond', 'pin', 'arrow'] as const;

export function dashesOf(style: number): 'solid' | readonly number[] {
  return dashes[style % dashes.length] ?? 'solid';
}

export function shapeOf(style: number): (typeof shapes)[number] {
  return shapes[style % shapes.length] ?? 'circle';
}
