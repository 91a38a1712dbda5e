// Limits of accounts on a served gateway, set and removed by its operator.
import { exchange, signMessage, type Target } from '../protocol/target.ts';

/** Replaces an account's limits; null: it has none. They hold for the next request. */
export async function putLimits(
  operator: Target,
  account: string,
  limits: object | null,
): Promise<void> {
  const method = limits === null ? 'DELETE' : 'PUT';
  const body = limits === null ? '' : JSON.stringify(limits);
  const type: Record<string, string> =
    limits === null ? {} : { 'content-type': 'application/json' };
  // The signature is over the decoded path.
  const path = `/_/v1/limits/${account}`;
  const { headers } = signMessage(operator, { method, path, headers: type, body });
  const encoded = `/_/v1/limits/${encodeURIComponent(account)}`;
  const { status, text } = await exchange(operator, method, encoded, headers, body);
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
}
