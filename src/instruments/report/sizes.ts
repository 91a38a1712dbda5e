// Sizes of transfers as they were measured. Invariant: what a size is called in the report says how
// large the transfers were, not how large something like them usually is.
import type { Sample } from '../sample.ts';
import { bandOf } from '../size-band.ts';

/** Sizes that are shown together: of single transfers, of those in threads, or with a cost. */
type Use = 'transfers' | 'surge' | 'cost';
type Kind = Sample['kind'];

interface Span {
  min: number;
  max: number;
}

/** Clients' requests have all sizes: these are the borders of `bandOf`. */
const bandNames = [
  ...['under 32 B', '32 B to 32 KiB', '32 KiB to 4 MiB', '4 to 40 MiB', '40 MiB and more'],
] as const;

/** The smallest and the largest size of each band, for each use and kind. */
export class MeasuredSizes {
  readonly #spans = new Map<string, Span>();

  add(use: Use, kind: Kind, bytes: number): void {
    const name = `${use} ${kind} ${bandOf(bytes)}`;
    const span = this.#spans.get(name);
    if (!span) {
      this.#spans.set(name, { min: bytes, max: bytes });
      return;
    }
    span.min = Math.min(span.min, bytes);
    span.max = Math.max(span.max, bytes);
  }

  /** `256 KiB`, or `1 MiB to 2 MiB` where several sizes are shown as one. */
  nameOf(use: Use, kind: Kind, band: number): string {
    return nameSpan(this.#spans.get(`${use} ${kind} ${band}`));
  }

  /** The same of both kinds, for the ticks of an axis. */
  tickOf(use: Use, band: number): string {
    const found = (['read', 'write'] as const).flatMap((kind) => {
      return this.#spans.get(`${use} ${kind} ${band}`) ?? [];
    });
    if (found.length === 0) return '';
    const min = Math.min(...found.map((span) => span.min));
    return nameSpan({ min, max: Math.max(...found.map((span) => span.max)) });
  }
}

/** Of a band, which clients' requests of many sizes fall into. */
export function nameBand(band: number): string {
  return bandNames[band] ?? '';
}

function nameSpan(span: Span | undefined): string {
  if (!span) return '';
  const { min, max } = span;
  return min === max ? showSize(min) : `${showSize(min)} to ${showSize(max)}`;
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

/** `4,000 B`, `256 KiB`, `1.5 MiB`: exact up to 9,999 bytes, else to three digits. */
export function showSize(bytes: number): string {
  let unit = 0;
  let rest = bytes;
  const isRound = bytes % 1024 === 0;
  for (; rest >= 1024 && unit < units.length - 1 && (unit > 0 || isRound || bytes >= 1e4); unit++) {
    rest /= 1024;
  }
  // Sizes that were worked out have no parts of bytes.
  const digits = unit === 0 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
  const shown = rest >= 1000 ? { maximumFractionDigits: 0 } : digits;
  return `${rest.toLocaleString('en-US', shown)} ${units[unit]}`;
}
