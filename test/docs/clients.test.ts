// The page of clients names the versions that CI brings.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readPage, root, rowsOf } from './markdown.ts';

it('each client was run in the version that the page of clients says', () => {
  const read = (path: string) => readFileSync(join(root, path), 'utf8');
  const pins = [
    ...read('test/clients/requirements.txt').matchAll(/^([\w-]+)==(.+)$/gm),
    ...read('.ci/common').matchAll(/^(\w+)_version=(.+)$/gm),
    ...read('test/tooling/restic/go.mod').matchAll(/^require .*\/(restic) (.+)$/gm),
    ...read('test/tooling/s5cmd/go.mod').matchAll(/^require .*\/(s5cmd)\/v2 (.+)$/gm),
    ...read('package.json').matchAll(/"(@aws-sdk\/client-s3)": "(.+)"/g),
  ];
  const brought = new Map(pins.map(([, name = '', version]) => [name, version]));
  const pinOf: Record<string, string> = {
    'AWS CLI': 'aws_cli',
    'minio-py': 'minio',
    'AWS SDK for JavaScript': '@aws-sdk/client-s3',
  };
  const rows = rowsOf(readPage('docs/clients.md').text);
  const documented = rows.map(([client = '', version]) => [client.match(/[^[\]]+/)?.[0], version]);
  expect(documented.length).toBeGreaterThan(10);
  for (const [client = '', version] of documented) {
    if (version === 'the machine’s') continue;
    const name = pinOf[client] ?? client.toLowerCase();
    const oldest = brought.get(`${name}_oldest`);
    const newest = brought.get(name);
    expect([client, oldest ? `${oldest} to ${newest}` : newest]).toEqual([client, version]);
  }
});
