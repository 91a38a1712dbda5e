// Reads Prometheus's text format 0.0.4 as its specification has it, and takes nothing else: neither
// samples of what was not announced, nor a series twice, nor histograms that do not add up.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export interface Family {
  name: string;
  help: string;
  type: string;
  samples: Sample[];
}

const nameForm = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const helpLine = new RegExp(`^# HELP (${nameForm}) (.+)$`);
const typeLine = new RegExp(`^# TYPE (${nameForm}) (counter|gauge|histogram)$`);
const sampleLine = new RegExp(`^(${nameForm})(?:\\{(.*)\\})? (\\S+)$`);
const labelForm = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/y;

/** All metrics of a text, by name. Throws an Error that quotes what is not as it should be. */
export function parseMetrics(text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the text does not end with a line');
  const families = new Map<string, Family>();
  let family: Family | undefined;
  const seen = new Set<string>();
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const [, announced, help] = helpLine.exec(line) ?? [];
    if (announced !== undefined && help !== undefined) {
      if (families.has(announced)) throw new Error(`${announced} comes twice`);
      family = { name: announced, help, type: 'untyped', samples: [] };
      families.set(announced, family);
      continue;
    }
    const [, typed, type] = typeLine.exec(line) ?? [];
    if (typed !== undefined && type !== undefined) {
      if (typed !== family?.name || family.samples.length > 0) throw new Error(`not here: ${line}`);
      family.type = type;
      continue;
    }
    const sample = parseSample(line);
    if (!family || !namesOf(family).includes(sample.name)) throw new Error(`unannounced: ${line}`);
    const series = `${sample.name} ${JSON.stringify(Object.entries(sample.labels).sort())}`;
    if (seen.has(series)) throw new Error(`twice: ${line}`);
    seen.add(series);
    family.samples.push(sample);
  }
  for (const one of families.values()) if (one.type === 'histogram') checkHistogram(one);
  return families;
}

/** The sum of all samples of this name that have these labels. */
export function totalOf(
  families: ReadonlyMap<string, Family>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const family = families.get(name) ?? families.get(name.replace(/_(?:bucket|sum|count)$/, ''));
  if (!family) throw new Error(`there is no metric ${name}`);
  const fits = (sample: Sample): boolean =>
    sample.name === name &&
    Object.entries(labels).every(([label, value]) => (sample.labels[label] ?? '') === value);
  return family.samples.filter(fits).reduce((sum, { value }) => sum + value, 0);
}

/** The values of a label that a metric has. */
export function labelValues(
  families: ReadonlyMap<string, Family>,
  name: string,
  label: string,
): string[] {
  const samples = families.get(name)?.samples ?? [];
  return [...new Set(samples.flatMap(({ labels }) => labels[label] ?? []))].sort();
}

function namesOf({ name, type }: Family): string[] {
  if (type !== 'histogram') return [name];
  return [`${name}_bucket`, `${name}_sum`, `${name}_count`];
}

function parseSample(line: string): Sample {
  const [, name, inBraces = '', number = ''] = sampleLine.exec(line) ?? [];
  const value = number === '+Inf' ? Number.POSITIVE_INFINITY : Number(number);
  if (name === undefined || Number.isNaN(value)) throw new Error(`no sample: ${line}`);
  const labels: Record<string, string> = {};
  labelForm.lastIndex = 0;
  while (labelForm.lastIndex < inBraces.length) {
    const [, label, text = ''] = labelForm.exec(inBraces) ?? [];
    if (label === undefined || label in labels) throw new Error(`no labels: ${line}`);
    labels[label] = text.replace(/\\(.)/g, (_, one) => (one === 'n' ? '\n' : one));
  }
  return { name, labels, value };
}

/** Buckets only grow, and the last has all. */
function checkHistogram({ name, samples }: Family): void {
  const bySeries = new Map<string, { buckets: [number, number][]; count?: number; sum?: number }>();
  for (const sample of samples) {
    const { le, ...others } = sample.labels;
    const key = JSON.stringify(Object.entries(others).sort());
    const series = bySeries.get(key) ?? { buckets: [] };
    bySeries.set(key, series);
    if (sample.name === `${name}_count`) series.count = sample.value;
    else if (sample.name === `${name}_sum`) series.sum = sample.value;
    else series.buckets.push([le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le), sample.value]);
  }
  for (const [key, { buckets, count, sum }] of bySeries) {
    const fail = (what: string): never => {
      throw new Error(`${name} ${key}: ${what}`);
    };
    for (const [index, [bound, value]] of buckets.entries()) {
      const [boundBefore, valueBefore] = buckets[index - 1] ?? [Number.NEGATIVE_INFINITY, 0];
      if (!(bound > boundBefore) || value < valueBefore) fail(`bucket ${bound} does not follow`);
    }
    const [last, all] = buckets.at(-1) ?? [];
    if (last !== Number.POSITIVE_INFINITY || all !== count || sum === undefined) fail('no whole');
  }
}
