// A price book: what one provider charges in one region from a day on, read from a dated JSON file.
// Invariant: a book that was read has a price for everything that can be charged; nothing in it is
// left out, unknown, or without a source. Specification: docs/formats/price-book.md.
import type { Picodollars } from '../../core/money.ts';
import { isOwnClass } from '../../core/own-class.ts';
import {
  type Members,
  parsePlainJson,
  readCount,
  readEntries,
  readList,
  readMembers,
  readText,
  readUsd,
} from '../plain-json.ts';
import { makeTariff, type Tariff } from './tariff.ts';

export const priceBookBytesMax = 64 * 1024;
const classesMax = 50;
const sourcesMax = 50;
const tiersMax = 20;
/** Tiers end at most here, 8 ZiB: far beyond any bill, and exact as a number. */
const tierGbMax = 2 ** 43;
const minimumDaysMax = 3660;
const minimumBytesMax = 2 ** 30;

const nameForm = /^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$/;
// Begins with a letter, as JavaScript puts members that are numbers before others.
const sourceForm = /^[a-z][a-z0-9-]{0,62}$/;
export const classForm = /^[A-Z][A-Z0-9_]{0,31}$/;
/** The class of objects that name no other: every book that charges are made by has it. */
export const usualClass = 'STANDARD';
const dateForm = /^\d{4}-\d{2}-\d{2}$/;
const sourceDateForm = /^\d{4}(?:-\d{2}){0,2}$/;
const sourceTextForm = /^[^\p{Cc}]{1,500}$/u;

export interface PriceBook {
  /** As its file has it. */
  readonly text: string;
  readonly name: string;
  readonly provider: string;
  readonly region: string;
  /** Of a book of one class (`bookOfClass`): which one, and how it is restored. */
  readonly ofClass?: string;
  /** Begin of the day (UTC) from which on it is in force. */
  readonly effectiveMs: number;
  /** Per GB of the month, of all classes together. */
  readonly ingress: Tariff;
  readonly egress: Tariff;
  readonly classes: ReadonlyMap<string, ClassPrices>;
  /** The highest of each price that any class has. */
  readonly dearest: UsePrices;
}

/** How fast what is in an archive is to be there, as S3 names it. */
export const restoreTiers = ['Bulk', 'Standard', 'Expedited'] as const;
export type RestoreTier = (typeof restoreTiers)[number];

/** What it costs to ask for an object in an archive, and for what comes of it. */
export interface RestorePrices {
  readonly picodollarsPerRequest: Picodollars;
  readonly picodollarsPerGb: Picodollars;
}

/** The prices for the use of what is in a class. */
export interface UsePrices {
  readonly picodollarsPerPut: Picodollars;
  readonly picodollarsPerGet: Picodollars;
  readonly retrievalPicodollarsPerGb: Picodollars;
}

/** Prices of one storage class. */
export interface ClassPrices extends UsePrices {
  /** Per GB-month: a GB kept for all of a calendar month, whatever its length. */
  readonly storage: Tariff;
  /** Storage of an object is paid for this long, also when it is deleted earlier. */
  readonly minimumDays: number;
  /** A smaller object is charged as this large. */
  readonly minimumBytes: number;
  /** Of an archive, for each way in which it can be restored. */
  readonly restore: ReadonlyMap<RestoreTier, RestorePrices>;
}

/** Reads a book's text. Throws Error, which says where it is wrong and what would have fitted. */
export function parsePriceBook(text: string): PriceBook {
  const names = ['format', 'name', 'provider', 'region', 'effective', 'currency', 'sources'];
  const value = parsePlainJson(text, priceBookBytesMax);
  const book = readMembers(value, 'book', [...names, 'ingress', 'egress', 'classes']);
  readText(book.format, 'format', /^bursar-price-book\/1$/);
  readText(book.currency, 'currency', /^USD$/);
  const sources = new Sources(book.sources);
  const classes = readEntries(book.classes, 'classes', classForm, classesMax).map(
    ([name, one]) => [name, readClass(one, `classes.${name}`, sources)] as const,
  );
  const read = {
    text,
    name: readText(book.name, 'name', nameForm),
    provider: readText(book.provider, 'provider', nameForm),
    region: readText(book.region, 'region', nameForm),
    effectiveMs: readDay(book.effective, 'effective'),
    ingress: readTariff(book.ingress, 'ingress', 'usdPerGb', sources),
    egress: readTariff(book.egress, 'egress', 'usdPerGb', sources),
    classes: new Map(classes),
    dearest: dearestOf(classes.map(([, prices]) => prices)),
  };
  sources.checkUsed();
  return read;
}

/**
 * The book of what lies in a class of a provider, whoever put it there: what nobody gave a class
 * has that one's prices. With a tier, the prices of restores, too: each is a PUT, and what it
 * brings is retrieved. Undefined: the book does not have the class, or the tier.
 */
export function bookOfClass(
  book: PriceBook,
  storageClass: string,
  tier?: RestoreTier,
): PriceBook | undefined {
  const plain = book.classes.get(storageClass);
  const restore = tier && plain?.restore.get(tier);
  if (!plain || (tier && !restore)) return undefined;
  const prices = restore
    ? {
        ...plain,
        picodollarsPerPut: restore.picodollarsPerRequest,
        retrievalPicodollarsPerGb: restore.picodollarsPerGb,
      }
    : plain;
  const ofClass = tier ? `${storageClass}:${tier}` : storageClass;
  const classes = new Map(book.classes).set(usualClass, prices);
  const dearest = dearestOf([...classes.values()]);
  return { ...book, name: `${book.name}:${ofClass}`, ofClass, classes, dearest };
}

function dearestOf(all: readonly UsePrices[]): UsePrices {
  const most = (price: (prices: UsePrices) => Picodollars): Picodollars => {
    let found = 0n;
    for (const prices of all) if (price(prices) > found) found = price(prices);
    return found;
  };
  return {
    picodollarsPerPut: most((prices) => prices.picodollarsPerPut),
    picodollarsPerGet: most((prices) => prices.picodollarsPerGet),
    retrievalPicodollarsPerGb: most((prices) => prices.retrievalPicodollarsPerGb),
  };
}

/**
 * The prices of a class; one that a tenant defines has those of the usual class in the book of its
 * store. Throws when the book has none: stores are checked when they are opened.
 */
export function classPrices(book: PriceBook, storageClass: string): ClassPrices {
  const prices = book.classes.get(isOwnClass(storageClass) ? usualClass : storageClass);
  if (!prices) throw new Error(`the price book ${book.name} has no class ${storageClass}`);
  return prices;
}

/** Where the figures come from. Each figure names one, and each is named by one. */
class Sources {
  readonly #unused: Set<string>;
  readonly #names: ReadonlySet<string>;

  constructor(value: unknown) {
    const entries = readEntries(value, 'sources', sourceForm, sourcesMax);
    for (const [name, one] of entries) {
      const at = `sources.${name}`;
      const source = readMembers(one, at, ['text', 'date']);
      readText(source.text, `${at}.text`, sourceTextForm);
      readText(source.date, `${at}.date`, sourceDateForm);
    }
    this.#names = new Set(entries.map(([name]) => name));
    this.#unused = new Set(this.#names);
  }

  /** The figures of one meter, without their source. */
  readFigures(value: unknown, at: string, names: readonly string[]): Members {
    const figures = readMembers(value, at, [...names, 'source']);
    const { source } = figures;
    if (typeof source !== 'string' || !this.#names.has(source)) {
      throw new Error(`${at}.source: must be one of sources`);
    }
    this.#unused.delete(source);
    return figures;
  }

  checkUsed(): void {
    for (const name of this.#unused) throw new Error(`sources.${name}: must be of some figure`);
  }
}

function readClass(value: unknown, at: string, sources: Sources): ClassPrices {
  const names = ['storage', 'put', 'get', 'retrieval', 'minimum'];
  const meters = readMembers(value, at, names, ['restore']);
  const { restore } = meters;
  const minimum = sources.readFigures(meters.minimum, `${at}.minimum`, ['days', 'bytes']);
  const retrieval = sources.readFigures(meters.retrieval, `${at}.retrieval`, ['usdPerGb']);
  return {
    storage: readTariff(meters.storage, `${at}.storage`, 'usdPerGbMonth', sources),
    picodollarsPerPut: readRequestPrice(meters.put, `${at}.put`, sources),
    picodollarsPerGet: readRequestPrice(meters.get, `${at}.get`, sources),
    retrievalPicodollarsPerGb: readUsd(retrieval.usdPerGb, `${at}.retrieval.usdPerGb`),
    minimumDays: readCount(minimum.days, `${at}.minimum.days`, 0, minimumDaysMax),
    minimumBytes: readCount(minimum.bytes, `${at}.minimum.bytes`, 0, minimumBytesMax),
    restore: new Map(restore === undefined ? [] : readRestore(restore, `${at}.restore`, sources)),
  };
}

function readRestore(
  value: unknown,
  at: string,
  sources: Sources,
): (readonly [RestoreTier, RestorePrices])[] {
  const form = new RegExp(`^(${restoreTiers.join('|')})$`);
  return readEntries(value, at, form, restoreTiers.length).map(([tier, one]) => {
    const figures = sources.readFigures(one, `${at}.${tier}`, ['usdPer1000', 'usdPerGb']);
    const per1000 = readUsd(figures.usdPer1000, `${at}.${tier}.usdPer1000`, 9);
    const prices = {
      picodollarsPerRequest: per1000 / 1000n,
      picodollarsPerGb: readUsd(figures.usdPerGb, `${at}.${tier}.usdPerGb`),
    };
    return [tier as RestoreTier, prices] as const;
  });
}

/** Picodollars for one request: of a price for 1,000 with at most 9 decimals that is exact. */
function readRequestPrice(value: unknown, at: string, sources: Sources): Picodollars {
  const { usdPer1000 } = sources.readFigures(value, at, ['usdPer1000']);
  return readUsd(usdPer1000, `${at}.usdPer1000`, 9) / 1000n;
}

function readTariff(value: unknown, at: string, unit: string, sources: Sources): Tariff {
  const figures = sources.readFigures(value, at, [unit]);
  const items = readList(figures[unit], `${at}.${unit}`, tiersMax);
  let endGb = 0;
  const tiers = items.map((item, i) => {
    const place = `${at}.${unit}[${i}]`;
    const isLast = i === items.length - 1;
    const tier = readMembers(item, place, isLast ? ['usd'] : ['upToGb', 'usd']);
    const picodollarsPerGb = readUsd(tier.usd, `${place}.usd`);
    if (isLast) return { upToGb: undefined, picodollarsPerGb };
    endGb = readCount(tier.upToGb, `${place}.upToGb`, endGb + 1, tierGbMax);
    return { upToGb: BigInt(endGb), picodollarsPerGb };
  });
  return makeTariff(tiers);
}

/** Begin of a day of the calendar, UTC, in milliseconds since the epoch. */
function readDay(value: unknown, at: string): number {
  const timeMs = Date.parse(`${readText(value, at, dateForm)}T00:00:00Z`);
  // Some engines take 2026-02-30 for a day in March.
  if (!Number.isNaN(timeMs) && new Date(timeMs).toISOString().startsWith(String(value))) {
    return timeMs;
  }
  throw new Error(`${at}: must be a day of the calendar`);
}
