// A request as far as a proof can speak of it, in the words of both ends. Invariant: the client
// that signs and the gateway that verifies bring the target into the same form, which changes
// nothing but what HTTP itself ignores: the letter case of scheme and host, and the scheme's
// own port.
// Specification: RFC 9110 section 7.1, RFC 3986 section 6.2.2.1 and 6.2.3.

export interface RequestDescription {
  method: string;
  /** The absolute target as the client asked for it: query included, nothing decoded. */
  url: string;
  /** Lower-case names, as Node's IncomingMessage.headers. */
  headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Whether it has a body. (A Content-Length that is not 0, or a Transfer-Encoding.) */
  hasBody: boolean;
}

const urlForm = /^(https?):\/\/([^/?#@\s]+)((?:[/?][\x21-\x7e]*)?)$/i;

/** The target in its common form; undefined if it is no HTTP URL or has a fragment or user name. */
export function targetUri(url: string): string | undefined {
  const [, scheme, host, rest = ''] = urlForm.exec(url) ?? [];
  if (scheme === undefined || host === undefined || rest.includes('#')) return undefined;
  const lowerScheme = scheme.toLowerCase();
  const ownPort = lowerScheme === 'https' ? ':443' : ':80';
  let authority = host.toLowerCase();
  if (authority.endsWith(ownPort)) authority = authority.slice(0, -ownPort.length);
  const path = rest.startsWith('/') ? rest : `/${rest}`;
  return `${lowerScheme}://${authority}${path}`;
}

const outerSpace = /^[ \t]+|[ \t]+$/g;

/** One header's value, its lines joined as RFC 9421 section 2.1 has it; undefined if absent. */
export function fieldValue(request: RequestDescription, name: string): string | undefined {
  if (!Object.hasOwn(request.headers, name)) return undefined;
  const value = request.headers[name];
  if (value === undefined) return undefined;
  const lines = Array.isArray(value) ? value : [value];
  return lines.map((line) => line.replace(outerSpace, '')).join(', ');
}
