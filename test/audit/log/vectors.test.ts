// The published vectors are what the code makes: docs/formats/log.md.
import { createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { commitTo, renderLeaf } from '#bursar/audit/leaf.js';
import { parseCheckpoint, renderCheckpoint } from '#bursar/audit/log/checkpoint.js';
import { renderEntries } from '#bursar/audit/log/entries.js';
import { hashLeaf, isConsistent, proveInclusion, rootOf } from '#bursar/audit/log/merkle.js';
import {
  ed25519,
  noteKey,
  parseNote,
  rawPublicKey,
  renderVerifier,
  signNote,
} from '#bursar/audit/log/note.js';
import { renderReceipt } from '#bursar/audit/receipt.js';
import { verifyReceipt } from '#bursar/audit/verify/receipt.js';
import { tilesOf } from './made-log.ts';

interface Vectors {
  key: { seed: string; origin: string; verifier: string };
  entries: {
    t: string;
    b: string | null;
    salt: string;
    record: string;
    leaf: string;
    leafHash: string;
  }[];
  bundle: string;
  roots: string[];
  checkpoint: string;
  consistency: { from: number; to: number; proof: string[] };
  receipt: string;
  rootsOfNumbers: Record<string, string>;
}

const vectors: Vectors = JSON.parse(readFileSync('docs/formats/log-vectors.json', 'utf8'));
const { key, entries } = vectors;
const der = Buffer.from(`302e020100300506032b657004220420${key.seed}`, 'hex');
const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
const publicKey = noteKey(key.origin, rawPublicKey(privateKey), ed25519);
const leaves = entries.map(({ leaf }) => Buffer.from(leaf));

describe('the vectors of the log', { timeout: 60_000 }, () => {
  it('have the leaves of their records, and the bundle of those', () => {
    for (const { t: tenant, b: bucketTenant, salt, record, leaf, leafHash } of entries) {
      const commitment = commitTo(Buffer.from(salt, 'base64url'), record).toString('base64url');
      expect(renderLeaf({ tenant, bucketTenant, commitment }).toString()).toBe(leaf);
      expect(hashLeaf(Buffer.from(leaf)).toString('hex')).toBe(leafHash);
    }
    expect(renderEntries(leaves).toString('hex')).toBe(vectors.bundle);
    expect(leaves.map(({ length }) => length)).toEqual([86, 115, 86]);
  });

  it('have the roots of their trees, and the checkpoint and proofs that go with them', async () => {
    const roots = [0, 1, 2, 3].map((size) => rootOf(tilesOf(leaves.slice(0, size)).tiles, size));
    const hex = (await Promise.all(roots)).map((root) => root.toString('hex'));
    expect(hex).toEqual(vectors.roots);
    expect(renderVerifier(publicKey)).toBe(key.verifier);
    const root = Buffer.from(vectors.roots[3] ?? '', 'hex');
    const text = renderCheckpoint({ origin: key.origin, size: 3, root });
    expect(signNote(text, [{ key: publicKey, privateKey }])).toBe(vectors.checkpoint);
    expect(parseCheckpoint(parseNote(vectors.checkpoint)?.text ?? '')?.root).toEqual(root);
    const { from, to, proof } = vectors.consistency;
    const headOf = (size: number) => ({
      size,
      root: Buffer.from(vectors.roots[size] ?? '', 'hex'),
    });
    const hashes = proof.map((one) => Buffer.from(one, 'hex'));
    expect(isConsistent(headOf(from), headOf(to), hashes)).toBe(true);
  });

  it('have the receipt of a record', async () => {
    const { t: tenant, b: bucketTenant, salt, record } = entries[1] as Vectors['entries'][number];
    const receipt = renderReceipt({
      ...{ tenant, bucketTenant, salt: Buffer.from(salt, 'base64url'), record, evidence: null },
      ...{ index: 1, checkpoint: vectors.checkpoint },
      proof: await proveInclusion(tilesOf(leaves).tiles, 1, 3),
    });
    expect(receipt).toBe(vectors.receipt);
    expect(verifyReceipt(receipt, { keys: [publicKey] })).toMatchObject({ ok: true, index: 1 });
  });

  it('are what the page shows', () => {
    const page = readFileSync('docs/formats/log.md', 'utf8');
    for (const shown of [vectors.checkpoint, ...entries.slice(0, 2).map(({ leaf }) => leaf)]) {
      expect(page).toContain(shown);
    }
  });

  it.each(Object.entries(vectors.rootsOfNumbers))(
    'have the root of the tree of %s numbers',
    async (digits, root) => {
      const size = Number(digits);
      const numbers = Array.from({ length: size }, (_, i) => Buffer.from(String(i)));
      expect((await rootOf(tilesOf(numbers).tiles, size)).toString('hex')).toBe(root);
    },
  );
});
