// The log's formats, by the examples of their specifications and by what they forbid: one thing has
// one text, and no other is read.
import { sign } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { commitTo, parseLeaf, renderLeaf } from '#bursar/audit/leaf.js';
import { parseCheckpoint, renderCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { parseEntries, renderEntries } from '#bursar/audit/log/entries.js';
import { widthOfTile } from '#bursar/audit/log/merkle.js';
import {
  cosignature,
  ed25519,
  noteKey,
  parseNote,
  parseVerifier,
  renderSignature,
  renderVerifier,
  signNote,
  verifyNote,
} from '#bursar/audit/log/note.js';
import { parseProof, renderProof } from '#bursar/audit/log/proof-text.js';
import { parseTilePath, pathOfTile } from '#bursar/audit/log/tile-path.js';
import { signerOf } from './made-log.ts';

describe('the path of a tile', () => {
  it.each([
    [{ level: 0, index: 0, width: 256 }, 'tile/0/000'],
    [{ level: 1, index: 1_234_067, width: 256 }, 'tile/1/x001/x234/067'],
    [{ level: 63, index: 999, width: 255 }, 'tile/63/999.p/255'],
    [{ level: 'entries', index: 1000, width: 1 }, 'tile/entries/x001/000.p/1'],
    [
      { level: 0, index: Number.MAX_SAFE_INTEGER, width: 256 },
      'tile/0/x009/x007/x199/x254/x740/991',
    ],
  ] as const)('of %o is %s', (name, path) => {
    expect(pathOfTile(name)).toBe(path);
    expect(parseTilePath(path)).toEqual(name);
  });

  it.each([
    'tile/64/000',
    'tile/00/000',
    'tile/-1/000',
    'tile/0/0',
    'tile/0/0000',
    'tile/0/x000/001',
    'tile/0/001/x002',
    'tile/0/001/002',
    'tile/0/x001',
    'tile/0/000.p/0',
    'tile/0/000.p/256',
    'tile/0/000.p/01',
    'tile/0/000.p/-1',
    'tile/0/000.p/1/2',
    'tile/0/000.p/',
    'tile/0/000.p',
    'tile/0/000/',
    '/tile/0/000',
    'tile/0/00a',
    'tile/0/٠٠٠',
    'tile/0/000\n',
    'tile/0/../000',
    'tile/data/000',
    // More than numbers can say exactly.
    'tile/0/x009/x007/x199/x254/x740/992',
    'tile/0/x900/x000/x000/x000/x000/000',
    'tile/0/x001/x000/x000/x000/x000/x000/000',
  ])('is not %j', (path) => {
    expect(parseTilePath(path)).toBeUndefined();
  });

  it('has the width that the specification says, of a tree of 70,000', () => {
    expect([272, 273, 274].map((index) => widthOfTile(0, index, 70_000))).toEqual([256, 112, 0]);
    expect([0, 1, 2].map((index) => widthOfTile(1, index, 70_000))).toEqual([256, 17, 0]);
    expect(widthOfTile(2, 0, 70_000)).toBe(1);
    expect(widthOfTile(3, 0, 70_000)).toBe(0);
    expect(widthOfTile(63, 0, Number.MAX_SAFE_INTEGER)).toBe(0);
  });
});

describe('a bundle of entries', () => {
  it('holds an entry of 65,535 bytes, and none of 65,536', () => {
    const entry = Buffer.alloc(65_535, 7);
    const bundle = renderEntries([entry, Buffer.alloc(0), entry]);
    expect(bundle.length).toBe(3 * 2 + 2 * 65_535);
    expect(bundle.toString('hex', 0, 3)).toBe('ffff07');
    expect(parseEntries(bundle)?.map(({ length }) => length)).toEqual([65_535, 0, 65_535]);
    expect(() => renderEntries([Buffer.alloc(65_536)])).toThrow('65536 bytes');
  });

  it('holds 256 entries, and not 257', () => {
    const entries = Array.from({ length: 256 }, (_, i) => Buffer.of(i));
    expect(parseEntries(renderEntries(entries))).toEqual(entries);
    expect(() => renderEntries([...entries, Buffer.of(1)])).toThrow('257');
    expect(parseEntries(Buffer.concat([renderEntries(entries), Buffer.of(0, 0)]))).toBeUndefined();
  });

  it.each(['00', '0001', '00020a', '000000', 'ffff'])('is not %s', (hex) => {
    expect(parseEntries(Buffer.from(hex, 'hex'))).toBeUndefined();
  });
});

describe('a signed note', () => {
  // The example of C2SP signed-note.
  const line = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k';
  const example = [
    'This is an example message.',
    '',
    '— example.com/foo ' +
      'Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=',
    '',
  ].join('\n');
  const key = parseVerifier(line);
  if (!key) throw new Error('the example has no key');

  function check(text: string) {
    const note = parseNote(text);
    return note && verifyNote(note, [key as NonNullable<typeof key>]);
  }

  it('of the specification is verified by its key', () => {
    expect(check(example)).toEqual([{ key, timeS: null }]);
    expect(renderVerifier(key)).toBe(line);
  });

  it('is worth nothing with another text, or another signature of a known key', () => {
    expect(check(example.replace('This', 'That'))).toBeUndefined();
    expect(check(example.replace('QOkn8', 'QOkn9'))).toBeUndefined();
  });

  it('says nothing by keys that are not known, even of that name or with that id', () => {
    const stranger = signerOf('example.com/foo', 'a stranger');
    expect(check(signNote('text\n', [stranger]))).toEqual([]);
    const [, , base64] = example.split('\n')[2]?.split(' ') ?? [];
    const renamed = example.replace('— example.com/foo', '— example.com/bar');
    expect(check(renamed)).toEqual([]);
    expect(check(`${example}— example.com/bar ${base64}\n`)).toEqual([{ key, timeS: null }]);
  });

  it('is the same each time that it is signed, and has all signatures', () => {
    const [one, other] = [signerOf('a.example/log'), signerOf('a.example/log', 'the next key')];
    const note = signNote('first\n\nlast\n', [one, other]);
    expect(signNote('first\n\nlast\n', [one, other])).toBe(note);
    const parsed = parseNote(note);
    if (!parsed) throw new Error('it is no note');
    expect(parsed.text).toBe('first\n\nlast\n');
    const signedBy = verifyNote(parsed, [other.key, one.key])?.map(({ key: by }) => by.id);
    expect(signedBy).toEqual([one.key.id, other.key.id]);
  });

  const signature = '— a AAAAAAE=';
  it.each([
    ['no text', `\n${signature}\n`],
    ['no signature', 'text\n\n'],
    ['no blank line', `text\n${signature}\n`],
    ['no last newline', `text\n\n${signature}`],
    ['a hyphen for the dash', 'text\n\n- a AAAAAAE=\n'],
    ['a name with a plus', 'text\n\n— a+b AAAAAAE=\n'],
    ['a name with a space of Unicode', 'text\n\n— a\u2003b AAAAAAE=\n'],
    ['a name with the space U+0085', 'text\n\n— a\u0085b AAAAAAE=\n'],
    ['no name', 'text\n\n—  AAAAAAE=\n'],
    ['a signature without bytes', 'text\n\n— a AAAAAA==\n'],
    ['another text of the same signature', 'text\n\n— a AAAAAAF=\n'],
    ['a signature of URLs', 'text\n\n— a AAAAA_E=\n'],
    ['a tab', `te\tt\n\n${signature}\n`],
    ['a carriage return', `text\r\n\n${signature}\n`],
    ['a NUL', `te\0t\n\n${signature}\n`],
    ['what is no Unicode', `te\ud800t\n\n${signature}\n`],
    ['too many signatures', `text\n\n${`${signature}\n`.repeat(101)}`],
    ['too many bytes', `${'x'.repeat(1024 * 1024)}\n\n${signature}\n`],
  ])('is not one with %s', (_, text) => {
    expect(parseNote(`text\n\n${signature}\n`)).toBeDefined();
    expect(parseNote(text)).toBeUndefined();
  });

  it('is read with 100 signatures, and with a blank line in its text', () => {
    expect(parseNote(`a\n\nb\n\n${`${signature}\n`.repeat(100)}`)?.signatures).toHaveLength(100);
  });

  it('of a witness says when, and covers that', () => {
    const { key: known, privateKey } = signerOf('w.example', 'witness');
    const witness = noteKey('w.example', known.publicKey, cosignature);
    expect(witness.id).not.toBe(known.id);
    const cosign = (timeS: number, said = timeS): string => {
      const time = Buffer.alloc(8);
      time.writeBigUInt64BE(BigInt(timeS));
      const signed = sign(null, Buffer.from(`cosignature/v1\ntime ${said}\ntext\n`), privateKey);
      return `text\n\n${renderSignature(witness, Buffer.concat([time, signed]))}`;
    };
    const verifyBy = (text: string) => {
      const note = parseNote(text);
      return note && verifyNote(note, [witness]);
    };
    expect(verifyBy(cosign(1_679_315_147))).toEqual([{ key: witness, timeS: 1_679_315_147 }]);
    expect(verifyBy(cosign(1_679_315_147, 1_679_315_148))).toBeUndefined();
    expect(verifyBy(`text\n\n${renderSignature(witness, Buffer.alloc(64))}`)).toBeUndefined();
    // A signature of the log's type is another key's.
    expect(verifyBy(signNote('text\n', [{ key: known, privateKey }]))).toEqual([]);
  });
});

describe('a verifier line', () => {
  const { key } = signerOf('log.example/a');
  const [name, id, base64] = renderVerifier(key)
    .split('+', 2)
    .concat([renderVerifier(key).split('+').slice(2).join('+')]) as [string, string, string];

  it('is read back', () => {
    expect(parseVerifier(`${name}+${id}+${base64}`)).toEqual(key);
  });

  it.each([
    ['another name', `${name}b+${id}+${base64}`],
    ['another id', `${name}+${id.replace(/.$/, (digit) => (digit === '0' ? '1' : '0'))}+${base64}`],
    ['an id in capitals', `${name}+${id.toUpperCase()}A+${base64}`],
    ['padding', `${name}+${id}+${base64}=`],
    ['a letter more', `${name}+${id}+${base64}A`],
    ['a newline', `${name}+${id}+${base64}\n`],
    ['nothing', ''],
    ['one part less', `${name}+${id}`],
  ])('is none with %s', (_, line) => {
    expect(parseVerifier(line)).toBeUndefined();
  });

  it('is of no other type, no other length and no odd name', () => {
    const typed = (type: number, bytes: number) =>
      Buffer.concat([Buffer.of(type), Buffer.alloc(bytes)]).toString('base64');
    for (const odd of [typed(2, 32), typed(1, 31), typed(1, 33)]) {
      expect(parseVerifier(`${name}+${id}+${odd}`)).toBeUndefined();
    }
    for (const odd of ['', 'a b', 'a+b', 'a\u00a0b', 'a\u200bb', 'a\nb', '\ufeffa']) {
      expect(() => noteKey(odd, Buffer.alloc(32), ed25519)).toThrow('name');
    }
    expect(() => noteKey('a', Buffer.alloc(31), ed25519)).toThrow('31 bytes');
  });
});

describe('a checkpoint', () => {
  const root = 'CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=';
  const text = `example.com/behind-the-sofa\n20852163\n${root}\n`;

  it('of the specification is read, and written back', () => {
    const checkpoint = parseCheckpoint(text);
    expect(checkpoint).toMatchObject({ origin: 'example.com/behind-the-sofa', size: 20_852_163 });
    expect(checkpoint && renderCheckpoint(checkpoint)).toBe(text);
    expect(parseCheckpoint(`${text}more of it\n`)).toEqual(checkpoint);
  });

  it.each(['-0', '00', '01', '+1', '-1', '1.0', '1e3', '0x1', '', ' 1', '9007199254740992', '٣'])(
    'has not the size %j',
    (size) => {
      expect(parseCheckpoint(`a\n${size}\n${root}\n`)).toBeUndefined();
    },
  );

  it.each([
    ['no origin', `\n1\n${root}\n`],
    ['no root', 'a\n1\n'],
    ['no last newline', `a\n1\n${root}`],
    ['an empty line', `a\n1\n${root}\n\n`],
    ['a root that is too short', `a\n1\n${root.slice(4)}\n`],
    ['another text of the same root', `a\n1\n${root.replace('I=', 'J=')}\n`],
    ['a root without padding', `a\n1\n${root.replace('=', '')}\n`],
  ])('is none with %s', (_, wrong) => {
    expect(parseCheckpoint(wrong)).toBeUndefined();
  });
});

describe('a proof', () => {
  const hash = Buffer.alloc(32, 9).toString('base64');
  const head = 'c2sp.org/tlog-proof@v1\n';

  it.each([
    `${head}index 0\n\ncheckpoint\n`,
    `${head}extra \nindex 0\n\ncheckpoint\n`,
    `${head}extra AAAA\nindex 9007199254740991\n${hash}\n${hash}\n\na\n1\n\n— signature\n`,
  ])('is read and written back: %j', (text) => {
    const proof = parseProof(text);
    expect(proof && renderProof(proof)).toBe(text);
  });

  it.each([
    ['another first line', 'c2sp.org/tlog-proof@v2\nindex 0\n\nc\n'],
    ['no index', `${head}\nc\n`],
    ['an index that is too large', `${head}index 9007199254740992\n\nc\n`],
    ['an index of two texts', `${head}index 00\n\nc\n`],
    ['a negative index', `${head}index -0\n\nc\n`],
    ['extra data of two texts', `${head}extra AAB=\nindex 0\n\nc\n`],
    ['a hash that is too short', `${head}index 0\nAAAA\n\nc\n`],
    ['more hashes than a tree has levels', `${head}index 0\n${`${hash}\n`.repeat(54)}\nc\n`],
    ['carriage returns', `${head}index 0\r\n\r\nc\n`],
    ['no checkpoint', `${head}index 0\n`],
    ['too much of it', `${head}extra ${'A'.repeat(4 * 1024 * 1024)}\nindex 0\n\nc\n`],
  ])('is none with %s', (_, text) => {
    expect(parseProof(text)).toBeUndefined();
  });
});

describe('a leaf', () => {
  const [tenant, bucketTenant] = ['AAAAAAAAAAAAAAAAAAAAAA', 'BBBBBBBBBBBBBBBBBBBBBQ'];
  const commitment = commitTo(Buffer.alloc(16, 1), '{}').toString('base64url');

  it('shows whose it is by pseudonyms, and what it says by a commitment', () => {
    const own = renderLeaf({ tenant, bucketTenant: null, commitment });
    expect(own.toString()).toBe(`{"v":1,"t":"${tenant}","c":"${commitment}"}`);
    const other = renderLeaf({ tenant, bucketTenant, commitment });
    expect(other.toString()).toBe(
      `{"v":1,"t":"${tenant}","b":"${bucketTenant}","c":"${commitment}"}`,
    );
    expect(parseLeaf(own)).toEqual({ tenant, bucketTenant: null, commitment });
    expect(parseLeaf(other)).toEqual({ tenant, bucketTenant, commitment });
  });

  it('is of one salt and one record', () => {
    const salt = Buffer.alloc(16, 1);
    expect(commitTo(salt, '{}')).not.toEqual(commitTo(Buffer.alloc(16, 2), '{}'));
    expect(commitTo(salt, '{}')).not.toEqual(commitTo(salt, '{ }'));
  });

  it.each([
    ['spaces', `{"v":1, "t":"${tenant}","c":"${commitment}"}`],
    ['a newline', `{"v":1,"t":"${tenant}","c":"${commitment}"}\n`],
    ['another version', `{"v":2,"t":"${tenant}","c":"${commitment}"}`],
    ['another order', `{"t":"${tenant}","v":1,"c":"${commitment}"}`],
    ['more', `{"v":1,"t":"${tenant}","c":"${commitment}","d":1}`],
    ['another text of the same pseudonym', `{"v":1,"t":"${'A'.repeat(21)}B","c":"${commitment}"}`],
    ['another text of the same commitment', `{"v":1,"t":"${tenant}","c":"${'A'.repeat(42)}B"}`],
  ])('is none with %s', (_, text) => {
    expect(parseLeaf(Buffer.from(text))).toBeUndefined();
  });
});
