// Temporary keys: made of a token that was verified, and found again by their session token.
// Invariants: such a key has no more than the token left, and never outlives it; what can be taken
// back of a token is asked anew for the keys made from it: its `jti`s and its time at each request
// (authenticate.ts), and here, after each change of who there is, its principal, the enrolled key
// that signed its first link, its outside issuer and that one's groups.
import type { AccessKey } from '../authz/authenticate.ts';
import { parseSessionPolicy } from '../authz/grants/session-policy.ts';
import type { Actor, Actors, Delegation } from '../authz/identity.ts';
import { readIssuerState } from '../authz/oidc/issuer-book.ts';
import { issuerOfId } from '../authz/oidc/outside-id.ts';
import { RecentTokens } from '../authz/recent-tokens.ts';
import { type Session, SessionSealer } from '../authz/sessions/session-token.ts';
import { ChainConditions } from '../authz/tokens/conditions.ts';
import { parseScope, renderScope } from '../authz/tokens/scope.ts';
import type { Reader } from '../core/database.ts';
import { Refusal } from '../core/errors.ts';
import { newSecretAccessKey, newTemporaryKeyId } from '../core/ids.ts';
import type { Keyring } from '../core/keyring.ts';
import type { Followed } from '../core/loads.ts';
import type { LedgerEvent } from '../ledger/events.ts';
import type { OutsideTokens } from './outside-tokens.ts';

export interface SessionsOptions {
  read: Reader;
  directory: Actors;
  keyring: Keyring;
  /** By which tokens of outside issuers are verified. */
  outside: Pick<OutsideTokens, 'issuersAsOf' | 'stateOf'>;
  followed: Followed;
}

export interface SessionRequest {
  /** Who bears the token, and what it leaves them. */
  actor: Actor;
  delegation: Delegation;
  /** A session policy's text; null: there is none. */
  policy: string | null;
  /** The value of `issuersAsOf` before the token was verified. */
  issuersAsOf: number;
  nowMs: number;
  durationMs: number;
}

export interface TemporaryKeys {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string;
  expiresAtMs: number;
}

/** The longest session token that fits in a header or a presigned URL beside everything else. */
export const sessionTokenBytesMax = 8 * 1024;

const keptBytesMax = 32 * 1024 * 1024;

interface Kept {
  key: AccessKey;
  goodUntilMs: number;
}

export class Sessions {
  readonly #read: Reader;
  readonly #directory: Actors;
  readonly #sealer: SessionSealer;
  readonly #outside: Pick<OutsideTokens, 'issuersAsOf' | 'stateOf'>;
  readonly #recent: RecentTokens<Kept>;

  constructor({ read, directory, keyring, outside, followed }: SessionsOptions) {
    this.#read = read;
    this.#directory = directory;
    this.#sealer = new SessionSealer(keyring);
    this.#outside = outside;
    this.#recent = new RecentTokens(followed, keptBytesMax);
  }

  /** The hits and misses of verified session tokens. */
  get cache(): Pick<RecentTokens<Kept>, 'hits' | 'misses' | 'entries'> {
    return this.#recent;
  }

  /** A number that is another after each change of outside issuers. */
  get issuersAsOf(): number {
    return this.#outside.issuersAsOf;
  }

  /**
   * Throws Refusal MalformedPolicyDocument or PackedPolicyTooLarge; SlowDown where the token's
   * issuer may have been changed since it was verified.
   */
  async issue(request: SessionRequest): Promise<TemporaryKeys> {
    const { actor, delegation, policy, nowMs, durationMs } = request;
    const { principal } = actor;
    if (policy !== null) parseSessionPolicy(policy, principal.tenant);
    const { ids, scope, conditions, accounts } = delegation;
    const own = (await this.#directory.findActor(principal.id))?.subjects ?? [];
    const accessKeyId = newTemporaryKeyId();
    const session: Session = {
      secret: newSecretAccessKey(),
      principal: principal.id,
      groups: actor.subjects.filter((subject) => !own.includes(subject)).map(groupOf),
      issuer: this.#trustedState(ids),
      ids,
      scope: scope && renderScope(scope),
      conditions: conditions.all,
      accounts,
      policy,
      expiresAtMs: Math.min(delegation.expiresAtMs, nowMs + durationMs),
    };
    if (session.issuer !== null && request.issuersAsOf !== this.issuersAsOf) {
      throw new Refusal('SlowDown');
    }
    const sessionToken = this.#sealer.seal(accessKeyId, session);
    if (sessionToken.length > sessionTokenBytesMax) throw new Refusal('PackedPolicyTooLarge');
    const { secret: secretAccessKey, expiresAtMs } = session;
    return { accessKeyId, secretAccessKey, sessionToken, expiresAtMs };
  }

  /**
   * The key to which the session token belongs; it may have expired. Throws Refusal InvalidToken
   * for a session token that is not this key's, InvalidAccessKeyId or AccessDenied where what it
   * was made from is good no more, as for any other key that was taken away.
   */
  async find(accessKeyId: string, sessionToken: string, nowMs: number): Promise<AccessKey> {
    const known = this.#recent.find(sessionToken, nowMs);
    if (known) {
      if (known.key.id !== accessKeyId) throw new Refusal('InvalidToken');
      return known.key;
    }
    const { asOf } = this.#recent;
    const session = this.#sealer.open(accessKeyId, sessionToken);
    if (!session) throw new Refusal('InvalidToken');
    const actor = await this.#actorOf(session);
    if (!actor)
      throw new Refusal('InvalidAccessKeyId', { fields: { AWSAccessKeyId: accessKeyId } });
    const key = accessKeyOf(accessKeyId, session, actor);
    const kept = { key, goodUntilMs: session.expiresAtMs };
    this.#recent.keep(sessionToken, kept, asOf, sessionToken.length + weigh(session));
    return key;
  }

  apply(event: LedgerEvent, index: number): void {
    switch (event.kind) {
      case 'tenant':
      case 'principal':
      case 'group':
      case 'publicKey':
      case 'issuer':
        this.#recent.clear(index);
    }
  }

  /** The principal in whose name the key acts; undefined if it may not any more. */
  async #actorOf({ principal, groups, issuer, ids }: Session): Promise<Actor | undefined> {
    const actor = await this.#directory.findActor(principal);
    if (!actor) return undefined;
    if ((await this.#issuerState(ids)) !== issuer) return undefined;
    // Like the issuer's own tokens, they never act as an operator.
    if (issuer !== null && actor.principal.role === 'operator') return undefined;
    if (!(await this.#isSignerGood(ids, actor))) return undefined;
    if (groups.length === 0) return actor;
    const { tenant } = actor.principal;
    const added: string[] = [];
    for (const group of groups) {
      const sql = 'SELECT 1 FROM groups WHERE tenant = ? AND name = ?';
      if (await this.#read.get(sql, tenant, group)) added.push(`group:${tenant}/${group}`);
    }
    return { ...actor, subjects: [...new Set([...actor.subjects, ...added])] };
  }

  /** Whether the enrolled key is still there and active, if one signed link 0. */
  async #isSignerGood([first = '']: readonly string[], { principal }: Actor): Promise<boolean> {
    const [thumbprint = '', ...rest] = first.split('.');
    // The gateway's own ids have no dot; those of keys begin with a thumbprint.
    if (rest.length === 0 || issuerOfId(first)) return true;
    const row = await this.#read.get(
      `SELECT 1 FROM public_keys WHERE thumbprint = ? AND tenant = ? AND principal = ?
       AND purpose = 'token' AND active = 1`,
      thumbprint,
      principal.tenant,
      principal.name,
    );
    return row !== undefined;
  }

  /**
   * Differs after each change of the outside issuer whose token it was; null: of no such. Throws
   * Refusal AccessDenied when the issuer is trusted no more.
   */
  async #issuerState([first = '']: readonly string[]): Promise<string | null> {
    const issuer = issuerOfId(first);
    if (issuer === undefined) return null;
    const state = await readIssuerState(this.#read, issuer);
    if (state === undefined) throw notTrusted();
    return state;
  }

  /** The same, as the issuer's tokens are verified by it now. */
  #trustedState([first = '']: readonly string[]): string | null {
    const issuer = issuerOfId(first);
    if (issuer === undefined) return null;
    const state = this.#outside.stateOf(issuer);
    if (state === undefined) throw notTrusted();
    return state;
  }
}

function notTrusted(): Refusal {
  return new Refusal('AccessDenied', { message: 'The issuer is trusted no more.' });
}

function accessKeyOf(id: string, session: Session, actor: Actor): AccessKey {
  const { secret, ids, scope, conditions, accounts, policy, expiresAtMs } = session;
  const delegation: Delegation = {
    ids,
    scope: scope === null ? null : parseScope(scope),
    conditions: new ChainConditions(conditions),
    accounts,
    policies: policy === null ? [] : [parseSessionPolicy(policy, actor.principal.tenant)],
    expiresAtMs,
  };
  return { id, secret, publicKey: null, ...actor, delegation };
}

/** Compiled, a policy takes at most so many bytes for each character. */
const policyFactor = 128;
const otherFactor = 16;

/** How much memory it takes: what compresses well is small until it is read. */
function weigh({ policy, scope, conditions, accounts, ids }: Session): number {
  const others = JSON.stringify([scope, conditions, accounts, ids]).length;
  return policyFactor * (policy?.length ?? 0) + otherFactor * others;
}

/** The name of a group in `group:cms/shifters`. */
function groupOf(subject: string): string {
  return subject.slice(subject.indexOf('/') + 1);
}
