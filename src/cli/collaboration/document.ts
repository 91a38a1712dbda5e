// Reads what `bursar apply -f` is given and `bursar dump` writes: YAML that describes tenants and
// what belongs to them (docs/admin/apply.md). Invariants: what is not understood is refused, with
// its line and its field; anchors and aliases are not taken, so that a file is as large as it
// looks.
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  stringify,
} from 'yaml';
import { messageOfFailure } from '../../core/command-failure.ts';
import { namePart } from '../../core/names.ts';
import { isLevel, type Meter } from '../../core/quota-terms.ts';
import { parseSize } from '../../server/settings/quantities.ts';
import {
  checkName,
  type Entry,
  type Gathered,
  type Kind,
  type Members,
  type Value,
  wrong,
} from './entries.ts';

const depthMax = 12;
const noAliases = 'anchors and aliases are not taken';
const accountForm = new RegExp(`^[a-z]+:${namePart}(?:/.+)?$`, 's');

type Shape = 'text' | 'boolean' | 'number' | 'names' | 'members';

/** What may be said of an entry, besides its name. */
const fields: Readonly<Record<Kind, Readonly<Record<string, Shape>>>> = {
  tenant: {
    ...{ membersCreateBuckets: 'boolean', membersMountBuckets: 'boolean' },
    ...{ defaultStore: 'text', recordReads: 'text' },
  },
  group: {},
  principal: { kind: 'text', role: 'text', groups: 'names', active: 'boolean' },
  bucket: { owner: 'text', recordReads: 'text', readsPaidBy: 'text', undeleteSeconds: 'number' },
  mount: { bucket: 'text', at: 'text', where: 'text' },
  issuer: { url: 'text', audience: 'text', mapping: 'members' },
  grant: {
    ...{ effect: 'text', subjects: 'names', actions: 'names', bucket: 'text', prefix: 'text' },
    ...{ key: 'text', alias: 'text', conditions: 'members' },
  },
  limit: {},
};

/** What a tenant has, by the name of the list. */
const lists: Readonly<Record<string, Kind>> = {
  ...{ groups: 'group', principals: 'principal', buckets: 'bucket' },
  ...{ mounts: 'mount', issuers: 'issuer', grants: 'grant' },
};

/** What must be said. */
const needed: Partial<Record<Kind, readonly string[]>> = {
  mount: ['bucket'],
  issuer: ['url', 'audience', 'mapping'],
  grant: ['subjects', 'actions'],
};

/** What is wrong names its line. */
export function readDocument(file: string, text: string, into: Gathered): void {
  const lines = new LineCounter();
  let document: ReturnType<typeof parseDocument>;
  try {
    document = parseDocument(text, { lineCounter: lines, prettyErrors: false, merge: false });
  } catch (error) {
    throw wrong(file, messageOfFailure(error));
  }
  for (const error of document.errors) {
    const at = `${file}:${lines.linePos(error.pos[0]).line}`;
    into.attempt(() => {
      throw wrong(at, messageOfFailure(error));
    });
  }
  if (document.errors.length > 0) return;
  new Reader(file, lines, into).read(document.contents as Node | null);
}

class Reader {
  readonly #file: string;
  readonly #lines: LineCounter;
  readonly #into: Gathered;

  constructor(file: string, lines: LineCounter, into: Gathered) {
    this.#file = file;
    this.#lines = lines;
    this.#into = into;
  }

  read(root: Node | null): void {
    for (const [name, node, at] of this.#membersOf(root, 'the file', `${this.#file}:1`)) {
      this.#into.attempt(() => {
        if (name !== 'tenants' && name !== 'limits') {
          throw wrong(at, `${name} is not known here: say tenants or limits`);
        }
        const read = name === 'tenants' ? this.#readTenant : this.#readAccount;
        for (const [of, one, place] of this.#membersOf(node, name, at)) {
          this.#into.attempt(() => read.call(this, of, one, place));
        }
      });
    }
  }

  #readAccount(account: string, node: Node | null, at: string): void {
    if (!accountForm.test(account)) {
      throw wrong(at, `limits: ${account} must be such as principal:cms/alice`);
    }
    const value = new Map<string, Value>();
    for (const [meter, one, place] of this.#membersOf(node, `limits.${account}`, at)) {
      this.#into.attempt(() => {
        const field = `limits.${account}.${meter}`;
        value.set(
          meter,
          readWindows(meter, this.#valueOf(one, field, place), { field, at: place }),
        );
      });
    }
    this.#into.add({ kind: 'limit', name: account, value: Object.fromEntries(value), at });
  }

  #readTenant(tenant: string, node: Node | null, at: string): void {
    checkName(tenant, 'tenants', at);
    const own: [string, Value][] = [];
    for (const [name, one, place] of this.#membersOf(node, tenant, at)) {
      const kind = lists[name];
      const field = `${tenant}.${name}`;
      this.#into.attempt(() => {
        if (kind !== undefined) this.#readList(tenant, kind, one, { field, at: place });
        else own.push([name, this.#fieldOf('tenant', name, one, { field, at: place })]);
      });
    }
    this.#into.add({ kind: 'tenant', name: tenant, value: Object.fromEntries(own), at });
  }

  #readList(tenant: string, kind: Kind, list: Node | null, { field, at: place }: Place): void {
    this.#into.say(kind, tenant);
    // Groups have nothing but a name.
    if (kind === 'group' && isSeq(list)) {
      for (const one of list.items as Node[]) {
        const at = this.#placeOf(one, place);
        this.#into.attempt(() => {
          const name = this.#valueOf(one, field, at);
          if (typeof name !== 'string') throw wrong(at, `${field} must be names`);
          this.#enter({ kind, name, value: {}, at }, tenant, field);
        });
      }
      return;
    }
    for (const [name, one, at] of this.#membersOf(list, field, place)) {
      this.#into.attempt(() => {
        const value = this.#readEntry(kind, one, { field: `${field}.${name}`, at });
        this.#enter({ kind, name, value, at }, tenant, field);
      });
    }
  }

  #readEntry(kind: Kind, node: Node | null, { field, at }: Place): Members {
    const said = new Map<string, Value>();
    for (const [member, one, place] of this.#membersOf(node, field, at)) {
      said.set(member, null);
      this.#into.attempt(() => {
        const ofMember = { field: `${field}.${member}`, at: place };
        said.set(member, this.#fieldOf(kind, member, one, ofMember));
      });
    }
    const lacking = needed[kind]?.find((member) => !said.has(member));
    if (lacking) throw wrong(at, `${field} says no ${lacking}`);
    return Object.fromEntries(said);
  }

  #enter(entry: Entry, tenant: string, field: string): void {
    checkName(entry.name, field, entry.at);
    this.#into.add({ ...entry, name: `${tenant}/${entry.name}` });
  }

  #fieldOf(kind: Kind, name: string, node: Node | null, { field, at }: Place): Value {
    const shape = Object.hasOwn(fields[kind], name) ? fields[kind][name] : undefined;
    if (shape === undefined) {
      const known = [
        ...Object.keys(fields[kind]),
        ...(kind === 'tenant' ? Object.keys(lists) : []),
      ];
      throw wrong(at, `${field} is not known: a ${kind} has ${known.join(', ') || 'only a name'}`);
    }
    const value = this.#valueOf(node, field, at);
    if (value === null || fits(value, shape)) return value;
    throw wrong(at, `${field} must be ${shapeWords[shape]}`);
  }

  /** The members of a mapping, with their lines; none of nothing. */
  *#membersOf(
    node: Node | null,
    field: string,
    at: string,
  ): Generator<[string, Node | null, string]> {
    if (node === null || (isScalar(node) && node.value === null)) return;
    const notMap = isAlias(node) ? `${field}: ${noAliases}` : `${field} must be a mapping`;
    if (!isMap(node)) throw wrong(this.#placeOf(node, at), notMap);
    for (const { key, value } of node.items as Pair<Node, Node | null>[]) {
      const place = this.#placeOf(key, at);
      const name = isScalar(key) ? String(key.value) : undefined;
      if (name === undefined) throw wrong(place, `${field} has a key that is no text`);
      yield [name, value, place];
    }
  }

  #valueOf(node: Node | null, field: string, at: string, depth = 0): Value {
    const place = this.#placeOf(node, at);
    if (depth > depthMax) throw wrong(place, `${field} is too deep`);
    if (node === null) return null;
    if (isScalar(node)) {
      const { value } = node;
      if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) {
        return value as string | number | boolean | null;
      }
      throw wrong(place, `${field} must be plain`);
    }
    if (isSeq(node)) {
      return (node.items as Node[]).map((one) => this.#valueOf(one, field, at, depth + 1));
    }
    if (!isMap(node)) throw wrong(place, `${field}: ${noAliases}`);
    const members = [...this.#membersOf(node, field, at)].map(
      ([name, one, where]) =>
        [name, this.#valueOf(one, `${field}.${name}`, where, depth + 1)] as const,
    );
    return Object.fromEntries(members);
  }

  #placeOf(node: Node | null, at: string): string {
    const start = node?.range?.[0];
    return start === undefined ? at : `${this.#file}:${this.#lines.linePos(start).line}`;
  }
}

interface Place {
  field: string;
  at: string;
}

const shapeWords: Readonly<Record<Shape, string>> = {
  ...{ text: 'a text', boolean: 'true or false', number: 'a whole number' },
  ...{ names: 'a list of texts', members: 'a mapping' },
};

function fits(value: Value, shape: Shape): boolean {
  switch (shape) {
    case 'names':
      return Array.isArray(value) && value.every((one) => typeof one === 'string');
    case 'members':
      return typeof value === 'object' && !Array.isArray(value);
    case 'number':
      return Number.isSafeInteger(value) && (value as number) >= 0;
    case 'text':
      return typeof value === 'string';
    default:
      return typeof value === shape;
  }
}

/** Sizes may be written as 50GiB, and money as a number. */
function readWindows(meter: string, said: Value, { field, at }: Place): Members {
  // Of what is stored there is one window only.
  const isAmount = typeof said === 'string' || typeof said === 'number';
  const windows = isLevel(meter as Meter) && isAmount ? { total: said } : said;
  if (typeof windows !== 'object' || windows === null || Array.isArray(windows)) {
    throw wrong(at, `${field} must say a window, such as month`);
  }
  const amounts = Object.entries(windows as Members).map(([window, amount]) => {
    const isSize = /bytes$/i.test(meter === 'rate' ? window : meter);
    try {
      return [window, amountOf(amount, { isSize, isMoney: meter === 'spend' })] as const;
    } catch (error) {
      throw wrong(at, `${field}.${window} ${messageOfFailure(error)}`);
    }
  });
  return Object.fromEntries(amounts);
}

function amountOf(
  amount: Value,
  { isSize, isMoney }: { isSize: boolean; isMoney: boolean },
): Value {
  if (isMoney && (typeof amount === 'number' || typeof amount === 'string')) {
    return plainMoney(String(amount));
  }
  if (isSize && typeof amount === 'string') return parseSize(amount);
  if (typeof amount === 'number') return amount;
  throw new Error('must be an amount');
}

/** `20.50` is `20.5`. */
export function plainMoney(amount: string): string {
  return /^\d+\.\d+$/.test(amount) ? amount.replace(/\.?0+$/, '') : amount;
}

/** The same form. */
export function writeDocument(entries: Iterable<Entry>): string {
  const tenants: Record<string, Record<string, unknown>> = {};
  const limits: Record<string, Value> = {};
  for (const { kind, name, value } of entries) {
    const [tenant = '', own = ''] = name.split('/');
    if (kind === 'limit') limits[name] = value;
    else if (kind === 'tenant') tenants[tenant] = { ...value, ...tenants[tenant] };
    else {
      tenants[tenant] ??= {};
      const list = Object.keys(lists).find((one) => lists[one] === kind) as string;
      if (kind === 'group') {
        tenants[tenant][list] = [...((tenants[tenant][list] as string[]) ?? []), own];
      } else tenants[tenant][list] = { ...(tenants[tenant][list] as object), [own]: value };
    }
  }
  const all = Object.keys(limits).length > 0 ? { tenants, limits } : { tenants };
  return stringify(all, { aliasDuplicateObjects: false, lineWidth: 0 });
}
