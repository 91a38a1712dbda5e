// Metadata that is no plain text: S3 decodes the encoded words of RFC 2047 in which clients send
// it, and gives it back in such words. What a decoded value would need again when it is read, it is
// kept as: printable ASCII as it is, all else as one encoded word.

const word = /=\?(utf-8|us-ascii|iso-8859-1)\?([bq])\?([!->@-~]*)\?=/gi;
const base64Form = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const printable = /^[\x20-\x7e\t]*$/;

/**
 * The value of a header as it is kept: where it is encoded words and nothing else (but spaces
 * between them), what they say. One that cannot be decoded is kept as it came.
 */
export function keptText(value: string): string {
  if (!value.startsWith('=?')) return value;
  const decoded: string[] = [];
  let end = 0;
  for (const match of value.matchAll(word)) {
    const [whole, charset = '', form = '', text = ''] = match;
    if (value.slice(end, match.index).trim() !== '') return value;
    const bytes = form.toLowerCase() === 'b' ? fromBase64(text) : fromQ(text);
    if (!bytes) return value;
    // U+FFFD stands for what is not of the charset.
    decoded.push(new TextDecoder(charset, { ignoreBOM: true }).decode(bytes));
    end = match.index + whole.length;
  }
  if (end === 0 || value.slice(end).trim() !== '') return value;
  return sendableText(decoded.join(''));
}

/** A text as a header can have it: itself, or one encoded word. */
export function sendableText(text: string): string {
  if (printable.test(text)) return text;
  const characters = [...text];
  const plain = characters.filter((one) => printable.test(one)).length;
  const bytes = Buffer.from(text, 'utf8');
  // As S3 chooses: what is mostly ASCII stays readable.
  if (plain <= characters.length - plain) return `=?UTF-8?B?${bytes.toString('base64')}?=`;
  let quoted = '';
  for (const byte of bytes) quoted += quote(byte);
  return `=?UTF-8?Q?${quoted}?=`;
}

function quote(byte: number): string {
  const character = String.fromCharCode(byte);
  if (character === ' ') return '_';
  const isPlain = byte > 0x20 && byte < 0x7f && !'=_?'.includes(character);
  return isPlain ? character : `=${byte.toString(16).toUpperCase().padStart(2, '0')}`;
}

function fromBase64(text: string): Buffer | null {
  return base64Form.test(text) ? Buffer.from(text, 'base64') : null;
}

function fromQ(text: string): Buffer | null {
  if (/=(?![0-9A-Fa-f]{2})/.test(text)) return null;
  const latin1 = text
    .replaceAll('_', ' ')
    .replace(/=([0-9A-Fa-f]{2})/g, (_, digits) => String.fromCharCode(Number.parseInt(digits, 16)));
  return Buffer.from(latin1, 'latin1');
}
