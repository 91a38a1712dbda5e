// Whether a receipt is true: nothing is needed but its text and the log's key. Pure; a refusal is a
// value that says why. Each byte counts but those of signatures by keys that the verifier does not
// know, which by their specification (C2SP signed-note) say nothing.
import { hashLeaf, rootFromInclusion } from '../log/merkle.ts';
import { leafOf, parseReceipt } from '../receipt.ts';
import { judgeOpening, type OpenedLeaf } from './opening.ts';
import {
  type Refused,
  refuse,
  type SignedCheckpoint,
  type Trust,
  verifyCheckpoint,
} from './signed-checkpoint.ts';

export interface VerifiedReceipt extends OpenedLeaf {
  index: number;
  checkpoint: SignedCheckpoint;
}

/** `receipt`: the whole file. */
export function verifyReceipt(
  receipt: string | Uint8Array,
  trust: Trust,
): VerifiedReceipt | Refused {
  const found = parseReceipt(receipt);
  if (!found) return refuse('it is not a receipt (c2sp.org/tlog-proof@v1 with a record)');
  const checkpoint = verifyCheckpoint(found.checkpoint, trust);
  if (!checkpoint.ok) return checkpoint;
  const { size, root } = checkpoint;
  const { index, proof } = found;
  if (index >= size) return refuse(`its index is ${index}, but the log had ${size} records only`);
  const provenRoot = rootFromInclusion(hashLeaf(leafOf(found)), { index, size, proof });
  if (!provenRoot?.equals(root)) {
    return refuse(`it does not prove this record: the log's entry ${index} is another`);
  }
  const opened = judgeOpening(found, index);
  return opened.ok ? { ...opened, index, checkpoint } : opened;
}
