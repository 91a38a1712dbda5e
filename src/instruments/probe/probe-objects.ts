// The objects of a probe: what they are called, and how they go again. Invariant: what is removed
// has a name that only this probe gives, so that nothing of anybody else's ever is, whatever else
// lies under the prefix; and names of a probe that was killed are those that its next run looks
// for.
// Specification: ListObjectsV2, ListObjectVersions and ListMultipartUploads of the Amazon S3 API.
import { randomBytes } from 'node:crypto';
import type { Answer, ProbeLine } from './probe-line.ts';
import { codeOf } from './transfer.ts';

export interface ProbeObject {
  key: string;
  /** What its content is made of. */
  number: number;
}

const name = /^bursar-probe-[0-9a-f]{16}-[0-9a-f]{12}-\d{1,10}$/;
/** Rounds of listings and removals: a thousand objects each. */
const roundsMax = 1000;
const triesMax = 3;

export class ProbeObjects {
  readonly #line: ProbeLine;
  readonly #start: string;
  readonly #run = randomBytes(6).toString('hex');
  readonly #signal: AbortSignal;
  readonly #isKept: boolean;
  #count = 0;

  /**
   * `owner`: 16 hexadecimal digits of whoever cannot run twice at a time; null: whoever they are
   * of.
   */
  constructor(given: {
    line: ProbeLine;
    prefix: string;
    owner: string | null;
    signal: AbortSignal;
    isKept?: boolean;
  }) {
    this.#line = given.line;
    this.#signal = given.signal;
    this.#isKept = given.isKept ?? false;
    this.#start = `${given.prefix}bursar-probe-${given.owner === null ? '' : `${given.owner}-`}`;
  }

  next(): ProbeObject {
    const number = this.#count++;
    return { key: `${this.#start}${this.#run}-${number}`, number };
  }

  /** Removes what was written as `answer` says; what is still there then `removeAll` finds. */
  async remove(key: string, answer: Answer | null): Promise<void> {
    if (this.#isKept) return;
    const version = answer?.headers['x-amz-version-id'];
    await this.#delete(key, typeof version === 'string' ? { versionId: version } : {});
  }

  /** Gives up an upload. */
  async abort(key: string, uploadId: string): Promise<void> {
    await this.#delete(key, { uploadId });
  }

  /**
   * Removes all that is there: what this run has not, and what runs before it left that were
   * killed. Gives how many; rejects with an Error that says what could not be listed or removed.
   */
  async removeAll(): Promise<number> {
    if (this.#isKept) return 0;
    let removed = 0;
    for (const list of [this.#listUploads, this.#listVersions]) {
      for (let round = 0; round < roundsMax; round++) {
        const found = await list.call(this);
        const own = found.filter(({ key }) => this.#isOwn(key));
        if (own.length === 0) break;
        for (const { key, query } of own) {
          if (!(await this.#delete(key, query))) throw new Error(`could not remove ${key}`);
          removed++;
        }
      }
    }
    return removed;
  }

  #isOwn(key: string): boolean {
    return key.startsWith(this.#start) && name.test(key.slice(this.#start.lastIndexOf('bursar-')));
  }

  async #listUploads(): Promise<Listed[]> {
    const answer = await this.#list([['uploads', '']]);
    // A server without multipart uploads has none that could be left.
    if (answer.status !== 200) return [];
    return elements(answer.text, ['Upload']).map((text) => ({
      key: memberOf(text, 'Key'),
      query: { uploadId: memberOf(text, 'UploadId') },
    }));
  }

  /** Lists versions as well, where the server has them. */
  async #listVersions(): Promise<Listed[]> {
    const versions = await this.#list([['versions', '']]);
    if (versions.status === 200) {
      return elements(versions.text, ['Version', 'DeleteMarker']).map((text) => ({
        key: memberOf(text, 'Key'),
        query: { versionId: memberOf(text, 'VersionId') },
      }));
    }
    const objects = await this.#list([['list-type', '2']]);
    if (objects.status !== 200) {
      throw new Error(`cannot list: HTTP ${objects.status} ${codeOf(objects)}`.trim());
    }
    const found = elements(objects.text, ['Contents']);
    return found.map((text) => ({ key: memberOf(text, 'Key'), query: {} }));
  }

  #list(query: [string, string][]): Promise<Answer> {
    return this.#try({ method: 'GET', key: '', query: [...query, ['prefix', this.#start]] });
  }

  async #delete(key: string, query: Record<string, string>): Promise<boolean> {
    try {
      const pairs = Object.entries(query).filter(([, value]) => value !== '');
      const { status } = await this.#try({ method: 'DELETE', key, query: pairs });
      return (status >= 200 && status < 300) || status === 404;
    } catch {
      // It is listed, and removed, at the end of the run or at the begin of the next.
      return false;
    }
  }

  /** What is not measured is tried again where the server failed. */
  async #try(
    request: Pick<Listed, 'key'> & { method: 'GET' | 'DELETE'; query: [string, string][] },
  ) {
    for (let tries = 1; ; tries++) {
      this.#signal.throwIfAborted();
      try {
        const given = { ...request, answerBytesMax: 0, signal: this.#signal };
        const answer = await this.#line.exchange(given);
        if (answer.status < 500 || tries === triesMax) return answer;
      } catch (error) {
        if (tries === triesMax) throw error;
      }
    }
  }
}

interface Listed {
  key: string;
  query: Record<string, string>;
}

/**
 * The texts of elements with one of these names, which have none of the same name in them. In time
 * that grows as the text does: elements that never end are a server's to send.
 */
function elements(xml: string, names: readonly string[]): string[] {
  return names.flatMap((name) => {
    const texts: string[] = [];
    const [open, close] = [`<${name}>`, `</${name}>`];
    for (let from = xml.indexOf(open); from >= 0; ) {
      const to = xml.indexOf(close, from);
      if (to < 0) break;
      texts.push(xml.slice(from + open.length, to));
      from = xml.indexOf(open, to);
    }
    return texts;
  });
}

function memberOf(xml: string, element: string): string {
  const text = new RegExp(`<${element}>([^<]*)</${element}>`).exec(xml)?.[1] ?? '';
  return text.replace(/&(lt|gt|amp|quot|apos|#x?[0-9a-fA-F]{1,6});/g, characterOf);
}

const entities: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

function characterOf(whole: string, entity: string): string {
  if (!entity.startsWith('#')) return entities[entity] ?? whole;
  const isHex = entity[1] === 'x';
  const code = Number.parseInt(entity.slice(isHex ? 2 : 1), isHex ? 16 : 10);
  return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
}
