// A token's report in plain words, for people who were handed one and want to know what it is.

import type { Limits } from '../../core/quota-terms.ts';
import type { Conditions } from './conditions.ts';
import type { LinkReport, TokenReport } from './inspect.ts';
import { parseScope, type Right, type ScopeEntry } from './scope.ts';

/** The report as lines of text. */
export function describeReport(report: TokenReport): string[] {
  const { links, state } = report;
  return [
    ...links.flatMap((link, i) => [...describeLink(link, links[i - 1]), '']),
    `What remains: ${stateWords[state]}`,
    ...indent(describeRemains(links)),
  ];
}

const stateWords: Record<TokenReport['state'], string> = {
  usable: 'usable now, if its first link is genuine and none was revoked',
  'not-yet-valid': 'not valid yet',
  expired: 'expired',
  invalid: 'nothing: the gateway would refuse it',
};

function describeLink(link: LinkReport, parent: LinkReport | undefined): string[] {
  return [
    `Link ${link.index}  ${link.id}`,
    ...indent([
      `signed by ${signerWords(link)}`,
      ...(parent === undefined ? grants(link) : [`narrows: ${narrowings(link, parent)}`]),
      ...(link.fault === undefined ? [] : [`WRONG: ${link.fault}`]),
    ]),
  ];
}

const checkedWords: Record<LinkReport['signature'], string> = {
  valid: 'the signature is right',
  invalid: 'THE SIGNATURE IS WRONG',
  unchecked: "not checked: the signer's key is not at hand",
};

function signerWords({ signedBy, signer, signature }: LinkReport): string {
  const who = {
    gateway: `the gateway ${signer}`,
    principal: `the principal's own key ${signer}`,
    parent: `the key ${signer}, to which the link above is bound`,
  }[signedBy];
  return `${who} (${checkedWords[signature]})`;
}

function grants(link: LinkReport): string[] {
  return [
    `acts for ${link.subject} at ${link.audience}`,
    ...scopeWords(link.scope).map((words) => `may ${words}`),
    timeWords(link),
    ...restrictions(link),
    useWords(link),
  ];
}

function narrowings(link: LinkReport, parent: LinkReport): string {
  const words: string[] = [];
  if (link.scope !== parent.scope) words.push(`may only ${scopeWords(link.scope).join('; ')}`);
  if (link.expiresAt !== parent.expiresAt || link.notBefore > parent.notBefore) {
    words.push(timeWords(link));
  }
  words.push(...restrictions(link));
  if (link.linksLeft < parent.linksLeft - 1) words.push(leftWords(link));
  return words.length === 0 ? 'nothing' : words.join('; ');
}

function describeRemains(links: readonly LinkReport[]): string[] {
  const last = links.at(-1) as LinkReport;
  return [
    `acts for ${last.subject} at ${last.audience}`,
    ...scopeWords(last.scope).map((words) => `may ${words}`),
    timeWords(last),
    ...links.flatMap((link) => restrictions(link).map((words) => `${words} (link ${link.index})`)),
    useWords(last),
  ];
}

function timeWords({ notBefore, expiresAt }: LinkReport): string {
  return `from ${notBefore} until ${expiresAt}`;
}

function useWords(link: LinkReport): string {
  if (link.boundTo === null) return 'whoever bears it may use it; it cannot be passed on';
  return `only with a proof of the key ${link.boundTo}; ${leftWords(link)}`;
}

function leftWords({ linksLeft }: LinkReport): string {
  if (linksLeft === 0) return 'it cannot be passed on';
  return `it can be passed on ${linksLeft === 1 ? 'once' : `${linksLeft} times`}`;
}

function restrictions({ limits, conditions }: LinkReport): string[] {
  return [...(conditions ? conditionWords(conditions) : []), ...(limits ? limitWords(limits) : [])];
}

function conditionWords({ networks, classes, objectBytesMax }: Conditions): string[] {
  const words: string[] = [];
  if (networks) words.push(`only from ${networks.join(', ')}`);
  if (classes) words.push(`writes only into the classes ${classes.join(', ')}`);
  if (objectBytesMax !== undefined) words.push(`writes objects of at most ${objectBytesMax} bytes`);
  return words;
}

function limitWords(limits: Limits): string[] {
  return Object.entries(limits).flatMap(([name, amounts]) =>
    Object.entries(amounts).map(([part, amount]) => {
      if (name === 'rate') return `at most ${amount} ${part} per second`;
      const what = name === 'spend' ? `${amount} USD` : `${amount} ${name}`;
      return `at most ${what} ${part === 'total' ? 'in all' : `per ${part}`}`;
    }),
  );
}

const rightWords: Record<Exclude<Right, 'admin'>, string> = {
  read: 'read and list',
  create: 'create, but never overwrite,',
  modify: 'create, overwrite and delete',
  stage: 'stage, read and list',
};

/** What a scope allows, an entry a line: `read and list below b/p/`. */
export function scopeWords(scope: string): string[] {
  return parseScope(scope).map(entryWords);
}

function entryWords(entry: ScopeEntry): string {
  if (entry.right === 'admin') return 'use the native API, as far as its principal may';
  return `${rightWords[entry.right]} ${placeWords(entry)}`;
}

function placeWords({ bucket, prefix }: ScopeEntry): string {
  if (bucket === null) return 'in every bucket';
  if (prefix === '') return `in the bucket ${bucket}`;
  return prefix.endsWith('/')
    ? `below ${bucket}/${prefix}`
    : `${bucket}/${prefix} and all below it`;
}

function indent(lines: readonly string[]): string[] {
  return lines.map((line) => `  ${line}`);
}
