// Which tokens are used, and when last: counted in memory, and told to the tables at most once a
// second, so that a request costs one look-up for it. A crash loses what was not told yet; nothing
// was promised for that.
import type { Delegation } from './identity.ts';
import { detailsOf, type TokenDetails, type TokenEntry } from './issued-tokens.ts';
import type { Chain } from './tokens/chain.ts';
import { renderScope } from './tokens/scope.ts';

/** A link that is used here for the first time, as far as is remembered. */
export interface SeenLink
  extends Pick<TokenEntry, 'id' | 'parent' | 'tenant' | 'principal' | 'details' | 'expiresMs'> {}

export interface LinkUse {
  id: string;
  uses: number;
  lastUsedMs: number;
}

/** Plain data, for the ledger. */
export interface TokenUses {
  seen: readonly SeenLink[];
  used: readonly LinkUse[];
}

export interface TokenUseOptions {
  /** Rejects when it could not be written. */
  write: (uses: TokenUses) => Promise<unknown>;
  nowMs?: () => number;
}

const flushMs = 1000;
/** What is written at once, so that other commits wait for no more. */
const batchMax = 500;
/** Links that wait to be written, while the disk is full. */
const seenMax = 10_000;

export class TokenUse {
  readonly #write: (uses: TokenUses) => Promise<unknown>;
  readonly #nowMs: () => number;
  #seen: SeenLink[] = [];
  /** Times of use by the ids of a chain, which are one object as long as the chain is kept. */
  #used = new Map<readonly string[], { uses: number; lastUsedMs: number }>();
  #timer: NodeJS.Timeout | null = null;
  #flushing: Promise<void> = Promise.resolve();

  constructor({ write, nowMs = Date.now }: TokenUseOptions) {
    this.#write = write;
    this.#nowMs = nowMs;
  }

  /** Something that was verified is used for the first time since. */
  see(links: readonly SeenLink[]): void {
    if (this.#seen.length < seenMax) this.#seen.push(...links);
    this.#schedule();
  }

  /** To be called when a request was made with a chain of these ids, from its first link down. */
  note(ids: readonly string[]): void {
    const lastUsedMs = this.#nowMs();
    const use = this.#used.get(ids);
    if (use === undefined) {
      this.#used.set(ids, { uses: 1, lastUsedMs });
      this.#schedule();
    } else {
      use.uses++;
      use.lastUsedMs = lastUsedMs;
    }
  }

  /** Writes what waits. */
  async close(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    await this.#flushing;
    await this.#flush();
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#flushing = this.#flushing.then(() => this.#flush());
    }, flushMs).unref();
  }

  async #flush(): Promise<void> {
    const seen = this.#seen.splice(0);
    const used = [...linkUses(this.#used)];
    this.#used = new Map();
    while (seen.length + used.length > 0) {
      const batch = { seen: seen.slice(0, batchMax), used: used.slice(0, batchMax) };
      try {
        await this.#write(batch);
      } catch {
        // The ledger has told why; what is lost here would be shown in lists, and nothing else.
        return;
      }
      seen.splice(0, batchMax);
      used.splice(0, batchMax);
    }
  }
}

/** The uses of each link: one of a chain is one of all its links. */
function linkUses(
  used: ReadonlyMap<readonly string[], { uses: number; lastUsedMs: number }>,
): Iterable<LinkUse> {
  const byId = new Map<string, LinkUse>();
  for (const [ids, { uses, lastUsedMs }] of used) {
    for (const id of ids) {
      const link = byId.get(id);
      if (link === undefined) byId.set(id, { id, uses, lastUsedMs });
      else {
        link.uses += uses;
        link.lastUsedMs = Math.max(link.lastUsedMs, lastUsedMs);
      }
    }
  }
  return byId.values();
}

export function linksOf({ links, ids }: Chain): SeenLink[] {
  return links.map((link, depth) => ({
    id: link.id,
    parent: ids[depth - 1] ?? null,
    ...namesOf(link.subject),
    details: detailsOf(link),
    expiresMs: link.expiresAtMs,
  }));
}

/** A token that is one link, of an outside issuer or of the gateway itself. `label`: for lists. */
export function linkOfSingle(
  subject: string,
  delegation: Delegation,
  nowMs: number,
  label?: string,
): SeenLink {
  const { ids, scope, expiresAtMs } = delegation;
  const details: TokenDetails = {
    scope: scope && renderScope(scope),
    ...{ signer: null, holder: null, depth: 0, depthMax: 0 },
    ...{ issuedMs: nowMs, notBeforeMs: nowMs },
    ...(label !== undefined && { label }),
  };
  const [id = ''] = ids;
  return { id, parent: null, ...namesOf(subject), details, expiresMs: expiresAtMs };
}

function namesOf(principalId: string): { tenant: string; principal: string } {
  const slash = principalId.indexOf('/');
  return { tenant: principalId.slice(0, slash), principal: principalId.slice(slash + 1) };
}
