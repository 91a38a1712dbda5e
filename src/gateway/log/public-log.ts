// The public log at `/_/log/`: checkpoint, tiles, entries and keys, for anybody. Invariants: it is
// never recorded and names nobody; what may be cached for ever never changes, and what changes is
// not cached.
// Specification: C2SP tlog-tiles, "APIs"; docs/formats/log.md.
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { listLogKeys } from '../../audit/log/log-keys.ts';
import { renderVerifier } from '../../audit/log/note.ts';
import { parseTilePath } from '../../audit/log/tile-path.ts';
import { Refusal } from '../../core/errors.ts';
import type { NativeDeps } from '../native/deps.ts';
import { pathOf } from '../native/problem.ts';
import { LogTiles } from './log-tiles.ts';

const root = '/_/log/';
const text = 'text/plain; charset=utf-8';
const forEver = 'public, max-age=31536000, immutable';

export function addPublicLog(native: FastifyInstance, { log, read }: NativeDeps): void {
  const hidden = { schema: { hide: true } };
  const tiles = new LogTiles({ read, signedSize: () => log.size });
  native.get(`${root}checkpoint`, hidden, async (_request, reply) => {
    if (log.note === null) throw unsigned();
    return reply.type(text).header('cache-control', 'no-store').send(log.note);
  });
  native.get(`${root}key`, hidden, async (_request, reply) => {
    const keys = (await listLogKeys(read)).filter(({ revokedMs }) => revokedMs === null);
    const lines = keys.map(({ key }) => `${renderVerifier(key)}\n`);
    return reply.type(text).header('cache-control', 'no-store').send(lines.join(''));
  });
  native.get(`${root}tile/*`, hidden, async (request, reply) => {
    // The path as it came: a name that is written in another way names nothing.
    const name = parseTilePath(pathOf(request.url).slice(root.length));
    if (!name) throw new Refusal('NotFound');
    const { body, isCompressed } = await tiles.open(name, takesGzip(request));
    reply.type('application/octet-stream').header('cache-control', forEver);
    if (name.level === 'entries') reply.header('vary', 'accept-encoding');
    if (isCompressed) reply.header('content-encoding', 'gzip');
    return reply.send(body);
  });
}

/** Why there is no checkpoint. */
function unsigned(): Refusal {
  return new Refusal('ServiceUnavailable', { message: 'The log is not signed.' });
}

function takesGzip({ headers }: FastifyRequest): boolean {
  return /(?:^|,)\s*gzip\s*(?:$|,)/i.test(headers['accept-encoding'] ?? '');
}
