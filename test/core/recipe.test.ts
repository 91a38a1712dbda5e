// Recipes come from whoever can write an object: what is parsed has nothing but what it may have.
import { describe, expect, it } from 'vitest';
import {
  attachedRecipe,
  parseRecipe,
  readRecipePlace,
  recipeBytesMax,
} from '#bursar/core/recipe.js';

const sha256 = 'ab'.repeat(32);
const input = { bucket: 'cms:raw', key: 'run/7', versionId: '0'.repeat(32), sha256 };
const whole = {
  inputs: [input],
  command: ['sort', ''],
  container: `ghcr.io/a/b:1@sha256:${sha256}`,
  outputs: [{ bucket: 'derived', key: 'a' }, { key: 'b' }],
};

describe('a recipe', () => {
  it('is what was written', () => {
    expect(parseRecipe(JSON.stringify(whole))).toEqual(whole);
    const { inputs: _, container: _2, ...least } = whole;
    expect(parseRecipe(JSON.stringify(least))).toEqual({ ...least, inputs: [] });
  });

  it.each([
    ['no JSON', '{'],
    ['a list', '[]'],
    ['too long', JSON.stringify({ ...whole, command: [' '.repeat(recipeBytesMax)] })],
    ['another member', { ...whole, shell: true }],
    ['a member twice', '{"command":["a:\\""],"command":["b"],"outputs":[{"key":"a"}]}'],
    ['lists in lists', `{"command":${'['.repeat(30_000)}${']'.repeat(30_000)}}`],
    ['a member of an output twice', '{"command":["a"],"outputs":[{"key":"a","key":"b"}]}'],
    ['__proto__', '{"__proto__":{},"command":["a"],"outputs":[{"key":"a"}]}'],
    ['no command', { ...whole, command: [] }],
    ['a command of one text', { ...whole, command: 'sort a' }],
    ['a program without a name', { ...whole, command: [''] }],
    ['a NUL in an argument', { ...whole, command: ['sort', 'a\0b'] }],
    ['too many arguments', { ...whole, command: Array(101).fill('a') }],
    ['no outputs', { ...whole, outputs: [] }],
    ['an output that is a text', { ...whole, outputs: ['a'] }],
    ['an output with a path', { ...whole, outputs: [{ key: 'a', file: '../../etc' }] }],
    ['an empty key', { ...whole, outputs: [{ key: '' }] }],
    ['a key of too many bytes', { ...whole, outputs: [{ key: 'é'.repeat(513) }] }],
    ['half a character', { ...whole, outputs: [{ key: '\ud800' }] }],
    ['a bucket that is a path', { ...whole, inputs: [{ ...input, bucket: 'a/../b' }] }],
    ['a digest in upper case', { ...whole, inputs: [{ ...input, sha256: 'AB'.repeat(32) }] }],
    ['no digest', { ...whole, inputs: [{ bucket: 'raw', key: 'a' }] }],
    ['a version that is none', { ...whole, inputs: [{ ...input, versionId: '1' }] }],
    ['too many inputs', { ...whole, inputs: Array(101).fill(input) }],
    ['a container without a digest', { ...whole, container: 'ghcr.io/a/b:1' }],
  ])('is refused with %s', (_, value) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    expect(parseRecipe(text)).toBeTypeOf('string');
  });

  it('is never anything else, whatever it is made of', () => {
    const text = JSON.stringify(whole);
    let seed = 7;
    const next = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    const strange = ['"', '{', '}', '[', ']', ',', '\\', 'null', '1e999', '\ud800', '\0', ':'];
    let parsed = 0;
    for (let i = 0; i < 20_000; i++) {
      const at = next(text.length);
      const put = strange[next(strange.length)] as string;
      const found = parseRecipe(text.slice(0, at) + put + text.slice(at + next(6)));
      if (typeof found === 'string') continue;
      parsed++;
      expect(parseRecipe(JSON.stringify(found))).toEqual(found);
    }
    expect(parsed).toBeGreaterThan(0);
  });
});

describe('what an object says of its recipe', () => {
  it('is a place, or the recipe itself', () => {
    expect(readRecipePlace('s3://cms:raw/a/b?c')).toEqual({
      ...{ kind: 'object', bucket: 'cms:raw', key: 'a/b?c', versionId: undefined },
    });
    expect(readRecipePlace(`s3://raw/a?versionId=${'0'.repeat(32)}`)).toMatchObject({
      ...{ key: 'a', versionId: '0'.repeat(32) },
    });
    expect(readRecipePlace(JSON.stringify(whole))).toEqual({ kind: 'inline', recipe: whole });
    for (const text of ['', 'raw/a', 's3://raw', 's3://raw/', 'https://raw/a', '{}', 's3://A/b'])
      expect(readRecipePlace(text)).toBeTypeOf('string');
  });

  it('is in its metadata before its tags', () => {
    const tags = [['bursar-recipe', 's3://raw/tag']] as const;
    expect(attachedRecipe({ metadata: { 'bursar-recipe': 's3://raw/a' }, tags })).toBe(
      's3://raw/a',
    );
    expect(attachedRecipe({ metadata: {}, tags })).toBe('s3://raw/tag');
    expect(attachedRecipe({ metadata: {} })).toBeUndefined();
  });
});
