// The way of bytes that a customer's key encrypts: before they come to their store's sink, in this
// thread, which also hashes them as they were sent. Invariants: what the sink below gets is
// encrypted; its MD5, which would be the ETag, is the nonce of the write instead; and no digest of
// what was sent is kept but the checksum that its client has.
import { createHash, type Hash } from 'node:crypto';
import type { Transform } from '../core/customer-key.ts';
import { type Checksum, type ChecksumAlgorithm, createChecksum } from './checksums.ts';
import type {
  Digests,
  ObjectDescription,
  ObjectSink,
  WriteOptions,
  WrittenObject,
} from './object-sink.ts';

export interface CustomerWrite {
  encrypt: Transform;
  /** 16 bytes. */
  nonce: Buffer;
  /** Digests of what is sent that are wanted besides checksums. */
  compared: { md5: boolean; sha256: boolean };
}

export class CustomerSink implements ObjectSink {
  readonly #sink: ObjectSink;
  readonly #write: CustomerWrite;
  readonly #checksums: readonly Checksum[];
  readonly #md5: Hash | null;
  readonly #sha256: Hash | null;

  /**
   * `begin`: opens the sink of the store. The code of the checksums is loaded
   * (`loadChecksums`).
   */
  constructor(
    write: CustomerWrite,
    checksums: readonly ChecksumAlgorithm[],
    begin: (own: Pick<WriteOptions, 'checksums'>) => ObjectSink,
  ) {
    this.#write = write;
    this.#checksums = checksums.map(createChecksum);
    this.#md5 = write.compared.md5 ? createHash('md5') : null;
    this.#sha256 = write.compared.sha256 ? createHash('sha256') : null;
    this.#sink = begin({ checksums: [] });
  }

  write(bytes: Buffer): Promise<void> | null {
    for (const checksum of this.#checksums) checksum.update(bytes);
    this.#md5?.update(bytes);
    this.#sha256?.update(bytes);
    return this.#sink.write(this.#write.encrypt(bytes));
  }

  async digest(): Promise<Digests> {
    const { sha256 } = await this.#sink.digest();
    const checksums = this.#checksums.map((one) => one.digest());
    const sent: Digests['sent'] = {};
    if (this.#md5) sent.md5 = this.#md5.digest();
    if (this.#sha256) sent.sha256 = this.#sha256.digest();
    return { md5: this.#write.nonce, sha256, checksums, sent };
  }

  async seal(digests: Digests, description: ObjectDescription | null): Promise<WrittenObject> {
    const { sent = {} } = digests;
    return { ...(await this.#sink.seal(digests, description)), sent };
  }

  abort(): Promise<void> {
    return this.#sink.abort();
  }
}
