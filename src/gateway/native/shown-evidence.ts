// What of a record's evidence is handed out with its receipt. Invariant: nobody gets what they
// could send again in the client's name, but who proves the same key and could sign it anew.
import { withheldUntilMs } from '../../audit/evidence.ts';
import type { OpenedRecord } from '../../audit/record-store.ts';
import { nowMs } from '../../core/clock.ts';
import type { Identity, NativeDeps } from './deps.ts';

/** As JSON says it; null: the record has none, it was erased, or it is not shown yet. */
export async function shownEvidence(
  { records }: Pick<NativeDeps, 'records'>,
  { keyThumbprint }: Pick<Identity, 'keyThumbprint'>,
  opened: OpenedRecord,
): Promise<unknown> {
  const { evidenceAt } = JSON.parse(opened.record) as { evidenceAt?: number };
  // The first record of the request has it.
  const has = evidenceAt === undefined ? opened : (await records.readRecord(evidenceAt))?.opened;
  const text = has?.evidence ?? null;
  if (text === null || withheldUntilMs(text, { keyThumbprint, nowMs: nowMs() }) !== null)
    return null;
  return JSON.parse(text) as unknown;
}
