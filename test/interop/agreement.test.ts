// No two verifiers of ours disagree: `bursar verify receipt`, `log` and `bundle`, the Python of
// docs/audit/verify-by-hand.md and the Go of test/interop judge the same forgeries. Their author is
// the log's own operator, who can sign whatever he likes: leaves, openings, proofs, checkpoints and
// lines of bundles are changed and then signed. The one known difference is left out: what a
// client's signature in the evidence is worth, only `bursar verify` tells.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { renderBundleHead, renderBundleLeaves, verifyBundle } from '#bursar/audit/bundle.js';
import { parseLeaf } from '#bursar/audit/leaf.js';
import { proveInclusion, rootOf } from '#bursar/audit/log/merkle.js';
import { renderVerifier, signNote } from '#bursar/audit/log/note.js';
import { renderProof } from '#bursar/audit/log/proof-text.js';
import { proveRange } from '#bursar/audit/log/range-proof.js';
import { type Opening, renderOpening } from '#bursar/audit/receipt.js';
import { verifyLog } from '#bursar/audit/verify/log.js';
import { verifyReceipt } from '#bursar/audit/verify/receipt.js';
import { type Files, makeLog, signerOf, tilesOf } from '../audit/log/made-log.ts';
import { openingOf, sourceOf, writeFiles } from '../audit/verify/recorded-log.ts';
import { blocksOf, readPage } from '../docs/markdown.ts';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf, seededRandom } from '../fuzz/seeded-random.ts';
import { cryptographyPython, describeWithTool, goVerifiers } from '../tooling/tools.ts';

vi.setConfig({ testTimeout: fuzzTimeoutMs, hookTimeout: 60_000 });

type Random = () => number;

const signer = signerOf('bursar/agreement');
const trust = { keys: [signer.key] };
/** The tenant whose records the bundle is to have, and what the log calls it. */
const tenant = 'cms';
const { tenant: pseudonym } = openingOf(0);

/** A record as it is handed out, and what its operator has the log say of it. */
interface Forged {
  /** The bytes that open the leaf. */
  extra: string;
  entry: Buffer;
}

interface ForgedLog {
  records: Forged[];
  /** What is signed, and the note that is made of it. */
  changeCheckpoint: (text: string) => string;
  changeNote: (note: string) => string;
  changeReceipt: (receipt: string) => string;
  changeLine: (line: string) => string;
}

const asIs = (text: string): string => text;
const soundLog: Omit<ForgedLog, 'records'> = {
  ...{ changeCheckpoint: asIs, changeNote: asIs, changeReceipt: asIs, changeLine: asIs },
};

/** The leaf that a reader without any scruples finds in extra data. */
function sloppyEntry(extra: string): Buffer {
  const member = (name: string) => new RegExp(`"${name}":"([^"]*)"`).exec(extra)?.[1];
  const from = extra.indexOf('"record":') + '"record":'.length;
  const record = Buffer.from(extra.slice(from, extra.lastIndexOf(',"salt"')));
  const salt = Buffer.from(/"salt":"([^"]*)","t"/.exec(extra)?.[1] ?? '', 'base64url');
  const c = createHash('sha256').update(salt).update(record).digest('base64url');
  const b = member('b');
  const t = /"t":"([^"]*)"\}$/.exec(extra)?.[1];
  return Buffer.from(`{"v":1,"t":"${t}",${b === undefined ? '' : `"b":"${b}",`}"c":"${c}"}`);
}

function forge(extra: string): Forged {
  return { extra, entry: sloppyEntry(extra) };
}

const sound = Array.from({ length: 5 }, (_, index): Forged => {
  const more = index === 3 ? { bucketTenant: 'lab' } : {};
  return forge(renderOpening(openingOf(index, more)));
});

interface Published {
  receipts: string[];
  bundle: string[];
  files: Files;
}

async function publish(log: ForgedLog): Promise<Published> {
  const entries = log.records.map(({ entry }) => entry);
  const size = entries.length;
  const { tiles } = tilesOf(entries);
  const root = (await rootOf(tiles, size)).toString('base64');
  const text = log.changeCheckpoint(`${signer.key.name}\n${size}\n${root}\n`);
  const note = log.changeNote(signNote(text, [signer]));
  const receipts = await Promise.all(
    log.records.map(async ({ extra }, index) => {
      const proof = await proveInclusion(tiles, index, size);
      const parts = { extra: Buffer.from(extra), index, proof, checkpoint: note };
      return log.changeReceipt(renderProof(parts));
    }),
  );
  const head = renderBundleHead({
    ...{ tenant, pseudonym, from: 0, to: size, fromTime: null, toTime: null },
    ...{ checkpoint: note, keys: [], proof: await proveRange(tiles, { from: 0, to: size, size }) },
  });
  const records = log.records.flatMap(({ extra, entry }, index) =>
    entry.includes(pseudonym) ? `{"index":${index},"opening":${extra}}` : [],
  );
  const bundle = [head, renderBundleLeaves(entries), ...records].map(log.changeLine);
  const files = await makeLog(entries, signer);
  return { receipts, bundle, files: files.set('checkpoint', Buffer.from(note)) };
}

const scraps = [
  ...['', ' ', '\n', '\t', '\r', '\0', '"', '\\', ',', ':', '{', '}', '[', ']', '0', '1', '-', '+'],
  ...[
    '.0',
    'e0',
    '1e2',
    '9007199254740993',
    'null',
    'true',
    'NaN',
    'A',
    '_',
    '/',
    '=',
    'é',
    '\ufeff',
  ],
  ...['\\u0041', '\\ud800', '\u2028', '\u0085', '😀', '\ue000', '"b":', '"x":1,', '"t":"x",'],
  ...['"index":', '"INDEX":2,', '"evidence":{},', '"__proto__":1,', '[[[[', '— ', '— x AAAAAAAA\n'],
];

function mutate(random: Random, text: string): string {
  let changed = text;
  for (let i = randomBelow(random, 2); i >= 0; i -= 1) {
    const at = randomBelow(random, changed.length + 1);
    const cut = random() < 0.5 ? 0 : randomBelow(random, 3);
    changed = changed.slice(0, at) + randomOf(random, scraps) + changed.slice(at + cut);
  }
  return changed;
}

/** The last letter of base64, or of base64url, with bits that mean nothing. */
function spareBits(text: string): string {
  return text.replace(/[A-Za-z0-9+/_-](=*)("?\n?)$/, (end, pad: string, rest: string) => {
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
    return `${letters[(letters.indexOf(end.charAt(0)) + 1) % letters.length]}${pad}${rest}`;
  });
}

/** Forgeries that a verifier once fell for, or that one language's libraries pass over. */
const known: Record<string, Partial<ForgedLog> | ((extra: string) => string)> = {
  'b is not canonical': (extra) =>
    withMember(extra, 'bucketTenant', 'lab').replace(
      '{"record"',
      '{"b":"AAAAAAAAAAAAAAAAAAAAAB","record"',
    ),
  't is not canonical': (extra) => extra.replace(/.("\})$/, 'B$1'),
  'b is null': (extra) => extra.replace('{"record"', '{"b":null,"record"'),
  'b has letters of the other kind': (extra) =>
    withMember(extra, 'bucketTenant', 'lab').replace(
      '{"record"',
      '{"b":"AAAAAAAAAAAAAAAAAAAA+A","record"',
    ),
  'there is a b, and no such tenant': (extra) =>
    extra.replace('{"record"', `{"b":"${'A'.repeat(22)}","record"`),
  'the record has spaces': (extra) => extra.replace('"action":', '"action": '),
  'the record is not in order': (extra) =>
    extra.replace(/("action":"[^"]*"),("bucket":"[^"]*")/, '$2,$1'),
  'the record has a member twice': (extra) => extra.replace('"index":', '"index":7,"index":'),
  'the record has its index in capitals, too': (extra) =>
    extra.replace('{"accessKeyId"', '{"INDEX":9,"accessKeyId"'),
  'the index is no whole number': (extra) => extra.replace(/"index":(\d)/, '"index":$1.0'),
  'the index is a text': (extra) => extra.replace(/"index":(\d)/, '"index":"$1"'),
  'the index is true': (extra) => extra.replace(/"index":(\d)/, '"index":true'),
  'a number is a fraction': (extra) => withMember(extra, 'zz', 1.5),
  'a number is too large': (extra) => extra.replace('"size":5', '"size":12345678901234567890'),
  'a number is written with an exponent': (extra) => extra.replace('"size":5', '"size":1e21'),
  'a number is none': (extra) => extra.replace('"size":5', '"size":NaN'),
  'there is half a surrogate pair': (extra) => extra.replace('alice', '\\ud800'),
  'members are in the order of code points': (extra) =>
    extra.replace('"time"', '"\ue000":1,"😀":2,"time"'),
  'members are beyond ASCII, in their order': (extra) =>
    withMember(withMember(extra, '\ue000', 1), '😀', 2),
  'a member has the name of a prototype': (extra) =>
    extra.replace('{"accessKeyId"', '{"__proto__":1,"accessKeyId"'),
  'there are 63 levels': (extra) => withMember(extra, 'zz', nest(61)),
  'there are 66 levels': (extra) => withMember(extra, 'zz', nest(64)),
  'there is no principal': (extra) => extra.replace(/"principal":"[^"]*",/, ''),
  'the status is a text': (extra) => extra.replace('"status":200', '"status":"200"'),
  'the status is true': (extra) => extra.replace('"status":200', '"status":true'),
  'the target is null': (extra) => withMember(extra, 'target', null),
  'tokens are no list': (extra) => withMember(extra, 'tokens', 'x'),
  'the salt is short': (extra) => extra.replace(/"salt":"[^"]*"/, '"salt":"AAAA"'),
  'the salt is not canonical': (extra) => extra.replace(/"salt":"(.{21})./, '"salt":"$1B'),
  'there is evidence of nothing': (extra) => extra.replace('{"record"', '{"evidence":{},"record"'),
  'evidence is null': (extra) => extra.replace('{"record"', '{"evidence":null,"record"'),
  'there is another member': (extra) => extra.replace(/\}$/, ',"x":1}'),
  'a member has a capital': (extra) => extra.replace(/"t":("[^"]*"\})$/, '"T":$1'),
  'there is something behind': (extra) => `${extra} {}`,
  'there is a byte order mark before': (extra) => `\ufeff${extra}`,
  'the size has a sign': { changeCheckpoint: (text) => text.replace('\n5\n', '\n+5\n') },
  'the size has zeros before it': { changeCheckpoint: (text) => text.replace('\n5\n', '\n05\n') },
  'the size has an underscore': { changeCheckpoint: (text) => text.replace('\n5\n', '\n0_5\n') },
  'the size is in other digits': { changeCheckpoint: (text) => text.replace('\n5\n', '\n٥\n') },
  'the size is too large': {
    changeCheckpoint: (text) => text.replace('\n5\n', '\n9007199254740993\n'),
  },
  'the root has spare bits': {
    changeCheckpoint: (text) => text.replace(/[^\n]+\n$/, (line) => spareBits(line)),
  },
  'the checkpoint has another line': { changeCheckpoint: (text) => `${text}more\n` },
  'the checkpoint has an empty line': { changeCheckpoint: (text) => `${text}\nmore\n` },
  'the checkpoint has a tab': { changeCheckpoint: (text) => `${text}a\tb\n` },
  'the checkpoint has a mark': { changeCheckpoint: (text) => `${text}\ufeffb\n` },
  'the checkpoint is very long': { changeCheckpoint: (text) => `${text}${'x'.repeat(1e6)}\n` },
  'a signature has spare bits': { changeNote: spareBits },
  'a signature is no line of one': { changeNote: (note) => `${note}nothing\n` },
  'a signature has spaces': { changeNote: (note) => `${note}— x  AAAAAAAA\n` },
  'an unknown signature is short': { changeNote: (note) => `${note}— x AAAAAA==\n` },
  'an unknown signature is there': { changeNote: (note) => `${note}— x AAAAAAAA\n` },
  'an unknown signature has spare bits': { changeNote: (note) => `${note}— x AAAAAAB=\n` },
  'an unknown signer has a plus': { changeNote: (note) => `${note}— x+y AAAAAAAA\n` },
  'an unknown signer has a space of Unicode': {
    changeNote: (note) => `${note}— x\u0085y AAAAAAAA\n`,
  },
  'an unknown signer has a mark': { changeNote: (note) => `${note}— x\ufeffy AAAAAAAA\n` },
  'it is signed twice': { changeNote: (note) => note + note.slice(note.lastIndexOf('— ')) },
  'it is signed 101 times': {
    changeNote: (note) => note + note.slice(note.lastIndexOf('— ')).repeat(100),
  },
  'the index line has a zero': { changeReceipt: (text) => text.replace('\nindex ', '\nindex 0') },
  'the index line has a sign': { changeReceipt: (text) => text.replace('\nindex ', '\nindex +') },
  'extra data have spare bits': {
    changeReceipt: (text) => text.replace(/\nextra [^\n]*/, (line) => spareBits(line)),
  },
  'extra data are broken': {
    changeReceipt: (text) => text.replace('\nextra eyJ', '\nextra eyJ\r'),
  },
  'a hash has spare bits': {
    changeReceipt: (text) => text.replace(/(\nindex \d\n)([^\n]*)/, (_, a, b) => a + spareBits(b)),
  },
  'a hash is not there': { changeReceipt: (text) => text.replace(/(\nindex \d\n)[^\n]*\n/, '$1') },
  'a hash is empty': { changeReceipt: (text) => text.replace(/(\nindex \d)/, '$1\n') },
  'there is no extra line': { changeReceipt: (text) => text.replace(/\nextra [^\n]*/, '') },
  'lines end otherwise': { changeReceipt: (text) => text.replaceAll('\n', '\r\n') },
  'the receipt is very long': {
    changeReceipt: (text) => text.replace('\nindex', `${'A'.repeat(4 * 1024 * 1024)}\nindex`),
  },
};

function withMember(extra: string, name: string, value: unknown): string {
  const opening = JSON.parse(extra) as { record: object; salt: string; t: string; b?: string };
  const record = Object.entries({ ...opening.record, [name]: value });
  record.sort(([one], [other]) => (one < other ? -1 : 1));
  return JSON.stringify({ ...opening, record: Object.fromEntries(record) });
}

function nest(levels: number): unknown {
  return levels === 0 ? 0 : [nest(levels - 1)];
}

/** Has the script of the documentation judge each file of a folder, in one process. */
const harness = `
import contextlib, io, os, sys
script = compile(open(sys.argv[1], encoding="utf-8").read(), "verify.py", "exec")
folder, key = sys.argv[2:]
for name in sorted(os.listdir(folder)):
    sys.argv = ["verify.py", os.path.join(folder, name), key]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(script, {})
        print("believed")
    except BaseException as error:
        print(repr(error).encode("ascii", "replace").decode())
`;

describeWithTool(goVerifiers, 'the verifiers', (go) => {
  describeWithTool(cryptographyPython, 'in three languages', (python) => {
    const scratch = mkdtempSync(join(tmpdir(), 'bursar-agreement-'));
    const [scriptFile, harnessFile] = [join(scratch, 'verify.py'), join(scratch, 'harness.py')];
    const keyFile = join(scratch, 'key');

    beforeAll(() => {
      const { text } = readPage('docs/audit/verify-by-hand.md');
      const script = blocksOf(text).find(({ language }) => language === 'python')?.code;
      writeFileSync(scriptFile, script as string);
      writeFileSync(harnessFile, harness);
      writeFileSync(keyFile, `${renderVerifier(signer.key)}\n`);
    });

    afterAll(() => rmSync(scratch, { recursive: true }));

    function run(program: string, args: string[]): Promise<string> {
      const env = { PATH: process.env.PATH, PYTHONUTF8: '1' };
      return new Promise((resolve) => {
        const options = { env, maxBuffer: 64 * 1024 * 1024 };
        execFile(program, args, options, (_error, stdout) => resolve(stdout));
      });
    }

    /** What each verifier says of each log, and that they say the same of each receipt. */
    async function judge(logs: readonly { what: string; log: ForgedLog }[]) {
      const published = await Promise.all(logs.map(({ log }) => publish(log)));
      const folder = join(scratch, 'receipts');
      mkdirSync(folder);
      const receipts = published.flatMap(({ receipts: texts }, i) =>
        texts.map((text, index) => ({ text, what: `${logs[i]?.what}: record ${index}` })),
      );
      for (const [i, { text }] of receipts.entries()) {
        writeFileSync(join(folder, String(i).padStart(8, '0')), text);
      }
      const [byGo, byPython] = await Promise.all([
        run(go, ['receipts', folder, keyFile]),
        run(python, [harnessFile, scriptFile, folder, renderVerifier(signer.key)]),
      ]);
      rmSync(folder, { recursive: true });
      const [goLines, pythonLines] = [byGo.split('\n'), byPython.split('\n')];
      expect([goLines.length, pythonLines.length]).toEqual([
        receipts.length + 1,
        receipts.length + 1,
      ]);
      const isBelieved = receipts.map(({ text, what }, i) => {
        const ours = verifyReceipt(Buffer.from(text), trust);
        const said = {
          bursar: ours.ok,
          go: JSON.parse(goLines[i] ?? '').ok as boolean,
          python: pythonLines[i] === 'believed',
        };
        const all = ours.ok ? '' : `${ours.why}; ${goLines[i]}; ${pythonLines[i]}; ${text}`;
        expect(said, `${what}: ${all}`).toEqual({ bursar: ours.ok, go: ours.ok, python: ours.ok });
        return ours.ok;
      });
      for (const [i, { bundle, files }] of published.entries()) {
        const delivered = new Set<number>();
        const onRecord = ({ index }: { index: number }) => delivered.add(index);
        const found = await verifyBundle(bundle, { trust, onRecord });
        const { ok } = await verifyLog(sourceOf(files), { trust });
        const what = `${logs[i]?.what}: ${found.ok ? 'the bundle is believed' : found.why}`;
        if (found.ok) expect(ok, `${what}, the log not`).toBe(true);
        const { records, changeLine } = (logs[i] as { log: ForgedLog }).log;
        const own = isBelieved.slice(i * records.length, (i + 1) * records.length);
        if (own.every(Boolean)) {
          expect(ok, `${what}, and all receipts, but not the log`).toBe(true);
          if (changeLine === asIs) expect(found.ok, `${what}, but all receipts are`).toBe(true);
        }
        for (const [index, { extra, entry }] of records.entries()) {
          const isBelievedHere = own[index] === true;
          if (isBelievedHere) expect(parseLeaf(entry), `${what}, ${extra}`).toBeDefined();
          if (!found.ok || !isBelievedHere || !names(extra)) continue;
          expect(delivered.has(index), `${what}, and lacks ${extra}`).toBe(true);
        }
      }
      return { published, isBelieved };
    }

    it('believe what is sound', async () => {
      const { isBelieved, published } = await judge([
        { what: 'sound', log: { ...soundLog, records: sound } },
      ]);
      expect(isBelieved).toEqual([true, true, true, true, true]);
      const [{ bundle }] = published as [Published];
      expect(await verifyBundle(bundle, { trust })).toMatchObject({ ok: true, records: 5 });
    });

    it('agree about each forgery that is known', async () => {
      const logs = Object.entries(known).map(([what, change]) => {
        if (typeof change !== 'function')
          return { what, log: { ...soundLog, records: sound, ...change } };
        const extra = change(sound[1]?.extra ?? '');
        expect(extra, what).not.toBe(sound[1]?.extra);
        return { what, log: { ...soundLog, records: sound.with(1, forge(extra)) } };
      });
      const { isBelieved } = await judge(logs);
      const believed = logs
        .filter((_, i) => isBelieved[i * sound.length + 1])
        .map(({ what }) => what);
      expect(believed).toEqual([
        'the record has its index in capitals, too',
        'members are beyond ASCII, in their order',
        'a member has the name of a prototype',
        'there are 63 levels',
        'the checkpoint has another line',
        'the checkpoint has a mark',
        'an unknown signature is there',
        'an unknown signer has a mark',
        'it is signed twice',
      ]);
    });

    it('refuse a log with a leaf that is of no record', async () => {
      const entry = sound[1]?.entry.toString() ?? '';
      for (const leaf of [
        entry.replace(',"c"', ',"b":"AAAAAAAAAAAAAAAAAAAAAB","c"'),
        entry.replace('"v":1', '"v":2'),
        `${entry}\n`,
        '',
      ]) {
        const records = sound.with(1, { extra: sound[1]?.extra ?? '', entry: Buffer.from(leaf) });
        const { published } = await judge([{ what: leaf, log: { ...soundLog, records } }]);
        const [{ bundle, files }] = published as [Published];
        expect(await verifyBundle(bundle, { trust })).toMatchObject({
          ...{ ok: false, why: 'line 2: entry 1 is not of a record' },
        });
        const folder = join(scratch, 'log');
        writeFiles(folder, files);
        expect(JSON.parse(await run(go, ['log', folder, keyFile])), leaf).toMatchObject({
          ok: false,
        });
        rmSync(folder, { recursive: true });
      }
    });

    it('agree about what is changed at random', async () => {
      const changes: ((random: Random) => ForgedLog)[] = [
        (random) => {
          const at = randomBelow(random, sound.length);
          const extra = mutate(random, sound[at]?.extra ?? '');
          return { ...soundLog, records: sound.with(at, forge(extra)) };
        },
        (random) => {
          const at = randomBelow(random, sound.length);
          const { extra = '', entry } = sound[at] ?? {};
          const changed = Buffer.from(mutate(random, entry?.toString() ?? ''));
          return { ...soundLog, records: sound.with(at, { extra, entry: changed }) };
        },
        ...(['changeCheckpoint', 'changeNote', 'changeReceipt', 'changeLine'] as const).map(
          (name) => (random: Random) => {
            const seed = randomBelow(random, 2 ** 31);
            return {
              ...{ ...soundLog, records: sound },
              [name]: (text: string) => mutate(seededRandom(seed ^ text.length), text),
            };
          },
        ),
      ];
      let believed = 0;
      await fuzz(140_000, 4, async (random, seed) => {
        const logs = Array.from({ length: 60 }, (_, i) => {
          const change = changes[i % changes.length] as (random: Random) => ForgedLog;
          return { what: `log ${i} of seed ${seed}`, log: change(random) };
        });
        const { isBelieved } = await judge(logs);
        believed += isBelieved.filter(Boolean).length;
      });
      expect(believed).toBeGreaterThan(100);
    });
  });
});

/**
 * Does the opening say that its record is one of the tenant's, by its name and by its pseudonym?
 */
function names(extra: string): boolean {
  const { t, b, record } = JSON.parse(extra) as Record<'t' | 'b', string> & { record: Opening };
  return (
    (t === pseudonym && record.tenant === tenant) ||
    (b === pseudonym && record.bucketTenant === tenant)
  );
}
