// What operations answer with, and the shapes of reply that they share.
import { renderXml, type XmlContent } from './xml.ts';

/** An answer. A generator gives verified bytes that are valid until the next is asked for. */
export interface Reply {
  status: number;
  headers: Record<string, string>;
  body: string | Buffer | AsyncGenerator<Buffer, void, void> | null;
}

/** 200 with an S3 document. */
export function xmlReply(root: string, content: XmlContent): Reply {
  const headers = { 'content-type': 'application/xml' };
  return { status: 200, headers, body: renderXml(root, content) };
}

/** A status and headers without a body. */
export function emptyReply(status: number, headers: Record<string, string> = {}): Reply {
  return { status, headers, body: null };
}

/** An entity tag as headers and documents have it. */
export function quoted(etag: string): string {
  return `"${etag}"`;
}
