// The storage class that a write is in, and the store where its bytes go. Invariant: what is stored
// is the name of a class, never an alias; and a class that cannot be kept is refused, never another
// written in its place.
import type { Bucket } from '../../../catalog/buckets.ts';
import type { RetentionMode } from '../../../catalog/object-lock.ts';
import type { Attributes } from '../../../catalog/versions.ts';
import { awsClasses } from '../../../core/aws-classes.ts';
import { Refusal } from '../../../core/errors.ts';
import { localStore, localStoreName } from '../../../core/manifest.ts';
import { attachedRecipe, readRecipePlace, recipeName } from '../../../core/recipe.ts';
import type { PriceBook } from '../../../quota/prices/price-book.ts';
import type { StorageClass } from '../../../state/class-book.ts';
import type { RequestServices } from '../../services.ts';
import type { S3Request } from '../request.ts';
import type { Reserved } from '../stages.ts';

export const standardClass = 'STANDARD';
export const classHeader = 'x-amz-storage-class';

type ClassServices = Pick<RequestServices, 'classes' | 'stores'>;

/** The class that a header means in a tenant, by alias or name; undefined: none. */
export function findClass(
  { classes }: Pick<ClassServices, 'classes'>,
  tenant: string,
  { headers }: Pick<S3Request, 'headers'>,
): StorageClass | undefined {
  const asked = headers[classHeader];
  if (asked === undefined || asked === standardClass) return undefined;
  return classes.aliased(tenant, asked) ?? classes.named(tenant, asked);
}

/**
 * The name of the class that is asked for. Throws `Refusal` InvalidStorageClass, or NotImplemented
 * for one that nothing can be written to.
 */
export function readClass({ request, bucket, services }: Reserved<'object'>): string {
  const asked = request.headers[classHeader] ?? standardClass;
  if (asked === standardClass) return standardClass;
  const found = findClass(services, bucket.tenant, request);
  if (!found && !awsClasses.has(asked)) {
    throw new Refusal('InvalidStorageClass', { fields: { StorageClassRequested: asked } });
  }
  return checkWritable(services, bucket, found, { Header: classHeader }).name;
}

/**
 * The class that a lifecycle rule names by an alias, or by its own name. Throws `Refusal`
 * MalformedXML, or NotImplemented for one that nothing can be moved to.
 */
export function readTransitionClass(
  services: ClassServices,
  bucket: Bucket,
  asked: string,
): StorageClass {
  const { classes } = services;
  const found = classes.aliased(bucket.tenant, asked) ?? classes.named(bucket.tenant, asked);
  // Nothing moves up there, as on AWS.
  const isKnown = awsClasses.has(asked) && asked !== standardClass;
  if (!found && !isKnown) throw new Refusal('MalformedXML');
  return checkWritable(services, bucket, found, { Element: 'StorageClass' });
}

function checkWritable(
  services: ClassServices,
  bucket: Bucket,
  found: StorageClass | undefined,
  fields: Record<string, string>,
): StorageClass {
  if (!found) throw new Refusal('NotImplemented', { fields });
  const { tier } = found.definition;
  if (tier) {
    const message = `Nothing is written to ${found.name}: what is in ${tier.of} moves there.`;
    throw new Refusal('NotImplemented', { message, fields });
  }
  const obstacle = findClassObstacle(services, bucket, found);
  if (obstacle === null) return found;
  const message = `Nothing can be written to the class ${found.name}. ${obstacle}`;
  throw new Refusal('NotImplemented', { message, fields });
}

/** Why nothing can be written to a class in this bucket; null: it can. */
export function findClassObstacle(
  { stores }: Pick<ClassServices, 'stores'>,
  { store }: Bucket,
  { definition }: StorageClass,
): string | null {
  const { access, durability } = definition;
  const { legs } = durability;
  // A rebuild from the stores would find the catalog of the bucket, and no bytes.
  if (store !== localStore && legs.some((leg) => leg.store === localStoreName)) {
    return 'A leg of it is the data folder, and the bucket is in another store.';
  }
  let archive: string | null = null;
  for (const [index, { store: leg }] of legs.entries()) {
    const number = stores.numberOf(leg);
    if (number === undefined) continue;
    const isOnline = stores.declaredOf(number).kind === 'online';
    if (access === 'restore' || (isOnline && archive === null)) continue;
    if (archive !== null && isOnline) return `${archive} is an archive, and comes before ${leg}.`;
    // A copy in an archive of S3 is for the others, and is not read for requests.
    if (index === 0 || !stores.isArchive(number)) {
      return `${leg} is an archive, which is read after a restore.`;
    }
    archive = leg;
  }
  return null;
}

/** How long a class takes until what is asked for is there. Milliseconds. */
export function recallDelayOf(services: ClassServices, tenant: string, name: string): number {
  const [first] = configuredLegs(services, tenant, name);
  return first === undefined ? 0 : (services.stores.declaredOf(first).recallDelayMs ?? 0);
}

/** The numbers of the stores of a class's legs that are configured, in their order. */
function configuredLegs(
  { classes, stores }: ClassServices,
  tenant: string,
  name: string,
): number[] {
  const legs = classes.named(tenant, name)?.definition.durability.legs ?? [];
  return legs.flatMap(({ store }) => stores.numberOf(store) ?? []);
}

/**
 * The number of the store where the bytes of a class go. Throws `Refusal` ServiceUnavailable where
 * it is not configured.
 */
export function storeOfClass(
  services: ClassServices,
  bucket: Pick<Bucket, 'tenant' | 'store'>,
  name: string,
): number {
  if (name === standardClass) return bucket.store;
  const [first] = services.classes.named(bucket.tenant, name)?.definition.durability.legs ?? [];
  const number = first && services.stores.numberOf(first.store);
  if (number !== undefined) return number;
  throw noStoreOf(name);
}

/**
 * The number of the store that answers for what is in a class, and so says what a read of it costs:
 * of the first leg that is configured. Throws `Refusal` ServiceUnavailable where none is.
 */
export function answeringStore(
  services: ClassServices,
  bucket: Pick<Bucket, 'tenant' | 'store'>,
  name: string,
): number {
  if (name === standardClass) return bucket.store;
  const [first] = configuredLegs(services, bucket.tenant, name);
  if (first !== undefined) return first;
  throw noStoreOf(name);
}

function noStoreOf(name: string): Refusal {
  const message = `The store of the class ${name} is not configured.`;
  return new Refusal('ServiceUnavailable', { message });
}

/**
 * The price books in force by which what is in a class is charged as long as it is there: of each
 * copy one. A store that is not configured has the book of the first that is, or the bucket's.
 */
export function storageBooksOf(
  { classes, stores, bookOf }: ClassServices & Pick<RequestServices, 'bookOf'>,
  bucket: Pick<Bucket, 'tenant' | 'store'>,
  name: string,
): PriceBook[] {
  const legs = classes.named(bucket.tenant, name)?.definition.durability.legs ?? [];
  const numbers = legs.map(({ store }) => stores.numberOf(store));
  const usual = numbers.find((number) => number !== undefined) ?? bucket.store;
  const known = numbers.length > 0 ? numbers : [usual];
  return known.map((number) => bookOf(number ?? usual));
}

/** The legs of a class that has several, by the numbers of their stores. */
export interface SeveralLegs {
  stores: number[];
  /** How many have a write before it is acknowledged. */
  ack: number;
}

/** null: the bytes go to one store. Throws `Refusal` ServiceUnavailable as `storeOfClass` does. */
export function severalLegs(
  services: ClassServices,
  bucket: Pick<Bucket, 'tenant'>,
  name: string,
): SeveralLegs | null {
  if (name === standardClass) return null;
  const durability = services.classes.named(bucket.tenant, name)?.definition.durability;
  if (!durability || durability.legs.length === 1) return null;
  const stores = durability.legs.map(({ store }) => numberOfLeg(services, name, store));
  return { stores, ack: durability.ack };
}

/**
 * Whether what is in a class is read after a restore: the class says so, or the stores of its legs
 * that are configured are archives of S3 by now, from which nothing is read otherwise.
 */
export function isReadAfterRestore(services: ClassServices, tenant: string, name: string): boolean {
  if (services.classes.named(tenant, name)?.definition.access === 'restore') return true;
  const stores = configuredLegs(services, tenant, name);
  return stores.length > 0 && stores.every((store) => services.stores.isArchive(store));
}

/**
 * Whether reads of a class ask the copy that is fastest, and not the first. What is restored was
 * recalled in the first alone.
 */
export function answersAny(services: ClassServices, tenant: string, name: string): boolean {
  if (name === standardClass) return false;
  const definition = services.classes.named(tenant, name)?.definition;
  const isAny = definition?.availability.answer === 'any';
  return isAny && !isReadAfterRestore(services, tenant, name);
}

function numberOfLeg({ stores }: ClassServices, name: string, store: string): number {
  const number = stores.numberOf(store);
  if (number !== undefined) return number;
  const message = `The store ${store} of the class ${name} is not configured.`;
  throw new Refusal('ServiceUnavailable', { message });
}

/**
 * Whether what is in one class can be in the other by sharing its bytes: they are in one store, or
 * in the same several, where a write of the one waited for as many copies as one of the other.
 */
export function shareStore(
  services: ClassServices,
  from: { bucket: Bucket; className: string },
  to: { bucket: Bucket; className: string },
): boolean {
  const [source, target] = [from, to].map((of) => placesOf(services, of));
  if (!source || !target) return false;
  return source.stores.join() === target.stores.join() && source.ack >= target.ack;
}

/** Where what is in a class lies, by the names of stores; undefined: there is no such class. */
function placesOf(
  { classes, stores }: ClassServices,
  { bucket, className }: { bucket: Bucket; className: string },
): { stores: string[]; ack: number } | undefined {
  if (className === standardClass) return { stores: [stores.nameOf(bucket.store)], ack: 1 };
  const durability = classes.named(bucket.tenant, className)?.definition.durability;
  return durability && { stores: durability.legs.map(({ store }) => store), ack: durability.ack };
}

/**
 * What clients are shown of a class, or of that whose tier it is: the first alias that means it to
 * them, or else its name.
 */
export function shownClass(
  { classes }: Pick<ClassServices, 'classes'>,
  tenant: string,
  name: string,
): string {
  if (name === standardClass) return name;
  const found = classes.chainOf(tenant, name) ?? classes.named(tenant, name);
  const aliases = found?.definition.aliases ?? [];
  // An alias of everybody's class means another where the tenant has one of its own with it.
  return aliases.find((alias) => classes.aliased(tenant, alias)?.name === found?.name) ?? name;
}

/** The headers that tell of the class of an object: of STANDARD nothing, as on AWS. */
export function classHeaders(
  services: Pick<ClassServices, 'classes'>,
  tenant: string,
  name: string,
): Record<string, string> {
  if (name === standardClass) return {};
  return { [classHeader]: shownClass(services, tenant, name), 'x-bursar-class': name };
}

/**
 * Throws `Refusal` InvalidRequest where nothing may be lost, and the class can lose it: what is
 * locked in compliance mode, by itself or by the bucket's default, has to be there as long as it
 * says. The ledger decides it for good (catalog/class-locks.ts); here it is said in words, and
 * before a body is sent.
 */
export function checkLock(
  { classes }: Pick<ClassServices, 'classes'>,
  { tenant, objectLock }: Pick<Bucket, 'tenant' | 'objectLock'>,
  name: string,
  { retention = objectLock?.default }: { retention?: { mode: RetentionMode } | undefined },
): void {
  if (name === standardClass || retention?.mode !== 'COMPLIANCE') return;
  if (classes.named(tenant, name)?.definition.loss === 'refuse') return;
  throw new Refusal('InvalidRequest', {
    message: `The class ${name} can lose objects, which a retention in compliance mode forbids.`,
  });
}

/**
 * Throws `Refusal` InvalidRequest where objects of the class have recipes, and this one has none
 * that can be read, in its metadata or its tags; or where a customer's key encrypts it, which
 * nobody has who makes it again.
 */
export function checkRecipe(
  { classes }: Pick<ClassServices, 'classes'>,
  { tenant }: Pick<Bucket, 'tenant'>,
  name: string,
  attributes: Pick<Attributes, 'metadata' | 'tags' | 'customer'>,
): void {
  if (name === standardClass) return;
  if (classes.named(tenant, name)?.definition.loss !== 'recipe') return;
  if (attributes.customer) {
    const message = `An object of the class ${name} is made again by a recipe, without a key.`;
    throw new Refusal('InvalidRequest', { message });
  }
  const said = attachedRecipe(attributes);
  const place = said === undefined ? 'It has none.' : readRecipePlace(said);
  if (typeof place !== 'string') return;
  const needs = `An object of the class ${name} has a recipe, as metadata or tag ${recipeName}.`;
  throw new Refusal('InvalidRequest', { message: `${needs} ${place}` });
}
