// Which principal a token of an outside issuer acts as, and what it allows. Invariant: it narrows.
// What it allows, the principal that its subject is mapped to must be allowed as well, with the
// groups that its entries are mapped to; and it never makes an operator.
import type { OutsideVerifier } from '../authz/bearer.ts';
import type { Actor, Actors, Delegation } from '../authz/identity.ts';
import type { AddressPolicy } from '../authz/oidc/address-policy.ts';
import { IssuerBook } from '../authz/oidc/issuer-book.ts';
import type { KeysState } from '../authz/oidc/issuer-keys.ts';
import { type OutsideToken, verifyOutsideToken } from '../authz/oidc/outside-token.ts';
import { RecentTokens } from '../authz/recent-tokens.ts';
import { ChainConditions } from '../authz/tokens/conditions.ts';
import type { Reader } from '../core/database.ts';
import { Refusal } from '../core/errors.ts';
import type { Followed } from '../core/loads.ts';
import { principalId } from '../core/principal.ts';
import type { LedgerEvent } from '../ledger/events.ts';

export interface OutsideTokensOptions {
  read: Reader;
  directory: Actors;
  followed: Followed;
  /** The addresses at which issuers may be asked for their keys. */
  policy: AddressPolicy;
  /** How long an issuer may take to answer with its keys, 5 seconds if absent. */
  fetchMsMax?: number;
  /** Told why an issuer gave no keys, for the operator. */
  onProblem?: (reason: string) => void;
}

/** A verified token, with what was made of it for the actor as it was at that time. */
interface Kept extends OutsideToken {
  principalId: string;
  delegation: Delegation;
  from: Actor | null;
  actor: Actor | null;
}

const noConditions = new ChainConditions([]);

export class OutsideTokens implements OutsideVerifier {
  readonly #directory: Actors;
  readonly #book: IssuerBook;
  readonly #recent: RecentTokens<Kept>;

  private constructor({ directory, followed }: OutsideTokensOptions, book: IssuerBook) {
    this.#directory = directory;
    this.#book = book;
    this.#recent = new RecentTokens(followed);
  }

  /** Reads the issuers of all tenants. Asks none of them for anything yet. */
  static async load(options: OutsideTokensOptions): Promise<OutsideTokens> {
    const { read, policy, fetchMsMax = 5000, onProblem = () => {} } = options;
    const book = new IssuerBook(read, { policy, fetchMsMax, onProblem });
    book.take(await book.read());
    return new OutsideTokens(options, book);
  }

  /** The hits and misses of verified tokens. */
  get cache(): Pick<RecentTokens<Kept>, 'hits' | 'misses' | 'entries'> {
    return this.#recent;
  }

  /**
   * Who bears this token, and what it leaves them. Throws Refusal InvalidBearerToken,
   * ExpiredBearerToken or AccessDenied. Not asked: whether it was revoked.
   */
  async authenticate(
    text: string,
    nowMs: number,
  ): Promise<{ actor: Actor; delegation: Delegation }> {
    const token = this.#recent.find(text, nowMs) ?? (await this.#verify(text, nowMs));
    const from = await this.#directory.findActor(token.principalId);
    if (!from || from.principal.role === 'operator') {
      const message = 'The token acts for nobody who may be acted for.';
      throw new Refusal('AccessDenied', { message });
    }
    if (token.from !== from || !token.actor) {
      token.from = from;
      token.actor = withGroups(from, token.groups);
    }
    return { actor: token.actor, delegation: token.delegation };
  }

  /** What the token says, without using what is in memory. Throws as `authenticate` does. */
  verifyOutsideToken(text: string, nowMs: number): Promise<OutsideToken> {
    return verifyOutsideToken(text, this.#book, nowMs);
  }

  /** The state of the keys of an issuer that the tenant trusts. */
  keysState(issuer: { tenant: string; url: string }): KeysState {
    return this.#book.keysOf(issuer)?.state ?? { count: 0, fetchedAt: null, problem: null };
  }

  /** A number that is another after each change of the issuers by which tokens are verified. */
  get issuersAsOf(): number {
    return this.#book.asOf;
  }

  /**
   * What an issuer is trusted with, as tokens are verified by it now: another text after each
   * change of it. undefined: it is not trusted.
   */
  stateOf(issuer: { tenant: string; name: string }): string | undefined {
    return this.#book.stateOf(issuer);
  }

  async apply(event: LedgerEvent, index: number): Promise<void> {
    if (event.kind !== 'issuer' && event.kind !== 'group') {
      if (event.kind !== 'tenant' || !event.isGone) return;
    }
    const issuers = await this.#book.read();
    // Nothing waits between these: no token is taken by other issuers than those that are said.
    this.#book.take(issuers);
    this.#recent.clear(index);
  }

  async #verify(text: string, nowMs: number): Promise<Kept> {
    const { asOf } = this.#recent;
    const token = await this.verifyOutsideToken(text, nowMs);
    const kept = {
      ...token,
      principalId: principalId(token.tenant, token.principalName),
      delegation: delegationOf(token),
      from: null,
      actor: null,
    };
    this.#recent.keep(text, kept, asOf);
    return kept;
  }
}

function delegationOf({ id, scope, expiresAtMs }: OutsideToken): Delegation {
  return {
    ids: [id],
    scope,
    conditions: noConditions,
    accounts: [{ name: `token:${id}`, expiresAtMs }],
    policies: [],
    expiresAtMs,
  };
}

function withGroups(actor: Actor, groups: readonly string[]): Actor {
  const added = groups.map((group) => `group:${actor.principal.tenant}/${group}`);
  return { ...actor, subjects: [...new Set([...actor.subjects, ...added])] };
}
