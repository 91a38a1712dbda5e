// Native API: receipts, each the proof that a record is in the log, to be verified without the gateway.
// Invariants: who may not see a record is answered as if there were none; and a receipt that does not
// verify is not handed out, as it could only mean that the database was altered.
// Specification: C2SP tlog-proof; docs/formats/receipt.md.

import { hashLeaf, proveInclusion, rootFromInclusion } from '../../audit/log/merkle.ts';
import { storedTiles } from '../../audit/log/stored-tiles.ts';
import { leafOf, type Opening, renderReceipt } from '../../audit/receipt.ts';
import { readOpening, type StoredOpening } from '../../audit/stored-opening.ts';
import { Refusal } from '../../core/errors.ts';
import { mayAdminister } from './rights.ts';
import { type Call, type NativeRoute, param } from './route.ts';

const indexForm = /^(?:0|[1-9][0-9]{0,15})$/;

export const receiptRoutes: NativeRoute[] = [
  {
    method: 'GET',
    url: '/_/v1/receipts/:index',
    action: 'bursar:GetReceipt',
    summary:
      'The receipt of a record: a C2SP tlog-proof that verifies without the gateway. For who made ' +
      'the request, and for who may audit it.',
    status: 200,
    answerType: 'text/plain; charset=utf-8',
    answer: { type: 'string' },
    run: async (call) => {
      const text = param(call, 'index');
      const index = Number(text);
      if (!indexForm.test(text) || !Number.isSafeInteger(index)) throw new Refusal('NoSuchRecord');
      const found = await readOpening(call.deps.read, index);
      if (!found || !maySee(call, found)) throw new Refusal('NoSuchRecord');
      const { opening } = found;
      if (!opening) throw new Refusal('RecordErased');
      return { answer: await prove(call, index, opening) };
    },
  },
];

/** As `reach` says; with a token that is for less than administration, what was done with it. */
function maySee({ who, reach, identity }: Call, { by, opening }: StoredOpening): boolean {
  if (reach === 'all') return true;
  if (reach === 'tenant') return by.tenant === who.tenant || by.bucketTenant === who.tenant;
  if (by.tenant !== who.tenant || by.principal !== who.name) return false;
  const { delegation } = identity;
  if (delegation === null || mayAdminister(delegation)) return true;
  const { tokens } = JSON.parse(opening?.record ?? '{}') as { tokens?: string[] };
  return tokens?.includes(delegation.ids.at(-1) ?? '') ?? false;
}

async function prove({ deps }: Call, index: number, opening: Opening): Promise<string> {
  const { log, read } = deps;
  await log.waitFor(index + 1);
  const signed = log.noteFor(index);
  if (signed === null) throw new Error('nothing is signed');
  const { size, root } = signed.checkpoint;
  const proof = await proveInclusion(storedTiles(read), index, size);
  const reached = rootFromInclusion(hashLeaf(leafOf(opening)), { index, size, proof });
  if (!reached?.equals(root)) {
    const message = 'The record is not what the log has of it, so there is no receipt for it.';
    throw new Refusal('BursarIntegrityError', { message });
  }
  return renderReceipt({ ...opening, index, proof, checkpoint: signed.note });
}
