// Price books of a market of the tests' own, with minimums for STANDARD, the one class that objects
// can be stored in. From May 2026 on they are others.
import { type PriceBook, parsePriceBook } from '#bursar/quota/prices/price-book.js';
import { draftBook } from '../prices/price-book-text.ts';

export const labMarket = 'lab/basement';

interface Storage {
  usdPerGbMonth: { upToGb?: number; usd: string }[];
  minimumDays: number;
  minimumBytes: number;
}

function labText(name: string, effective: string, of: Storage): string {
  const source = 'list';
  const standard = {
    storage: { usdPerGbMonth: of.usdPerGbMonth, source },
    put: { usdPer1000: '0.005', source },
    get: { usdPer1000: '0.0004', source },
    retrieval: { usdPerGb: '0', source },
    minimum: { days: of.minimumDays, bytes: of.minimumBytes, source },
  };
  const place = { provider: 'lab', region: 'basement' };
  const classes = { STANDARD: standard, RAW: { ...standard } };
  return JSON.stringify({ ...draftBook(), ...place, name, effective, classes });
}

/** File names and texts. */
export const labTexts: Record<string, string> = {
  'lab-january.json': labText('lab-january', '2026-01-01', {
    usdPerGbMonth: [{ upToGb: 10, usd: '0.30' }, { usd: '0.10' }],
    minimumDays: 30,
    minimumBytes: 131_072,
  }),
  'lab-may.json': labText('lab-may', '2026-05-11', {
    usdPerGbMonth: [{ usd: '0.60' }],
    minimumDays: 90,
    minimumBytes: 262_144,
  }),
};

export function labBooks(): PriceBook[] {
  return Object.values(labTexts).map(parsePriceBook);
}
