// JSON schemas of limits, as requests give them and answers show them. Invariant: what they let
// pass `readLimits` reads, and nothing else.
import { type Meter, meters, moneyForm, windows, windowsOf } from '../../core/quota-terms.ts';
import { answerObject, boolean, text, timeOrNull } from './schemas.ts';

const money = text('USD in decimal, such as "12.50".', { pattern: moneyForm.source });
const count = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const;
const speed = { ...count, minimum: 1 } as const;

type Amount = typeof money | typeof count | typeof speed;

const described: Record<Meter, string> = {
  spend: 'Money, in each of these windows.',
  storedBytes: 'Bytes stored at any time.',
  storedObjects: 'Objects stored at any time.',
  ingressBytes: 'Bytes received, in each of these windows of the UTC calendar.',
  egressBytes: 'Bytes sent.',
  requests: 'Requests that have a price.',
};

/** Limits of an account. `shape` says what an amount may be. */
function limitsSchema(shape: (amount: Amount) => object, of: (amounts: object) => object) {
  const amountsOf = (names: readonly string[], amount: Amount, description: string) =>
    of({
      type: 'object',
      additionalProperties: false,
      minProperties: 1,
      properties: Object.fromEntries(names.map((name) => [name, shape(amount)])),
      description,
    });
  const byMeter = meters.map((meter) => {
    const amount = meter === 'spend' ? money : count;
    return [meter, amountsOf(windowsOf(meter), amount, described[meter])] as const;
  });
  return {
    type: 'object',
    additionalProperties: false,
    minProperties: 1,
    properties: {
      ...Object.fromEntries(byMeter),
      rate: amountsOf(['requests', 'bytes'], speed, 'Most a second; bytes are sent more slowly.'),
    },
  };
}

const orNull = <T extends { type: string }>(schema: T) => ({
  ...schema,
  type: [schema.type, 'null'],
});

export const limits = limitsSchema(
  (amount) => amount,
  (amounts) => amounts,
);

/** RFC 7396: null takes away a meter, or one of its windows. */
export const limitsPatch = limitsSchema(orNull, (amounts) => orNull(amounts as { type: string }));

const amount = (description: string) => ({ type: 'string', description }) as const;

/** The caps of an account, as `reportCaps` gives them. */
export const caps = {
  type: 'array',
  items: answerObject({
    meter: { type: 'string', enum: [...meters] },
    window: { type: 'string', enum: [...windows] },
    limit: amount('In decimal, as the others: USD of spend, else bytes, objects or requests.'),
    used: amount('In this window; of what is stored, now.'),
    lost: amount('Set aside when the gateway died, and perhaps used. It counts as used.'),
    reserved: amount('By operations under way, and set aside for those to come.'),
    left: amount('What can still be used or reserved.'),
    exceeded: boolean('Is more used already? It was lowered, or storage was charged.'),
    resetAt: { ...timeOrNull, description: 'null: never.' },
  }),
  description: 'What of each limit is used and left.',
} as const;
