// The gateway's side of witnesses that misbehave: they hold nobody up, are believed in nothing that
// they did not sign, and end the signing only by saying that they have seen another log.
import { sign } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { renderCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { cosignatureSchema, noteCosigned } from '#bursar/audit/log/cosignatures.js';
import { isConsistent, rootOf } from '#bursar/audit/log/merkle.js';
import {
  cosignature,
  type NoteSigner,
  noteKey,
  parseNote,
  rawPublicKey,
  renderSignature,
  signNote,
  verifyNote,
} from '#bursar/audit/log/note.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { LogHead } from '#bursar/gateway/log/log-head.js';
import { Witnesses } from '#bursar/gateway/log/witnesses.js';
import { entriesOf, keyOf, signerOf, tilesOf } from '../../audit/log/made-log.ts';

const origin = 'log.test/one';
const signer = signerOf(origin);
const { tiles } = tilesOf(entriesOf(400));

async function noteOf(size: number): Promise<string> {
  return signNote(renderCheckpoint({ origin, size, root: await rootOf(tiles, size) }), [signer]);
}

type Behaviour = (request: { body: string }, response: ServerResponse) => unknown;

interface Played {
  signer: NoteSigner;
  /** Bodies of what it was asked. */
  asked: string[];
  behaviour: Behaviour;
  witness: { key: NoteSigner['key']; url: string };
}

let servers: Server[];
let folder: string;
let database: OpenDatabase;
let head: LogHead;
let refusals: string[];
let open: Witnesses[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-witnesses-'));
  database = openDatabase(join(folder, 'log.db'), { readonly: false, cacheKib: 64 });
  database.exec(cosignatureSchema);
  servers = [];
  open = [];
  refusals = [];
  head = new LogHead((reason) => refusals.push(reason));
});

afterEach(async () => {
  for (const one of open) await one.close();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  database.close();
  rmSync(folder, { recursive: true });
});

async function play(name: string, behaviour: Behaviour): Promise<Played> {
  const privateKey = keyOf(name);
  const key = noteKey(name, rawPublicKey(privateKey), cosignature);
  const played: Played = {
    signer: { key, privateKey },
    asked: [],
    behaviour,
    witness: { key, url: '' },
  };
  const server = createServer((request, response) => void answer(played, request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  servers.push(server);
  played.witness.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/submit`;
  return played;
}

async function answer(played: Played, request: IncomingMessage, response: ServerResponse) {
  expect(`${request.method} ${request.url}`).toBe('POST /submit/add-checkpoint');
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk;
  played.asked.push(body);
  played.behaviour({ body }, response);
}

function cosigning(name: string): Behaviour {
  const privateKey = keyOf(name);
  const key = noteKey(name, rawPublicKey(privateKey), cosignature);
  return ({ body }, response) => {
    const text = parseNote(body.slice(body.indexOf('\n\n') + 2))?.text;
    const time = Buffer.alloc(8);
    time.writeBigUInt64BE(1_800_000_000n);
    const signature = sign(
      null,
      Buffer.from(`cosignature/v1\ntime 1800000000\n${text}`),
      privateKey,
    );
    response.end(renderSignature(key, Buffer.concat([time, signature])));
  };
}

function seen(size: number): Behaviour {
  return (_request, response) => {
    response.writeHead(409, { 'content-type': 'text/x.tlog.size' }).end(`${size}\n`);
  };
}

/** After the first round. */
async function ask(played: readonly Played[], attemptMs = 10_000): Promise<Witnesses> {
  const witnesses = await Witnesses.open(
    {
      witnesses: played.map(({ witness }) => witness),
      head,
      tiles,
      read: database.tx,
      ledger: {
        maintain: async ({ witness, note }) => {
          await noteCosigned(database.tx, witness, note);
          return 1;
        },
      },
      onError: (error) => {
        throw error;
      },
      intervalMs: 50,
    },
    attemptMs,
  );
  open.push(witnesses);
  return witnesses;
}

describe('witnesses', () => {
  it('that cosign are all on the checkpoint of a receipt, also after a restart', async () => {
    head.receive(await noteOf(300));
    const both = [await play('w.test/1', cosigning('w.test/1'))];
    both.push(await play('w.test/2', cosigning('w.test/2')));
    await ask(both);
    const keys = [signer.key, ...both.map(({ witness }) => witness.key)];
    const expectAll = (note: string | undefined) => {
      const parsed = parseNote(note ?? '');
      expect(parsed && verifyNote(parsed, keys)).toHaveLength(3);
    };
    expectAll(head.noteFor(299)?.note);
    expect(head.noteFor(300)?.note).toBe(await noteOf(300));

    head = new LogHead();
    head.receive(await noteOf(350));
    for (const one of both) one.behaviour = (_request, response) => response.writeHead(500).end();
    await ask(both);
    expectAll(head.noteFor(299)?.note);
    expect(head.noteFor(300)?.checkpoint.size).toBe(350);
  });

  it('that come later are added to those that have cosigned the same', async () => {
    head.receive(await noteOf(300));
    const early = await play('w.test/1', cosigning('w.test/1'));
    const late = await play('w.test/2', (_request, response) => {
      late.behaviour = cosigning('w.test/2');
      response.writeHead(503).end();
    });
    const witnesses = await ask([early, late]);
    expect(head.noteFor(299)?.note).not.toContain('w.test/2');
    while (witnesses.state()[1]?.cosignedSize !== 300) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await witnesses.close();
    expect(early.asked).toHaveLength(1);
    const parsed = parseNote(head.noteFor(299)?.note ?? '');
    expect(parsed?.signatures.map(({ name }) => name)).toEqual([origin, 'w.test/1', 'w.test/2']);
  });

  it('have cosigned nothing for a receipt that is signed with keys that are gone', async () => {
    head.receive(await noteOf(300));
    await ask([await play('w.test/1', cosigning('w.test/1'))]);
    expect(head.noteFor(0)?.note).toContain('w.test/1');
    const text = parseNote(await noteOf(300))?.text ?? '';
    const next = signerOf(origin, 'the next key');
    head.receive(signNote(text, [next, signer]));
    expect(head.noteFor(0)?.note).toContain('w.test/1');
    head.receive(signNote(text, [next]));
    expect(head.noteFor(0)?.note).not.toContain('w.test/1');
  });

  it('are told what they have not seen, with a proof that it follows', async () => {
    head.receive(await noteOf(300));
    const witness = await play('w.test/1', (request, response) => {
      witness.behaviour = cosigning('w.test/1');
      seen(123)(request, response);
    });
    await ask([witness]);
    expect(witness.asked[0]).toBe(`old 0\n\n${await noteOf(300)}`);
    const [first, ...lines] = witness.asked[1]?.split('\n\n')[0]?.split('\n') ?? [];
    expect(first).toBe('old 123');
    const proof = lines.map((line) => Buffer.from(line, 'base64'));
    const [old, now] = [123, 300].map(async (size) => ({ size, root: await rootOf(tiles, size) }));
    expect(isConsistent((await old)!, (await now)!, proof)).toBe(true);
  });

  it('that are silent, endless or talk nonsense hold up nobody else, and end nothing', async () => {
    head.receive(await noteOf(300));
    const good = await play('w.test/1', cosigning('w.test/1'));
    const silent = await play('w.test/2', () => {});
    const endless = await play('w.test/3', (_request, response) => {
      const more = (): void => {
        while (response.write('x'.repeat(16_384)));
        response.once('drain', more);
      };
      more();
    });
    const other = await play('w.test/4', cosigning('w.test/1'));
    const binary = await play('w.test/5', (_request, response) => response.end(Buffer.of(0xff)));
    const late = 'it did not answer in time';
    const askWithin = async (attemptMs: number) => {
      const witnesses = await ask([good, silent, endless, other, binary], attemptMs);
      return { witnesses, problems: witnesses.state().map(({ problem }) => problem) };
    };
    // On a busy machine those that do answer need longer, and only the silent one must be late.
    let { witnesses, problems } = await askWithin(500);
    for (const attemptMs of [2000, 8000]) {
      if (problems.filter((problem) => problem === late).length <= 1) break;
      await witnesses.close();
      ({ witnesses, problems } = await askWithin(attemptMs));
    }
    expect(problems).toEqual([
      null,
      late,
      'its answer is too long',
      'its cosignature is not by the key that it is known by',
      expect.any(String),
    ]);
    expect(witnesses.state().map(({ cosignedSize }) => cosignedSize)).toEqual([
      300,
      ...[null, null, null, null],
    ]);
    expect(refusals).toEqual([]);
    expect(head.noteFor(0)?.note).toContain('— w.test/1 ');
  });

  it('that were shown a newer checkpoint meanwhile end nothing', async () => {
    head.receive(await noteOf(300));
    const newer = await noteOf(310);
    const witness = await play('w.test/1', (request, response) => {
      head.receive(newer);
      witness.behaviour = cosigning('w.test/1');
      seen(310)(request, response);
    });
    const witnesses = await ask([witness]);
    expect(refusals).toEqual([]);
    while (witnesses.state()[0]?.cosignedSize !== 310) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(witness.asked[1]).toBe(`old 310\n\n${newer}`);
  });

  it('that have seen a longer log end the signing', async () => {
    head.receive(await noteOf(300));
    await ask([await play('w.test/1', seen(301))]);
    expect(refusals).toEqual([expect.stringMatching(/w\.test\/1 has seen 301 .* 300 records are/)]);
    expect(head.note).toBeNull();
    expect(head.noteFor(0)).toBeNull();
    head.receive(await noteOf(310));
    expect(head.note).toBeNull();
  });

  it('that have seen another log end the signing, whatever others cosigned', async () => {
    head.receive(await noteOf(300));
    const witness = await play('w.test/2', (request, response) => {
      witness.behaviour = (_request, answer) => answer.writeHead(422).end();
      seen(200)(request, response);
    });
    await ask([await play('w.test/1', cosigning('w.test/1')), witness]);
    expect(refusals).toEqual([expect.stringMatching(/first 200 records are not those/)]);
    expect(head.noteFor(0)).toBeNull();
  });

  it('that have cosigned what is in the database no more end the signing at once', async () => {
    const { key } = (await play('w.test/1', () => {})).signer;
    await noteCosigned(database.tx, `${key.name}+${key.id}`, await noteOf(300));
    head.receive(await noteOf(299));
    await ask([]);
    expect(refusals).toEqual([expect.stringMatching(/has cosigned 300/)]);
  });
});
