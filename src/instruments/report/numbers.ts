// Numbers as people read them, with their units, to three digits. Bandwidths are decimal (1 MB/s is
// 1,000,000 bytes a second); sizes, which are binary, are shown by `sizes.ts`.

/** `0.0123`, `12.3`, `1,230`: three digits that mean something. */
export function showNumber(value: number): string {
  if (!Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e12)) return value.toExponential(2);
  return value.toLocaleString('en-US', { maximumSignificantDigits: size >= 1000 ? 15 : 3 });
}

export function showCount(count: number): string {
  return count.toLocaleString('en-US');
}

const prefixes = ['', 'k', 'M', 'G', 'T', 'P'] as const;

/** `12.3 M`, `1 k`, `0.5`: for the ticks of axes, whose titles say of what. */
export function showPrefixed(value: number): string {
  let prefix = 0;
  let rest = value;
  for (; Math.abs(rest) >= 999.5 && prefix < prefixes.length - 1; prefix++) rest /= 1000;
  const digits = rest.toLocaleString('en-US', { maximumSignificantDigits: 3 });
  return prefix === 0 ? digits : `${digits} ${prefixes[prefix]}`;
}

/** `71.2 MB/s`, of bytes per second. */
export function showBandwidth(bytesPerSecond: number): string {
  const text = showPrefixed(bytesPerSecond);
  return `${/[a-z]$/i.test(text) ? text : `${text} `}B/s`;
}

/** `430 µs`, `12.3 ms`, `1.5 s`, `3 min`. */
export function showDuration(ms: number): string {
  if (ms < 1 && ms > 0) return `${showNumber(ms * 1000)} µs`;
  if (ms < 999.5) return `${showNumber(ms)} ms`;
  if (ms < 120_000) return `${showNumber(ms / 1000)} s`;
  return `${showNumber(ms / 60_000)} min`;
}

/** `99.947%`: as many digits as tell it from all; what is not all of it is never shown as 100%. */
export function showShare(share: number): string {
  if (share >= 1) return '100%';
  const decimals = Math.max(1, Math.min(9, Math.ceil(-Math.log10(1 - share)) - 1));
  return `${Math.floor(share * 100 * 10 ** decimals + 1e-6) / 10 ** decimals}%`;
}

/** `$5.00`, of picodollars. */
export function showUsd(picodollars: number): string {
  const usd = picodollars / 1e12;
  if (usd >= 0.995 || usd === 0) {
    const cents = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
    return `$${usd.toLocaleString('en-US', cents)}`;
  }
  return `$${showNumber(usd)}`;
}

/** `2026-11-20`, in UTC. */
export function showDay(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 10);
}

/** `2026-11-20 13:05`, in UTC. */
export function showTime(timeMs: number): string {
  return new Date(timeMs).toISOString().slice(0, 16).replace('T', ' ');
}

/** `2026-11-20 13:05 to 2026-11-21 08:00 UTC` */
export function showSpan({ firstMs, lastMs }: { firstMs: number; lastMs: number }): string {
  return `${showTime(firstMs)} to ${showTime(lastMs)} UTC`;
}
