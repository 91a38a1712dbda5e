// The document of a bucket's CORS rules, read strictly: what is not understood may have been a
// restriction. Specification: PutBucketCors and GetBucketCors of the Amazon S3 API reference.
import { Refusal } from '../../../core/errors.ts';
import { corsInfixesMax, corsRulesMax } from '../../../core/limits.ts';
import { textOf, type XmlElements, type XmlNode } from '../../http/xml.ts';
import { type CorsRule, corsMethods } from './cors.ts';

const idLengthMax = 255;
const known = ['ID', 'AllowedHeader', 'AllowedMethod', 'AllowedOrigin', 'ExposeHeader'];

/**
 * The rules of a document, which has this root. Throws `Refusal` MalformedXML or InvalidRequest.
 */
export function parseCorsRules({ children }: XmlNode): CorsRule[] {
  if (children.some(({ name }) => name !== 'CORSRule')) throw new Refusal('MalformedXML');
  if (children.length === 0 || children.length > corsRulesMax) throw new Refusal('MalformedXML');
  const rules = children.map(parseRule);
  const infixes = rules.flatMap(({ allowedHeaders }) => allowedHeaders.filter(isInfix));
  if (infixes.length <= corsInfixesMax) return rules;
  throw invalid(
    `More than ${corsInfixesMax} values of AllowedHeader have a wildcard in their middle.`,
  );
}

/** Is something on both sides of its star? */
function isInfix(pattern: string): boolean {
  return /.\*./.test(pattern);
}

function parseRule(node: XmlNode): CorsRule {
  const isKnown = ({ name }: XmlNode): boolean => known.includes(name) || name === 'MaxAgeSeconds';
  if (!node.children.every(isKnown)) throw new Refusal('MalformedXML');
  const id = textOf(node, 'ID');
  if (id !== undefined && id.length > idLengthMax) throw new Refusal('MalformedXML');
  const rule = {
    ...(id !== undefined && { id }),
    allowedHeaders: textsOf(node, 'AllowedHeader').map((text) =>
      checkStars('AllowedHeader', checkName('AllowedHeader', text)),
    ),
    allowedMethods: textsOf(node, 'AllowedMethod').map(checkMethod),
    allowedOrigins: textsOf(node, 'AllowedOrigin').map((text) =>
      checkStars('AllowedOrigin', checkOrigin(text)),
    ),
    exposeHeaders: textsOf(node, 'ExposeHeader').map((text) =>
      checkName('ExposeHeader', checkExposed(text)),
    ),
    ...parseMaxAge(textOf(node, 'MaxAgeSeconds')?.trim()),
  };
  if (rule.allowedMethods.length === 0 || rule.allowedOrigins.length === 0) {
    throw new Refusal('MalformedXML');
  }
  return rule;
}

/** The texts of all children of this name. */
function textsOf({ children }: XmlNode, wanted: string): string[] {
  return children.filter(({ name }) => name === wanted).map(({ text }) => text.trim());
}

/** What can be no header, or stand for one, is never sent as one. */
function checkName(name: string, text: string): string {
  if (/^[\w!#$%&'*+.^`|~-]+$/.test(text)) return text;
  throw invalid(`${name} "${text}" contains invalid character.`);
}

function checkOrigin(text: string): string {
  if (/^[\x21-\x7e]+$/.test(text)) return text;
  throw new Refusal('MalformedXML');
}

function checkStars(name: string, text: string): string {
  if (text.indexOf('*') === text.lastIndexOf('*')) return text;
  throw invalid(`${name} "${text}" can not have more than one wildcard.`);
}

function checkMethod(text: string): string {
  if ((corsMethods as readonly string[]).includes(text)) return text;
  throw invalid(`Found unsupported HTTP method in CORS config. Unsupported method is ${text}`);
}

function checkExposed(text: string): string {
  if (!text.includes('*')) return text;
  throw invalid(`ExposeHeader "${text}" contains wildcard, which is not supported.`);
}

function parseMaxAge(text: string | undefined): Pick<CorsRule, 'maxAgeSeconds'> {
  if (text === undefined) return {};
  // A browser takes a negative age for none (Fetch, section "CORS-preflight fetch").
  if (/^-?\d{1,9}$/.test(text)) return { maxAgeSeconds: Number(text) };
  throw new Refusal('MalformedXML');
}

function invalid(message: string): Refusal {
  return new Refusal('InvalidRequest', { message });
}

/** The content of a CORSConfiguration. */
export function corsElements(rules: readonly CorsRule[]): XmlElements {
  return {
    CORSRule: rules.map((rule) => ({
      ID: rule.id,
      AllowedHeader: rule.allowedHeaders,
      AllowedMethod: rule.allowedMethods,
      AllowedOrigin: rule.allowedOrigins,
      ExposeHeader: rule.exposeHeaders,
      MaxAgeSeconds: rule.maxAgeSeconds,
    })),
  };
}
