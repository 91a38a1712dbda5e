// What a bucket is as a website: `PutBucketWebsite`. Of a request that is answered by it only the
// key, and the status that it would have, say which rule counts. Pure.

/** Either all that is asked for is elsewhere, or there is an index. */
export type Website = RedirectedSite | ServedSite;

export interface RedirectedSite {
  redirectAll: { host: string; protocol?: Protocol };
}

export interface ServedSite {
  /** What is answered for what ends in a slash: the name that follows it. */
  index: string;
  /** Key of what is answered where something is refused. */
  error?: string;
  /** The first that fits counts. */
  rules?: readonly RoutingRule[];
}

export type Protocol = 'http' | 'https';

export interface RoutingRule {
  /** Both hold; where neither is there, all fits. */
  condition?: { prefix?: string; status?: number };
  redirect: Redirect;
}

/** What of the address of a request is another one. */
export interface Redirect {
  protocol?: Protocol;
  host?: string;
  /** In place of the prefix of the condition. */
  prefix?: string;
  /** In place of the whole key. */
  key?: string;
  status?: number;
}

/** Reads what `JSON.stringify` made of one. */
export function readWebsite(document: string): Website {
  return JSON.parse(document) as Website;
}

/** What a key that is asked for redirects to, by a rule. `status`: of a refusal; null: of none. */
export function findRule(
  { rules = [] }: ServedSite,
  key: string,
  status: number | null,
): RoutingRule | undefined {
  return rules.find(({ condition = {} }) => {
    if (condition.status === undefined ? status !== null : condition.status !== status) {
      return false;
    }
    return key.startsWith(condition.prefix ?? '');
  });
}

/** The key that a rule has in the place of one that fits it. */
export function ruledKey({ condition, redirect }: RoutingRule, key: string): string {
  if (redirect.key !== undefined) return redirect.key;
  if (redirect.prefix === undefined) return key;
  return redirect.prefix + key.slice(condition?.prefix?.length ?? 0);
}
