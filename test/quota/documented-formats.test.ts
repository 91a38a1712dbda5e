// The examples on the page of the formats are what the readers read.
import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseWorkload } from '#bursar/quota/cost/workload.js';
import { parsePriceBook } from '#bursar/quota/prices/price-book.js';
import { shippedFolder } from '#bursar/quota/prices/price-books.js';
import { blocksOf, readPage, rowsOf, sectionOf } from '../docs/markdown.ts';

const { text } = readPage('docs/formats/price-book.md');

describe('the page of price books and workloads', () => {
  it('has a price book that is read', () => {
    const [block] = blocksOf(sectionOf(text, 'A price book'));
    expect(parsePriceBook(String(block?.code)).name).toBe('lab-2026');
  });

  it('has a workload that is read', () => {
    const [block] = blocksOf(sectionOf(text, 'Workloads'));
    expect(parseWorkload(String(block?.code)).parts).toHaveLength(1);
  });

  it('names the books that are shipped', () => {
    const named = rowsOf(sectionOf(text, 'The books that are here')).map(
      ([name]) => `${name}.json`,
    );
    expect(named.sort()).toEqual(readdirSync(shippedFolder).sort());
  });
});
