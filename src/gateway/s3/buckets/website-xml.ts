// The document of a bucket's website, read strictly. Invariant: what is kept can be written into
// the head of an answer. Pure. Specification: PutBucketWebsite of the Amazon S3 API reference.
import type { Protocol, Redirect, RoutingRule, Website } from '../../../catalog/website.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { keyBytesMax, routingRulesMax } from '../../../core/limits.ts';
import { onlyChildren, type XmlElements, type XmlNode } from '../../http/xml.ts';

/** A name or an address, with or without a port. */
const hostForm = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253})|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/;

/** Throws `Refusal`. */
export function parseWebsite(root: XmlNode): Website {
  const [all, index, error, rules] = onlyChildren(root, [
    ...['RedirectAllRequestsTo', 'IndexDocument', 'ErrorDocument', 'RoutingRules'],
  ]);
  if (all) {
    if (index || error || rules) {
      const message =
        'RedirectAllRequestsTo cannot be provided in conjunction with other Routing Rules.';
      throw invalidArgument('RedirectAllRequestsTo', 'not null', message);
    }
    const [host, protocol] = onlyChildren(all, ['HostName', 'Protocol']);
    if (!host) throw new Refusal('MalformedXML');
    return { redirectAll: { host: parseHost(host.text), ...parseProtocol(protocol?.text) } };
  }
  if (!index) {
    const message =
      'A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty';
    throw invalidArgument('IndexDocument', 'null', message);
  }
  const [suffix] = onlyChildren(index, ['Suffix']);
  const [key] = error ? onlyChildren(error, ['Key']) : [];
  if (error && !key?.text) throw new Refusal('MalformedXML');
  const parsed = rules && parseRules(rules);
  return {
    index: parseSuffix(suffix?.text ?? ''),
    ...(key && { error: checkKey(key.text) }),
    ...(parsed && { rules: parsed }),
  };
}

function parseSuffix(suffix: string): string {
  if (suffix !== '' && !suffix.includes('/')) return checkKey(suffix);
  throw invalidArgument('IndexDocument', suffix, 'The IndexDocument Suffix is not well formed');
}

function parseRules({ children }: XmlNode): RoutingRule[] {
  if (children.length === 0 || children.some(({ name }) => name !== 'RoutingRule')) {
    throw new Refusal('MalformedXML');
  }
  if (children.length > routingRulesMax) {
    throw invalid(
      `${children.length} routing rules provided, the number of routing rules in a website ` +
        `configuration is limited to ${routingRulesMax}.`,
    );
  }
  return children.map(parseRule);
}

function parseRule(node: XmlNode): RoutingRule {
  const [given, redirect] = onlyChildren(node, ['Condition', 'Redirect']);
  if (!redirect) throw new Refusal('MalformedXML');
  const condition = given && parseCondition(given);
  return { ...(condition && { condition }), redirect: parseRedirect(redirect) };
}

function parseCondition(node: XmlNode): NonNullable<RoutingRule['condition']> {
  const [prefix, status] = onlyChildren(node, ['KeyPrefixEquals', 'HttpErrorCodeReturnedEquals']);
  if (!prefix && !status) {
    throw invalid(
      'Condition cannot be empty. To redirect all requests without a condition, the condition ' +
        "element shouldn't be present.",
    );
  }
  return {
    ...(prefix && { prefix: checkKey(prefix.text) }),
    ...(status && { status: parseStatus(status.text, /^[45]\d\d$/, 'HTTP error code') }),
  };
}

function parseRedirect(node: XmlNode): Redirect {
  const [protocol, host, prefix, key, status] = onlyChildren(node, [
    ...['Protocol', 'HostName', 'ReplaceKeyPrefixWith', 'ReplaceKeyWith', 'HttpRedirectCode'],
  ]);
  if (node.children.length === 0) throw new Refusal('MalformedXML');
  if (prefix && key) {
    throw invalid('You can only define ReplaceKeyPrefix or ReplaceKey but not both.');
  }
  return {
    ...parseProtocol(protocol?.text),
    ...(host && { host: parseHost(host.text) }),
    ...(prefix && { prefix: checkKey(prefix.text) }),
    ...(key && { key: checkKey(key.text) }),
    ...(status && { status: parseStatus(status.text, /^30[1-8]$/, 'HTTP redirect code') }),
  };
}

function parseProtocol(text: string | undefined): { protocol?: Protocol } {
  if (text === undefined) return {};
  if (text === 'http' || text === 'https') return { protocol: text };
  throw invalid(
    'Invalid protocol, protocol can be http or https. If not defined the protocol will be ' +
      'selected automatically.',
  );
}

function parseHost(text: string): string {
  if (hostForm.test(text)) return text;
  throw invalid('The HostName of a redirect is not well formed.');
}

/** 304 and the like lead nowhere, so they are none. */
function parseStatus(text: string, form: RegExp, what: string): number {
  if (form.test(text) && !/^30[456]$/.test(text)) return Number(text);
  throw invalid(`The provided ${what} (${text.slice(0, 20)}) is not valid.`);
}

/** As much as there can be in a key. */
function checkKey(text: string): string {
  if (Buffer.byteLength(text) <= keyBytesMax) return text;
  throw invalid(`A key has at most ${keyBytesMax} bytes.`);
}

function invalid(message: string): Refusal {
  return new Refusal('InvalidRequest', { message });
}

/** The content of a WebsiteConfiguration. */
export function websiteElements(site: Website): XmlElements {
  if ('redirectAll' in site) {
    const { host, protocol } = site.redirectAll;
    return { RedirectAllRequestsTo: { HostName: host, Protocol: protocol } };
  }
  const { index, error, rules } = site;
  return {
    IndexDocument: { Suffix: index },
    ...(error !== undefined && { ErrorDocument: { Key: error } }),
    ...(rules && { RoutingRules: { RoutingRule: rules.map(ruleElements) } }),
  };
}

function ruleElements({ condition, redirect }: RoutingRule): XmlElements {
  return {
    ...(condition && {
      Condition: {
        KeyPrefixEquals: condition.prefix,
        HttpErrorCodeReturnedEquals: condition.status,
      },
    }),
    Redirect: {
      Protocol: redirect.protocol,
      HostName: redirect.host,
      ReplaceKeyPrefixWith: redirect.prefix,
      ReplaceKeyWith: redirect.key,
      HttpRedirectCode: redirect.status,
    },
  };
}
