// What a route of the native API is: a table row that says its path, action, schemas and what to
// do.

import type { FastifyRequest } from 'fastify';
import type { Page } from '../../authz/paced-page.ts';
import { isoTime } from '../../core/clock.ts';
import { type ErrorCode, Refusal } from '../../core/errors.ts';
import { nativeListMax } from '../../core/limits.ts';
import { Pace } from '../../core/pace.ts';
import type { Principal } from '../../core/principal.ts';
import type { Released } from '../../ledger/commit.ts';
import type { Scope } from '../../ledger/scopes.ts';
import type { Finding } from '../data-verifier.ts';
import type { Origin } from '../http/trusted-proxies.ts';
import type { Identity, NativeChange, NativeDeps } from './deps.ts';
import type { BucketPart, NativeAction, Reach } from './rights.ts';
import type { Json } from './schemas.ts';

/** An authenticated, authorized and validated call. */
export interface Call {
  who: Principal;
  /** With what credential. */
  identity: Identity;
  reach: Reach;
  /** Where it came from. */
  origin: Origin;
  params: Record<string, string>;
  query: Record<string, string | undefined>;
  /** As the route's body schema says. */
  body: unknown;
  /**
   * Decides about parts of a bucket, all of which it must be allowed for. Only of routes that are
   * `ofPart`. Throws `Refusal`.
   */
  decideOn(...parts: BucketPart[]): Promise<void>;
  /**
   * Decides the whole call again, as one that came now: `who` asks, as things are at this epoch.
   * Throws `Refusal`. Whoever prepares an answer by newer rights than those that the call was let
   * in by calls this first, and then says so with `restOn`.
   */
  decideAgain(): Promise<{ epoch: number; who: Identity }>;
  /**
   * Says that the answer was decided by the rights of this epoch, which also depend on these scopes
   * and on no others that were said before. Where some were taken away since, it is not given: a
   * GET is prepared again, a few times; then, and of others at once, the call is refused with
   * SlowDown.
   */
  restOn(epoch: number, scopes: readonly Scope[]): void;
  /** The message itself, for what only its sender's address and headers tell. */
  request: FastifyRequest;
  /** When it was let in, by `performance.now`. */
  sinceMs: number;
  deps: NativeDeps;
}

/** What to answer; for a change, what to commit first. A string is JSON already. */
export type Outcome =
  | { answer: object | string }
  /** Stored data that is damaged: each finding is recorded behind the call. */
  | { answer: object; findings: readonly Finding[] }
  | {
      change: NativeChange;
      /** What is being made, for the record; absent: what the path names. */
      target?: string;
      /** Absent: nothing. `released`: what a purge has let go of. */
      answer?: (released?: Released) => Promise<object | null>;
    };

export interface NativeRoute {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Parameters `:t` and `:p` are a tenant and a principal; rights are decided on them. */
  url: string;
  action: NativeAction;
  /** Its name in the description, where another route asks for the same action. */
  operation?: string;
  summary: string;
  /** Of success, where it makes what had no name; absent: 200, or 204 where there is no answer. */
  status?: 201;
  /** Properties of the query; absent: none is allowed. */
  query?: Record<string, object>;
  /** Schema of the JSON body; absent: no body is allowed. */
  body?: object;
  /** Media type of the answer, where it is not JSON. */
  answerType?: string;
  /** Schema of the answer; absent: there is none, but where it has an `answerType`. */
  answer?: object;
  /** It only reads, and is no GET: it is answered while the log is not signed, too. */
  isReading?: true;
  /** It is asked again and again: beyond a rate, the records of a minute are one. */
  isPolled?: true;
  /** It reads what accounts used: all that was charged before is in their rows then. */
  readsAccounts?: true;
  /**
   * What part of a bucket it is about only `run` knows, which has that decided (`decideOn`) before
   * it says anything of what is there, or that something is not.
   */
  ofPart?: true;
  /** Prepares the call: reads, or says what to change. Throws `Refusal`. Writes no row itself. */
  run(call: Call): Promise<Outcome>;
}

/** What a route is called in the description. */
type NameOf<R> = R extends { operation: infer Name extends string }
  ? Name
  : R extends { action: `bursar:${infer Name}` }
    ? Name
    : never;

/** Routes, of which the compiler knows what they answer. There is no member `answers`. */
export type RouteTable<A> = readonly NativeRoute[] & { readonly answers?: A };

export function routeTable<const R extends readonly NativeRoute[]>(
  routes: R,
): RouteTable<{
  [One in R[number] as NameOf<One>]: One extends { answer: infer S } ? Json<S> : null;
}> {
  return routes;
}

/** Status of success. */
export function statusOf({
  status,
  answer,
  answerType,
}: Pick<NativeRoute, 'status' | 'answer' | 'answerType'>): 200 | 201 | 204 {
  return status ?? (answer || answerType ? 200 : 204);
}

/** A parameter that the route's path has. */
export function param(call: Call, name: string): string {
  const value = call.params[name];
  if (value === undefined) throw new Error(`route without parameter ${name}`);
  return value;
}

/** Throws `AccessDenied` to who uses a token: what is made here would outlive and outreach it. */
export function refuseDelegated({ identity }: Call): void {
  if (identity.delegation === null) return;
  throw new Refusal('AccessDenied', {
    message:
      'With a token no key, other token, share link or issuer is made, no key activated, and no ' +
      'limit set.',
  });
}

/** Throws that the tenant, or the principal of it, that the path names is not there. */
export async function checkPlace({ deps: { directory }, params: { t, p } }: Call): Promise<void> {
  if (t === undefined) return;
  if (p !== undefined && (await directory.readPrincipal(t, p))) return;
  if (!(await directory.readTenant(t))) throw new Refusal('NoSuchTenant');
  if (p !== undefined) throw new Refusal('NoSuchPrincipal');
}

/** Throws that what the path names is not there, or first that where it would be is not. */
export async function refuseMissing(call: Call, code: ErrorCode): Promise<never> {
  await checkPlace(call);
  throw new Refusal(code);
}

export function pageOf(call: Call): Page {
  return { after: call.query.after ?? '', limit: Number(call.query.limit ?? nativeListMax) };
}

/** What the next page goes on after, when this one is full. */
export function nextOf<E>(
  page: Page,
  entries: readonly E[],
  nameOf: (entry: E) => string,
): string | null {
  const last = entries.length === page.limit ? entries.at(-1) : undefined;
  return last === undefined ? null : nameOf(last);
}

/** One page of a listing. `member`: what the answer calls the entries. */
export async function listPage<E>(
  call: Call,
  member: string,
  list: (page: Page) => Promise<readonly E[]>,
  show: (entry: E) => object | Promise<object>,
  nameOf: (entry: E) => string,
): Promise<Outcome> {
  await checkPlace(call);
  const page = pageOf(call);
  const entries = await list(page);
  const shown: object[] = [];
  const pace = new Pace();
  for (const entry of entries) {
    shown.push(await show(entry));
    await pace.rest();
  }
  return { answer: { [member]: shown, next: nextOf(page, entries, nameOf) } };
}

/** The name of what has one. */
export function nameOf({ name }: { name: string }): string {
  return name;
}

/** Where a token or share link is in listings by principal. */
export function placeOf(of: { tenant: string; principal: string; id: string }): string {
  return `${of.tenant}/${of.principal}/${of.id}`;
}

/** A stored entry as answers have it, with the time when it was made as text. */
export function showDated<E extends { createdMs: number }>({ createdMs, ...entry }: E): object {
  return { ...entry, createdAt: isoTime(createdMs) };
}
