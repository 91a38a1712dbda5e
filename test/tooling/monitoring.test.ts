// What docker/ sets up to watch a gateway asks for what gateways tell: every query of the dashboard
// and of the alerts is PromQL, and names metrics, labels and values that a served gateway has told.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import {
  as,
  callNative,
  clientOf,
  exchange,
  type Keys,
  newName,
  send,
  type Target,
} from '../protocol/target.ts';
import { type Family, parseMetrics, totalOf } from './metrics-text.ts';
import { readQuery } from './promql.ts';
import { type ServedGateway, startServedGateway } from './served-gateway.ts';
import { describeWithTool, versitygw } from './tools.ts';
import { type S3Backend, startVersitygw } from './versitygw.ts';

const docker = resolve(import.meta.dirname, '../../docker');
const read = (path: string): string => readFileSync(join(docker, path), 'utf8');

interface Asked {
  /** Where the query stands. */
  place: string;
  expr: string;
  /** Labels that its text shows. */
  shown: string[];
}

interface Panel {
  title: string;
  type: string;
  gridPos: { x: number; y: number; w: number; h: number };
  datasource?: { type: string; uid: string };
  targets?: { refId: string; expr: string; legendFormat: string }[];
}
interface Dashboard {
  uid: string;
  panels: Panel[];
}

const dashboards = readdirSync(join(docker, 'grafana/dashboards')).map(
  (name): Dashboard => JSON.parse(read(`grafana/dashboards/${name}`)),
);
const panels = dashboards.flatMap((dashboard) => dashboard.panels);
const rules: { alert: string; expr: string; annotations: Record<string, string> }[] = parse(
  read('prometheus/rules.yaml'),
).groups.flatMap((group: { rules: unknown[] }) => group.rules);
const prometheus = parse(read('prometheus/prometheus.yaml'));

const asked: Asked[] = [
  ...panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ refId, expr, legendFormat }) => ({
      place: `${title}, ${refId}`,
      expr,
      shown: [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => String(label)),
    })),
  ),
  ...rules.map(({ alert, expr, annotations }) => ({
    place: alert,
    expr,
    shown: [
      ...Object.values(annotations)
        .join()
        .matchAll(/\$labels\.(\w+)/g),
    ].map(([, label]) => String(label)),
  })),
];

/** Prometheus adds these to whatever it is told. */
const added = { job: prometheus.scrape_configs[0].job_name as string, instance: 'bursar:9000' };

/** Labels of the samples of each name, with the values that they have. */
type Exposed = Map<string, Map<string, Set<string>>>;

/** What Prometheus knows when it has read the text. */
function exposedBy(families: ReadonlyMap<string, Family>): Exposed {
  const exposed: Exposed = new Map();
  const expose = (name: string, labels: Record<string, string>): void => {
    const known = exposed.get(name) ?? new Map<string, Set<string>>();
    exposed.set(name, known);
    for (const [label, value] of Object.entries({ ...labels, ...added })) {
      known.set(label, (known.get(label) ?? new Set()).add(value));
    }
  };
  for (const { samples } of families.values()) {
    for (const { name, labels } of samples) expose(name, labels);
  }
  // Its own: whether a gateway answers.
  expose('up', {});
  return exposed;
}

/** What of a query no gateway tells; empty where all is well. Throws when it is no query. */
function strangersIn({ expr, shown }: Pick<Asked, 'expr' | 'shown'>, exposed: Exposed): string[] {
  const { selectors, groupings } = readQuery(expr.replaceAll('$__rate_interval', '5m'));
  const valuesOf = (metric: string, label: string) => exposed.get(metric)?.get(label);
  const metrics = selectors.map(({ metric }) => metric);
  return [
    ...metrics.filter((metric) => !exposed.has(metric)),
    ...selectors.flatMap(({ metric, matchers }) =>
      matchers
        .filter(({ label, operator, value }) => {
          const values = valuesOf(metric, label);
          return !values || (operator === '=' && !values.has(value));
        })
        .map(({ label, value }) => `${metric}{${label}="${value}"}`),
    ),
    ...groupings
      .filter(({ label, metrics: own }) => !own.every((metric) => valuesOf(metric, label)))
      .map(({ label }) => `by (${label})`),
    ...shown.filter((label) => !metrics.some((metric) => valuesOf(metric, label))),
  ];
}

describe('the dashboard', () => {
  it('has panels side by side, each with a title, over the data source that is set up', () => {
    const [source] = parse(read('grafana/provisioning/datasources/prometheus.yaml')).datasources;
    expect(source.url).toBe('http://prometheus:9090');
    const taken = new Set<string>();
    for (const { title, type, gridPos, datasource, targets } of panels) {
      expect(title).not.toBe('');
      if (type !== 'row') {
        expect(datasource).toEqual({ type: 'prometheus', uid: source.uid });
        expect(targets?.length).toBeGreaterThan(0);
      }
      for (const cell of cellsOf(gridPos)) {
        expect(taken.has(cell), `${title} lies over another`).toBe(false);
        taken.add(cell);
      }
    }
  });
});

function cellsOf({ x, y, w, h }: Panel['gridPos']): string[] {
  return Array.from({ length: w * h }, (_, i) => `${x + (i % w)} ${y + Math.floor(i / w)}`);
}

const backups = mkdtempSync(join(tmpdir(), 'bursar-monitored-'));
const metricsToken = 'the-token-of-this-test';

/** With a store of each kind, and a witness that never answers. */
async function serve(backend: S3Backend): Promise<ServedGateway> {
  const { accessKeyId, secretAccessKey } = backend.credentials;
  const verifier = 'witness.test/w1+01d04467+BB+vmcBNE4edydMOMpJpf494MjwKUjmljQ83lzZhd0ML';
  const far = { url: 's3://far', endpoint: backend.endpoint, pathStyle: true };
  return startServedGateway({
    env: {
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
      BURSAR_STORES: JSON.stringify({ far }),
      BURSAR_METRICS_TOKEN: metricsToken,
      BURSAR_WITNESS: `${verifier} http://127.0.0.1:1`,
      BURSAR_BACKUP_TO: join(backups, 'place'),
      BURSAR_BACKUP_SHIP_EVERY: '1s',
    },
  });
}

/** Puts and gets objects in both stores, and has a limit refuse one. */
async function use(target: Target): Promise<void> {
  const client = clientOf(target);
  for (const store of ['local', 'far']) {
    const Bucket = newName();
    const headers = { 'x-bursar-store': store };
    expect((await send(target, { method: 'PUT', path: `/${Bucket}`, headers })).status).toBe(200);
    for (const size of [1, 1024, 1024 * 1024]) {
      const object = { Bucket, Key: `of-${size}` };
      await client.send(new PutObjectCommand({ ...object, Body: Buffer.alloc(size) }));
      const { Body } = await client.send(new GetObjectCommand(object));
      await Body?.transformToByteArray();
    }
  }
  await callNative(target, 'POST', '/_/v1/tenants', { name: 'cms' });
  await callNative(target, 'POST', '/_/v1/tenants/cms/principals', {
    ...{ name: 'alice', kind: 'person', role: 'admin' },
  });
  const path = '/_/v1/tenants/cms/principals/alice/access-keys';
  const keys = (await callNative(target, 'POST', path, {})) as Keys;
  await callNative(target, 'PUT', '/_/v1/tenants/cms/targets/hook', {
    ...{ kind: 'webhook', url: 'https://127.0.0.1:9/hook' },
  });
  await callNative(target, 'PUT', '/_/v1/limits/tenant:cms', { storedBytes: { total: 1000 } });
  const alice = clientOf(as(target, keys));
  const Bucket = newName();
  await alice.send(new CreateBucketCommand({ Bucket }));
  await alice.send(new PutObjectCommand({ Bucket, Key: 'fits', Body: Buffer.alloc(950) }));
  const large = new PutObjectCommand({ Bucket, Key: 'large', Body: Buffer.alloc(2000) });
  await expect(alice.send(large)).rejects.toThrow(/cms/);
}

describeWithTool(versitygw, 'a gateway with a store of each kind', (path) => {
  let backend: S3Backend;
  let gateway: ServedGateway;
  let families: ReadonlyMap<string, Family>;
  let exposed: Exposed;
  beforeAll(async () => {
    backend = await startVersitygw(path);
    backend.makeBucket('far');
    gateway = await serve(backend);
    const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
    const target: Target = {
      ...{ endpoint, keys: { accessKeyId, secretAccessKey }, stop, strayNames: () => [] },
    };
    await use(target);
    const { metrics_path: url } = prometheus.scrape_configs[0];
    const authorization = `Bearer ${metricsToken}`;
    families = parseMetrics((await exchange(target, 'GET', url, { authorization })).text);
    exposed = exposedBy(families);
  }, 60_000);
  afterAll(async () => {
    await gateway.stop();
    await backend.stop();
    rmSync(backups, { recursive: true, force: true });
  });

  it.each(asked)('tells what is asked for: $place', ({ expr, shown }) => {
    expect(strangersIn({ expr, shown }, exposed)).toEqual([]);
  });

  it.each([
    ['sum(rate(bursar_request_total[$__rate_interval]))', ['bursar_request_total']],
    ['bursar_log_signed{stores="far"}', ['bursar_log_signed{stores="far"}']],
    ['bursar_store_ready{store="fra"}', ['bursar_store_ready{store="fra"}']],
    ['sum by (stoer) (bursar_store_ready)', ['by (stoer)']],
  ])('does not tell what does not exist: %s', (expr, strangers) => {
    expect(strangersIn({ expr, shown: [] }, exposed)).toEqual(strangers);
  });

  it('tells apart what is a query and what is none', () => {
    expect(() => strangersIn({ expr: 'sum(rate(up[5m])', shown: [] }, exposed)).toThrow(/PromQL/);
  });

  it('tells what its rooms have done', () => {
    const of = (name: string, labels = {}): number => totalOf(families, name, labels);
    const batches = of('bursar_ledger_batch_requests_count');
    expect(batches).toBeGreaterThan(8);
    expect(of('bursar_ledger_commit_seconds_count')).toBe(batches);
    expect(of('bursar_ledger_commit_seconds_sum')).toBeLessThan(
      of('bursar_ledger_batch_seconds_sum'),
    );
    expect(of('bursar_log_signing_seconds_count')).toBeGreaterThan(0);
    expect(of('bursar_ledger_busy_seconds_total')).toBeGreaterThan(0);
    for (const cache of ['buckets', 'access_keys']) {
      expect(of('bursar_cache_hits_total', { cache })).toBeGreaterThan(0);
      expect(of('bursar_cache_misses_total', { cache })).toBeGreaterThan(0);
      expect(of('bursar_cache_entries', { cache })).toBeGreaterThan(0);
    }
    expect(of('bursar_extent_ids_ready')).toBeGreaterThan(0);
    expect(of('bursar_limited_accounts')).toBe(1);
    expect(of('bursar_store_ready', { store: 'far' })).toBe(1);
    expect(of('bursar_store_breaker', { store: 'far', state: 'closed' })).toBe(1);
    expect(of('bursar_database_bytes', { file: 'catalog_wal' })).toBeGreaterThan(0);
    const stored = { account: 'tenant:cms', meter: 'storedBytes', window: 'total' };
    expect(of('bursar_budget_used_ratio', stored)).toBe(0.95);
    expect(of('bursar_metric_failures_total')).toBe(0);
  });
});
