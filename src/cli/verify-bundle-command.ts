// `bursar verify bundle`: whether the records of a tenant that were handed out are true, and all
// that there are in their range of the log. Without a gateway and without a network; memory does
// not grow with the file.
import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import { type VerifiedBundle, verifyBundle } from '../audit/bundle.ts';
import type { EvidenceState } from '../audit/verify/proven-evidence.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import { type GivenTrust, readTrust } from '../server/folder/given-trust.ts';
import { addTrustFlags } from './command-arguments.ts';
import { print, printJson } from './output.ts';
import { CountProgress, formatCount } from './progress.ts';

interface BundleFlags extends GivenTrust {
  json?: boolean;
}

/** How many records have evidence in each of these states. */
type EvidenceCounts = Record<EvidenceState['state'], number>;

/** Adds the command to the group `verify`. */
export function addVerifyBundleCommand(verify: Command): void {
  const command = verify
    .command('bundle')
    .argument('<file>', 'what "bursar audit export" wrote')
    .description('verify that records are true and none is missing; exit code 1 when not so');
  addTrustFlags(command)
    .option('--json', 'answer with JSON')
    .action((file: string, flags: BundleFlags) => verifyFile(file, flags));
}

async function verifyFile(file: string, flags: BundleFlags): Promise<void> {
  const trust = readTrust(flags);
  const progress = new CountProgress(process.stderr, 'records verified');
  const counts: EvidenceCounts = { none: 0, missing: 0, unproven: 0, proven: 0 };
  let records = 0;
  const found = await verifyBundle(linesOf(file), {
    trust,
    onRecord: ({ evidence }) => {
      counts[evidence.state] += 1;
      records += 1;
      progress.show(records);
    },
  });
  progress.clear();
  if (!found.ok) {
    if (flags.json) printJson({ ok: false, findings: [found.why] });
    else print(printable(found.why));
    throw new CommandFailure('failed', `${file} is not to be believed`);
  }
  if (flags.json) printJson(jsonOf(found, counts));
  else show(found, counts);
  if (found.altered.length === 0) return;
  throw new CommandFailure('failed', `${file} lacks records that the gateway has no more`);
}

function show(found: VerifiedBundle, counts: EvidenceCounts): void {
  const { tenant, from, to, records, erased, unexplained, altered, checkpoint } = found;
  const by = [...checkpoint.keyIds, ...checkpoint.witnesses.map(({ name }) => name)].join(', ');
  const range = `log indexes ${from} to before ${to} of ${checkpoint.origin}`;
  print(printable(`all ${formatCount(records)} records of ${tenant}, ${range}, signed by ${by}`));
  if (erased > 0) print(`besides, ${formatCount(erased)} were erased`);
  if (unexplained.length > 0) {
    print(`no record here tells who erased ${unexplained.slice(0, 20).join(', ')}`);
  }
  if (altered.length > 0) {
    print(`the gateway has no more what was logged at ${altered.slice(0, 20).join(', ')}`);
  }
  const { proven, missing, unproven } = counts;
  const signed = `${formatCount(proven)} with a genuine signature of the client`;
  print(`${signed}, ${formatCount(missing + unproven)} whose signature is not here`);
}

function jsonOf(
  { pseudonym, fromTime, toTime, checkpoint, ...found }: VerifiedBundle,
  evidence: EvidenceCounts,
): object {
  const { origin, size, root, keyIds, witnesses } = checkpoint;
  return {
    ...found,
    ...{ findings: [], pseudonym, fromTime, toTime, evidence },
    checkpoint: { origin, size, root: root.toString('base64'), keyIds, witnesses },
  };
}

/** No bundle has a longer line. */
const lineBytesMax = 64 * 1024 * 1024;

/**
 * Lines end with LF alone. A line that is no UTF-8 text, or too long, is given as an empty one, and
 * is the last.
 */
async function* linesOf(file: string): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let begun: Buffer[] = [];
  let begunBytes = 0;
  const take = (end: Buffer): string => {
    const line = decoder.decode(Buffer.concat([...begun, end]));
    begun = [];
    begunBytes = 0;
    return line;
  };
  try {
    for await (const piece of createReadStream(file) as AsyncIterable<Buffer>) {
      let from = 0;
      for (let end = piece.indexOf('\n'); end >= 0; end = piece.indexOf('\n', from)) {
        yield take(piece.subarray(from, end));
        from = end + 1;
      }
      begun.push(piece.subarray(from));
      begunBytes += piece.length - from;
      if (begunBytes > lineBytesMax) return yield '';
    }
    if (begunBytes > 0) yield take(Buffer.alloc(0));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
      return yield '';
    throw new CommandFailure('usage', messageOfFailure(error), error);
  }
}
