// A room of bytes that several tenants fill: memory, or what the disk can still take. Shares are by
// tenant first and by principal within the tenant, so that many keys of one tenant count as one.
// Invariants: what is held never exceeds the capacity that was known when it was taken. Where
// claims can be taken back, whoever holds less than another finds room at the other's cost, until
// both hold the same (max-min fairness): no tenant can be kept out by others, however many claims
// they make. Where they cannot, a tenant takes at most three quarters of what other tenants leave,
// and a principal half of what other principals leave, beyond one claim, which may have all there
// is.

/** Why not: there is no room for it, or whoever asks has too much of the room already. */
export type ClaimOutcome = 'taken' | 'noRoom' | 'tooMuch';

/** How others get back what a claim holds. */
export interface Reclaim {
  /** What the claim could give back at once, bytes. */
  readonly spareBytes: number;
  /**
   * Gives back so many of its spare bytes before it returns, or what is left of them: another
   * thread may use some at any time.
   */
  reclaim(bytes: number): void;
}

class Share {
  bytes = 0;
  /** Oldest first. */
  readonly claims = new Set<Claim>();
}

class TenantShare {
  bytes = 0;
  readonly principals = new Map<string, Share>();
}

export class FairShare {
  readonly #capacityBytes: () => number;
  readonly #tenants = new Map<string, TenantShare>();
  #heldBytes = 0;

  constructor(capacityBytes: () => number) {
    this.#capacityBytes = capacityBytes;
  }

  get capacityBytes(): number {
    return this.#capacityBytes();
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** A claim of nothing yet. It must be closed. Null: what it will hold cannot be taken back. */
  open(tenant: string, principal: string, reclaim: Reclaim | null): Claim {
    return new Claim(this, { tenant, principal }, reclaim);
  }

  /** How many of so many more bytes have no room now. */
  lackingBytes(bytes: number): number {
    return Math.max(this.#heldBytes + bytes - this.#capacityBytes(), 0);
  }

  /** For `Claim` alone. `isHere`: see there. */
  take(claim: Claim, bytes: number, isHere: boolean): ClaimOutcome {
    const tenant = this.#tenants.get(claim.who.tenant) ?? new TenantShare();
    const share = tenant.principals.get(claim.who.principal) ?? new Share();
    const capacityBytes = this.#capacityBytes();
    const lacking = this.#heldBytes + bytes - capacityBytes;
    if (claim.isFirm) {
      if (lacking > 0) return 'noRoom';
      const others = this.#heldBytes - tenant.bytes;
      const isTenants = tenant.bytes > 0 && tenant.bytes + bytes > (capacityBytes - others) * 0.75;
      const left = capacityBytes - this.#heldBytes + share.bytes;
      const isOwn = share.bytes > 0 && share.bytes + bytes > left / 2;
      if (isTenants || isOwn) return 'tooMuch';
    } else {
      for (let short = lacking; short > 0; ) {
        const plan = this.#plan({ claim, tenant, share, bytes, isHere }, short);
        if (!plan) return short <= share.bytes ? 'tooMuch' : 'noRoom';
        for (const { from, count } of plan) from.reclaim(count);
        short = this.#heldBytes + bytes - capacityBytes;
      }
    }
    this.#heldBytes += bytes;
    tenant.bytes += bytes;
    share.bytes += bytes;
    share.claims.add(claim);
    // The claim that was taken back may have been the last of the same principal or tenant.
    tenant.principals.set(claim.who.principal, share);
    this.#tenants.set(claim.who.tenant, tenant);
    return 'taken';
  }

  /** For `Claim` alone. */
  give(claim: Claim, bytes: number, isLast: boolean): void {
    const { tenant: tenantName, principal } = claim.who;
    const tenant = this.#tenants.get(tenantName);
    const share = tenant?.principals.get(principal);
    if (!tenant || !share) return;
    this.#heldBytes -= bytes;
    tenant.bytes -= bytes;
    share.bytes -= bytes;
    if (isLast) share.claims.delete(claim);
    if (share.claims.size === 0) tenant.principals.delete(principal);
    if (tenant.principals.size === 0) this.#tenants.delete(tenantName);
  }

  /**
   * Returns which claims give back how much, so that `lacking` bytes become free. Null means that
   * no claim has to give back any.
   */
  #plan(asked: Asked, lacking: number): Returned[] | null {
    const { claim, tenant, share, bytes, isHere } = asked;
    const plan: Returned[] = [];
    let left = lacking;
    const collect = (shares: Iterable<Share>, most: number): void => {
      let allowed = Math.min(left, most);
      for (const { claims } of largestFirst(shares)) {
        for (const from of claims) {
          if (allowed <= 0) return;
          const count = from === claim ? 0 : Math.min(from.spareBytes, allowed);
          if (count <= 0) continue;
          plan.push({ from, count });
          allowed -= count;
          left -= count;
        }
      }
    };
    const after = tenant.bytes + bytes;
    for (const other of largestFirst(this.#tenants.values())) {
      if (left <= 0 || other.bytes <= after) break;
      if (other !== tenant) collect(other.principals.values(), other.bytes - after);
    }
    for (const other of largestFirst(tenant.principals.values())) {
      if (left <= 0 || other.bytes <= share.bytes + bytes) break;
      if (other !== share) collect([other], other.bytes - share.bytes - bytes);
    }
    if (isHere) collect([share], left);
    return left > 0 ? null : plan;
  }
}

interface Asked {
  claim: Claim;
  tenant: TenantShare;
  share: Share;
  bytes: number;
  isHere: boolean;
}

interface Returned {
  from: Claim;
  count: number;
}

function largestFirst<T extends { bytes: number }>(shares: Iterable<T>): T[] {
  return [...shares].sort((a, b) => b.bytes - a.bytes);
}

/** The share of a room that one request or upload holds. */
export class Claim {
  readonly #room: FairShare;
  readonly who: { tenant: string; principal: string };
  readonly #reclaim: Reclaim | null;
  /** What it holds; only `take` and `give` change it. */
  bytes = 0;
  #isOpen = true;

  /** Use `FairShare.open`. */
  constructor(room: FairShare, who: Claim['who'], reclaim: Reclaim | null) {
    this.#room = room;
    this.who = who;
    this.#reclaim = reclaim;
  }

  /** Nobody can take back what it holds. */
  get isFirm(): boolean {
    return this.#reclaim === null;
  }

  get spareBytes(): number {
    return this.#reclaim ? Math.min(this.#reclaim.spareBytes, this.bytes) : 0;
  }

  reclaim(bytes: number): void {
    this.#reclaim?.reclaim(bytes);
  }

  /**
   * Takes so many more bytes. One of nothing is always granted. `isHere`: they have come already,
   * so that what the same principal's other claims only wait for may be taken back for them.
   */
  take(bytes: number, isHere = false): ClaimOutcome {
    if (!this.#isOpen) return 'noRoom';
    if (bytes === 0) return 'taken';
    const outcome = this.#room.take(this, bytes, isHere);
    if (outcome === 'taken') this.bytes += bytes;
    return outcome;
  }

  /** Gives so many of its bytes back. Throws when it does not hold them. */
  give(bytes: number): void {
    if (bytes > this.bytes) throw new Error('more was given back than was taken');
    if (bytes === 0) return;
    this.bytes -= bytes;
    this.#room.give(this, bytes, this.bytes === 0);
  }

  /** Gives all back, for good. Harmless twice. */
  close(): void {
    this.#isOpen = false;
    this.give(this.bytes);
  }
}
