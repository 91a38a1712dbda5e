// Logs for tests, of any size and content, as the files that a server would have; and a plain
// static web server over files, which knows nothing of logs.
import { createHash, createPrivateKey, type KeyObject } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { renderCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { renderEntries } from '#bursar/audit/log/entries.js';
import {
  hashBytes,
  hashLeaf,
  hashRow,
  rootOf,
  type TileReader,
  tileWidth,
  widthOfTile,
} from '#bursar/audit/log/merkle.js';
import {
  ed25519,
  type NoteSigner,
  noteKey,
  rawPublicKey,
  renderVerifier,
  signNote,
} from '#bursar/audit/log/note.js';
import { pathOfTile } from '#bursar/audit/log/tile-path.js';

export type Files = Map<string, Buffer>;

/** The private key whose seed is the SHA-256 of a text: the same in each run. */
export function keyOf(text: string): KeyObject {
  const seed = createHash('sha256').update(text).digest();
  const der = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]);
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
}

export function signerOf(origin: string, seed = origin): NoteSigner {
  const privateKey = keyOf(seed);
  return { key: noteKey(origin, rawPublicKey(privateKey), ed25519), privateKey };
}

/** Entries as records have them, without being any's. */
export function entriesOf(count: number, salt = ''): Buffer[] {
  return Array.from({ length: count }, (_, i) => {
    const c = createHash('sha256').update(`${salt}${i}`).digest('base64url');
    return Buffer.from(`{"v":1,"t":"AAAAAAAAAAAAAAAAAAAAAA","c":"${c}"}`);
  });
}

/** The tiles above the hashes of leaves: full and partial ones, by level. */
export function tilesOf(entries: readonly Buffer[]) {
  const rows: Buffer[] = [Buffer.concat(entries.map(hashLeaf))];
  for (let row = rows[0] as Buffer; row.length >= tileWidth * hashBytes; ) {
    const above: Buffer[] = [];
    const span = tileWidth * hashBytes;
    for (let at = 0; at + span <= row.length; at += span) {
      above.push(hashRow(row.subarray(at, at + span)));
    }
    row = Buffer.concat(above);
    rows.push(row);
  }
  const readTile = async (level: number, index: number, width: number): Promise<Buffer> => {
    const from = index * tileWidth * hashBytes;
    const tile = (rows[level] as Buffer).subarray(from, from + width * hashBytes);
    if (tile.length !== width * hashBytes) throw new Error(`no tile ${level}/${index}/${width}`);
    return tile;
  };
  const tiles = { readTile } satisfies TileReader;
  return { tiles, rows };
}

/** All files of the log with these entries: what a server has that never dropped anything old. */
export async function makeLog(entries: readonly Buffer[], signer: NoteSigner): Promise<Files> {
  const size = entries.length;
  const { tiles, rows } = tilesOf(entries);
  const files: Files = new Map();
  for (const [level, row] of rows.entries()) {
    for (let index = 0; index * tileWidth * hashBytes < row.length; index += 1) {
      const width = widthOfTile(level, index, size);
      const tile = await tiles.readTile(level, index, width);
      files.set(pathOfTile({ level, index, width }), tile);
      if (level > 0) continue;
      const bundle = renderEntries(entries.slice(index * tileWidth, index * tileWidth + width));
      files.set(pathOfTile({ level: 'entries', index, width }), bundle);
    }
  }
  const root = await rootOf(tiles, size);
  const checkpoint = signNote(renderCheckpoint({ origin: signer.key.name, size, root }), [signer]);
  files.set('checkpoint', Buffer.from(checkpoint));
  files.set('key', Buffer.from(`${renderVerifier(signer.key)}\n`));
  return files;
}

export interface StaticServer {
  url: string;
  /** Paths that were asked for. */
  asked: string[];
  close(): Promise<void>;
}

/** Serves what `find` knows by its path, without a slash at the beginning. */
export async function serveStatically(
  find: (path: string) => Buffer | undefined,
): Promise<StaticServer> {
  const asked: string[] = [];
  const server: Server = createServer((request, response) => {
    const path = (request.url ?? '/').slice(1);
    asked.push(path);
    const bytes = find(path);
    response.writeHead(bytes ? 200 : 404).end(bytes ?? 'not here');
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    close: () => {
      server.closeAllConnections();
      return new Promise((closed) => server.close(() => closed()));
    },
  };
}
