// Paths of tiles and entry bundles: C2SP tlog-tiles. Pure. Exactly one text names a tile, and no
// other is read.
import { tileWidth } from './merkle.ts';

export interface TileName {
  level: number | 'entries';
  index: number;
  /** The number of hashes: 1 to 255 of a partial tile, and 256 of a full one. */
  width: number;
}

/** Six groups: as many digits as a safe integer may have, and more. */
const tilePattern =
  /^tile\/(entries|[0-9]|[1-5][0-9]|6[0-3])\/((?:x[0-9]{3}\/){0,5}[0-9]{3})(?:\.p\/([1-9][0-9]{0,2}))?$/;

/** `tile/0/x001/234.p/5`: below the log's own address. */
export function pathOfTile({ level, index, width }: TileName): string {
  const digits = String(index);
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, '0').match(/.{3}/g) ?? [];
  const path = groups.map((group, i) => (i < groups.length - 1 ? `x${group}` : group)).join('/');
  return `tile/${level}/${path}${width < tileWidth ? `.p/${width}` : ''}`;
}

/** undefined: it names no tile. */
export function parseTilePath(path: string): TileName | undefined {
  const match = tilePattern.exec(path);
  if (!match) return undefined;
  const [, level = '', groups = '', width] = match;
  const index = Number(groups.replace(/[x/]/g, ''));
  const name: TileName = {
    level: level === 'entries' ? level : Number(level),
    index,
    width: width === undefined ? tileWidth : Number(width),
  };
  if (!Number.isSafeInteger(index) || name.width > tileWidth) return undefined;
  return pathOfTile(name) === path ? name : undefined;
}
