// What a record is about, as whoever asked calls it.
import { expect, it } from 'vitest';
import { placeFor } from '#bursar/cli/record-place.js';

it.each([
  [{ bucket: 'first', key: 'a/b' }, 'first/a/b'],
  [{ bucketTenant: 'atlas', bucket: 'first', key: 'a/b' }, 'first/a/b'],
  [{ bucketTenant: 'cms', bucket: 'first', key: 'a/b' }, 'cms:first/a/b'],
  [{ bucketTenant: 'cms', bucket: 'first' }, 'cms:first'],
  [{ bucketTenant: 'cms' }, ''],
  [{}, ''],
])('of one of atlas, %j is %j', (record, place) => {
  expect(placeFor('atlas', record)).toBe(place);
});
