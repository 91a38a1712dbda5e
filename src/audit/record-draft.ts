// The one place where the draft of a record is put together: who did what, and by which request.
import { newRequestId } from '../core/ids.ts';
import type { RecordDraft } from './record.ts';

/** The principal that is named, and what proves who it was. */
export type RecordActor = Pick<
  RecordDraft,
  'tenant' | 'principal' | 'accessKeyId' | 'keyThumbprint' | 'tokens' | 'evidence'
>;

/** The request, and where it came from. */
export interface RecordOrigin {
  id: string;
  source: string;
}

/** What was done, and how it ended. */
export type RecordedAct = Omit<
  RecordDraft,
  keyof RecordActor | 'requestId' | 'source' | 'bytesIn' | 'bytesOut'
> &
  Partial<Pick<RecordDraft, 'bytesIn' | 'bytesOut'>>;

/** `act` is the draft's own from here on: it becomes the draft, since each request makes one. */
export function draftRecord(
  actor: RecordActor,
  origin: RecordOrigin,
  act: RecordedAct,
): RecordDraft {
  const draft = act as RecordDraft;
  draft.tenant = actor.tenant;
  draft.principal = actor.principal;
  draft.accessKeyId = actor.accessKeyId ?? null;
  draft.keyThumbprint = actor.keyThumbprint ?? null;
  draft.tokens = actor.tokens ?? null;
  draft.evidence = actor.evidence;
  draft.bytesIn ??= 0;
  draft.bytesOut ??= 0;
  draft.requestId = origin.id;
  draft.source = origin.source;
  return draft;
}

/** The actor of what nobody asked for: the record says so by naming no access key. */
export function unasked(tenant: string, principal: string): RecordActor {
  return { tenant, principal, evidence: 'none' };
}

/** The origin of what the gateway does of its own accord. */
export function ownOrigin(source = 'bursar serve', id = newRequestId()): RecordOrigin {
  return { id, source };
}
