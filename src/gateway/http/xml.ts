// S3's XML. Writing: elements from plain values. Reading: a strict, bounded tree of elements and
// text (saxes); a document type, an entity of its own, depth, size or number beyond the limits is
// refused, so there is nothing to expand. XML 1.0, and the S3 API reference for the documents
// themselves.
import { SaxesParser } from 'saxes';
import { Refusal } from '../../core/errors.ts';
import { xmlBytesMax, xmlDepthMax, xmlNodesMax } from '../../core/limits.ts';
import { Pace } from '../../core/pace.ts';
import { echoedInXml } from './echo.ts';

const s3Namespace = 'http://s3.amazonaws.com/doc/2006-03-01/';

/** A value of an element: text, number, nested elements, or several of the same name. */
export type XmlValue =
  | string
  | number
  | boolean
  | null
  | undefined
  | XmlElements
  | readonly XmlValue[];
export interface XmlElements {
  [name: string]: XmlValue;
}

/** What a document's root has in it: a list is rendered one after another. */
export type XmlContent = XmlElements | readonly XmlElements[] | string;

/** A whole document. `null` and `undefined` members are left out; the namespace may be none. */
export function renderXml(
  root: string,
  content: XmlContent,
  namespace: string | null = s3Namespace,
): string {
  return enclose(root, renderContent(content), namespace);
}

function enclose(root: string, inner: string, namespace: string | null): string {
  const named = namespace === null ? root : `${root} xmlns="${namespace}"`;
  const element = inner === '' ? `<${named}/>` : `<${named}>${inner}</${root}>`;
  return `<?xml version="1.0" encoding="UTF-8"?>\n${element}`;
}

/** The same of what may have many elements, in which others have their turns. */
export async function renderLargeXml(
  root: string,
  content: XmlElements | readonly XmlElements[],
): Promise<string> {
  const pace = new Pace();
  let inner = '';
  for (const one of isList(content) ? (content as readonly XmlElements[]) : [content]) {
    for (const [name, value] of Object.entries(one)) {
      for (const each of typeof value === 'object' && value && isList(value) ? value : [value]) {
        inner += element(name, each);
        if (pace.isDue) await pace.wait();
      }
    }
  }
  return enclose(root, inner, s3Namespace);
}

/**
 * An error document, S3's where nothing else is said. It gives back what may be no text of XML's,
 * and is well-formed all the same; documents of S3's that name keys have to name them as they are.
 */
export function renderErrorXml(
  content: XmlElements,
  root = 'Error',
  namespace: string | null = null,
): string {
  return renderXml(root, echoedElements(content), namespace);
}

function echoedElements(content: XmlElements): XmlElements {
  const out: XmlElements = {};
  for (const name in content) {
    const value = content[name];
    if (typeof value === 'string') out[name] = echoedInXml(value);
    else if (typeof value === 'object' && value !== null && !isList(value)) {
      out[name] = echoedElements(value as XmlElements);
    } else out[name] = value;
  }
  return out;
}

function renderContent(content: XmlContent): string {
  if (typeof content === 'string') return escapeXml(content);
  return isList(content) ? content.map(elements).join('') : elements(content as XmlElements);
}

function elements(content: XmlElements): string {
  let out = '';
  for (const name in content) out += element(name, content[name]);
  return out;
}

function element(name: string, value: XmlValue): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return `<${name}>${escapeXml(value)}</${name}>`;
  if (typeof value !== 'object') return `<${name}>${value}</${name}>`;
  if (isList(value)) {
    let out = '';
    for (const one of value) out += element(name, one);
    return out;
  }
  return `<${name}>${elements(value)}</${name}>`;
}

function isList(value: object): value is readonly XmlValue[] {
  return Array.isArray(value);
}

// Control characters become references, as S3 writes them: XML 1.0 cannot hold them otherwise.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const special = /[&<>"\u0000-\u001f\u007f\ufffe\uffff]/g;

export function escapeXml(text: string): string {
  special.lastIndex = 0;
  if (!special.test(text)) return text;
  return text.replace(special, (character) => {
    switch (character) {
      case '&':
        return '&amp;';
      case '<':
        return '&lt;';
      case '>':
        return '&gt;';
      case '"':
        return '&quot;';
      default:
        return `&#x${character.charCodeAt(0).toString(16)};`;
    }
  });
}

/** One element read: its local name, its text, its children. */
export interface XmlNode {
  name: string;
  /** The kind that an attribute `xsi:type` says it is of. */
  kind?: string;
  text: string;
  children: XmlNode[];
}

const onlyInXml10 = /[\u007f-\u009f\u2028]/g;

/**
 * Throws `Refusal` MalformedXML for anything but one well-formed element `root` within the limits.
 */
export function parseXml(bytes: Buffer, root: string): XmlNode {
  const reading = new Reading(bytes);
  while (!reading.read(bytes.length));
  return reading.end(root);
}

/** Characters between two turns of others: a few milliseconds, of whatever they are. */
const turnLength = 16 * 1024;

/** The same of what may be large, in which others have their turns. */
export async function parseLargeXml(bytes: Buffer, root: string): Promise<XmlNode> {
  if (bytes.length <= turnLength) return parseXml(bytes, root);
  const pace = new Pace();
  await pace.wait();
  const reading = new Reading(bytes);
  while (!reading.read(turnLength)) await pace.rest();
  return reading.end(root);
}

/** So much of a text, of shorter pieces, is a few hundred kilobytes of the heap. */
const ropeLength = 8 * 1024;
const atStart = /^/;

/**
 * A text that was put together from pieces is a tree of them to V8, dozens of bytes for each
 * reference in the document, which collections of garbage copy. Searching it makes it one piece,
 * in its place.
 */
function flatten(text: string): void {
  atStart.test(text);
}

/** A document that is being read. */
class Reading {
  readonly #text: string;
  readonly #parser = new SaxesParser({ defaultXMLVersion: '1.1', forceXMLVersion: true });
  readonly #top: XmlNode = { name: '', text: '', children: [] };
  readonly #open: XmlNode[] = [this.#top];
  #nodes = 0;
  #at = 0;
  #kind: string | null = null;
  /** Of the text that the parser is in. */
  #flatLength = 0;

  constructor(bytes: Buffer) {
    if (bytes.length > xmlBytesMax) throw new Refusal('MaxMessageLengthExceeded');
    // XML 1.1 can name control characters by reference, as keys need. But some characters that 1.0
    // takes as they are it refuses, or folds into other line ends: so those go in by reference.
    const given = decodeUtf8(bytes);
    this.#text = given.replace(onlyInXml10, (one) => `&#x${one.charCodeAt(0).toString(16)};`);
    const isChanged = this.#text !== given;
    const parser = this.#parser;
    parser.on('doctype', () => fail('a document type is not allowed'));
    parser.on('error', (error) => fail(error.message));
    parser.on('attribute', (attribute) => this.#addAttribute(attribute));
    parser.on('opentag', (tag) => this.#begin(tag.name));
    parser.on('closetag', () => void this.#open.pop());
    parser.on('text', (text) => this.#addText(text));
    parser.on('cdata', (data) =>
      isChanged ? fail('a CDATA section cannot hold this') : this.#addText(data),
    );
  }

  /** Reads on by so many characters; true: that was all. */
  read(length: number): boolean {
    this.#parser.write(this.#text.slice(this.#at, this.#at + length));
    this.#at += length;
    this.#flattenOpenText();
    return this.#at >= this.#text.length;
  }

  end(root: string): XmlNode {
    this.#parser.close();
    const [node] = this.#top.children;
    if (!node || node.name !== root) throw new Refusal('MalformedXML');
    return node;
  }

  #count(): void {
    if (++this.#nodes > xmlNodesMax) fail('the document has too many elements');
  }

  /** Attributes come before their element. Of all that there are, S3 reads one. */
  #addAttribute({ name, value }: { name: string; value: string }): void {
    this.#count();
    if (name === 'xsi:type') this.#kind = value;
  }

  #begin(tagName: string): void {
    this.#count();
    if (this.#open.length > xmlDepthMax) fail('the document is too deep');
    const colon = tagName.indexOf(':');
    const node: XmlNode = { name: tagName.slice(colon + 1), text: '', children: [] };
    if (this.#kind !== null) node.kind = this.#kind;
    this.#kind = null;
    this.#open.at(-1)?.children.push(node);
    this.#open.push(node);
  }

  /** What the parser has of a text that goes on: only itself knows it. */
  #flattenOpenText(): void {
    const { text } = this.#parser as unknown as { text: string };
    if (text.length < this.#flatLength) this.#flatLength = 0;
    if (text.length - this.#flatLength < ropeLength) return;
    flatten(text);
    this.#flatLength = text.length;
  }

  #addText(text: string): void {
    const node = this.#open.at(-1);
    if (!node) return;
    flatten(text);
    node.text += text;
  }
}

/** The only child of this name; undefined when there is none. Refuses a repeated one. */
export function childOf(node: XmlNode, name: string): XmlNode | undefined {
  const found = node.children.filter((child) => child.name === name);
  if (found.length > 1) throw new Refusal('MalformedXML');
  return found[0];
}

/**
 * The children of these names, in their order. Throws `Refusal` MalformedXML for another one, whose
 * meaning is not known, and for a repeated one.
 */
export function onlyChildren(node: XmlNode, names: readonly string[]): (XmlNode | undefined)[] {
  if (node.children.some(({ name }) => !names.includes(name))) throw new Refusal('MalformedXML');
  return names.map((name) => childOf(node, name));
}

/** The text of the only child of this name. */
export function textOf(node: XmlNode, name: string): string | undefined {
  return childOf(node, name)?.text;
}

function decodeUtf8(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new Refusal('MalformedXML', { cause });
  }
}

function fail(reason: string): never {
  throw new Refusal('MalformedXML', { cause: new Error(reason) });
}
