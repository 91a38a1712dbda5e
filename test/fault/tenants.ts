// Principals of other tenants, for tests of what one tenant can do to another.
import type { S3Client, Target } from './s3-client.ts';

/** A member of a tenant, with a key; the tenant is made where it is not there. */
export async function addMember(
  operator: S3Client,
  endpoint: string,
  tenant: string,
  name: string,
): Promise<Target> {
  const headers = { 'content-type': 'application/json' };
  const post = (path: string, body: object) =>
    operator.send('POST', path, { headers, body: Buffer.from(JSON.stringify(body)) });
  await post('/_/v1/tenants', { name: tenant });
  const principals = `/_/v1/tenants/${tenant}/principals`;
  await post(principals, { name, kind: 'person', role: 'member' });
  const made = await operator.send('POST', `${principals}/${name}/access-keys`);
  if (made.status >= 300) throw new Error(`no key for ${tenant}/${name}: ${made.body}`);
  return { endpoint, ...JSON.parse(made.body.toString()) };
}
