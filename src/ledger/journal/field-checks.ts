// Of which type a field of the journal is.

export type Check = (value: unknown) => boolean;

export const isText: Check = (value) => typeof value === 'string';
export const isTextOrNull: Check = (value) => value === null || isText(value);
export const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
export const isFlag: Check = (value) => typeof value === 'boolean';
