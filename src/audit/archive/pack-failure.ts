// A pack that its store does not give back as it was written. It is a failure of its own kind: the
// database has what the log says of the records, and nothing was altered in it; who is told of it
// learns which pack it is and where it should be, which is what it takes to put it back.
import { IntegrityError } from '../../core/errors.ts';
import { tileWidth } from '../log/merkle.ts';
import type { PackedPart } from './archived-tiles.ts';

export interface LostExtent {
  /** The id of the pack, in hexadecimal. */
  id: string;
  /** The store that should have it. */
  store: { number: number; name: string };
}

export class PackFailure extends IntegrityError {
  readonly extent: LostExtent;
  /** The first record of the pack. */
  readonly from: number;

  constructor(part: PackedPart, extent: LostExtent, cause: IntegrityError) {
    const { id, store } = extent;
    const what =
      cause.kind === 'missing'
        ? `has lost its extent ${id} in store ${store.name}`
        : `is damaged in store ${store.name}: ${cause.message}`;
    super(`the pack of records ${recordsOf(part)} ${what}`, {
      kind: cause.kind,
      store: store.number,
      cause,
    });
    this.extent = extent;
    this.from = part.first * tileWidth;
  }
}

/** A pack that was not read, since its store is not configured. Nothing says that it is lost. */
export class PackSkipped extends IntegrityError {
  constructor(part: PackedPart) {
    super(`the store of records ${recordsOf(part)} is not configured`, { kind: 'missing' });
  }
}

/** `0 to 4095` */
export function recordsOf({ first, tiles }: Pick<PackedPart, 'first' | 'tiles'>): string {
  return `${first * tileWidth} to ${(first + tiles) * tileWidth - 1}`;
}
