// Durations, sizes, switches, choices and addresses as people write them. Each function throws an
// Error whose message says what would have fitted.

const durationUnitsMs: Record<string, number> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

// Binary multiples, as storage people mean them; the SI forms are accepted for what they say.
const sizeUnits: Record<string, number> = {
  B: 1,
  kB: 1000,
  KB: 1000,
  KiB: 1024,
  MB: 1000 ** 2,
  MiB: 1024 ** 2,
  GB: 1000 ** 3,
  GiB: 1024 ** 3,
  TB: 1000 ** 4,
  TiB: 1024 ** 4,
  PB: 1000 ** 5,
  PiB: 1024 ** 5,
};

/** Milliseconds of `500ms`, `30s`, `5m`, `1h` or `7d`. */
export function parseDuration(text: string): number {
  return parseQuantity(text, durationUnitsMs, 'a duration such as 500ms, 30s, 5m, 1h or 7d');
}

/** Bytes of `65536`, `64KiB`, `1MiB`, `50GB` … */
export function parseSize(text: string): number {
  if (/^\d+$/.test(text)) return parseCount(text);
  return parseQuantity(text, sizeUnits, 'a size such as 65536, 64KiB, 1MiB or 50GB');
}

/** `true` or `yes`, `false` or `no`. */
export function parseSwitch(text: string): boolean {
  if (text === 'true' || text === 'yes') return true;
  if (text === 'false' || text === 'no') return false;
  throw new Error('must be yes or no');
}

/** One of some words. */
export function parseWord<T extends string>(text: string, words: readonly T[]): T {
  const word = words.find((one) => one === text);
  if (word === undefined) throw new Error(`must be one of ${words.join(', ')}`);
  return word;
}

/** A whole number, not negative. */
export function parseCount(text: string): number {
  const count = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(count))
    throw new Error('must be a whole number');
  return count;
}

function parseQuantity(text: string, units: Record<string, number>, wanted: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]+)$/.exec(text);
  const unit = match?.[2];
  if (!match || unit === undefined || !Object.hasOwn(units, unit)) {
    throw new Error(`must be ${wanted}`);
  }
  const value = Math.round(Number(match[1]) * (units[unit] as number));
  if (!Number.isSafeInteger(value)) throw new Error(`must be ${wanted}`);
  return value;
}

export interface Listen {
  /** Without brackets. */
  host: string;
  /** 0: any free port. */
  port: number;
}

/** `127.0.0.1:9000`, `localhost:0`, `[::1]:9000`, `:9000` (all interfaces). */
export function parseListen(text: string): Listen {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:[\]/]*)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (!match || port > 65_535) {
    throw new Error('must be HOST:PORT such as 127.0.0.1:9000, [::1]:9000 or localhost:0');
  }
  return { host: match[1] ?? (match[2] || '0.0.0.0'), port };
}

/** `http://127.0.0.1:9000`, without a slash at its end. */
export function parseUrl(text: string): string {
  const wanted = 'must be a URL such as https://s3.example.org, without path or query';
  if (!URL.canParse(text)) throw new Error(wanted);
  const url = new URL(text);
  const isHttp = url.protocol === 'http:' || url.protocol === 'https:';
  if (!isHttp || url.pathname !== '/' || url.search || url.hash || url.username) {
    throw new Error(wanted);
  }
  return url.origin;
}

/** Reads an amount that has bounds. Throws `Error`, which continues "the value … ". */
export function within(parse: (text: string) => number, min: number, max: number, shown: string) {
  return (text: string): number => {
    const value = parse(text);
    if (value >= min && value <= max) return value;
    throw new Error(`must be ${shown}`);
  };
}
