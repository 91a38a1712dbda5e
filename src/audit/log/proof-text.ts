// A proof that a leaf is in the log, as text to be kept: C2SP tlog-proof@v1.
import { decodeBase64 } from '../../core/base64.ts';
import { decodeUtf8 } from '../../core/utf8.ts';
import { hashBytes } from './merkle.ts';

export interface ProofText {
  /** Not authenticated by itself; null: none. */
  extra: Buffer | null;
  index: number;
  /** The hashes of the proof, from the leaf's sibling up. */
  proof: Buffer[];
  /** A signed note. */
  checkpoint: string;
}

const firstLine = 'c2sp.org/tlog-proof@v1';
/** No record comes to more than this, with its evidence. */
const proofBytesMax = 4 * 1024 * 1024;
/** Levels of a tree whose size is a safe integer. */
const hashesMax = 53;

export function renderProof({ extra, index, proof, checkpoint }: ProofText): string {
  const lines = [
    firstLine,
    ...(extra ? [`extra ${extra.toString('base64')}`] : []),
    `index ${index}`,
    ...proof.map((one) => one.toString('base64')),
  ];
  return `${lines.join('\n')}\n\n${checkpoint}`;
}

/** undefined: it is no proof. Nothing of it is verified. */
export function parseProof(given: string | Uint8Array): ProofText | undefined {
  if (Buffer.byteLength(given) > proofBytesMax) return undefined;
  const text = typeof given === 'string' ? given : decodeUtf8(given);
  if (text === undefined) return undefined;
  const blank = text.indexOf('\n\n');
  if (blank < 0) return undefined;
  const lines = text.slice(0, blank).split('\n');
  if (lines.shift() !== firstLine) return undefined;
  let extra: Buffer | null = null;
  if (lines[0]?.startsWith('extra ')) {
    const decoded = decodeBase64(lines.shift()?.slice('extra '.length) ?? '');
    if (!decoded) return undefined;
    extra = decoded;
  }
  const digits = /^index (0|[1-9][0-9]{0,15})$/.exec(lines.shift() ?? '')?.[1];
  const index = Number(digits);
  if (digits === undefined || !Number.isSafeInteger(index)) return undefined;
  if (lines.length > hashesMax) return undefined;
  const proof: Buffer[] = [];
  for (const line of lines) {
    const node = decodeBase64(line);
    if (node?.length !== hashBytes) return undefined;
    proof.push(node);
  }
  return { extra, index, proof, checkpoint: text.slice(blank + 2) };
}
