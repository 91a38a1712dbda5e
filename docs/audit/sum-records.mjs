// Adds up audit records and compares the sums with the accounts' counters.
//
//   npx bursar usage --json > usage.json
//   npx bursar records --json > records.jsonl
//   node docs/audit/sum-records.mjs usage.json records.jsonl
//
// Take the two in this order, as an operator, while nobody else uses the gateway. Exits with 1 when
// a counter is not what the records say.
import { readFileSync } from 'node:fs';

const [, , usageFile, recordsFile] = process.argv;
const counters = ['requests', 'ingressBytes', 'egressBytes', 'storedBytes', 'storedObjects'];
const usage = new Map(JSON.parse(readFileSync(usageFile, 'utf8')).map((row) => [row.account, row]));
const lines = readFileSync(recordsFile, 'utf8').trimEnd().split('\n');
const records = lines.map((line) => JSON.parse(line));
let differences = 0;
records.forEach((record, i) => {
  if (record.index !== i) throw new Error(`record ${i} is missing`);
  if (!record.altered) return;
  differences += 1;
  console.log(`record ${i} is not what was recorded`);
});

/** Picodollars of decimal USD. */
function moneyOf(text = '0') {
  const [dollars, decimals = ''] = text.split('.');
  return BigInt(dollars) * 10n ** 12n + BigInt(decimals.padEnd(12, '0'));
}

const sums = new Map();
function add(account, amounts, money) {
  const zeros = Object.fromEntries(counters.map((name) => [name, 0]));
  const sum = sums.get(account) ?? { ...zeros, spend: 0n };
  for (const name in amounts) sum[name] += amounts[name];
  sum.spend += money;
  sums.set(account, sum);
}

for (const record of records) {
  // Nobody was charged: administration, and what was refused before it cost anything.
  if (record.cost === undefined) continue;
  const { tenant, principal, bucket, bucketOwner, bucketTenant = tenant, payer } = record;
  const cost = moneyOf(record.cost);
  const moved = {
    requests: record.price === undefined ? 0 : (record.reads ?? 1),
    ingressBytes: record.bytesIn,
    egressBytes: record.bytesOut,
  };
  const requester = new Set([`principal:${tenant}/${principal}`, `tenant:${tenant}`]);
  const owner = new Set();
  if (bucketOwner !== undefined) {
    owner.add(`bucket:${bucketTenant}/${bucket}`);
    owner.add(`tenant:${bucketTenant}`);
    if (payer !== 'tenant') owner.add(`principal:${bucketTenant}/${bucketOwner}`);
  }
  // Each account is charged once, whatever it is to the operation.
  for (const account of new Set([...requester, ...owner])) add(account, moved, cost);
  const { storedBytes, storedObjects } = record;
  const storageCost = moneyOf(record.storageCost);
  for (const account of owner) add(account, { storedBytes, storedObjects }, storageCost);
}

for (const account of new Set([...usage.keys(), ...sums.keys()])) {
  const [counted = {}, summed = { spend: 0n }] = [usage.get(account), sums.get(account)];
  const pairs = counters.map((name) => [name, counted[name] ?? 0, summed[name] ?? 0]);
  pairs.push(['spend', moneyOf(counted.spend), summed.spend]);
  for (const [name, is, should] of pairs) {
    if (is === should) continue;
    differences += 1;
    console.log(`${account} ${name}: counted ${is}, records say ${should}`);
  }
}
console.log(`${records.length} records, ${sums.size} accounts, ${differences} differences`);
process.exitCode = differences === 0 ? 0 : 1;
