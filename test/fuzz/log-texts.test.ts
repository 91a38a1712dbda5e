// The log's texts changed at random: nothing is ever thrown at whoever reads them, and what is read
// is written back as it was, so that one thing has one text only.
import { describe, expect, it } from 'vitest';
import { parseLeaf, renderLeaf } from '#bursar/audit/leaf.js';
import { parseCheckpoint, renderCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { parseEntries, renderEntries } from '#bursar/audit/log/entries.js';
import {
  parseNote,
  parseVerifier,
  renderVerifier,
  signNote,
  verifyNote,
} from '#bursar/audit/log/note.js';
import { parseProof, renderProof } from '#bursar/audit/log/proof-text.js';
import { parseTilePath, pathOfTile } from '#bursar/audit/log/tile-path.js';
import { parseReceipt, renderReceipt } from '#bursar/audit/receipt.js';
import { signerOf } from '../audit/log/made-log.ts';
import { fuzz, fuzzTimeoutMs, randomBelow, randomBytesOf, randomOf } from './seeded-random.ts';

type Random = () => number;

const signer = signerOf('log.example/fuzzed');
const hash = Buffer.alloc(32, 3);
const checkpoint = renderCheckpoint({ origin: signer.key.name, size: 1000, root: hash });
const note = signNote(checkpoint, [signer]);
const [tenant, commitment] = ['A'.repeat(22), hash.toString('base64url')];
const proof = { index: 77, proof: [hash, hash], checkpoint: note };
const record = '{"action":"s3:PutObject","index":77,"key":"é\\u0001"}';

const scraps = [
  ...['', '\n', '\n\n', '\r', '\0', ' ', '\t', '=', '+', '-', '-0', '0', '1', '9', '/', 'x', '.p/'],
  ...['A', '_', '"', '{', '}', '[', ',', ':', '\\', '— ', 'é', '\ud800', '\u2028', '\ufeff', '٣'],
  ...['9007199254740993', '1e400', 'null', 'index ', 'extra ', 'tile/', '"b":"', '__proto__'],
];

function mutate(random: Random, text: string): string {
  let changed = text;
  for (let i = randomBelow(random, 4); i >= 0; i -= 1) {
    const at = randomBelow(random, changed.length + 1);
    const from = randomBelow(random, changed.length + 1);
    const scrap = random() < 0.7 ? randomOf(random, scraps) : changed.slice(from, from + 12);
    changed = changed.slice(0, at) + scrap + changed.slice(at + randomBelow(random, 4));
  }
  return changed;
}

/** What each text is read and written back by; undefined: it is not one. */
const texts: Record<string, { sound: string; rewrite: (text: string) => string | undefined }> = {
  leaf: {
    sound: renderLeaf({ tenant, bucketTenant: tenant, commitment }).toString(),
    rewrite: (text) => {
      const leaf = parseLeaf(Buffer.from(text));
      return leaf && renderLeaf(leaf).toString();
    },
  },
  checkpoint: {
    sound: checkpoint,
    rewrite: (text) => {
      const read = parseCheckpoint(text);
      const more = text.split('\n').slice(3).join('\n');
      return read && renderCheckpoint(read) + more;
    },
  },
  note: {
    sound: note,
    rewrite: (text) => {
      const read = parseNote(text);
      if (!read) return undefined;
      expect(() => verifyNote(read, [signer.key])).not.toThrow();
      return `${read.text}\n${read.signatures.map(({ line }) => `${line}\n`).join('')}`;
    },
  },
  'verifier line': {
    sound: renderVerifier(signer.key),
    rewrite: (text) => {
      const key = parseVerifier(text);
      return key && renderVerifier(key);
    },
  },
  proof: {
    sound: renderProof({ extra: Buffer.from('some'), ...proof }),
    rewrite: (text) => {
      const read = parseProof(text);
      return read && renderProof(read);
    },
  },
  receipt: {
    sound: renderReceipt({
      ...{ tenant, bucketTenant: tenant, salt: Buffer.alloc(16, 5) },
      ...{ record, evidence: { kind: 'none' } },
      ...proof,
    }),
    rewrite: (text) => {
      const read = parseReceipt(text);
      return read && renderReceipt(read);
    },
  },
  'path of a tile': {
    sound: 'tile/entries/x123/456.p/7',
    rewrite: (text) => {
      const name = parseTilePath(text);
      return name && pathOfTile(name);
    },
  },
};

describe('texts of the log, fuzzed', () => {
  for (const [what, { sound, rewrite }] of Object.entries(texts)) {
    it(`a ${what} has one text, and no other is read`, { timeout: fuzzTimeoutMs }, async () => {
      expect(rewrite(sound)).toBe(sound);
      await fuzz(110_000, 3000, (random) => {
        const text = mutate(random, sound);
        const written = rewrite(text);
        if (written !== undefined) expect(written).toBe(text);
      });
    });
  }

  it('bundles of any bytes are read as written, or not at all', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    let read = 0;
    await fuzz(120_000, 3000, (random) => {
      const entries = Array.from({ length: randomBelow(random, 8) }, () =>
        randomBytesOf(random, randomBelow(random, 6)),
      );
      const bundle = renderEntries(entries);
      expect(parseEntries(bundle)).toEqual(entries);
      if (bundle.length === 0) return;
      const at = randomBelow(random, bundle.length);
      bundle[at] = randomBelow(random, 8);
      const parsed = parseEntries(bundle.subarray(0, bundle.length - randomBelow(random, 3)));
      if (!parsed) return;
      read += 1;
      const whole = renderEntries(parsed);
      expect(bundle.subarray(0, whole.length).equals(whole)).toBe(true);
    });
    expect(read).toBeGreaterThan(100);
  });

  it('anything else at all throws nothing', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(130_000, 1000, (random) => {
      const text = Array.from({ length: randomBelow(random, 30) }, () => randomOf(random, scraps));
      const bytes = randomBytesOf(random, randomBelow(random, 200)).toString('latin1');
      for (const { rewrite } of Object.values(texts)) {
        for (const one of [text.join(''), bytes]) {
          const written = rewrite(one);
          if (written !== undefined) expect(written).toBe(one);
        }
      }
    });
  });
});
