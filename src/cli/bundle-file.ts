// Bundles of records in files: fetched from a gateway, and read line by line. Invariant: a bundle
// is under its name only when it is whole, so that what has the name can be verified.
import { createReadStream } from 'node:fs';
import type { WriteStream } from 'node:tty';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { type Connection, callApi } from './api-client.ts';
import { streamOutput } from './output.ts';
import { CountProgress } from './progress.ts';

interface Head {
  from: number;
  to: number;
}

/** What is asked for: log indexes or times; undefined: all that is signed now. */
export interface WantedBundle {
  tenant: string;
  from?: string | undefined;
  to?: string | undefined;
  out: string;
}

/** Writes the bundle to the file `out`. Rejects with `CommandFailure`. */
export async function exportBundle(
  connection: Connection,
  { tenant, from, to, out }: WantedBundle,
): Promise<Head & { records: number }> {
  const path = ['tenants', tenant, 'bundle'];
  const begun = await callApi(connection, { method: 'GET', path, query: { from, to } });
  const head = begun.json as Head;
  const progress = new CountProgress(process.stderr as WriteStream, 'leaves');
  let records = 0;
  try {
    await streamOutput(out, { mode: 0o666 }, async (append) => {
      await append(`${begun.text}\n`);
      for (let at = head.from; at < head.to; ) {
        const { next, lines } = await readPart(connection, [...path, String(at)], head);
        await append(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
        records += lines.filter((line) => 'opening' in line).length;
        at = next;
        progress.show(at - head.from);
      }
    });
  } catch (error) {
    if (error instanceof CommandFailure) throw error;
    throw new CommandFailure('failed', `${out}: ${messageOfFailure(error)}`, error);
  } finally {
    progress.clear();
  }
  return { from: head.from, to: head.to, records };
}

type Part = Answers['ReadBundle'];

async function readPart(connection: Connection, path: string[], { to }: Head): Promise<Part> {
  const query = { to: String(to) };
  const part = (await callApi(connection, { method: 'GET', path, query })).json as Part;
  if (Number(path.at(-1)) < part.next && part.next <= to) return part;
  throw new CommandFailure('failed', 'the gateway gave another part of the log than was asked for');
}

/** No bundle has a longer line. */
const lineBytesMax = 64 * 1024 * 1024;

/**
 * Lines end with LF alone. A line that is no UTF-8 text, or too long, is given as an empty one, and
 * is the last.
 */
export async function* bundleLines(file: string): AsyncGenerator<string> {
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
