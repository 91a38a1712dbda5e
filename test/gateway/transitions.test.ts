// What lifecycle moves leave where it is: what would be less protected, what is too large for one
// commit, and what no store is there for.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { sealObject } from '#bursar/catalog/authentic.js';
import { type Bucket, getBucket } from '#bursar/catalog/buckets.js';
import type { Attributes } from '#bursar/catalog/versions.js';
import { IntegrityError } from '#bursar/core/errors.js';
import { newExtentId } from '#bursar/core/ids.js';
import { aesGcmAlgorithm, blake3Algorithm, encodeManifest } from '#bursar/core/manifest.js';
import { shownClass } from '#bursar/gateway/s3/objects/written-class.js';
import { type TransitionServices, Transitions } from '#bursar/gateway/transitions.js';
import type { PriceBook } from '#bursar/quota/prices/price-book.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { ClassBook } from '#bursar/state/class-book.js';
import { encodeDefinition } from '#bursar/tiering/classes/class-definition.js';
import { undeclaredPlace } from '#bursar/tiering/classes/declared-place.js';
import { keyring, type LedgerFixture, openLedger, putOf } from '../ledger/fixture.ts';

let fixture: LedgerFixture;
let tooLarge: number;
beforeEach(async () => {
  fixture = await openLedger();
  tooLarge = 0;
});
afterEach(() => fixture.close());

const MiB = 1024 * 1024;

function bookOf(...classes: [tenant: string, name: string, aliases: string[]][]): ClassBook {
  const book = new ClassBook();
  for (const [tenant, name, aliases] of classes) {
    const definition = encodeDefinition({
      aliases,
      durability: { legs: [{ store: 'near' }], ack: 1, repairHours: 24 },
      availability: { answer: 'first', maxOfflineHoursPerMonth: 1 },
      ...{ access: 'online', restoreWithinHours: null, loss: 'report' },
      minimum: { days: 0, bytes: 0 },
    });
    book.apply({ kind: 'class', tenant, name, definition });
  }
  return book;
}

interface Stored {
  sizeBytes?: number;
  algorithm?: number;
  attributes?: Attributes;
  class?: string;
}

/** Gives the number of a version that was put. */
async function put({ sizeBytes = 10, algorithm = blake3Algorithm, attributes, ...of }: Stored) {
  const id = newExtentId();
  const whole = putOf('k', { inlineId: id });
  const run = { id, store: 0, algorithm, epoch: 1, extentBytes: 10, offset: 0, length: 10 };
  const object = sealObject(keyring, {
    ...{ tenant: 'one', sizeBytes, etag: 'etag', sha256: null, owner: 'alice' },
    class: of.class ?? 'STANDARD',
    attributes: JSON.stringify(attributes ?? {}),
    manifest: encodeManifest([{ ...run, trailerBytes: 0 }]),
  });
  const change = { ...whole.change, object } as typeof whole.change;
  const { index } = await fixture.ledger.commit({ ...whole, change });
  return index as number;
}

/** What was tried: `read` is as far as it comes. */
const tried = new IntegrityError('it was read');

function transitions(more: object = {}): Transitions {
  const services = {
    ...{ read: fixture.read, keyring, encrypts: false },
    classes: bookOf(['one', 'cold', ['ONEZONE_IA']]),
    stores: { nameOf: () => 'local', numberOf: () => 2, declaredOf: () => undeclaredPlace },
    bookOf: () => ({ name: 'none' }),
    ledger: { maintain: async () => 1 },
    leases: { hold: () => () => {} },
    losses: { explain: async (_: unknown, error: unknown) => new Error('lost', { cause: error }) },
    diskRoom: {
      open: async () => {
        throw tried;
      },
    },
    writer: { extentBytesIn: () => 8 * MiB },
    ...more,
  };
  return new Transitions(services as unknown as TransitionServices, {
    dayMs: 1000,
    onTooLarge: () => tooLarge++,
  });
}

async function move(seq: number, more: object = {}): Promise<boolean> {
  const bucket = (await getBucket(fixture.read, 1)) as Bucket;
  return transitions(more).move(bucket, { place: { key: 'k', seq }, class: 'cold' });
}

it('tells of what cannot be read whether it is lost', async () => {
  await expect(move(await put({}))).rejects.toThrow(new Error('lost', { cause: tried }));
});

it('writes nothing in plain that is encrypted', async () => {
  const seq = await put({ algorithm: aesGcmAlgorithm });
  expect(await move(seq)).toBe(false);
  await expect(move(seq, { encrypts: true })).rejects.toThrow('lost');
});

it('writes nothing under another KMS key than the one that was asked for', async () => {
  const attributes = {
    headers: {},
    metadata: {},
    encryption: { kms: 'arn:aws:kms:us-east-1:1:key/a' },
  };
  const seq = await put({ algorithm: aesGcmAlgorithm, attributes });
  expect(await move(seq, { encrypts: true })).toBe(false);
});

it('leaves what is too large for one commit, and counts it', async () => {
  expect(await move(await put({ sizeBytes: 10_001 * 8 * MiB }))).toBe(false);
  expect(tooLarge).toBe(1);
  await expect(move(await put({ sizeBytes: 10_000 * 8 * MiB }))).rejects.toThrow('lost');
  expect(tooLarge).toBe(1);
});

it('moves down a chain only where a year there saves more than the move costs', async () => {
  const classes = new ClassBook();
  for (const [name, store, tier] of [
    ['smart', 'near', undefined],
    ['cold', 'far', { of: 'smart', afterDays: 1 }],
  ] as const) {
    const definition = encodeDefinition({
      aliases: tier ? [] : ['INTELLIGENT_TIERING'],
      durability: { legs: [{ store }], ack: 1, repairHours: 24 },
      availability: { answer: 'first', maxOfflineHoursPerMonth: 1 },
      ...{ access: 'online', restoreWithinHours: null, loss: 'report' },
      minimum: { days: 0, bytes: 0 },
      ...(tier && { tier }),
    });
    classes.apply({ kind: 'class', tenant: 'one', name, definition });
  }
  const numbers = new Map([
    ['near', 2],
    ['far', 3],
  ]);
  const declared = { declaredOf: () => undeclaredPlace, isArchive: () => false };
  const numberOf = (name: string) => numbers.get(name);
  const stores = { nameOf: () => 'local', numberOf, ...declared };
  const books = readPriceBooks();
  const standard = books.named('aws-us-east-1-2026') as PriceBook;
  const cheap = books.inClass(standard, 'STANDARD_IA');
  const moves = (seq: number, far: PriceBook) => {
    const bookOf = (store: number) => (store === 3 ? far : standard);
    return move(seq, { classes, stores, bookOf }).catch(() => 'tried');
  };
  // A GB costs 0.0105 dollars a month less there, and the PUT of a move 5 millionths.
  const large = await put({ class: 'smart', sizeBytes: 300_000 });
  expect(await moves(large, cheap)).toBe('tried');
  expect(await moves(large, standard)).toBe(false);
  expect(await moves(await put({ class: 'smart', sizeBytes: 100 }), cheap)).toBe(false);
});

it('leaves what is to go into a store that is not configured', async () => {
  const stores = { numberOf: () => undefined, declaredOf: () => undeclaredPlace };
  expect(await move(await put({}), { stores })).toBe(false);
});

it('shows the alias of a class that means it to the tenant', () => {
  const classes = bookOf(
    ['default', 'everybodys', ['ONEZONE_IA', 'STANDARD_IA']],
    ['one', 'own', ['ONEZONE_IA']],
    ['two', 'own', ['ONEZONE_IA', 'STANDARD_IA']],
  );
  expect(shownClass({ classes }, 'one', 'everybodys')).toBe('STANDARD_IA');
  expect(shownClass({ classes }, 'two', 'everybodys')).toBe('everybodys');
  expect(shownClass({ classes }, 'one', 'own')).toBe('ONEZONE_IA');
  expect(shownClass({ classes }, 'three', 'everybodys')).toBe('ONEZONE_IA');
});
