// A chain of storage classes, from the one for what is used to the one for what is not, and what a
// version costs in each. Pure. Amounts are estimates in USD, and no money is charged by them.

export interface Tier {
  /** Of the class. */
  readonly name: string;
  /** Of all its copies together, USD. */
  readonly perGbDay: number;
  /** For what is read, and for each read, USD. */
  readonly perGbRead: number;
  readonly perRead: number;
  /** To move a version into it, USD. */
  readonly perMove: number;
  /** What leaves earlier owes storage until then. */
  readonly minimumDays: number;
  /** What is smaller is charged as if it were that large. */
  readonly minimumBytes: number;
}

/** The first is where versions are written. */
export type Chain = readonly [Tier, ...Tier[]];

const bytesPerGb = 2 ** 30;

/** The storage of a version for a day. */
export function storedUsd(tier: Tier, sizeBytes: number, days = 1): number {
  return (Math.max(sizeBytes, tier.minimumBytes) / bytesPerGb) * tier.perGbDay * days;
}

export function readUsd(tier: Tier, { reads, bytes }: { reads: number; bytes: number }): number {
  return (bytes / bytesPerGb) * tier.perGbRead + reads * tier.perRead;
}

/** What is owed by a version that leaves after so many days. */
export function owedUsd(tier: Tier, sizeBytes: number, days: number): number {
  return storedUsd(tier, sizeBytes, Math.max(0, tier.minimumDays - days));
}

export function wholeReadUsd(tier: Tier, sizeBytes: number): number {
  return readUsd(tier, { reads: 1, bytes: sizeBytes });
}

/** Where it goes to a class before its own, what it costs to read it there is added. */
export function moveUsd(chain: Chain, sizeBytes: number, from: number, to: number): number {
  const { perMove } = tierAt(chain, to);
  return to < from ? perMove + wholeReadUsd(tierAt(chain, from), sizeBytes) : perMove;
}

export function tierAt(chain: Chain, index: number): Tier {
  const tier = chain[index];
  if (!tier) throw new RangeError(`the chain has no class ${index}`);
  return tier;
}
