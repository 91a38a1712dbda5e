// The settings of stores: the forms in which they are given, and what is said of those that do not
// fit, or do not fit each other.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CommandFailure } from '#bursar/core/command-failure.js';
import { type Flags, loadConfig } from '#bursar/server/settings/config.js';
import { chooseStores } from '#bursar/server/settings/store-settings.js';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-config-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

function yaml(text: string): string {
  const file = join(folder, 'bursar.yaml');
  writeFileSync(file, text);
  return file;
}

function choiceOf(flags: Flags, stores?: string) {
  return chooseStores(loadConfig(flags, stores === undefined ? {} : { BURSAR_STORES: stores }));
}

function refusal(flags: Flags, stores?: string): string {
  try {
    choiceOf(flags, stores);
  } catch (error) {
    expect(error).toBeInstanceOf(CommandFailure);
    expect((error as CommandFailure).exitCode).toBe(2);
    expect((error as CommandFailure).message).not.toContain('\n');
    return (error as CommandFailure).message;
  }
  throw new Error('was not refused');
}

describe('the stores of a start', () => {
  test('are none besides the local one by default', () => {
    expect(choiceOf({})).toEqual({ stores: [], defaultStore: 'local' });
  });

  test('are the one of --store, which new buckets take', () => {
    const flags = { store: 's3://bucket/pre/fix/', storeEndpoint: 'http://127.0.0.1:7070' };
    expect(choiceOf({ ...flags, storeRegion: 'eu-west-3', storePathStyle: 'yes' })).toEqual({
      stores: [
        {
          name: 's3',
          url: 's3://bucket/pre/fix',
          endpoint: 'http://127.0.0.1:7070',
          region: 'eu-west-3',
          pathStyle: true,
        },
      ],
      defaultStore: 's3',
    });
  });

  test('can be in folders, with the settings that go with them', () => {
    const stores = 'tape: {url: "file:///mnt/tape/é x", stallTimeout: 5m, connectionsMax: 2}';
    const tape = { name: 'tape', url: 'file:///mnt/tape/%C3%A9%20x', connectionsMax: 2 };
    expect(choiceOf({ store: 'file:///mnt/tank/bursar/' }, stores)).toEqual({
      stores: [
        { ...tape, stallTimeoutMs: 300_000 },
        { name: 'folder', url: 'file:///mnt/tank/bursar' },
      ],
      defaultStore: 'folder',
    });
    const flags = { store: 'file:///mnt/tank', storeRegion: 'x' };
    expect(refusal(flags)).toMatch(/go with --store s3:/);
    const twice = 'folder: {url: s3://archive}';
    expect(refusal({ store: 'file:///mnt/tank' }, twice)).toMatch(/is called folder, but/);
  });

  test('are named in the file, with every setting of theirs', () => {
    const config = yaml(`
store: cold
stores:
  cold:
    url: s3://archive/bursar
    endpoint: https://s3.example.org
    region: eu-west-3
    pathStyle: true
    profile: archive
    prices: aws/us-east-1
    extentBytes: 4MiB
    connectionsMax: 8
    connectTimeout: 1s
    firstByteTimeout: 2s
    stallTimeout: 3s
    storageClass: GLACIER_IR
    kind: archive
    domains: [rack1, lyon]
    annualLoss: 1e-6
  near:
    url: s3://near
    prices: none
`);
    expect(choiceOf({ config })).toEqual({
      stores: [
        {
          name: 'cold',
          url: 's3://archive/bursar',
          endpoint: 'https://s3.example.org',
          region: 'eu-west-3',
          pathStyle: true,
          profile: 'archive',
          prices: 'aws/us-east-1',
          extentBytesMax: 4 * 1024 * 1024,
          connectionsMax: 8,
          connectTimeoutMs: 1000,
          firstByteTimeoutMs: 2000,
          stallTimeoutMs: 3000,
          storageClass: 'GLACIER_IR',
          kind: 'archive',
          domains: ['rack1', 'lyon'],
          annualLoss: 1e-6,
        },
        { name: 'near', url: 's3://near', prices: 'none/none' },
      ],
      defaultStore: 'cold',
    });
  });

  test('may be given in a variable, as YAML or JSON, beside the one of --store', () => {
    const flags = { store: 's3://bucket' };
    const wanted = choiceOf(flags, 'cold: {url: s3://archive}');
    expect(wanted.stores.map((one) => one.name)).toEqual(['cold', 's3']);
    expect(wanted.defaultStore).toBe('s3');
    expect(choiceOf(flags, '{"cold":{"url":"s3://archive"}}')).toEqual(wanted);
  });
});

describe('what does not fit', () => {
  test.each([
    ['[', /^BURSAR_STORES: Flow sequence/],
    ['cold', /^BURSAR_STORES: must hold stores by name$/],
    ['[]', /^BURSAR_STORES: must hold stores by name$/],
    ['cold: 4', /^BURSAR_STORES\.cold must hold settings$/],
    ['cold:', /^BURSAR_STORES\.cold must hold settings$/],
    ['cold: {}', /^BURSAR_STORES\.cold\.url is missing$/],
    ['local: {url: s3://archive}', /^BURSAR_STORES\.local must be named/],
    ['inline: {url: s3://archive}', /^BURSAR_STORES\.inline must be named/],
    ['catalog: {url: s3://archive}', /^BURSAR_STORES\.catalog must be named/],
    ['Cold: {url: s3://archive}', /^BURSAR_STORES\.Cold must be named/],
    [`${'c'.repeat(64)}: {url: s3://archive}`, /must be named with 1 to 63/],
    ['cold: {url: s3://archive, uri: x}', /^BURSAR_STORES: unknown key cold\.uri$/],
    ['cold: {url: http://archive}', /^BURSAR_STORES\.cold\.url "http:\/\/archive" must be s3:/],
    ['cold: {url: {}}', /^BURSAR_STORES\.cold\.url must be a plain value$/],
    ['cold: {url: s3://archive, pathStyle: 3}', /cold\.pathStyle 3 must be yes or no$/],
    ['cold: {url: s3://archive, extentBytes: 1000}', /cold\.extentBytes 1000 must be a multiple/],
    ['cold: {url: s3://archive, extentBytes: 17MiB}', /cold\.extentBytes "17MiB" must be/],
    ['cold: {url: s3://archive, connectionsMax: 0}', /cold\.connectionsMax 0 must be 1 to 1024$/],
    ['cold: {url: s3://archive, stallTimeout: 11m}', /cold\.stallTimeout "11m" must be 1ms to 10m/],
    ['cold: {url: s3://archive, domains: [a, a]}', /cold\.domains "a,a" must be 1 to 16 different/],
    ['cold: {url: s3://archive, domains: []}', /cold\.domains "" must be 1 to 16/],
    ['cold: {url: s3://archive, domains: {a: 1}}', /cold\.domains must be a plain value/],

    ['cold: {url: s3://archive, annualLoss: 2}', /cold\.annualLoss 2 must be a share from 0 to 1/],
    ['cold: {url: s3://archive, annualLoss: -0.1}', /cold\.annualLoss -0\.1 must be a share/],
    ['cold: {url: s3://archive, kind: tape}', /cold\.kind "tape" must be online or archive/],
    [
      'cold: {url: s3://archive, storageClass: cold}',
      /cold\.storageClass "cold" must be .*GLACIER/,
    ],
    [
      'cold: {url: s3://archive, storageClass: GLACIER, kind: online}',
      /cold\.kind must be archive, or left out/,
    ],
    [
      'cold: {url: "file:///disk", storageClass: GLACIER}',
      /cold\.storageClass is for stores in S3/,
    ],
    ['cold: {url: s3://archive, region: "a b"}', /cold\.region "a b" must be a region/],
    ['cold: {url: s3://archive, profile: "[x]"}', /cold\.profile "\[x\]" must be the name/],
    ['cold: {url: s3://archive, prices: aws}', /cold\.prices "aws" must be PROVIDER\/REGION/],
    ['cold: {url: s3://archive, endpoint: x}', /cold\.endpoint "x" must be a URL/],
    [
      'cold: {url: "file://host/disk"}',
      /cold\.url "file:\/\/host\/disk" must be file:\/\/\/FOLDER/,
    ],
    ['cold: {url: "file:///"}', /cold\.url .* must be file:\/\/\/FOLDER/],
    ['cold: {url: "file:disk"}', /cold\.url "file:disk" must be file:\/\/\/FOLDER/],
    ['cold: {url: "file:///disk%2Fx"}', /cold\.url .* must be file:\/\/\/FOLDER/],
    ['cold: {url: "file:///disk?x"}', /cold\.url .* must be file:\/\/\/FOLDER/],
    [
      'cold: {url: "file:///disk", region: x}',
      /cold\.region is for stores in S3, not in a folder$/,
    ],
    [
      '{a: {url: "file:///disk/x"}, b: {url: "file:///disk/y/../x/"}}',
      /b and a are at one place, file:\/\/\/disk\/x/,
    ],
    [
      '{a: {url: s3://archive}, b: {url: s3://archive/}}',
      /b and a are at one place, s3:\/\/archive/,
    ],
  ])('%s is refused with the path of its key', (stores, message) => {
    expect(refusal({}, stores)).toMatch(message);
  });

  test('the path begins with the file and its key, where it is the file that has them', () => {
    const config = yaml('stores: {cold: {url: 4}}');
    expect(refusal({ config })).toMatch(/bursar\.yaml: stores\.cold\.url 4 must be s3:/);
  });

  test('more stores than 200 are refused', () => {
    const stores = Array.from({ length: 201 }, (_, i) => `s${i}: {url: s3://archive/${i}}`);
    expect(refusal({}, stores.join('\n'))).toBe('BURSAR_STORES: must be at most 200 stores');
    expect(choiceOf({}, stores.slice(1).join('\n')).stores).toHaveLength(200);
  });

  test('a default store must be there, and flags for the one of --store need it', () => {
    expect(refusal({ store: 'cold' })).toBe('--store cold is not among the configured stores');
    expect(choiceOf({ store: 'cold' }, 'cold: {url: s3://archive}').defaultStore).toBe('cold');
    for (const flags of [
      { storeEndpoint: 'http://x' },
      { storeRegion: 'x' },
      { storePathStyle: 'yes' },
    ]) {
      expect(refusal(flags)).toMatch(/go with --store s3:/);
    }
  });

  test('the name of the store of --store is not given twice', () => {
    const stores = 's3: {url: s3://archive}';
    expect(refusal({ store: 's3://bucket' }, stores)).toMatch(/is called s3, but stores\.s3/);
    expect(choiceOf({ store: 's3' }, stores).defaultStore).toBe('s3');
  });
});
