// Numbers of bytes as people read them, in the kind of units in which they were given.

const binary = { base: 1024, units: ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] } as const;
const decimal = { base: 1000, units: ['B', 'KB', 'MB', 'GB', 'TB', 'PB'] } as const;
type Units = typeof binary | typeof decimal;

/**
 * `1.5 GiB`: at least one digit, at most one decimal. `like`: in units of 1,000 where this number
 * was given in such, as 10 GB; default: of 1,024. That number itself has up to three decimals,
 * where they say all of it: `1.25 GB`.
 */
export function formatBytes(bytes: number, like = 0): string {
  const isGivenIn = (units: Units) => hasDecimals(inUnits(like, units).value, 3);
  // Where both could be meant, as of 400 KB and 390.625 KiB, it was the shorter one.
  const textIn = (units: Units) => String(inUnits(like, units).value);
  const isShorter = textIn(binary).includes('.') && textIn(decimal).length < textIn(binary).length;
  const isDecimal = isGivenIn(decimal) && (isShorter || !isGivenIn(binary));
  const units = isDecimal ? decimal : binary;
  const { value, unit } = inUnits(bytes, units);
  const isExact = bytes === like && !hasDecimals(value, 1) && hasDecimals(value, 3);
  const text = isExact ? String(Number(value.toFixed(3))) : value.toFixed(1);
  return `${unit === 0 ? Math.round(value) : text} ${units.units[unit]}`;
}

/** Does it have so many decimals at most? */
function hasDecimals(value: number, decimals: number): boolean {
  return Math.abs(value - Number(value.toFixed(decimals))) <= 1e-12 * value;
}

function inUnits(bytes: number, { base, units }: Units): { value: number; unit: number } {
  let unit = 0;
  let value = bytes;
  for (; value >= base && unit < units.length - 1; unit++) value /= base;
  return { value, unit };
}
