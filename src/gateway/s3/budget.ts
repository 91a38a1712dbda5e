// What one request may use: set aside in all accounts concerned before its body moves, more of it
// where only the operation knows how much, and charged with its record. Invariants: a request that
// is refused for want of budget is charged nothing; what is charged was set aside, except by
// operations that have no price, which budgets never hold up.
import type { Identity } from '../../authz/identity.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import { Refusal } from '../../core/errors.ts';
import type { Picodollars } from '../../core/money.ts';
import { amountMax, type Draw, type MeterAmounts } from '../../quota/amounts.ts';
import {
  type Charge,
  type Charged,
  drawsOf,
  drawsOfOwner,
  noTransfer,
  type Pricing,
  type Transfer,
} from '../../quota/charge.ts';
import type { LeaseHolder } from '../../quota/leases/lease-holder.ts';
import type { Shortage } from '../../quota/leases/requests.ts';
import type { Hold, Reservation } from '../../quota/leases/reservation.ts';
import type { AccountList } from '../../quota/limited-accounts.ts';
import { chargeOperationAtMost } from '../../quota/prices/charges.ts';
import type { PriceBook } from '../../quota/prices/price-book.ts';
import { joinBooks, leastCost } from '../../quota/storage/several-books.ts';
import { type LimitAudience, quotaExceeded } from './limit-refusals.ts';
import { standardClass } from './objects/written-class.ts';
import type { AnyOperation } from './operation.ts';

/** At most this is used besides what was asked for before. */
export interface Ask extends Partial<Transfer> {
  storedBytes?: number;
  storedObjects?: number;
  /** What the request has its price from; the dearest class where it is not said. */
  storageClass?: string;
  /** What it is read from. */
  sourceClass?: string;
}

/** A body whose frames are larger than its headers say is let in by steps of this. */
const ingressStepBytes = 64 * 1024;

export class Budget {
  readonly #leaseHolder: LeaseHolder;
  readonly payers: Charged;
  readonly #price: AnyOperation['price'];
  #book: PriceBook;
  /** Who is told why it is refused, and what is left. */
  readonly audience: () => LimitAudience;
  /** What is set aside together with what the operation asks for first. */
  #expected: Ask | null = null;
  #reservation: Reservation | null = null;
  /** Something was asked for while no account had limits, and is not set aside. */
  #wasUnlimited = false;
  /** Of accounts with limits; kept when it was charged. */
  holds: readonly Hold[] = [];
  /** By which what it reads is priced; null: as the rest. */
  #sourceBook: PriceBook | null = null;
  /** By what each copy is charged of what it puts in a class that is not STANDARD; null: none. */
  storageBooks: readonly PriceBook[] | null = null;
  /** What the class says that is charged at least. */
  storageMinimum = { days: 0, bytes: 0 };
  /** What may come in before more has to be set aside. */
  ingressBytes = 0;
  #egressBytes = 0;
  #retrievalBytes = 0;
  #sourceClass: string | null = null;
  /** The first charge, which has what was moved. */
  #charged: Charge | null = null;
  /** What is on its way to the record. */
  #posted: { charge: Charge; reservation: Reservation | null } | null = null;

  constructor(
    leaseHolder: LeaseHolder,
    given: {
      payers: Charged;
      price: AnyOperation['price'];
      book: PriceBook;
      audience: () => LimitAudience;
    },
  ) {
    this.#leaseHolder = leaseHolder;
    this.payers = given.payers;
    this.#price = given.price;
    this.#book = given.book;
    this.audience = given.audience;
  }

  /** Who is charged for the bucket; null: no bucket is concerned. */
  get owner(): string | null {
    return this.payers.bucket?.owner ?? null;
  }

  /** Its request and what it retrieves are priced by this book. Before anything is set aside. */
  priceBy(book: PriceBook): void {
    this.#book = book;
  }

  /** Only what it reads is. */
  priceSourceBy(book: PriceBook): void {
    this.#sourceBook = book;
  }

  /**
   * Has this set aside with what the operation itself asks for, which it does before it costs much.
   * The object is the budget's own from here on.
   */
  expect(ask: Ask): void {
    this.#expected = ask;
  }

  /** Sets aside what was expected, if the operation asked for nothing. As `reserve`. */
  reserveExpected(): Promise<void> | null {
    return this.#expected && this.reserve({});
  }

  /**
   * Sets aside what an operation asks for; null: it is. Rejects with `Refusal` QuotaExceeded where
   * an account has not so much left, ServiceUnavailable when that cannot be written down.
   */
  reserve(asked: Ask): Promise<void> | null {
    if (this.#price === 'free') return null;
    const ask = this.#expected ? Object.assign(this.#expected, asked) : asked;
    this.#expected = null;
    this.ingressBytes += ask.ingressBytes ?? 0;
    this.#egressBytes += ask.egressBytes ?? 0;
    this.#retrievalBytes += ask.retrievalBytes ?? 0;
    this.#sourceClass = ask.sourceClass ?? this.#sourceClass;
    if (this.#leaseHolder.hasLimits) return this.#setAside(this.#drawsOf(ask));
    this.#wasUnlimited = true;
    return null;
  }

  #setAside(draws: readonly Draw[]): Promise<void> | null {
    if (this.#reservation)
      return draws.length === 0 ? null : this.#extend(this.#reservation, draws);
    const reservation = this.#leaseHolder.tryReserve(draws);
    if (!reservation) return this.#begin(draws);
    this.#keep(reservation);
    return null;
  }

  async #begin(draws: readonly Draw[]): Promise<void> {
    const outcome = await this.#leaseHolder.reserve(draws);
    if (!outcome.ok) throw this.refusalOf(outcome.shortage);
    this.#keep(outcome.reservation);
  }

  #keep(reservation: Reservation): void {
    reservation.isMixed = this.#wasUnlimited;
    this.#reservation = reservation;
    this.holds = reservation.holds;
  }

  async #extend(reservation: Reservation, draws: readonly Draw[]): Promise<void> {
    const shortage = await this.#leaseHolder.extend(reservation, draws);
    if (shortage) throw this.refusalOf(shortage);
  }

  /** Before some accounts, which the request may not be charged to, are to store more. */
  reserveStored(
    accounts: AccountList,
    amounts: { storedBytes: number; storedObjects: number },
  ): Promise<void> | null {
    if (accounts.length === 0) return null;
    return this.#setAside([{ accounts, amounts }]);
  }

  /**
   * Before an object is written into a class with minimum days: what storing it costs at least. It
   * is charged by time, so nothing is charged of this; it only keeps out what cannot be paid at
   * all.
   */
  reserveStorage(storageClass: string, sizeBytes: number): Promise<void> | null {
    const { bucket } = this.payers;
    if (!bucket || !this.#leaseHolder.hasLimits) return null;
    const books = this.storageBooks ?? [this.#book];
    const cost = leastCost(books, storageClass, sizeBytes, this.storageMinimum);
    if (cost === 0n) return null;
    if (cost > amountMax) throw tooDear();
    return this.#setAside(drawsOfOwner(bucket, cost));
  }

  /** How who asks is told that an account has not so much left. */
  refusalOf(shortage: Shortage): Refusal {
    return quotaExceeded(shortage, this.audience());
  }

  /** Before an answer of so many bytes is sent. */
  reserveAnswer(bytes: number): Promise<void> | null {
    const lacking = bytes - this.#egressBytes;
    return lacking > 0 ? this.reserve({ egressBytes: lacking }) : this.reserveExpected();
  }

  /** When so many bytes have come in all: waits where they are more than the headers said. */
  receive(bytes: number): Promise<void> | null {
    const lacking = bytes - this.ingressBytes;
    if (lacking <= 0 || this.#price === 'free') return null;
    return this.reserve({ ingressBytes: Math.max(lacking, ingressStepBytes) });
  }

  /**
   * The charge for what was done until now, which ends what was set aside for it. Of several the
   * first has what was moved. What was to be read is charged whether it was all sent or not.
   */
  charge(
    moved: { ingressBytes: number; egressBytes: number },
    storageClass: string = standardClass,
  ): Charge {
    const reservation = this.#reservation;
    const settlement = reservation?.post() ?? null;
    this.#reservation = null;
    const isFirst = this.#charged === null && this.#price !== 'free';
    const { ingressBytes, egressBytes } = moved;
    const retrievalBytes = this.#retrievalBytes;
    const transfer = isFirst
      ? { requests: 1, ingressBytes, egressBytes, retrievalBytes }
      : noTransfer;
    const charge = {
      who: this.payers,
      transfer,
      pricing: this.#pricingOf(storageClass),
      settlement: settlement && settlement.held.length > 0 ? settlement : null,
    };
    this.#charged ??= charge;
    this.#posted = { charge, reservation };
    return charge;
  }

  #pricingOf(storageClass: string): Pricing {
    const { storageBooks } = this;
    const sourceBook = this.#sourceBook?.name;
    const pricing = pricingOf(this.#book.name, this.#price, storageClass, this.#sourceClass);
    if (storageBooks === null && sourceBook === undefined) return pricing;
    return {
      ...pricing,
      ...(sourceBook !== undefined && { sourceBook }),
      ...(storageBooks && { storageBook: joinBooks(storageBooks.map(({ name }) => name)) }),
    };
  }

  /**
   * What was charged for, at the dearest of each tariff's tiers, picodollars; null: nothing was.
   */
  get cost(): Picodollars | null {
    if (!this.#charged) return null;
    const { transfer, pricing } = this.#charged;
    const sourceBook = this.#sourceBook;
    return chargeOperationAtMost(this.#book, { ...pricing, ...transfer, sourceBook });
  }

  /**
   * The last charge was not recorded, and so nobody was charged: what it held is free again. What
   * was moved is in the next one, and is set aside with what is asked for then.
   */
  uncharge(): void {
    const posted = this.#posted;
    this.#posted = null;
    posted?.reservation?.unpost();
    if (!posted || posted.charge !== this.#charged) return;
    this.#charged = null;
    const [ingressBytes, egressBytes] = [this.ingressBytes, this.#egressBytes];
    this.#expected = { requests: 1, ingressBytes, egressBytes };
    this.ingressBytes = 0;
    this.#egressBytes = 0;
    this.#retrievalBytes = 0;
    this.#sourceClass = null;
  }

  /** Ends it; harmless after a charge. */
  void(): void {
    this.#reservation?.void();
    this.#reservation = null;
  }

  #drawsOf(ask: Ask): readonly Draw[] {
    const book = this.#book;
    const sourceBook = this.#sourceBook;
    // With tokens, who pays is made for each request.
    if (this.payers.tokens.length > 0) return this.#drawAnew(ask);
    let known = drawnLast.get(this.payers);
    if (!known) {
      known = {};
      drawnLast.set(this.payers, known);
    }
    const last = known[this.#price];
    if (last?.book === book && last.sourceBook === sourceBook && isSame(last.ask, ask)) {
      return last.draws;
    }
    const draws = this.#drawAnew(ask);
    known[this.#price] = { ask: { ...ask }, book, sourceBook, draws };
    return draws;
  }

  #drawAnew(ask: Ask): readonly Draw[] {
    const { requests = 0, ingressBytes = 0, egressBytes = 0 } = ask;
    const { storedBytes = 0, storedObjects = 0, retrievalBytes = 0 } = ask;
    const spend = chargeOperationAtMost(this.#book, {
      price: requests > 0 ? this.#price : 'free',
      storageClass: ask.storageClass ?? null,
      sourceClass: ask.sourceClass ?? null,
      sourceBook: this.#sourceBook,
      ingressBytes,
      egressBytes,
      retrievalBytes,
    });
    if (spend > amountMax) throw tooDear();
    const moved: MeterAmounts = { requests, ingressBytes, egressBytes, spend: Number(spend) };
    return drawsOf(this.payers, moved, { storedBytes, storedObjects });
  }
}

/** What was drawn last for an ask. */
interface Drawn {
  ask: Readonly<Ask>;
  book: PriceBook;
  sourceBook: PriceBook | null;
  draws: readonly Draw[];
}

/**
 * By who pays, which many requests share, and by price. Many requests in a row ask for the same, as
 * parts of an upload and ranges of one length do: they share what they draw as well.
 */
const drawnLast = new WeakMap<Charged, { [P in AnyOperation['price']]?: Drawn }>();

function isSame(one: Readonly<Ask>, other: Ask): boolean {
  return (
    one.requests === other.requests &&
    one.ingressBytes === other.ingressBytes &&
    one.egressBytes === other.egressBytes &&
    one.retrievalBytes === other.retrievalBytes &&
    one.storedBytes === other.storedBytes &&
    one.storedObjects === other.storedObjects &&
    one.storageClass === other.storageClass &&
    one.sourceClass === other.sourceClass
  );
}

/** Requests share what they have in common: it crosses threads once for all that cross together. */
let pricings: Pricing[] = [];
const pricingsMax = 16;

function pricingOf(
  book: string,
  price: Pricing['price'],
  storageClass: string,
  sourceClass: string | null,
): Pricing {
  for (const known of pricings) {
    if (known.storageClass !== storageClass || known.price !== price) continue;
    if (known.sourceClass === sourceClass && known.book === book) return known;
  }
  const pricing = { book, price, storageClass, sourceClass };
  pricings = pricings.length === pricingsMax ? [pricing] : [...pricings, pricing];
  return pricing;
}

function tooDear(): Refusal {
  const message = 'This request may cost more than a single request can be charged.';
  return new Refusal('QuotaExceeded', { message });
}

/**
 * Who pays in each bucket, by who asks. Most requests are some principal's in some bucket, so one
 * object says it for all of them: it crosses threads once for those that cross together.
 */
const payers = new WeakMap<Bucket, Payers>();

/** The same where prefixes or writers are charged, too. */
const limitedPayers = new WeakMap<AccountList, WeakMap<Bucket, Payers>>();

type Payers = Map<string, Charged>;

/** Of one bucket; beyond it all are made anew. */
const payersMax = 1000;

/**
 * Who pays for a request. `tenant`: of who asks; without credentials the bucket's. `limited`: the
 * accounts of prefixes and writers.
 */
export function payersOf(
  who: Identity,
  tenant: string,
  bucket: Bucket | null,
  limited?: AccountList,
): Charged {
  if (!bucket || who.delegation) return chargedFor(who, tenant, bucket, limited);
  const known = knownPayers(bucket, limited);
  // Neither may contain a slash.
  const name = `${tenant}/${who.principal.name}`;
  let charged = known.get(name);
  if (!charged) {
    charged = chargedFor(who, tenant, bucket, limited);
    if (known.size >= payersMax) known.clear();
    known.set(name, charged);
  }
  return charged;
}

function knownPayers(bucket: Bucket, limited: AccountList | undefined): Payers {
  let byBucket = payers;
  if (limited) {
    byBucket = limitedPayers.get(limited) ?? new WeakMap();
    limitedPayers.set(limited, byBucket);
  }
  let known = byBucket.get(bucket);
  if (!known) {
    known = new Map();
    byBucket.set(bucket, known);
  }
  return known;
}

function chargedFor(
  { principal, delegation }: Identity,
  tenant: string,
  about: Bucket | null,
  limited: AccountList | undefined,
): Charged {
  // A bucket may have a long policy, which nobody needs to know to charge.
  const bucket = about && { tenant: about.tenant, name: about.name, owner: about.owner };
  const tokens = delegation?.accounts ?? [];
  return { tenant, principal: principal.name, tokens, bucket, ...(limited && { limited }) };
}
