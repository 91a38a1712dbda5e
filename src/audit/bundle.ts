// A bundle: all records of one tenant in a range of the log, so that who has it sees offline that
// none is missing. It holds every leaf of the range, of all tenants; each leaf that bears the
// tenant's pseudonym is followed by what opens it, or by the word that it was erased. Lines of
// JSON, read one after the other: memory does not grow with the range. Format:
// docs/formats/bundle.md. Pure.
import { decodeBase64 } from '../core/base64.ts';
import { isObject, parseJson } from '../core/json.ts';
import { erasureNotice } from './erasure.ts';
import { isPseudonym, parseLeaf } from './leaf.ts';
import { parseEntries, renderEntries } from './log/entries.ts';
import { hashBytes, hashLeaf } from './log/merkle.ts';
import { type RangeProof, RangeRoot } from './log/range-proof.ts';
import { leafOf, type Opening, parseOpening, renderOpening } from './receipt.ts';
import { type AuditRecord, judgeOpening, type OpenedLeaf } from './verify/opening.ts';
import { type Refused, refuse, type Trust, verifyCheckpoint } from './verify/signed-checkpoint.ts';

export const bundleFormat = 'bursar-bundle/1';

export interface BundleHead {
  tenant: string;
  /** The pseudonym of the tenant in the log. */
  pseudonym: string;
  /** Log indexes: `from` inclusive, `to` exclusive. */
  from: number;
  to: number;
  /** The times that were asked for and made the indexes, RFC 3339; null: indexes were asked for. */
  fromTime: string | null;
  toTime: string | null;
  /** A signed note about at least `to` leaves. */
  checkpoint: string;
  /** The keys of the log, in the form of `/_/v1/log/keys`. They prove nothing by themselves. */
  keys: readonly object[];
  proof: RangeProof;
}

/**
 * The entry of an index. `opening` is null where the record was erased, as the record `erasedBy`
 * says.
 */
export interface BundleRecord {
  index: number;
  opening: Opening | null;
  erasedBy: number | null;
  /** The gateway has something else in its place, which it does not show. */
  isAltered?: boolean;
}

export function renderBundleHead({ proof, ...head }: BundleHead): string {
  const base64 = (hashes: readonly Buffer[]) => hashes.map((one) => one.toString('base64'));
  const { before, after } = proof;
  const line = { format: bundleFormat, ...head, before: base64(before), after: base64(after) };
  return JSON.stringify(line);
}

/** The next leaves of the range, up to 256. */
export function renderBundleLeaves(entries: readonly Uint8Array[]): string {
  return `{"leaves":"${renderEntries(entries).toString('base64')}"}`;
}

export function renderBundleRecord(one: BundleRecord): string {
  const { index, opening, erasedBy, isAltered } = one;
  if (isAltered) return `{"index":${index},"altered":true}`;
  if (!opening) return `{"index":${index},"erasedBy":${erasedBy}}`;
  return `{"index":${index},"opening":${renderOpening(opening)}}`;
}

export interface VerifiedBundle extends Omit<BundleHead, 'checkpoint' | 'keys' | 'proof'> {
  ok: true;
  /** Records that were delivered. */
  records: number;
  /** The number of the tenant's records that were erased. */
  erased: number;
  /** Those of them whose erasure no record in the bundle tells of. */
  unexplained: number[];
  /** The indexes of records that the gateway does not have any more as they were logged. */
  altered: number[];
  /** Leaves of the log under its checkpoint, and who signed it. */
  checkpoint: Exclude<ReturnType<typeof verifyCheckpoint>, Refused>;
}

export interface BundleOptions {
  trust: Trust;
  /**
   * Called with each record that was delivered and opens its leaf, and with the tenant whose bundle
   * it is; what it throws ends all.
   */
  onRecord?: (opened: BundleRecord & { opening: Opening } & OpenedLeaf, tenant: string) => void;
}

/** The longest line: a record with its evidence, or 256 leaves. */
const lineCharactersMax = 32 * 1024 * 1024;

/** Whether a bundle is true and complete. `lines`: without their ends. */
export async function verifyBundle(
  lines: AsyncIterable<string> | Iterable<string>,
  options: BundleOptions,
): Promise<VerifiedBundle | Refused> {
  let reader: BundleReader | undefined;
  let number = 0;
  for await (const line of lines) {
    number += 1;
    if (line.length > lineCharactersMax) return refuse(`line ${number} is too long`);
    if (reader) {
      const why = reader.read(line);
      if (why !== null) return refuse(`line ${number}: ${why}`);
      continue;
    }
    const begun = BundleReader.begin(line, options);
    if (!(begun instanceof BundleReader)) return begun;
    reader = begun;
  }
  return reader ? reader.finish() : refuse('the file is empty');
}

class BundleReader {
  readonly #head: BundleHead;
  readonly #options: BundleOptions;
  readonly #checkpoint: VerifiedBundle['checkpoint'];
  readonly #root: RangeRoot;
  /** Leaves of the tenant that were not opened yet. */
  #due: { index: number; entry: Uint8Array }[] = [];
  #records = 0;
  #erased = new Map<number, number>();
  readonly #altered: number[] = [];
  /** The erasures in the bundle, and what they say that they erased. */
  readonly #acts = new Map<number, number[]>();

  private constructor(
    head: BundleHead,
    options: BundleOptions,
    proven: { checkpoint: VerifiedBundle['checkpoint']; root: RangeRoot },
  ) {
    this.#head = head;
    this.#options = options;
    this.#checkpoint = proven.checkpoint;
    this.#root = proven.root;
  }

  static begin(line: string, options: BundleOptions): BundleReader | Refused {
    const head = parseHead(line);
    if (!head) return refuse('it does not begin as a bundle of records does');
    const checkpoint = verifyCheckpoint(head.checkpoint, options.trust);
    if (!checkpoint.ok) return checkpoint;
    const root = RangeRoot.begin({ ...head, size: checkpoint.size }, head.proof);
    if (!root) return refuse('its proof is not one of this range');
    return new BundleReader(head, options, { checkpoint, root });
  }

  /** null: it is what must come next. */
  read(line: string): string | null {
    const leaves = /^\{"leaves":"([A-Za-z0-9+/]+={0,2})"\}$/.exec(line)?.[1];
    if (leaves !== undefined) return this.#readLeaves(leaves);
    const record = parseRecord(line);
    return record ? this.#readRecord(record) : 'it is nothing that a bundle has';
  }

  finish(): VerifiedBundle | Refused {
    const missing = this.#missing();
    if (missing !== null) return refuse(missing);
    const root = this.#root.finish();
    if (!root) return refuse(`it ends at index ${this.#root.next}, before its range does`);
    if (!root.equals(this.#checkpoint.root)) {
      return refuse('its leaves are not those of the log that was signed');
    }
    const { tenant, pseudonym, from, to, fromTime, toTime } = this.#head;
    const unexplained = [...this.#erased].filter(([index, by]) => {
      return !this.#acts.get(index)?.includes(by);
    });
    return {
      ...{ ok: true, tenant, pseudonym, from, to, fromTime, toTime },
      records: this.#records,
      erased: this.#erased.size,
      unexplained: unexplained.map(([index]) => index),
      altered: this.#altered,
      checkpoint: this.#checkpoint,
    };
  }

  #missing(): string | null {
    const [next] = this.#due;
    return next ? `record ${next.index} is missing` : null;
  }

  #readLeaves(base64: string): string | null {
    const bundle = decodeBase64(base64);
    const entries = bundle && parseEntries(bundle);
    if (!entries) return 'its leaves cannot be read';
    const missing = this.#missing();
    if (missing !== null) return missing;
    for (const entry of entries) {
      const index = this.#root.next;
      if (index >= this.#head.to) return 'it has more leaves than its range';
      this.#root.append(hashLeaf(entry));
      const leaf = parseLeaf(entry);
      // The tenant of this entry cannot be told, so it may be an entry that is missing.
      if (!leaf) return `entry ${index} is not of a record`;
      const { pseudonym } = this.#head;
      if (leaf.tenant === pseudonym || leaf.bucketTenant === pseudonym) {
        this.#due.push({ index, entry });
      }
    }
    return null;
  }

  #readRecord({ index, opening, erasedBy, isAltered }: BundleRecord): string | null {
    const due = this.#due.shift();
    if (!due) return `record ${index} is not of this tenant, or is there twice`;
    if (due.index !== index) return `record ${due.index} is missing`;
    if (isAltered) {
      this.#altered.push(index);
      return null;
    }
    if (!opening) {
      this.#erased.set(index, erasedBy ?? -1);
      return null;
    }
    if (!leafOf(opening).equals(due.entry)) return `record ${index} is not what was logged`;
    const opened = judgeOpening(opening, index);
    if (!opened.ok) return `record ${index}: ${opened.why}`;
    const why = this.#contradiction(opened.record, opening);
    if (why !== null) return why;
    this.#records += 1;
    this.#options.onRecord?.({ index, opening, erasedBy, ...opened }, this.#head.tenant);
    return null;
  }

  /** What only the log's operator could have brought into it. */
  #contradiction(record: AuditRecord, { tenant }: Opening): string | null {
    const { index, action, status, change } = record;
    const named = tenant === this.#head.pseudonym ? record.tenant : record.bucketTenant;
    if (named !== this.#head.tenant) return `record ${index} is of another tenant, ${named}`;
    const { erased } = (change ?? {}) as { erased?: unknown };
    const isAct = action === 'bursar:EraseRecords' || action === erasureNotice;
    if (isAct && status === 200 && Array.isArray(erased)) {
      for (const one of erased) {
        if (typeof one !== 'number') continue;
        // The tenant of who erased has the act, and each that tells others of it.
        this.#acts.set(one, [...(this.#acts.get(one) ?? []), index]);
      }
    }
    return null;
  }
}

const headMembers = [
  ...['format', 'tenant', 'pseudonym', 'from', 'to', 'fromTime', 'toTime', 'checkpoint', 'keys'],
  ...['before', 'after'],
];

function parseHead(line: string): BundleHead | undefined {
  const value = parseObject(line);
  if (value?.format !== bundleFormat) return undefined;
  if (!Object.keys(value).every((name) => headMembers.includes(name))) return undefined;
  const { tenant, pseudonym, from, to, fromTime, toTime, checkpoint, keys } = value;
  const [before, after] = [parseHashes(value.before), parseHashes(value.after)];
  if (typeof tenant !== 'string' || !isPseudonym(pseudonym)) return undefined;
  if (typeof from !== 'number' || typeof to !== 'number' || !Array.isArray(keys)) return undefined;
  if (typeof checkpoint !== 'string' || !before || !after) return undefined;
  if (!isTimeOrNull(fromTime) || !isTimeOrNull(toTime)) return undefined;
  const proof = { before, after };
  return { tenant, pseudonym, from, to, fromTime, toTime, checkpoint, keys, proof };
}

const number = '(?:0|[1-9][0-9]{0,15})';
const recordPattern = new RegExp(
  `^\\{"index":(${number}),(?:"altered":(true)|"erasedBy":(null|${number})|"opening":(\\{.*\\}))\\}$`,
  's',
);

function parseRecord(line: string): BundleRecord | undefined {
  const [, digits, altered, by, text] = recordPattern.exec(line) ?? [];
  const index = Number(digits);
  if (!Number.isSafeInteger(index)) return undefined;
  if (altered) return { index, opening: null, erasedBy: null, isAltered: true };
  if (text !== undefined) {
    const opening = parseOpening(Buffer.from(text));
    return opening && { index, opening, erasedBy: null };
  }
  const erasedBy = by === 'null' ? null : Number(by);
  const isIndex = erasedBy === null || Number.isSafeInteger(erasedBy);
  return isIndex ? { index, opening: null, erasedBy } : undefined;
}

function parseHashes(value: unknown): Buffer[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const hashes = value.map((one) => (typeof one === 'string' ? decodeBase64(one) : undefined));
  return hashes.every((one) => one?.length === hashBytes) ? (hashes as Buffer[]) : undefined;
}

function isTimeOrNull(value: unknown): value is string | null {
  return value === null || (typeof value === 'string' && !Number.isNaN(Date.parse(value)));
}

/**
 * undefined: it is no object, or has a member twice, or spaces, and so another text than we write.
 */
function parseObject(line: string): Record<string, unknown> | undefined {
  const value = parseJson(line);
  return isObject(value) && JSON.stringify(value) === line ? value : undefined;
}
