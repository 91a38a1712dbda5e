// Finds out by trying what a server can do: whether it can be reached and written to, how it proves
// what was written, whether it can be read in ranges, listed and deleted from, and whether it
// honours conditions, even in a race. Invariant: a capability is used only where it was found; a
// store that lacks a necessary one is refused; and a probe removes what it wrote.
import { randomBytes } from 'node:crypto';
import { monotonicMs } from '../../../core/clock.ts';
import { AttemptFailure, type FailureCause } from '../attempt-failure.ts';
import type { Answer } from './attempt.ts';
import type { Connection, StoreRequest } from './connection.ts';
import { ObjectAnswer } from './object-answer.ts';
import { checksumHeader, checksumOf, isMd5Etag, md5Of, type ProofKind } from './proven-put.ts';
import { RangeAnswer } from './range-answer.ts';

export type Capability =
  | 'write'
  | 'proof'
  | 'read'
  | 'range'
  | 'list'
  | 'condition'
  | 'race'
  | 'delete';

export interface Finding {
  capability: Capability;
  ok: boolean;
  /** What was found, in words for people. */
  detail: string;
  latencyMs: number;
}

const sizeBytes = 1000;
const rangeFrom = 123;
const rangeTo = 876;
const racers = 8;

type ListNames = (prefix: string) => Promise<{ objects: { name: string; sizeBytes: number }[] }>;

export class Prober {
  findings: Finding[] = [];
  readonly #connection: Connection;
  readonly #listNames: ListNames;
  readonly #written = new Set<string>();
  /** The answer to the first write. */
  #stored: Answer | undefined;

  constructor(connection: Connection, listNames: ListNames) {
    this.#connection = connection;
    this.#listNames = listNames;
  }

  /**
   * Probes once. Throws an AttemptFailure when the server cannot be reached, denies access, or
   * lacks what is necessary, which the failure names.
   */
  async run(): Promise<{ honoursConditions: boolean; proof: ProofKind }> {
    this.findings = [];
    const folder = `probe/${randomBytes(16).toString('hex')}/`;
    const name = `${folder}object`;
    const bytes = randomBytes(sizeBytes);
    try {
      await this.#need('write', () => this.#write(name, bytes));
      const proof = await this.#findProof(name, bytes);
      await this.#need('read', () => this.#read(name, bytes));
      await this.#need('range', () => this.#readRange(name, bytes));
      await this.#need('list', () => this.#list(folder, name));
      const honours = await this.#find('condition', () => this.#writeOver(name, bytes));
      const honoursConditions = honours && (await this.#find('race', () => this.#race(folder)));
      await this.#need('delete', () => this.#delete(name));
      return { honoursConditions, proof };
    } finally {
      await this.#tidy();
    }
  }

  /** Notes what `step` finds. Throws when it fails. */
  async #need(capability: Capability, step: () => Promise<string>): Promise<void> {
    const startMs = monotonicMs();
    const note = (ok: boolean, detail: string): void => {
      this.findings.push({ capability, ok, detail, latencyMs: monotonicMs() - startMs });
    };
    try {
      note(true, await this.#connection.retry(step));
    } catch (error) {
      note(false, (error as Error).message);
      throw isLie(error) ? new AttemptFailure('unfit', error.message, { cause: error }) : error;
    }
  }

  /**
   * Resolves to whether the server can do what `step` tries. Rejects when that could not be found
   * out.
   */
  async #find(capability: Capability, step: () => Promise<string>): Promise<boolean> {
    try {
      await this.#need(capability, step);
      return true;
    } catch (error) {
      if (error instanceof AttemptFailure && error.reason === 'unfit') return false;
      throw error;
    }
  }

  async #write(name: string, bytes: Buffer): Promise<string> {
    const headers = { [checksumHeader]: checksumOf([bytes]) };
    this.#stored = await this.#send({ name, headers, pieces: [bytes] });
    const { status } = this.#stored;
    if (status !== 200) throw new AttemptFailure('unfit', `HTTP ${status} to a PUT of an object`);
    return 'an object was stored';
  }

  /** Finds out by which proof answers to PUTs are believed. */
  async #findProof(name: string, bytes: Buffer): Promise<ProofKind> {
    let proof: ProofKind = null;
    await this.#find('proof', async () => {
      const { headers } = this.#stored as Answer;
      const checksum = headers[checksumHeader];
      if (checksum !== undefined && checksum !== checksumOf([bytes])) {
        throw new AttemptFailure('unfit', 'a PUT is answered with the checksum of something else');
      }
      if (checksum !== undefined && (await this.#refusesFalse(`${name}-false`))) {
        proof = 'checksum';
        return 'a PUT is answered with the checksum of what was stored';
      }
      if (isMd5Etag(headers.etag, await md5Of([bytes]))) {
        proof = 'etag';
        return 'a PUT is answered with the MD5 of what was stored';
      }
      throw new AttemptFailure('unfit', 'a PUT is not answered with a checksum, nor with an MD5');
    });
    return proof;
  }

  /** Resolves to whether the server computes checksums, so that it refuses a false one. */
  async #refusesFalse(name: string): Promise<boolean> {
    const headers = { [checksumHeader]: checksumOf([Buffer.from('other bytes')]) };
    const pieces = [Buffer.from('these bytes')];
    return (await this.#send({ name, headers, pieces, answers: [400] })).status === 400;
  }

  async #read(name: string, bytes: Buffer): Promise<string> {
    if (!(await this.#get(name))?.equals(bytes)) {
      throw new AttemptFailure('unfit', 'a GET does not give what was stored');
    }
    return 'the stored bytes were read';
  }

  async #readRange(name: string, bytes: Buffer): Promise<string> {
    const got: Buffer[] = [];
    const body = new RangeAnswer(
      {
        what: 'the probe object',
        store: 0,
        position: rangeFrom,
        lengthBytes: rangeTo - rangeFrom + 1,
        sizeBytes,
      },
      (piece) => got.push(Buffer.from(piece)),
    );
    const headers = { range: `bytes=${rangeFrom}-${rangeTo}` };
    await this.#connection.exchange({ method: 'GET', name, headers, body, isTrial: true });
    if (!Buffer.concat(got).equals(bytes.subarray(rangeFrom, rangeTo + 1))) {
      throw new AttemptFailure('unfit', 'a GET of a range gives other bytes than those');
    }
    return 'exactly the range was read';
  }

  async #list(folder: string, name: string): Promise<string> {
    const { objects } = await this.#listNames(folder);
    const found = objects.find((object) => object.name === name);
    if (found?.sizeBytes !== sizeBytes)
      throw new AttemptFailure('unfit', 'the list lacks a stored object');
    return 'the stored object is listed';
  }

  async #writeOver(name: string, bytes: Buffer): Promise<string> {
    const status = await this.#put(name, randomBytes(sizeBytes), true);
    if (status !== 412)
      throw new AttemptFailure(
        'unfit',
        `HTTP ${status} to a PUT over an object with If-None-Match`,
      );
    if (!(await this.#get(name))?.equals(bytes))
      throw new AttemptFailure('unfit', 'it was written over all the same');
    return 'If-None-Match kept an object';
  }

  /** When several write one new name at once, one wins, and its bytes are those that stay. */
  async #race(folder: string): Promise<string> {
    const name = `${folder}race-${randomBytes(4).toString('hex')}`;
    const bodies = Array.from({ length: racers }, () => randomBytes(sizeBytes));
    const statuses = await Promise.all(
      bodies.map((bytes) => this.#put(name, bytes, true).catch(statusOfConflict)),
    );
    const winners = bodies.filter((_, index) => (statuses[index] as number) < 300);
    if (winners.length !== 1) {
      throw new AttemptFailure(
        'unfit',
        `${winners.length} of ${racers} won the race for one new name`,
      );
    }
    if (!(await this.#get(name))?.equals(winners[0] as Buffer)) {
      throw new AttemptFailure('unfit', 'a loser of the race was stored');
    }
    return `one of ${racers} won the race for one new name`;
  }

  async #delete(name: string): Promise<string> {
    await this.#connection.exchange({ method: 'DELETE', name, isTrial: true });
    if (await this.#get(name))
      throw new AttemptFailure('unfit', 'a deleted object can still be read');
    return 'a deleted object is gone';
  }

  /** Failing to remove is no error: what is left costs little, and what was found counts. */
  async #tidy(): Promise<void> {
    const names = [...this.#written];
    this.#written.clear();
    const request = { method: 'DELETE' as const, isTrial: true };
    await Promise.allSettled(names.map((name) => this.#connection.exchange({ ...request, name })));
  }

  async #put(name: string, bytes: Buffer, ifAbsent = false): Promise<number> {
    const headers: Record<string, string> = ifAbsent ? { 'if-none-match': '*' } : {};
    return (await this.#send({ name, headers, pieces: [bytes] })).status;
  }

  async #send(
    write: Pick<StoreRequest, 'name' | 'headers' | 'pieces' | 'answers'>,
  ): Promise<Answer> {
    const answer = await this.#connection.exchange({ method: 'PUT', ...write, isTrial: true });
    if (answer.status < 300) this.#written.add(write.name);
    return answer;
  }

  async #get(name: string): Promise<Buffer | undefined> {
    const body = new ObjectAnswer();
    const request = { method: 'GET' as const, name, body, isTrial: true };
    const { status } = await this.#connection.exchange(request);
    return status === 404 ? undefined : body.bytes;
  }
}

const lies: ReadonlySet<FailureCause> = new Set([
  'early-answer',
  'error-in-200',
  'wrong-body',
  'wrong-length',
  'wrong-range',
]);

/** Whether the server answered each try with something else than was asked for. */
function isLie(error: unknown): error is AttemptFailure {
  return error instanceof AttemptFailure && lies.has(error.reason);
}

/** A server may tell a writer to try again: then it has not won the race. */
function statusOfConflict(error: unknown): number {
  if (error instanceof AttemptFailure && error.reason === 'conflict') return 409;
  throw error;
}
