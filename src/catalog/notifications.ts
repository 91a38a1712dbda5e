// Of which changes a bucket tells whom, as its setting `notification` stores it. Pure.
// Invariant: a rule tells what came after it was made; one that is put again under its id goes on
// where it was, so that a change of the others loses nothing.

export interface NotificationRule {
  id: string;
  /** The name of a target in the bucket's tenant. */
  target: string;
  /** How the target was named. */
  arn: string;
  /** `s3:ObjectCreated:*`, `s3:ObjectRemoved:Delete` */
  events: readonly string[];
  prefix: string;
  suffix: string;
  /** Log index of the change that made it; what is told came after that. */
  since: number;
}

export interface Notifications {
  /** Who put them: nothing is told that they may not read. `cms/alice` */
  by: string;
  /** Log index of the change that put them: then each target is told of that. */
  since: number;
  rules: readonly NotificationRule[];
}

/** What is asked for, before the log has given it a place. */
export type AskedNotifications = Pick<Notifications, 'by'> & {
  rules: readonly Omit<NotificationRule, 'since'>[];
};

export function parseNotifications(document: string): Notifications {
  return JSON.parse(document) as Notifications;
}

/** What is stored of `document`, put by the record `seq`, where `before` was stored. */
export function stampNotifications(
  document: string | null,
  before: string | null,
  seq: number,
): string | null {
  if (document === null) return null;
  const { by, rules } = JSON.parse(document) as AskedNotifications;
  const known = before === null ? [] : parseNotifications(before).rules;
  const stamped = rules.map((rule) => {
    const same = known.find(({ id, target }) => id === rule.id && target === rule.target);
    return { ...rule, since: same?.since ?? seq };
  });
  return JSON.stringify({ by, since: seq, rules: stamped } satisfies Notifications);
}

/**
 * What is stored of a setting that is put back by the record `seq`. In a log that began anew there
 * are other records under the indices that it has: what comes from now on is told.
 */
export function putBackNotifications(document: string, seq: number): string {
  const { by, since, rules } = parseNotifications(document);
  const put = rules.map((rule) => ({ ...rule, since: Math.min(rule.since, seq) }));
  return JSON.stringify({ by, since: Math.min(since, seq), rules: put } satisfies Notifications);
}

/** Does a rule tell of such an event (`ObjectCreated:Put`) of this key? */
export function ruleFits(
  { events, prefix, suffix }: Pick<NotificationRule, 'events' | 'prefix' | 'suffix'>,
  eventName: string,
  key: string,
): boolean {
  return (
    key.startsWith(prefix) &&
    key.endsWith(suffix) &&
    events.some((wanted) => fitsName(wanted, `s3:${eventName}`))
  );
}

function fitsName(wanted: string, name: string): boolean {
  return wanted.endsWith('*') ? name.startsWith(wanted.slice(0, -1)) : wanted === name;
}
