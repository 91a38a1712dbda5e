// One sentence of the report, and what it rests on.
export { nameSize } from './figure.ts';

export interface Conclusion {
  /** Of docs/admin/report.md. */
  rule: string;
  /** `limit`: this is what makes it slow; `fact`: worth knowing; `caution`: too little is known. */
  weight: 'limit' | 'fact' | 'caution';
  says: string;
  /** Samples, or pairs of them, that it rests on. */
  n: number;
}

/** Of fewer samples nothing is said about medians and means. */
export const enough = 30;
