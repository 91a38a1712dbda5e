// One request and its answer, from the first line to the last byte: the head of the answer, and
// what the instruments are told of both. Invariant: an exchange that has begun ends once, however
// it ends. Specification of `Server-Timing`: W3C Server Timing.
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Identity } from '../../authz/identity.ts';
import { newRequestId } from '../../core/ids.ts';
import { localStore, localStoreName } from '../../core/manifest.ts';
import type { Instruments } from '../../instruments/instruments.ts';
import type { ObservedRequest, Way } from '../../instruments/observed-request.ts';
import type { RequestTrace } from '../../instruments/request-trace.ts';
import type { StageClock } from '../../instruments/stage-clock.ts';
import type { NamedBucket } from '../s3/bucket-lookup.ts';
import type { Budget } from '../s3/budget.ts';
import type { StoreList } from '../store-list.ts';
import type { Origin } from './trusted-proxies.ts';

/** Who is told how long each stage took: operators and tenants' admins, or all who ask. */
export type TimingAudience = 'admins' | 'everyone' | 'nobody';

/**
 * What an address is for: all; all but the administration, which has an address of its own; or that
 * alone.
 */
export type Door = 'all' | 'clients' | 'administration';

/** What all exchanges of an address have in common. */
export interface ExchangeTerms {
  door: Door;
  instruments: Pick<Instruments, 'begin' | 'trace' | 'leave' | 'observe'>;
  serverTiming: TimingAudience;
  /** Told as soon as it is known who asks. */
  onKnown?: (exchange: Exchange) => void;
}

/** One for each thread that takes connections, at random. */
const host = randomBytes(10);

export class Exchange implements ObservedRequest {
  readonly #terms: ExchangeTerms;
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
  readonly id = newRequestId();
  readonly method: string;
  /** Client address. */
  readonly source: string;
  /** Did it come over TLS? */
  readonly isSecure: boolean;
  readonly clock: StageClock;
  readonly trace: RequestTrace | null;
  way: Way;
  operation: string | null = null;
  tenant: string | null = null;
  principal: string | null = null;
  bucket: string | null = null;
  store: string | null = null;
  status = 0;
  error: string | null = null;
  message: string | null = null;
  rule: string | null = null;
  ruleTenant: string | null = null;
  bytesIn = 0;
  bytesOut = 0;
  index: number | null = null;
  durationMs = 0;
  /** null: it was not admitted, or is not charged for. */
  budget: Pick<Budget, 'cost'> | null = null;
  /** Is its sender told of its stages? `own`: as long as it is about their own tenant. */
  #isTimed: boolean | 'own';
  #hasEnded = false;
  #hasLeft = false;
  /** Has the thread that answers it said that it knows who asks? */
  isOfKnown = false;

  constructor(
    terms: ExchangeTerms,
    way: Way,
    { source, isSecure }: Origin,
    raw: IncomingMessage,
    response: ServerResponse,
  ) {
    this.clock = terms.instruments.begin();
    this.clock.turn = this;
    this.trace = terms.instruments.trace(raw.headers, this.clock);
    this.#terms = terms;
    this.#isTimed = terms.serverTiming === 'everyone';
    this.way = way;
    this.raw = raw;
    this.response = response;
    this.method = raw.method ?? '';
    this.source = source;
    this.isSecure = isSecure;
  }

  /** Where it came in. */
  get door(): Door {
    return this.#terms.door;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Does anybody still want the rest of its body? Another thread does until it has answered. */
  get isOpen(): boolean {
    return this.#hasLeft ? !this.response.writableEnded : !this.#hasEnded;
  }

  /** Who asks is known. */
  know(who: Pick<Identity, 'principal' | 'delegation' | 'authentication'>): void {
    const { principal, delegation, authentication } = who;
    this.tenant = principal.tenant;
    this.principal = principal.name;
    this.#terms.onKnown?.(this);
    if (this.#terms.serverTiming !== 'admins' || delegation !== null) return;
    // Presigned URLs and forms are signed for others to use.
    if (authentication?.type !== 'REST-HEADER') return;
    const { role } = principal;
    this.#isTimed = role === 'operator' || (role === 'admin' && 'own');
  }

  /** It is about this bucket, which need not be there. */
  concern({ tenant, name, bucket }: NamedBucket, stores: Pick<StoreList, 'nameOf'>): void {
    this.touch(tenant);
    if (!bucket) return;
    this.bucket = tenant === this.tenant ? name : `${tenant}:${name}`;
    this.store = bucket.store === localStore ? localStoreName : stores.nameOf(bucket.store);
  }

  /** It asks for what this tenant has, or could have. */
  touch(tenant: string): void {
    // How long a refusal takes could tell what others have.
    if (tenant !== this.tenant && this.#isTimed === 'own') this.#isTimed = false;
  }

  /** S3's second name of a request, which SDKs show beside the first: where it was answered. */
  get hostId(): string {
    return Buffer.concat([host, Buffer.from(this.id, 'hex')]).toString('base64');
  }

  /** What its sender may know of its stages so far; undefined: nothing. */
  get serverTiming(): string | undefined {
    return this.#isTimed ? this.clock.describe() : undefined;
  }

  /** Begins the answer. Of each it says which request it is of, and which record that has. */
  writeHead(status: number, headers: Record<string, string>): void {
    headers['x-amz-request-id'] = this.id;
    headers['x-amz-id-2'] = this.hostId;
    // What is stored is what its type says, and never what a browser makes of its bytes.
    headers['x-content-type-options'] = 'nosniff';
    if (this.index !== null) headers['x-bursar-receipt'] = String(this.index);
    const { serverTiming } = this;
    if (serverTiming !== undefined) headers['server-timing'] = serverTiming;
    this.clock.answer();
    this.response.writeHead(status, headers);
  }

  /** Another thread answers it, and tells its own instruments. */
  leave(): void {
    this.#hasEnded = true;
    this.#hasLeft = true;
    this.#terms.instruments.leave();
  }

  /** Nothing more is done for it. Harmless when it has ended. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const { response } = this;
    if (response.headersSent) this.status = response.statusCode;
    this.durationMs = this.clock.end();
    this.#terms.instruments.observe(this);
    // An idle connection remembers its newest exchange, which needs no more of what it cost.
    this.budget = null;
  }
}

const exchanges = new WeakMap<IncomingMessage, Exchange>();

/** An answer that others give, who know the message alone: it ends with their response. */
export function lendExchange(exchange: Exchange): void {
  const { raw, response, id } = exchange;
  exchanges.set(raw, exchange);
  response.setHeader('x-amz-request-id', id);
  response.setHeader('x-content-type-options', 'nosniff');
  response.once('close', () => exchange.end());
}

/** The exchange that was lent for this message. */
export function exchangeOf(raw: IncomingMessage): Exchange | undefined {
  return exchanges.get(raw);
}
