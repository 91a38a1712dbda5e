// Which rights were taken away since a request was decided, as the ledger's thread knows it. A
// request is decided on the main thread, and its commit may come much later: each change that could
// take a right away moves an epoch on, in its own transaction, and a commit says by which epoch it
// was decided. Invariant: no commit passes that was decided before a change that concerns it, so in
// the order of the log nothing follows a revocation that it forbids. Epochs are of one run: no
// request outlives it.
import { type Change, commandOf } from './commands/index.ts';
import type { Commit, CommitResult } from './commit.ts';
import {
  bucketScope,
  principalScope,
  type RecordedPlace,
  type Scope,
  tenantScope,
} from './scopes.ts';

/**
 * What has moved longest ago is forgotten beyond this: what is not known counts as having moved.
 */
const scopesMax = 100_000;

export class RightsEpoch {
  #epoch = 0;
  /** By scope: the epoch that its last change began. */
  readonly #moved = new Map<Scope, number>();
  /** Of scopes that are not in there: none moved later than this. */
  #floor = 0;
  /** What the batch has moved, and what was there before: it may be rolled back. */
  #pending: { scope: Scope; before: number | undefined }[] = [];

  /** null: it may be committed. Otherwise it leaves no trace, and is to be decided again. */
  refuse(commit: Commit): CommitResult | null {
    const { epoch } = commit;
    if (epoch === undefined || epoch === this.#epoch) return null;
    const moved = this.#lastMoveOf(commit);
    if (moved <= epoch) return null;
    const outdated = { epoch: moved, ...bodyOf(commit.change) };
    return { ok: false, code: 'SlowDown', index: null, outdated };
  }

  /**
   * Notes what was committed; gives the epoch that it has begun, if it may have taken rights away.
   */
  note({ change, record }: Commit): number | undefined {
    const scope = takenFrom(change, record);
    if (scope === null) return undefined;
    this.#epoch += 1;
    this.#pending.push({ scope, before: this.#moved.get(scope) });
    // Behind all others: the map is in the order of their last moves.
    this.#moved.delete(scope);
    this.#moved.set(scope, this.#epoch);
    return this.#epoch;
  }

  /** The batch is durable. */
  settle(): void {
    this.#pending = [];
    for (const [scope, epoch] of this.#moved) {
      if (this.#moved.size <= scopesMax) return;
      this.#moved.delete(scope);
      this.#floor = Math.max(this.#floor, epoch);
    }
  }

  /** The batch was rolled back. */
  discard(): void {
    this.#epoch -= this.#pending.length;
    for (const { scope, before } of this.#pending.reverse()) {
      if (before === undefined) this.#moved.delete(scope);
      else this.#moved.set(scope, before);
    }
    this.#pending = [];
  }

  /** When rights were last taken from what it depends on. */
  #lastMoveOf(commit: Commit): number {
    const epochs = dependsOn(commit).map((scope) => this.#moved.get(scope) ?? this.#floor);
    return Math.max(...epochs);
  }
}

/** From where rights may not have been taken since a commit was decided. */
export function dependsOn({ record, concerns = [] }: Pick<Commit, 'record' | 'concerns'>): Scope[] {
  const { tenant, principal, bucket } = record;
  const bucketTenant = record.bucketTenant ?? tenant;
  return [
    ...[tenantScope(tenant), principalScope(tenant, principal), tenantScope(bucketTenant)],
    ...(bucket ? [bucketScope(bucketTenant, bucket)] : []),
    ...concerns,
  ];
}

/** From whom, or of what, a change may take rights; null: it takes none away. */
export function takenFrom(change: Change, record: RecordedPlace): Scope | null {
  return commandOf(change).takesFrom?.(change, record) ?? null;
}

/** An inline body came by transfer: whoever commits again needs it back. */
function bodyOf(change: Change): { body?: Uint8Array } {
  if (change.kind !== 'putObject' && change.kind !== 'putPart') return {};
  return change.inline ? { body: change.inline.body } : {};
}
