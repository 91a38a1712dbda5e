// Signs the log's checkpoint, in the ledger's thread, between batches: at once after one, or with
// those that follow it within a moment, since a signature costs a tenth of a small PUT. Invariants:
// only a log that is durable is signed; which keys sign is what `log_keys` says, and where that has
// changed the log is signed at once; the same log and keys give the same note, so signing again
// after a crash tells nobody anything else.
import { createPrivateKey } from 'node:crypto';
import { renderCheckpoint } from '../audit/log/checkpoint.ts';
import {
  addLogKey,
  isSigning,
  type LogKeyRow,
  listLogKeys,
  retireLogKeys,
  revokeLogKey,
} from '../audit/log/log-keys.ts';
import { ed25519, type NoteSigner, noteKey, rawPublicKey, signNote } from '../audit/log/note.ts';
import type { RecordLog } from '../audit/record-log.ts';
import { monotonicMs } from '../core/clock.ts';
import type { Reader, Tx } from '../core/database.ts';

/** The least time from one signature to the next, milliseconds. */
const signEachMs = 20;

/** A key that signs the log. It crosses threads, and is written to no other place than its file. */
export interface LogKey {
  /** The log's origin. */
  name: string;
  /** Ed25519, PKCS8 PEM. */
  privateKey: string;
}

export function signerOf({ name, privateKey: pem }: LogKey): NoteSigner {
  const privateKey = createPrivateKey(pem);
  return { key: noteKey(name, rawPublicKey(privateKey), ed25519), privateKey };
}

export class LogSigning {
  #held = new Map<string, NoteSigner>();
  #rows: LogKeyRow[] = [];
  #isStale = false;
  #signedSize = -1;
  #signedMs = Number.NEGATIVE_INFINITY;

  /** Takes the keys there are; none: nothing is signed from now on. A new log's are noted. */
  async begin(tx: Tx, keys: readonly LogKey[], timeMs: number): Promise<void> {
    const signers = keys.map(signerOf);
    if ((await listLogKeys(tx)).length === 0) {
      for (const { key } of signers) await addLogKey(tx, key, { fromSize: 0, timeMs });
    }
    this.#held = new Map(signers.map((signer) => [signer.key.id, signer]));
    this.#isStale = true;
  }

  /** Adds a key that is durable in its file; the others end at `retireMs`. */
  async rotate(
    tx: Tx,
    { key, retireMs }: { key: LogKey; retireMs: number },
    { fromSize, timeMs }: { fromSize: number; timeMs: number },
  ): Promise<void> {
    const signer = signerOf(key);
    await retireLogKeys(tx, Math.max(retireMs, timeMs));
    await addLogKey(tx, signer.key, { fromSize, timeMs });
    // Where the log is not signed, a new key does not begin to.
    if (this.#held.size > 0) this.#held.set(signer.key.id, signer);
    this.#isStale = true;
  }

  /**
   * Refused, undefined: there is no such key. False: nothing else would sign for good; a key that
   * is about to retire would leave a log that nobody signs, and a gateway that does not start.
   */
  async revoke(tx: Tx, id: string, timeMs: number): Promise<boolean | undefined> {
    const rows = await listLogKeys(tx);
    if (!rows.some(({ key, revokedMs }) => key.id === id && revokedMs === null)) return undefined;
    const endless = rows.filter((row) => row.retiredMs === null && row.revokedMs === null);
    if (endless.every(({ key }) => key.id === id)) return false;
    await revokeLogKey(tx, id, timeMs);
    this.#isStale = true;
    return true;
  }

  /** After each commit and rollback: what was changed is read again. */
  async settle(read: Reader): Promise<void> {
    if (!this.#isStale) return;
    this.#rows = await listLogKeys(read);
    this.#isStale = false;
    this.#signedSize = -1;
    this.#signedMs = Number.NEGATIVE_INFINITY;
  }

  /** In how many milliseconds the log may be signed again; 0: now, as after a change of keys. */
  waitMs(nowMs: number): number {
    return Math.max(0, this.#signedMs + signEachMs - nowMs);
  }

  /**
   * The signed note; null: it was signed already, or there is no key to sign with. `log` must be
   * committed.
   */
  sign(log: Pick<RecordLog, 'size' | 'root'>, timeMs: number): string | null {
    if (log.size === this.#signedSize) return null;
    const signers = this.#rows
      .filter((row) => isSigning(row, timeMs))
      .flatMap(({ key }) => this.#held.get(key.id) ?? []);
    const [first] = signers;
    if (!first) return null;
    this.#signedSize = log.size;
    this.#signedMs = monotonicMs();
    const head = { origin: first.key.name, size: log.size, root: log.root() };
    return signNote(renderCheckpoint(head), signers);
  }
}
