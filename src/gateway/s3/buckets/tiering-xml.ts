// The document of one configuration of a bucket's archives by use, read strictly. Pure.
// Specification: PutBucketIntelligentTieringConfiguration of the Amazon S3 API reference.
import type { LifecycleFilter } from '../../../catalog/lifecycle.ts';
import { type ArchiveTier, archiveTiers, type TieringConfig } from '../../../catalog/tiers.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { childOf, onlyChildren, textOf, type XmlElements, type XmlNode } from '../../http/xml.ts';
import { parseTag } from './lifecycle-xml.ts';

const idForm = /^[A-Za-z0-9_.-]{1,64}$/;
const keyBytesMax = 1024;
const tagsMax = 10;
const daysMin = { ARCHIVE_ACCESS: 90, DEEP_ARCHIVE_ACCESS: 180 } as const;
const daysMax = 730;

/** `id`: that of the request's query. Throws `Refusal`. */
export function parseTiering(root: XmlNode, id: string): TieringConfig {
  if (!idForm.test(id)) throw invalidArgument('id', id, 'The id is malformed.');
  const members = ['Id', 'Filter', 'Status', 'Tiering'];
  if (root.children.some(({ name }) => !members.includes(name))) throw new Refusal('MalformedXML');
  const once = ['Id', 'Filter', 'Status'];
  for (const name of once) {
    if (root.children.filter((one) => one.name === name).length > 1) {
      throw new Refusal('MalformedXML');
    }
  }
  const own = textOf(root, 'Id')?.trim();
  if (own === undefined) throw new Refusal('MalformedXML');
  if (own !== id) throw new Refusal('IdMismatch');
  const status = textOf(root, 'Status')?.trim();
  if (status !== 'Enabled' && status !== 'Disabled') throw new Refusal('MalformedXML');
  const filter = childOf(root, 'Filter');
  const tierings = root.children.filter(({ name }) => name === 'Tiering').map(parseDays);
  if (tierings.length === 0 || tierings.length > archiveTiers.length) {
    throw new Refusal('MalformedXML');
  }
  checkOrder(tierings);
  return {
    ...{ id, isEnabled: status === 'Enabled' },
    filter: filter ? parseFilter(filter) : {},
    tierings,
  };
}

function parseDays(node: XmlNode): { tier: ArchiveTier; days: number } {
  const [tierNode, daysNode] = onlyChildren(node, ['AccessTier', 'Days']);
  const tier = archiveTiers.find((one) => one === tierNode?.text.trim());
  const text = daysNode?.text.trim() ?? '';
  if (tier === undefined || !/^\d{1,10}$/.test(text)) throw new Refusal('MalformedXML');
  const days = Number(text);
  if (days < daysMin[tier] || days > daysMax) {
    const message = `Days of ${tier} are from ${daysMin[tier]} to ${daysMax}.`;
    throw invalidArgument('Days', text, message);
  }
  return { tier, days };
}

function checkOrder(tierings: TieringConfig['tierings']): void {
  const daysOf = (name: ArchiveTier) => tierings.find(({ tier }) => tier === name)?.days;
  if (new Set(tierings.map(({ tier }) => tier)).size < tierings.length) {
    throw new Refusal('MalformedXML');
  }
  const [first, deep] = archiveTiers.map(daysOf);
  if (first === undefined || deep === undefined || first < deep) return;
  throw invalidArgument('Days', String(deep), 'DEEP_ARCHIVE_ACCESS comes after ARCHIVE_ACCESS.');
}

function parseFilter(node: XmlNode): LifecycleFilter {
  const [, , and] = onlyChildren(node, ['Prefix', 'Tag', 'And']);
  if (node.children.length > 1) throw new Refusal('MalformedXML');
  if (!and) return parseConditions(node);
  if (and.children.length < 2) throw new Refusal('MalformedXML');
  return parseConditions(and);
}

function parseConditions(node: XmlNode): LifecycleFilter {
  onlyChildren(node, ['Prefix', 'Tag']);
  if (node.children.filter(({ name }) => name === 'Prefix').length > 1) {
    throw new Refusal('MalformedXML');
  }
  const prefix = textOf(node, 'Prefix');
  const tags = node.children.filter(({ name }) => name === 'Tag').map(parseTag);
  if (Buffer.byteLength(prefix ?? '') > keyBytesMax || tags.length > tagsMax) {
    throw new Refusal('InvalidRequest', { message: 'A filter has a key’s prefix, and 10 tags.' });
  }
  if (new Set(tags.map(([name]) => name)).size < tags.length) {
    throw new Refusal('InvalidRequest', { message: 'Duplicate Tag Keys are not allowed.' });
  }
  return { ...(prefix !== undefined && { prefix }), ...(tags.length > 0 && { tags }) };
}

/** The content of an IntelligentTieringConfiguration. */
export function tieringElements({ id, isEnabled, filter, tierings }: TieringConfig): XmlElements {
  const { prefix, tags = [] } = filter;
  const conditions = {
    ...(prefix !== undefined && { Prefix: prefix }),
    ...(tags.length > 0 && { Tag: tags.map(([Key, Value]) => ({ Key, Value })) }),
  };
  const count = (prefix === undefined ? 0 : 1) + tags.length;
  return {
    Id: id,
    ...(count > 0 && { Filter: count > 1 ? { And: conditions } : conditions }),
    Status: isEnabled ? 'Enabled' : 'Disabled',
    Tiering: tierings.map(({ tier, days }) => ({ AccessTier: tier, Days: days })),
  };
}
