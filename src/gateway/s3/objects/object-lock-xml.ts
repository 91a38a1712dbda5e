// The documents of object lock, read strictly: what is not understood may have been a protection.
// Specification: ObjectLockConfiguration, Retention and LegalHold of the Amazon S3 API reference.
import type {
  DefaultRetention,
  ObjectLockConfig,
  Retention,
  RetentionMode,
} from '../../../catalog/object-lock.ts';
import { isoTime } from '../../../core/clock.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { onlyChildren, parseXml, textOf, type XmlElements, type XmlNode } from '../../http/xml.ts';
import { checkFuture, isMode, parseTime } from './object-lock.ts';

const daysMax = 36_500;
const yearsMax = 100;

/** Throws `Refusal` MalformedXML, or InvalidArgument for a period that cannot be. */
export function parseLockConfiguration(body: Buffer): ObjectLockConfig {
  const root = parseXml(body, 'ObjectLockConfiguration');
  const [enabled, rule] = onlyChildren(root, ['ObjectLockEnabled', 'Rule']);
  if (enabled?.text.trim() !== 'Enabled') throw new Refusal('MalformedXML');
  if (!rule) return {};
  const [retention] = onlyChildren(rule, ['DefaultRetention']);
  if (!retention) throw new Refusal('MalformedXML');
  return { default: parseDefault(retention) };
}

function parseDefault(node: XmlNode): DefaultRetention {
  const [, days, years] = onlyChildren(node, ['Mode', 'Days', 'Years']);
  const mode = parseMode(node);
  if (days && !years) return { mode, days: parsePeriod('Days', days, daysMax) };
  if (years && !days) return { mode, years: parsePeriod('Years', years, yearsMax) };
  throw new Refusal('MalformedXML');
}

function parseMode(node: XmlNode): RetentionMode {
  const mode = textOf(node, 'Mode')?.trim() ?? '';
  if (isMode(mode)) return mode;
  throw new Refusal('MalformedXML');
}

function parsePeriod(name: string, { text }: XmlNode, max: number): number {
  const digits = text.trim();
  if (!/^[+-]?\d{1,10}$/.test(digits)) throw new Refusal('MalformedXML');
  const period = Number(digits);
  if (period < 1) {
    const message = 'Default retention period must be a positive integer value.';
    throw invalidArgument(name, digits, message);
  }
  if (period > max) {
    const message = `Default retention period is too large: at most ${max} ${name.toLowerCase()}.`;
    throw invalidArgument(name, digits, message);
  }
  return period;
}

export function lockConfigurationElements({ default: set }: ObjectLockConfig): XmlElements {
  if (!set) return { ObjectLockEnabled: 'Enabled' };
  const period = 'days' in set ? { Days: set.days } : { Years: set.years };
  return {
    ObjectLockEnabled: 'Enabled',
    Rule: { DefaultRetention: { Mode: set.mode, ...period } },
  };
}

/** null: an empty document, which takes a retention away. Throws MalformedXML, InvalidArgument. */
export function parseRetention(body: Buffer): Retention | null {
  const root = parseXml(body, 'Retention');
  const [mode, until] = onlyChildren(root, ['Mode', 'RetainUntilDate']);
  if (!mode && !until) return null;
  const text = until?.text.trim() ?? '';
  const untilMs = parseTime(text);
  if (untilMs === null) throw new Refusal('MalformedXML');
  const retention = { mode: parseMode(root), untilMs };
  checkFuture(untilMs, 'RetainUntilDate', pacificTime(untilMs));
  return retention;
}

const pacific = new Intl.DateTimeFormat('en-US', {
  ...{ timeZone: 'America/Los_Angeles', hourCycle: 'h23', timeZoneName: 'short' },
  ...{ weekday: 'short', month: 'short', day: '2-digit', year: 'numeric' },
  ...{ hour: '2-digit', minute: '2-digit', second: '2-digit' },
});

/** As S3 gives a time back that it refuses: `Tue Dec 31 16:00:00 PST 2019`. */
function pacificTime(timeMs: number): string {
  const part = Object.fromEntries(
    pacific.formatToParts(timeMs).map(({ type, value }) => [type, value]),
  );
  const clock = `${part.hour}:${part.minute}:${part.second} ${part.timeZoneName}`;
  return `${part.weekday} ${part.month} ${part.day} ${clock} ${part.year}`;
}

export function retentionElements({ mode, untilMs }: Retention): XmlElements {
  return { Mode: mode, RetainUntilDate: isoTime(untilMs) };
}

/** Throws `Refusal` MalformedXML. */
export function parseLegalHold(body: Buffer): boolean {
  const root = parseXml(body, 'LegalHold');
  const [status] = onlyChildren(root, ['Status']);
  const text = status?.text.trim();
  if (text === 'ON' || text === 'OFF') return text === 'ON';
  throw new Refusal('MalformedXML');
}
