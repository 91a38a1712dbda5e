// A data set, written down: which objects it has, with their digests. Invariants: its folder has
// its name only when it is whole; and the digest of its list depends on nothing but what the
// objects are called and hold. Specifications: RO-Crate 1.1; the manifest is as `sha256sum` has
// it, and BagIt (RFC 8493).
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdir, open, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { percentEncode } from '../core/canonical-request.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';

/** What a data set's folder has besides receipts. */
export const crateFiles = {
  /** For who reads it. */
  description: 'ro-crate-metadata.json',
  /** Digest and path, a line each: what a data set is. */
  list: 'manifest-sha256.txt',
  /** All that the gateway said of each, an object a line. */
  objects: 'objects.jsonl',
  /** Digests of these three. */
  digests: 'tagmanifest-sha256.txt',
  receipts: 'receipts',
} as const;

/** An object of a data set, as a line of `objects.jsonl` has it. */
export interface CrateObject {
  /** Where `aws s3 cp --recursive` lays it. */
  path: string;
  url: string;
  size: number;
  etag: string;
  sha256: string;
  type: string | null;
  modified: string;
  versionId: string | null;
  /** Log index of the record that made it. */
  index: number;
}

export interface CrateTerms {
  name: string;
  description: string;
  license?: string | undefined;
  /** Where receipts are asked for. */
  endpoint: string;
  /** RFC 3339. */
  published: string;
}

export interface WrittenCrate {
  objects: number;
  bytes: number;
  /** SHA-256 of the list, hexadecimal. */
  digest: string;
}

/**
 * Writes it to a folder that is not there yet. `receipt` gives the text of a receipt to keep.
 * Rejects with `CommandFailure`.
 */
export async function writeCrate(
  folder: string,
  terms: CrateTerms,
  objects: AsyncIterable<CrateObject>,
  receipt: ((index: number) => Promise<string>) | null,
): Promise<WrittenCrate> {
  const begun = join(dirname(folder), `.${process.pid}.${Date.now()}.bursar-dataset`);
  try {
    await mkdir(receipt ? join(begun, crateFiles.receipts) : begun, { recursive: true });
    const written = await new CrateWriter(begun, terms).write(objects, receipt);
    await rename(begun, folder);
    return written;
  } catch (error) {
    await rm(begun, { recursive: true, force: true });
    if (error instanceof CommandFailure) throw error;
    throw new CommandFailure('failed', `${folder}: ${messageOfFailure(error)}`, error);
  }
}

/** A line of the list, as `sha256sum` writes and reads it. */
export function listLine({ sha256, path }: Pick<CrateObject, 'sha256' | 'path'>): string {
  if (!/[\\\n\r]/.test(path)) return `${sha256}  ${path}\n`;
  const escaped = path.replace(/[\\\n\r]/g, (sign) => escapes[sign] as string);
  return `\\${sha256}  ${escaped}\n`;
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r' };

/** A file that is written piece by piece, and what its SHA-256 is. */
class HashedFile {
  readonly #file: FileHandle;
  readonly #hash: Hash = createHash('sha256');
  #pieces: string[] = [];
  #length = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  static async make(path: string): Promise<HashedFile> {
    return new HashedFile(await open(path, 'wx'));
  }

  async write(text: string): Promise<void> {
    this.#pieces.push(text);
    this.#length += text.length;
    if (this.#length >= heldMax) await this.#flush();
  }

  async end(): Promise<string> {
    await this.#flush();
    await this.#file.sync();
    await this.#file.close();
    return this.#hash.digest('hex');
  }

  async #flush(): Promise<void> {
    const text = this.#pieces.join('');
    [this.#pieces, this.#length] = [[], 0];
    this.#hash.update(text);
    await this.#file.writeFile(text);
  }
}

const heldMax = 64 * 1024;

class CrateWriter {
  readonly #folder: string;
  readonly #terms: CrateTerms;

  constructor(folder: string, terms: CrateTerms) {
    this.#folder = folder;
    this.#terms = terms;
  }

  async write(
    objects: AsyncIterable<CrateObject>,
    receipt: ((index: number) => Promise<string>) | null,
  ): Promise<WrittenCrate> {
    const make = (name: string) => HashedFile.make(join(this.#folder, name));
    const [list, lines, description, parts] = await Promise.all(
      [crateFiles.list, crateFiles.objects, crateFiles.description, partsName].map(make),
    );
    if (!list || !lines || !description || !parts) throw new Error('four files were made');
    await description.write(headOf());
    let [count, bytes] = [0, 0];
    for await (const one of objects) {
      await list.write(listLine(one));
      await lines.write(`${JSON.stringify(one)}\n`);
      await description.write(`${JSON.stringify(this.#fileOf(one))},\n`);
      await parts.write(`,{"@id":${JSON.stringify(idOf(one))}}`);
      if (receipt) await this.#keepReceipt(one.index, receipt);
      count += 1;
      bytes += one.size;
    }
    await parts.end();
    const digest = await list.end();
    const linesDigest = await lines.end();
    const [begin, end] = this.#tail();
    await description.write(begin);
    const gathered = createReadStream(join(this.#folder, partsName), 'utf8');
    for await (const piece of gathered) await description.write(piece as string);
    await description.write(end);
    await rm(join(this.#folder, partsName));
    const digests = [
      listLine({ sha256: digest, path: crateFiles.list }),
      listLine({ sha256: linesDigest, path: crateFiles.objects }),
      listLine({ sha256: await description.end(), path: crateFiles.description }),
    ];
    await writeFile(join(this.#folder, crateFiles.digests), digests.join(''), { flush: true });
    return { objects: count, bytes, digest };
  }

  async #keepReceipt(index: number, receipt: (index: number) => Promise<string>): Promise<void> {
    const file = join(this.#folder, crateFiles.receipts, receiptName(index));
    await writeFile(file, await receipt(index), { flush: true });
  }

  #fileOf(one: CrateObject): object {
    return {
      ...{ '@id': idOf(one), '@type': 'File', name: one.path, contentSize: String(one.size) },
      ...(one.type !== null && { encodingFormat: one.type }),
      ...(one.versionId !== null && { version: one.versionId }),
      ...{ sha256: one.sha256, dateModified: one.modified },
      identifier: `${this.#terms.endpoint}/_/v1/receipts/${one.index}`,
    };
  }

  /** What comes before the parts, each of which is behind a comma, and after them. */
  #tail(): [string, string] {
    const { name, description, license, published } = this.#terms;
    const own = [crateFiles.list, crateFiles.objects].map((id) => ({ '@id': id }));
    const root = {
      ...{ '@id': './', '@type': 'Dataset', name, description, datePublished: published },
      ...(license !== undefined && { license: isUrl(license) ? { '@id': license } : license }),
    };
    const files = [
      fileOf(crateFiles.list, 'SHA-256 of each file, as sha256sum has it', 'text/plain'),
      fileOf(crateFiles.objects, 'All that was known of each file', 'application/jsonl'),
    ];
    const begin = JSON.stringify(root).slice(0, -1);
    const parts = JSON.stringify(own).slice(0, -1);
    return [`${files.join(',\n')},\n${begin},"hasPart":${parts}`, ']}\n]}\n'];
  }
}

const partsName = 'parts.tmp';

export function receiptName(index: number): string {
  return `${index}.tlog-proof`;
}

function idOf({ url }: CrateObject): string {
  const [, bucket = '', key = ''] = /^s3:\/\/([^/]*)\/(.*)$/s.exec(url) ?? [];
  return `s3://${bucket}/${percentEncode(key, true)}`;
}

function fileOf(id: string, name: string, encodingFormat: string): string {
  return JSON.stringify({ '@id': id, '@type': 'File', name, encodingFormat });
}

function isUrl(text: string): boolean {
  return /^https?:\/\//.test(text);
}

function headOf(): string {
  const descriptor = {
    ...{ '@id': crateFiles.description, '@type': 'CreativeWork' },
    ...{ conformsTo: { '@id': 'https://w3id.org/ro/crate/1.1' }, about: { '@id': './' } },
  };
  const context = 'https://w3id.org/ro/crate/1.1/context';
  return `{"@context":${JSON.stringify(context)},"@graph":[\n${JSON.stringify(descriptor)},\n`;
}
