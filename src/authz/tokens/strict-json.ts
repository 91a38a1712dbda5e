// base64url and JSON with one reading only. Two readers that disagree about a text are how a token
// says one thing to who checks it and another to who acts on it; so padding, stray bits, invalid
// UTF-8 and members given twice are refused.
// Specification: RFC 4648 section 5 and 3.5, RFC 8259 section 4, RFC 7515 section 4 and 10.12.

export type JsonObject = Readonly<Record<string, unknown>>;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The object that the bytes are the JSON of; undefined if they are none, or repeat a member. */
export function parseStrictObject(bytes: Uint8Array): JsonObject | undefined {
  let text: string;
  let value: unknown;
  try {
    text = utf8.decode(bytes);
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  return isObject(value) && !repeatsMember(text) ? value : undefined;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The first member of `value` that is not among `names`. */
export function otherMember(value: JsonObject, names: readonly string[]): string | undefined {
  return Object.keys(value).find((name) => !names.includes(name));
}

const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]/g;

/** Whether an object in this JSON, which is known to be well-formed, has a member twice. */
function repeatsMember(json: string): boolean {
  // The member names of each object that is open; null for an open array.
  const open: (Set<string> | null)[] = [];
  let nameIsNext = false;
  for (const [token] of json.matchAll(tokens)) {
    if (token === '{' || token === '[') {
      open.push(token === '{' ? new Set() : null);
      nameIsNext = token === '{';
    } else if (token === '}' || token === ']') {
      open.pop();
    } else if (token === ',') {
      nameIsNext = open.at(-1) !== null;
    } else if (token !== ':' && nameIsNext) {
      const name = JSON.parse(token) as string;
      const names = open.at(-1) as Set<string>;
      if (names.has(name)) return true;
      names.add(name);
      nameIsNext = false;
    }
  }
  return false;
}
