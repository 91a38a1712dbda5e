// Whether verified evidence is that of a record. Invariant: what a client signed for one request
// does not pass as the proof of another: key, token, method, object and body must be the record's.
// Pure.
import type { VerifiedEvidence } from './evidence-verdict.ts';
import type { SignedRequest } from './signed-request.ts';
import type { AuditRecord } from './verify/opening.ts';

/** Those members of a record that evidence can contradict (docs/audit/records.md). */
export interface ProvenRecord
  extends Pick<AuditRecord, 'tenant' | 'principal' | 'action' | 'time' | 'evidence' | 'tokens'>,
    Pick<AuditRecord, 'keyThumbprint' | 'key' | 'bytesIn' | 'size' | 'sha256'> {
  readonly change?: { readonly renamedTo?: { readonly key: string } };
}

/** How far ahead the client's clock may have been, milliseconds. */
const skewMsMax = 15 * 60_000;

/** Why it cannot be the record's; null: nothing stands against it. */
export function contradictionOf(verified: VerifiedEvidence, record: unknown): string | null {
  if (!isRecord(record)) return 'the record has not the form of one';
  const { kind, thumbprint, links, request } = verified;
  const isOfRequest = kind !== 'token-link' && kind !== 'key-proof';
  if (record.evidence.endsWith('-signed') && !isOfRequest)
    return 'the request itself is not signed';
  if (isOfRequest && thumbprint !== record.keyThumbprint) return 'it is signed with another key';
  if (links.length > 0) {
    // The last link of a token that its bearer needs no key for is not kept.
    const { tokens = [] } = record;
    const isWhole = tokens.length === links.length + (isOfRequest ? 0 : 1);
    const isSame = links.every(({ id }, i) => id === tokens[i]);
    if (!isWhole || !isSame) return 'it is about another token';
    const subject = `${record.tenant}/${record.principal}`;
    if (links.some((link) => link.subject !== subject)) return 'the token is of another principal';
  }
  return request && contradictionOfRequest(request, record);
}

/** Only a gateway that lies writes records of another form. */
function isRecord(value: unknown): value is ProvenRecord {
  if (typeof value !== 'object' || value === null) return false;
  const { tokens = [], key = '', ...members } = value as Record<string, unknown>;
  const texts = ['tenant', 'principal', 'action', 'time', 'evidence'];
  return (
    texts.every((name) => typeof members[name] === 'string') &&
    Array.isArray(tokens) &&
    typeof key === 'string'
  );
}

const writes = /^s3:(?:Put|Delete|Create|Abort)/;

function contradictionOfRequest(request: SignedRequest, record: ProvenRecord): string | null {
  const { method, url, bodySha256, signedAtMs } = request;
  const { action, key, sha256 } = record;
  if (signedAtMs > Date.parse(record.time) + skewMsMax) return 'it was signed after the record';
  const isRead = method === 'GET' || method === 'HEAD';
  if (isRead && writes.test(action)) return `a ${method} was signed, and not ${action}`;
  const [path = '', query = ''] = url.replace(/^https?:\/\/[^/]*/, '').split('?', 2);
  const isNative = path.startsWith('/_/');
  if (isNative !== action.startsWith('bursar:')) return `another request than ${action} was signed`;
  // Which keys DeleteObjects is about is in its body.
  const isNamed = key !== undefined && !(method === 'POST' && /^delete(?:[=&]|$)/.test(query));
  // The path of a rename is that of the new key, which the record of the old one has, too.
  const isRename = action === 's3:RenameObject';
  if (isRename && !/(?:^|&)renameObject(?:[=&]|$)/.test(query)) {
    return `another request than ${action} was signed`;
  }
  const named = (isRename && record.change?.renamedTo?.key) || key;
  if (isNamed && !decodePath(path)?.endsWith(`/${named}`)) return 'another key was signed';
  // The request of a copy has an empty body, whatever the object's size is.
  const isWhole = action === 's3:PutObject' && method === 'PUT' && record.bytesIn === record.size;
  if (isWhole && bodySha256 !== null && sha256 !== undefined && bodySha256 !== sha256) {
    return 'another body was signed';
  }
  return null;
}

function decodePath(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}
