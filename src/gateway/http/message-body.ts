// Whether a message has a body. Specification: RFC 9112 section 6.3.
import type { IncomingMessage } from 'node:http';

/** By its headers alone: while these are told, Node has not yet seen where the message ends. */
export function hasBody({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  const { 'content-length': length, 'transfer-encoding': coding } = headers;
  return coding !== undefined || (length !== undefined && !/^0+$/.test(length));
}
