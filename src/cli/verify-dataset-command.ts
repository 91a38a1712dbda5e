// `bursar verify dataset`: whether files are the data set that a manifest describes, and whether
// the manifest is what was written, without a gateway and without a network.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join, relative, resolve, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { verifyReceipt } from '../audit/verify/receipt.ts';
import type { Trust } from '../audit/verify/signed-checkpoint.ts';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { parseJson } from '../core/json.ts';
import { printable } from '../core/printable.ts';
import { type GivenTrust, readTrust } from '../server/folder/given-trust.ts';
import { bundleLines } from './bundle-file.ts';
import { addTrustFlags } from './command-arguments.ts';
import { type CrateObject, crateFiles, listLine, receiptName } from './dataset-crate.ts';
import { print, printJson } from './output.ts';
import { CountProgress, formatCount } from './progress.ts';

interface DatasetFlags extends GivenTrust {
  json?: boolean;
}

interface Found {
  objects: number;
  bytes: number;
  /** Of the list, hexadecimal. */
  digest: string;
  files: number;
  /** True ones that say the same: with the SHA-256, and with the entity tag of parts alone. */
  receipts: number;
  receiptsByTag: number;
  findings: string[];
}

/** Adds the command to the group `verify`. */
export function addVerifyDatasetCommand(verify: Command): void {
  const command = verify
    .command('dataset')
    .argument('<manifest>', 'the folder that "bursar dataset manifest" wrote')
    .argument('[files]', 'the folder into which the data set was fetched')
    .description(
      'verify a manifest, files and receipts; exit code 1 when they are not the data set',
    );
  addTrustFlags(command).option('--json', 'answer with JSON').action(verifyDataset);
}

async function verifyDataset(
  folder: string,
  files: string | undefined,
  flags: DatasetFlags,
): Promise<void> {
  const isTrusting = flags.key !== undefined || flags.keys !== undefined;
  const trust = isTrusting ? readTrust(flags) : null;
  const found = await look(folder, files, trust).catch((error: unknown) => {
    if (error instanceof CommandFailure) throw error;
    throw new CommandFailure('failed', messageOfFailure(error), error);
  });
  const { findings, objects, bytes, digest, receipts, receiptsByTag } = found;
  if (flags.json) printJson({ ok: findings.length === 0, ...found });
  else {
    for (const finding of findings) print(printable(finding));
    print(`${folder}: ${formatCount(objects)} objects, ${formatBytes(bytes)}, sha256:${digest}`);
    if (files !== undefined) print(`${files}: ${formatCount(found.files)} files are as it says`);
    if (trust) print(`${formatCount(receipts)} receipts are true, and say the same`);
    if (receiptsByTag > 0) print(`${formatCount(receiptsByTag)} more are true, ${ofParts}`);
  }
  if (findings.length === 0) return;
  throw new CommandFailure('failed', `${formatCount(findings.length)} things are not as described`);
}

const ofParts = 'and prove the entity tag and size of what was uploaded in parts, not its SHA-256';

async function look(
  folder: string,
  files: string | undefined,
  trust: Trust | null,
): Promise<Found> {
  const found: Found = {
    ...{ objects: 0, bytes: 0, digest: '', files: 0 },
    ...{ receipts: 0, receiptsByTag: 0, findings: [] },
  };
  const digests = await digestsOf(folder);
  const [list, lines] = [createHash('sha256'), createHash('sha256')];
  const wanted = new Set<string>();
  const progress = new CountProgress(process.stderr, 'objects verified');
  for await (const line of bundleLines(join(folder, crateFiles.objects))) {
    lines.update(`${line}\n`);
    const one = parseObject(line);
    list.update(listLine(one));
    found.objects += 1;
    found.bytes += one.size;
    progress.show(found.objects);
    if (files !== undefined) {
      // As the file system has it: `a//b` lies where `a/b` does.
      wanted.add(relative(files, resolve(files, one.path)));
      await verifyFile(files, one, found);
    }
    if (trust) await verifyKept(folder, one, trust, found);
  }
  progress.clear();
  found.digest = list.digest('hex');
  const own = {
    [crateFiles.list]: [found.digest, await fileDigest(join(folder, crateFiles.list))],
    [crateFiles.objects]: [lines.digest('hex')],
    [crateFiles.description]: [await fileDigest(join(folder, crateFiles.description))],
  };
  for (const [name, are] of Object.entries(own)) {
    if (are.some((one) => one !== digests.get(name))) {
      found.findings.push(`${name} is not what was written`);
    }
  }
  if (files !== undefined) found.findings.push(...(await extraIn(files, wanted)));
  return found;
}

/** Of the files of a manifest, by name. */
async function digestsOf(folder: string): Promise<Map<string, string>> {
  const text = await readFile(join(folder, crateFiles.digests), 'utf8');
  const lines = text.split('\n').filter((line) => line !== '');
  return new Map(lines.map((line) => [line.slice(66), line.slice(0, 64)]));
}

/** Throws `CommandFailure` for a line that no manifest has. */
function parseObject(line: string): CrateObject {
  const one = (parseJson(line) ?? {}) as Partial<CrateObject>;
  const { path, sha256, size, index } = one;
  const isOne =
    typeof path === 'string' &&
    typeof sha256 === 'string' &&
    /^[0-9a-f]{64}$/.test(sha256) &&
    Number.isSafeInteger(size) &&
    Number.isSafeInteger(index);
  if (isOne) return one as CrateObject;
  throw new CommandFailure('failed', `${crateFiles.objects} has a line that is no object's`);
}

async function verifyFile(files: string, one: CrateObject, found: Found): Promise<void> {
  const why = await whyOther(files, one);
  if (why === null) found.files += 1;
  else found.findings.push(`${one.path} ${why}`);
}

async function whyOther(
  files: string,
  { path, size, sha256 }: CrateObject,
): Promise<string | null> {
  const file = resolve(files, path);
  // A key may say where it likes.
  if (!file.startsWith(resolve(files) + sep)) return 'is not in the folder by its name';
  const stat = await lstat(file).catch(() => null);
  if (!stat?.isFile()) return 'is not there';
  if (stat.size !== size) return `has ${stat.size} bytes and not ${size}`;
  return (await fileDigest(file)) === sha256 ? null : 'has another content';
}

async function fileDigest(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}

/** What lies in the folder besides. */
async function extraIn(files: string, wanted: ReadonlySet<string>): Promise<string[]> {
  const entries = await readdir(files, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(files, join(entry.parentPath, entry.name)))
    .filter((path) => !wanted.has(path))
    .map((path) => `${path} is not of the data set`);
}

async function verifyKept(
  folder: string,
  one: CrateObject,
  trust: Trust,
  found: Found,
): Promise<void> {
  const text = await readFile(join(folder, crateFiles.receipts, receiptName(one.index))).catch(
    () => null,
  );
  const receipt = text && verifyReceipt(text, trust);
  const name = `receipt ${one.index}`;
  if (!receipt) found.findings.push(`${name} of ${one.path} is not there`);
  else if (!receipt.ok) found.findings.push(`${name} of ${one.path}: ${receipt.why}`);
  else if (!saysOf(receipt, one)) found.findings.push(`${name} is not that of ${one.path}`);
  else if ('sha256' in receipt.record) found.receipts += 1;
  else found.receiptsByTag += 1;
}

/** Does a record say that it made this content? Of what was uploaded in parts by its entity tag. */
function saysOf({ index, record }: { index: number; record: object }, one: CrateObject): boolean {
  const { sha256, etag, size } = record as Record<string, unknown>;
  const isSame = sha256 === undefined ? etag === one.etag : sha256 === one.sha256;
  return index === one.index && isSame && (size === undefined || size === one.size);
}
