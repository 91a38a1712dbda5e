// What operations answer with, and the shapes of reply that they share.
import { renderLargeXml, renderXml, type XmlContent, type XmlElements } from './xml.ts';

/** An answer. A generator gives verified bytes that are valid until the next is asked for. */
export interface Reply {
  status: number;
  headers: Record<string, string>;
  body: string | Buffer | AsyncGenerator<Buffer, void, void> | null;
}

const xmlHeaders = { 'content-type': 'application/xml' };

/** 200 with an S3 document. */
export function xmlReply(root: string, content: XmlContent): Reply {
  return { status: 200, headers: { ...xmlHeaders }, body: renderXml(root, content) };
}

/** The same of what may have many elements, in which others have their turns. */
export async function largeXmlReply(
  root: string,
  content: XmlElements | readonly XmlElements[],
): Promise<Reply> {
  return { status: 200, headers: { ...xmlHeaders }, body: await renderLargeXml(root, content) };
}

/** A status and headers without a body. */
export function emptyReply(status: number, headers: Record<string, string> = {}): Reply {
  return { status, headers, body: null };
}

/** An entity tag as headers and documents have it. */
export function quoted(etag: string): string {
  return `"${etag}"`;
}
