// Native API: the storage classes of tenants, and of everybody (docs/admin/classes.md).
import { type ClassRow, listClasses } from '../../catalog/class-rows.ts';
import { chainsOf, type Tier } from '../../catalog/tiers.ts';
import { Refusal } from '../../core/errors.ts';
import { classesPerTenantMax } from '../../core/limits.ts';
import { formatUsd } from '../../core/money.ts';
import { classNameForm } from '../../core/names.ts';
import { defaultTenant } from '../../core/principal.ts';
import { type PriceBook, usualClass } from '../../quota/prices/price-book.ts';
import {
  accessRules,
  answerRules,
  archiveTiers,
  type ClassDefinition,
  classAliases,
  decodeDefinition,
  findMisfit,
  legsMax,
  lossRules,
  minimumBytesMax,
  minimumDaysMax,
  offlineHoursMax,
  repairHoursMax,
  restoreHoursMax,
  tierDaysMax,
} from '../../tiering/classes/class-definition.ts';
import { explainClass, type ShownLeg } from '../../tiering/classes/class-words.ts';
import { undeclaredPlace } from '../../tiering/classes/declared-place.ts';
import type { NativeDeps } from './deps.ts';
import { type Call, checkPlace, param, refuseMissing, routeTable, showDated } from './route.ts';
import {
  answerObject,
  closedObject,
  integer,
  integerOrNull,
  type Json,
  text,
  textOrNull,
  time,
} from './schemas.ts';

const collection = '/_/v1/tenants/:t/classes';

const className = text('Lower-case letters, digits, underscore and hyphen, at most 63.', {
  pattern: classNameForm.source,
});

const aliases = {
  type: 'array',
  items: { type: 'string', enum: [...classAliases] },
  maxItems: classAliases.length,
  description: 'Names of AWS by which S3 clients can ask for it; listings show the first.',
} as const;

const legs = {
  type: 'array',
  items: closedObject({ store: text('Its name.', { minLength: 1, maxLength: 63 }) }, ['store']),
  minItems: 1,
  maxItems: legsMax,
  description: 'The stores that have a copy each; the first answers for requests.',
} as const;
const ack = integer('How many legs have a write before it is acknowledged; all if absent.', {
  ...{ minimum: 1, maximum: legsMax },
});
const repairHours = integer(
  'How long it may take until a lost copy is there again; 24 if absent.',
  {
    ...{ minimum: 1, maximum: repairHoursMax },
  },
);
const answer = text('Who answers reads. first: the first leg, another where it fails; any.', {
  enum: [...answerRules],
});
const maxOfflineHoursPerMonth = integer('How long it may be away in a month.', {
  ...{ minimum: 0, maximum: offlineHoursMax },
});
const access = text('online: it is read at once; restore: after a restore.', {
  enum: [...accessRules],
});
const restoreWithinHours = integerOrNull('How long a restore may take; null: access is online.', {
  ...{ minimum: 1, maximum: restoreHoursMax },
});
const loss = text(
  'Of an object all of whose copies are lost. refuse: that may not be; recipe: it is made again; ' +
    'report: it is told.',
  { enum: [...lossRules] },
);
const days = integer('What it is charged for at least.', { minimum: 0, maximum: minimumDaysMax });
const bytes = integer('As large it is charged at least.', { minimum: 0, maximum: minimumBytesMax });

const tierMembers = {
  of: text('The class that is written into; it has the alias INTELLIGENT_TIERING.', {
    pattern: classNameForm.source,
  }),
  afterDays: integer('After so many days without a read.', { minimum: 1, maximum: tierDaysMax }),
  archive: text('It is an archive, and buckets say when objects come there.', {
    enum: [...archiveTiers],
  }),
};
const tierDescription =
  'It is a tier of another class: what is in that lies here while it is not read.';

const wantedClassSchema = closedObject(
  {
    name: className,
    aliases: { ...aliases, default: [] },
    durability: closedObject({ legs, ack, repairHours: { ...repairHours, default: 24 } }, ['legs']),
    availability: {
      ...closedObject({
        answer: { ...answer, default: 'first' },
        maxOfflineHoursPerMonth: { ...maxOfflineHoursPerMonth, default: 0 },
      }),
      default: {},
    },
    access: { ...access, default: 'online' },
    restoreWithinHours: { ...restoreWithinHours, default: null },
    loss: { ...loss, default: 'refuse' },
    minimum: {
      ...closedObject({ days: { ...days, default: 0 }, bytes: { ...bytes, default: 0 } }),
      default: {},
    },
    tier: { ...closedObject(tierMembers, ['of']), description: tierDescription },
  },
  ['name', 'durability'],
);
type WantedClass = Json<typeof wantedClassSchema>;

const shownLeg = answerObject({
  store: { type: 'string' },
  kind: text('online or archive, as declared.'),
  domains: {
    ...{ type: 'array', items: { type: 'string' } },
    description: 'What may fail as one, as declared.',
  },
  annualLoss: {
    type: ['number', 'null'],
    description: 'The share that is expected to be lost in a year, as declared; null: it is not.',
  },
  storageClass: textOrNull('As which its server keeps what is written there.'),
  priceBook: textOrNull('By which it is charged now; null: the store is not configured.'),
  usdPerGbMonth: textOrNull('The first tier; null: the store is not configured.'),
});

const shownClass = answerObject({
  tenant: text(`Whose it is; ${defaultTenant}: everybody’s.`),
  name: className,
  aliases,
  durability: answerObject({ legs, ack, repairHours }),
  availability: answerObject({ answer, maxOfflineHoursPerMonth }),
  access,
  restoreWithinHours,
  loss,
  minimum: answerObject({ days, bytes }),
  tier: {
    anyOf: [closedObject(tierMembers, ['of']), { type: 'null' }],
    description: `${tierDescription} null: it is none.`,
  },
  tiers: {
    type: 'array',
    items: answerObject({
      class: { type: 'string' },
      afterDays: integerOrNull('After so many days without a read; null: it is an archive.'),
      archive: textOrNull('What buckets call it, which say when; null: it is none.'),
    }),
    description:
      'Where what is written into it lies while it is not read, in this order; of a tier itself, ' +
      'and of a class without, none.',
  },
  notWritable: textOrNull('Why nothing can be written to it; null: it can.'),
  explanation: answerObject({
    expectedAnnualLoss: {
      type: ['number', 'null'],
      description: 'Of its objects, in a year, by what is declared; null: too little is.',
    },
    sentences: { type: 'array', items: { type: 'string' } },
    legs: { type: 'array', items: shownLeg },
  }),
  createdAt: time,
});

export const classRoutes = routeTable([
  {
    method: 'POST',
    url: collection,
    action: 'bursar:CreateClass',
    summary: `Create a storage class. Of the tenant ${defaultTenant}: for everybody.`,
    status: 201,
    body: wantedClassSchema,
    answer: shownClass,
    run: async (call) => {
      const tenant = param(call, 't');
      checkEverybodys(call, tenant);
      const { name, ...wanted } = call.body as WantedClass;
      const definition = definitionOf(wanted);
      checkDefinition(call.deps, name, definition);
      return {
        change: { kind: 'createClass', tenant, name, definition },
        target: `tenants/${tenant}/classes/${name}`,
        answer: () => showClass(call, name),
      };
    },
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListClasses',
    summary:
      'List the storage classes that a tenant can use, its own and everybody’s, by name: at most ' +
      `${classesPerTenantMax} of each.`,
    answer: answerObject({ classes: { type: 'array', items: shownClass } }),
    run: async (call) => {
      await checkPlace(call);
      const rows = await listClasses(call.deps.read, param(call, 't'));
      const chains = chainsOf(rows);
      const classes = rows.flatMap((row) => show(call.deps, row, tiersOf(chains, row)) ?? []);
      return { answer: { classes } };
    },
  },
  {
    method: 'GET',
    url: `${collection}/:class`,
    action: 'bursar:GetClass',
    summary: 'Show a storage class that a tenant can use, and what one pays for what.',
    answer: shownClass,
    run: async (call) => ({ answer: await showClass(call, param(call, 'class')) }),
  },
  {
    method: 'DELETE',
    url: `${collection}/:class`,
    action: 'bursar:DeleteClass',
    summary: 'Delete a storage class in which no bucket that is there has had anything.',
    run: async (call) => {
      const tenant = param(call, 't');
      checkEverybodys(call, tenant);
      return { change: { kind: 'deleteClass', tenant, name: param(call, 'class') } };
    },
  },
]);

/** Throws AccessDenied: what is everybody's is not one tenant's to say. */
function checkEverybodys({ who }: Call, tenant: string): void {
  if (tenant !== defaultTenant || who.role === 'operator') return;
  const message = `The classes of ${defaultTenant} are everybody's: operators alone make them.`;
  throw new Refusal('AccessDenied', { message });
}

function definitionOf(wanted: Omit<WantedClass, 'name'>): ClassDefinition {
  const { durability, aliases = [], availability, minimum } = wanted;
  return {
    ...(wanted as unknown as ClassDefinition),
    aliases: aliases as ClassDefinition['aliases'],
    durability: {
      legs: durability.legs,
      ack: durability.ack ?? durability.legs.length,
      repairHours: durability.repairHours ?? 24,
    },
    availability: availability as ClassDefinition['availability'],
    minimum: minimum as ClassDefinition['minimum'],
  };
}

/** Throws InvalidInput that says which member does not fit. */
function checkDefinition({ stores }: NativeDeps, name: string, definition: ClassDefinition): void {
  const refuse = (field: string, message: string): never => {
    throw new Refusal('InvalidInput', { message, fields: { field } });
  };
  if (name === 'standard') {
    refuse('body.name', "STANDARD is each bucket's store; choose another name.");
  }
  const misfit = findMisfit(definition);
  if (misfit !== null) refuse('body', misfit);
  for (const { store } of definition.durability.legs) {
    if (stores.numberOf(store) !== undefined) continue;
    refuse('body.durability.legs', `There is no store ${store}.`);
  }
  const kinds = legsOf(stores, definition).map(({ kind }) => kind);
  if (definition.access === 'online' && !kinds.includes('online')) {
    refuse('body.access', 'Access is online, and each leg is in an archive.');
  }
}

async function showClass(call: Call, name: string): Promise<object> {
  const rows = await listClasses(call.deps.read, param(call, 't'));
  const row = rows.find((one) => one.name === name);
  const shown = row && show(call.deps, row, tiersOf(chainsOf(rows), row));
  return shown ?? refuseMissing(call, 'NoSuchClass');
}

function tiersOf(chains: ReturnType<typeof chainsOf>, { name }: ClassRow): readonly Tier[] {
  const chain = chains.get(name);
  return chain?.class === name ? chain.tiers : [];
}

/** null: the row is no class. */
function show(
  deps: NativeDeps,
  { definition: stored, ...row }: ClassRow,
  tiers: readonly Tier[],
): object | null {
  const definition = decodeDefinition(stored);
  if (!definition) return null;
  const legs = legsOf(deps.stores, definition).map(({ number, ...leg }) => {
    const book = number === undefined ? null : deps.bookOf(number);
    const priceBook = book?.name ?? null;
    return { ...leg, priceBook, usdPerGbMonth: book && priceOf(book, leg.storageClass) };
  });
  const explanation = { ...explainClass(definition, legs, tiers), legs };
  const { tier = null } = definition;
  const notWritable = tier ? `It is a tier: what is in ${tier.of} moves here.` : null;
  const shownTiers = tiers.map(({ days: afterDays, ...one }) => ({ ...one, afterDays }));
  return showDated({ ...row, ...definition, tier, tiers: shownTiers, notWritable, explanation });
}

type Leg = Omit<ShownLeg, 'usdPerGbMonth'> & { number: number | undefined };

function legsOf(stores: NativeDeps['stores'], { durability }: ClassDefinition): Leg[] {
  const views = stores.all();
  return durability.legs.map(({ store }) => {
    const view = views.find((one) => one.name === store);
    const { drills: _, recallDelayMs: _2, ...declared } = view?.declared ?? undeclaredPlace;
    return { store, ...declared, number: view?.isConfigured ? view.number : undefined };
  });
}

function priceOf(book: PriceBook, storageClass: string | null): string {
  const prices = book.classes.get(storageClass ?? usualClass);
  return formatUsd(prices?.storage.tiers[0]?.picodollarsPerGb ?? 0n);
}
