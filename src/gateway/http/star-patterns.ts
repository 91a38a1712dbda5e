// Texts with at most one `*`, which stands for anything, also for nothing; and by which rules they
// are. Made once, and asked often: what a text costs depends on its length, not on how many
// patterns there are, but for those with something on both sides of the star.
import { getOrMake } from '../../core/maps.ts';

/** A set of rules by their numbers, 32 to a word. */
export type RuleSet = Uint32Array;

export class StarPatterns {
  readonly #words: number;
  readonly #exact = new Map<string, RuleSet>();
  readonly #prefixes = new Ends((text, length) => text.slice(0, length));
  readonly #suffixes = new Ends((text, length) => text.slice(text.length - length));
  readonly #between: { before: string; after: string; rule: number }[] = [];

  /** `patterns`: those of each rule, in the rules' order. */
  constructor(patterns: readonly (readonly string[])[]) {
    this.#words = Math.ceil(patterns.length / 32);
    for (const [rule, texts] of patterns.entries()) {
      for (const text of texts) this.#add(text, rule);
    }
  }

  /** The rules that have a pattern which the text fits. */
  rulesOf(text: string): RuleSet {
    const found: RuleSet = new Uint32Array(this.#words);
    join(found, this.#exact.get(text));
    this.#prefixes.collect(text, found);
    this.#suffixes.collect(text, found);
    for (const { before, after, rule } of this.#between) {
      const fits =
        text.length >= before.length + after.length &&
        text.startsWith(before) &&
        text.endsWith(after);
      if (fits) addRule(found, rule);
    }
    return found;
  }

  #add(pattern: string, rule: number): void {
    const star = pattern.indexOf('*');
    const [before, after] = [pattern.slice(0, star), pattern.slice(star + 1)];
    if (star < 0) addRule(setOf(this.#exact, pattern, this.#words), rule);
    else if (after === '') this.#prefixes.add(before, rule, this.#words);
    else if (before === '') this.#suffixes.add(after, rule, this.#words);
    else this.#between.push({ before, after, rule });
  }
}

/** What texts begin with, or what they end with. */
class Ends {
  readonly #cut: (text: string, length: number) => string;
  readonly #rules = new Map<string, RuleSet>();
  readonly #lengths = new Set<number>();

  constructor(cut: (text: string, length: number) => string) {
    this.#cut = cut;
  }

  add(end: string, rule: number, words: number): void {
    this.#lengths.add(end.length);
    addRule(setOf(this.#rules, end, words), rule);
  }

  collect(text: string, found: RuleSet): void {
    for (const length of this.#lengths) {
      if (length <= text.length) join(found, this.#rules.get(this.#cut(text, length)));
    }
  }
}

function setOf(sets: Map<string, RuleSet>, text: string, words: number): RuleSet {
  return getOrMake(sets, text, () => new Uint32Array(words));
}

function addRule(set: RuleSet, rule: number): void {
  set[rule >>> 5] = (set[rule >>> 5] as number) | (1 << (rule & 31));
}

function join(set: RuleSet, other: RuleSet | undefined): void {
  if (!other) return;
  for (let i = 0; i < set.length; i++) set[i] = (set[i] as number) | (other[i] as number);
}

/** Leaves of `set` what is in `other` too. */
export function intersect(set: RuleSet, other: RuleSet): void {
  for (let i = 0; i < set.length; i++) set[i] = (set[i] as number) & (other[i] as number);
}

/** The number of the first rule; undefined: there is none. */
export function firstRule(set: RuleSet): number | undefined {
  for (const [i, word] of set.entries()) {
    if (word !== 0) return i * 32 + (31 - Math.clz32(word & -word));
  }
  return undefined;
}
