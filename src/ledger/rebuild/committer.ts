// How a rebuild commits: through a ledger of the new database, in nobody's name who asked.
// Invariant: the ledger is handed commits in the order in which they are asked for, whatever has to
// be read for one of them.
import type { RecordDraft } from '../../audit/record.ts';
import { draftRecord, ownOrigin, unasked } from '../../audit/record-draft.ts';
import { listLegStores } from '../../catalog/class-terms.ts';
import type { Reader } from '../../core/database.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { isOwnClass } from '../../core/own-class.ts';
import { defaultTenant, rootPrincipal } from '../../core/principal.ts';
import { chargeStored } from '../../quota/charge.ts';
import { joinBooks } from '../../quota/storage/several-books.ts';
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

/**
 * Commits in the name of the bucket's owner, or of the gateway's own principal; nobody asked.
 * `read` reads the database that is committed to.
 */
export function tryCommitter(
  { ledger, read }: { ledger: Ledger; read: Reader },
  prices: RestoredPrices,
  source = 'bursar rebuild',
): TryCommit {
  const origin = ownOrigin(source);
  const books = new BooksOfClasses(read, prices);
  let before: Promise<unknown> = Promise.resolve();
  return async (change, { bucket, tenant: about, ...detail }) => {
    const tenant = bucket?.tenant ?? about ?? defaultTenant;
    const principal = bucket?.owner ?? rootPrincipal;
    const who = { tenant, principal, tokens: [], bucket: bucket ?? null };
    const of = detail.class;
    const found = bucket && of && isOwnClass(of) ? books.find(bucket.tenant, of) : undefined;
    const turn = Promise.all([found, before]);
    before = turn;
    const [storageBook] = await turn;
    const commit: Commit = {
      change,
      charge: bucket ? chargeStored(who, prices.bookOf(bucket.store).name, storageBook) : null,
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

/** By what the copies of classes are charged. */
class BooksOfClasses {
  readonly #read: Reader;
  readonly #prices: RestoredPrices;
  /** By tenant and class, of which all stores are known. */
  readonly #known = new Map<string, string>();

  constructor(read: Reader, prices: RestoredPrices) {
    this.#read = read;
    this.#prices = prices;
  }

  /** undefined: not all stores of the class are known. */
  async find(tenant: string, name: string): Promise<string | undefined> {
    const id = `${tenant}/${name}`;
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const stores = await listLegStores(this.#read, tenant, name);
    const numbers = stores.filter((store) => store !== null);
    if (numbers.length === 0 || numbers.length < stores.length) return undefined;
    const found = joinBooks(numbers.map((number) => this.#prices.bookOf(number).name));
    this.#known.set(id, found);
    return found;
  }
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
