// The documents of bucket versioning, tags, notifications, inventories and websites at random: what
// is taken is read back as it was written, and whatever comes, nothing but a Refusal is thrown.
import { describe, expect, it } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { parseXml, renderXml, type XmlElements } from '#bursar/gateway/http/xml.js';
import { inventoryElements, parseInventory } from '#bursar/gateway/s3/buckets/inventory-xml.js';
import {
  notificationElements,
  parseNotificationRules,
} from '#bursar/gateway/s3/buckets/notification-xml.js';
import { parseWebsite, websiteElements } from '#bursar/gateway/s3/buckets/website-xml.js';
import { parseTagging } from '#bursar/gateway/s3/objects/object-attributes.js';
import { parseVersioning } from '#bursar/gateway/s3/operations/bucket-versioning.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;

const letters = [...'abcXYZ019 +-=._:/@', 'é', 'ключ', '名'];

function text(random: Random, lengthMax: number): string {
  const length = randomBelow(random, lengthMax + 1);
  let out = '';
  for (let i = 0; i < length; i++) out += randomOf(random, letters);
  return out;
}

const pieces = [
  ...['<Status>', '</Status>', 'Enabled', 'Suspended', 'enabled', '<MfaDelete>', '</MfaDelete>'],
  ...['Disabled', '<TagSet>', '</TagSet>', '<Tag>', '</Tag>', '<Key>', '</Key>', '<Value>', 'a'],
  ...['</Value>', '<Status/>', '<TagSet/>', '&amp;', '&x;', '<!--', '-->', '\0', '\ufffd', ' '],
];

describe('the documents of bucket versioning and tags', () => {
  it('tags read back as they were written', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(1, 300, (random) => {
      const names = new Set(
        Array.from({ length: randomBelow(random, 50) }, (_, i) => `k${i}${text(random, 20)}`),
      );
      const tags = [...names].map((Key) => ({ Key, Value: text(random, 40) }));
      const body = Buffer.from(renderXml('Tagging', { TagSet: { Tag: tags } }));
      const read = parseTagging(body, 50).map(([Key, Value]) => ({ Key, Value }));
      const inOrder = (all: typeof tags) => all.map((one) => JSON.stringify(one)).sort();
      expect(inOrder(read)).toEqual(inOrder(tags));
    });
  });

  it('are refused, or understood, whatever comes', { timeout: fuzzTimeoutMs }, async () => {
    const parsers: [string, (body: Buffer) => unknown][] = [
      ['VersioningConfiguration', parseVersioning],
      ['Tagging', (body) => parseTagging(body, 50)],
    ];
    let understood = 0;
    await fuzz(2, 3000, (random) => {
      const [root, parse] = randomOf(random, parsers);
      const count = randomBelow(random, 9);
      const inner = Array.from({ length: count }, () => randomOf(random, pieces)).join('');
      try {
        parse(Buffer.from(`<${root}>${inner}</${root}>`));
        understood++;
      } catch (error) {
        expect(error).toBeInstanceOf(Refusal);
      }
    });
    expect(understood).toBeGreaterThan(0);
  });
});

const element = (name: string, inner: string) => `<${name}>${inner}</${name}>`;
const mostly = (random: Random, one: string, other: string) => (random() < 0.95 ? one : other);

/** A document with a piece of it gone, doubled or another. */
function damage(random: Random, document: string): string {
  const from = randomBelow(random, document.length);
  const to = Math.min(document.length, from + 1 + randomBelow(random, 30));
  const piece = document.slice(from, to);
  const other = randomOf(random, ['', piece.repeat(2), '<', '</Id>', '&x;', '<Id/>', '\0', 'é']);
  return document.slice(0, from) + other + document.slice(to);
}

const queue = 'arn:aws:sqs:eu-central-1:123456789012:raw';
const targets = new Map([[queue, 'events']]);

function notificationOf(random: Random): string {
  const rules = Array.from({ length: randomBelow(random, 4) }, (_, i) => {
    const place = mostly(random, 'Queue', 'Topic');
    const events = ['s3:ObjectCreated:*', 's3:ObjectRemoved:Delete', 's3:ObjectTagging:*', 's3:No'];
    const event = element('Event', randomOf(random, events.slice(0, random() < 0.9 ? 3 : 4)));
    const name = randomOf(random, ['prefix', 'Suffix', 'suffix', mostly(random, 'prefix', 'key')]);
    const value = element('Value', mostly(random, `${i}/${'x'.repeat(i)}`, 'y'.repeat(1025)));
    const rule = element('FilterRule', element('Name', name) + value);
    const filter = random() < 0.7 ? element('Filter', element('S3Key', rule)) : '';
    const inner = element('Id', mostly(random, `r${i}`, 'r0')) + element(place, queue) + event;
    return element(`${place}Configuration`, inner + filter);
  });
  return element('NotificationConfiguration', rules.join(''));
}

function inventoryOf(random: Random): string {
  const fields = ['Size', 'ETag', 'StorageClass', 'LastModifiedDate', 'ChecksumAlgorithm', 'No'];
  const some = fields.filter((field) => random() < (field === 'No' ? 0.05 : 0.5));
  const place = [
    element('Bucket', `arn:aws:s3:::${mostly(random, 'lists', 'a:b:c')}`),
    element('Format', randomOf(random, ['CSV', 'Parquet', mostly(random, 'CSV', 'ORC')])),
    random() < 0.5 ? element('Prefix', `${text(random, 20).replace(/\/+$/, '')}x`) : '',
  ];
  const parts = [
    element('Id', mostly(random, 'all', 'other')),
    element('IsEnabled', mostly(random, 'true', 'yes')),
    element('Destination', element('S3BucketDestination', place.join(''))),
    element('Schedule', element('Frequency', randomOf(random, ['Daily', 'Weekly']))),
    element('IncludedObjectVersions', randomOf(random, ['All', 'Current'])),
    random() < 0.5 ? element('Filter', element('Prefix', 'in/')) : '',
    element('OptionalFields', some.map((field) => element('Field', field)).join('')),
  ];
  return element('InventoryConfiguration', parts.join(''));
}

function websiteOf(random: Random): string {
  const host = element('HostName', mostly(random, 'www.example.org:8080', 'a b'));
  const protocol = element('Protocol', mostly(random, 'https', 'ftp'));
  if (random() < 0.2) {
    return element('WebsiteConfiguration', element('RedirectAllRequestsTo', host + protocol));
  }
  const rules = Array.from({ length: 1 + randomBelow(random, 3) }, () => {
    const parts = [
      random() < 0.5 ? element('KeyPrefixEquals', text(random, 9).trim()) : '',
      element('HttpErrorCodeReturnedEquals', mostly(random, '404', '200')),
    ];
    const condition = random() < 0.7 ? element('Condition', parts.join('')) : '';
    const key = randomOf(random, ['ReplaceKeyWith', 'ReplaceKeyPrefixWith']);
    const status = element('HttpRedirectCode', mostly(random, '302', '304'));
    const redirect = host + protocol + element(key, text(random, 9).trim()) + status;
    return element('RoutingRule', condition + element('Redirect', redirect));
  });
  const parts = [
    element('IndexDocument', element('Suffix', mostly(random, 'index.html', 'a/b'))),
    random() < 0.5 ? element('ErrorDocument', element('Key', 'e')) : '',
    random() < 0.7 ? element('RoutingRules', rules.join('')) : '',
  ];
  return element('WebsiteConfiguration', parts.join(''));
}

interface Kind {
  root: string;
  make(random: Random): string;
  /** What is taken, and how it is written. */
  read(body: string): { taken: unknown; elements: XmlElements };
}

const kinds: Kind[] = [
  {
    root: 'NotificationConfiguration',
    make: notificationOf,
    read: (body) => {
      const asked = parseNotificationRules(
        parseXml(Buffer.from(body), 'NotificationConfiguration'),
        targets,
      );
      const rules = asked.map((rule) => ({ ...rule, since: 1 }));
      return { taken: asked, elements: notificationElements(rules) };
    },
  },
  {
    root: 'InventoryConfiguration',
    make: inventoryOf,
    read: (body) => {
      const root = parseXml(Buffer.from(body), 'InventoryConfiguration');
      const taken = parseInventory(root, 'all', 'cms/alice');
      return { taken, elements: inventoryElements(taken) };
    },
  },
  {
    root: 'WebsiteConfiguration',
    make: websiteOf,
    read: (body) => {
      const taken = parseWebsite(parseXml(Buffer.from(body), 'WebsiteConfiguration'));
      return { taken, elements: websiteElements(taken) };
    },
  },
];

describe.each(kinds)('$root, fuzzed', ({ root, make, read }) => {
  it('is taken or refused, and comes back as it went in', { timeout: fuzzTimeoutMs }, async () => {
    const seen = { taken: 0, refused: 0 };
    await fuzz(3, 2000, (random) => {
      const document = make(random);
      const body = random() < 0.5 ? document : damage(random, document);
      try {
        const { taken, elements } = read(body);
        seen.taken++;
        expect(read(renderXml(root, elements)).taken).toEqual(taken);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        expect(error.status === 501 || error.status < 500).toBe(true);
        seen.refused++;
      }
    });
    expect(seen.taken).toBeGreaterThan(200);
    expect(seen.refused).toBeGreaterThan(200);
  });
});
