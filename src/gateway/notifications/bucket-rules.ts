// Which buckets of a tenant tell a target of what: their settings `notification`.
import {
  type NotificationRule,
  type Notifications,
  parseNotifications,
} from '../../catalog/notifications.ts';
import type { Reader } from '../../core/database.ts';

/** What one bucket tells a target. */
export interface BucketRules extends Pick<Notifications, 'by' | 'since'> {
  bucket: string;
  rules: readonly NotificationRule[];
}

/**
 * All of a target. They are read from the database behind the changes that they are about, so that
 * no change is told by rules of before it. Throws UnsealedRow for a setting that was edited.
 */
export async function readRules(
  read: Reader,
  { tenant, name }: { tenant: string; name: string },
): Promise<BucketRules[]> {
  const rows = await read.all<{ bucket: string; document: string }>(
    `SELECT b.name AS bucket, s.document FROM buckets b
       JOIN bucket_settings s ON s.bucket_id = b.id AND s.name = 'notification'
       WHERE b.tenant = ?`,
    tenant,
  );
  return rows.flatMap(({ bucket, document }) => {
    const { by, since, rules } = parseNotifications(document);
    const own = rules.filter(({ target }) => target === name);
    return own.length === 0 ? [] : [{ bucket, by, since, rules: own }];
  });
}

/** Where the changes begin of which one of them tells: the index of the record before. */
export function beginOf(all: readonly BucketRules[]): number {
  const each = all.map(({ since, rules }) => Math.min(since, ...rules.map((rule) => rule.since)));
  return Math.min(...each) - 1;
}
