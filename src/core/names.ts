// Names of tenants and of what they have, as clients write them in paths and in documents.
// Invariant: a name has one reading in paths, in lists and as a part of other names.

export const nameCharactersMax = 63;
/** For use within other forms. */
export const namePart = `[a-z0-9][a-z0-9._-]{0,${nameCharactersMax - 1}}`;
export const nameForm = new RegExp(`^${namePart}$`);
export const nameWords =
  `at most ${nameCharactersMax} of a-z, 0-9, ".", "_" and "-", ` +
  'beginning with a letter or a digit';

/** Of storage classes that tenants define. */
export const classNameForm = /^[a-z][a-z0-9_-]{0,62}$/;
export const classNameWords = 'at most 63 of a-z, 0-9, "_" and "-", beginning with a letter';

export function isName(value: unknown): value is string {
  return typeof value === 'string' && nameForm.test(value);
}

const shownMax = 100;

/** What is wrong with a name that is none. `of`: what it should be the name of, `a grant`. */
export function notTheName(value: unknown, of: string): string {
  return `${shown(value)} cannot be the name of ${of}: a name has ${nameWords}`;
}

/** The same where nothing says of what. */
export function notAName(value: unknown, words: string = nameWords): string {
  return `${shown(value)} cannot be a name: it has ${words}`;
}

function shown(value: unknown): string {
  if (typeof value !== 'string') return 'What is no text';
  return JSON.stringify(value.length > shownMax ? `${value.slice(0, shownMax)}…` : value);
}
