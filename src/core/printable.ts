// Text of others for people at a terminal or in a log.

/** Control characters of both ranges, what is invisible or turns the direction, and line ends. */
const deceptive = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Object keys are clients' texts: nothing in them may command the terminal, or show who reads it
 * another text than there is. Such characters come out as JSON would write them (`\u202e`).
 */
export function printable(text: string): string {
  return text.replaceAll(deceptive, (character) => {
    const short = JSON.stringify(character).slice(1, -1);
    return short === character ? escapeUnits(character) : short;
  });
}

function escapeUnits(character: string): string {
  return Array.from({ length: character.length }, (_, i) => {
    return `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`;
  }).join('');
}
