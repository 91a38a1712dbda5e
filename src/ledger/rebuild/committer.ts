// How a rebuild commits: through a ledger of the new database, in nobody's name who asked.

import type { RecordDraft } from '../../audit/record.ts';
import { draftRecord, ownOrigin, unasked } from '../../audit/record-draft.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { defaultTenant, rootPrincipal } from '../../core/principal.ts';
import { chargeStored } from '../../quota/charge.ts';
import type { Change } from '../commands/index.ts';
import type { Commit } from '../commit.ts';
import type { Ledger } from '../ledger.ts';
import type { RestoredPrices } from './work.ts';

/** What a restored thing's record says besides the obvious. */
export type About = Pick<RecordDraft, 'action'> &
  Partial<
    Pick<RecordDraft, 'target' | 'key' | 'sizeBytes' | 'etag' | 'sha256' | 'class'> &
      Pick<RecordDraft, 'change' | 'limits'>
  > & {
    bucket?: { tenant: string; name: string; owner: string; store: number };
    tenant?: string;
  };

/** Gives why it was refused; null: it was not. */
export type TryCommit = (change: Change, about: About) => Promise<ErrorCode | null>;
export type CommitOne = (change: Change, about: About) => Promise<void>;

/** Commits in the name of the bucket's owner, or of the gateway's own principal; nobody asked. */
export function tryCommitter(
  ledger: Ledger,
  prices: RestoredPrices,
  source = 'bursar rebuild',
): TryCommit {
  const origin = ownOrigin(source);
  return async (change, { bucket, tenant: about, ...detail }) => {
    const tenant = bucket?.tenant ?? about ?? defaultTenant;
    const principal = bucket?.owner ?? rootPrincipal;
    const who = { tenant, principal, tokens: [], bucket: bucket ?? null };
    const commit: Commit = {
      change,
      charge: bucket ? chargeStored(who, prices.bookOf(bucket.store).name) : null,
      record: draftRecord(unasked(tenant, principal), origin, {
        ...detail,
        bucket: bucket?.name ?? null,
        status: 200,
      }),
    };
    const result = await ledger.commit(commit);
    return result.ok ? null : result.code;
  };
}

/** The same; throws where it is refused. */
export function committer(attempt: TryCommit): CommitOne {
  return async (change, about) => {
    const refused = await attempt(change, about);
    if (refused) throw refusedError(about, refused);
  };
}

export function refusedError({ action }: About, refused: ErrorCode): Error {
  return new Error(`${action} was refused: ${refused}`);
}
