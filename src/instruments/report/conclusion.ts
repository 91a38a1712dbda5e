// One sentence of the report, and what it rests on.
export { nameSize } from './figure.ts';

/** The rules of docs/admin/report.md, and what each is about. */
export const topics = {
  stage: 'Stages',
  store: 'Store',
  size: 'Size',
  threads: 'Threads',
  parts: 'Parallel parts',
  tail: 'Rare slow ones',
  hour: 'Hour of the day',
  pairs: 'Asking twice',
  availability: 'Availability',
  cost: 'Cost',
  'too-few': 'Samples',
} as const;
export type Rule = keyof typeof topics;

export interface Conclusion {
  rule: Rule;
  /** `limit`: this is what makes it slow; `fact`: worth knowing; `caution`: too little is known. */
  weight: 'limit' | 'fact' | 'caution';
  says: string;
  /** Samples, or pairs of them, that it rests on. */
  n: number;
}

/** With fewer samples nothing is said about medians and means. */
export const enough = 30;
