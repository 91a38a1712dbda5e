// A message to a webhook. It is signed with a time, so that the receiver knows who sent it and that
// it is not an old one. Invariant: the same alarm has the same id however often it is sent.
// Specification: Standard Webhooks 1.0.0 (symmetric signatures, `v1`).
import { createHmac, randomBytes } from 'node:crypto';
import type { AddressPolicy } from '../../authz/oidc/address-policy.ts';
import { isLoopbackAddress } from '../../authz/oidc/address-policy.ts';
import { askGuarded } from '../../authz/oidc/guarded-request.ts';
import type { HeldShare } from '../../catalog/held-totals.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { amountText } from '../../quota/cap-report.ts';
import type { Alarm } from '../../quota/limits/alarms.ts';
import { windowEndMs } from '../../quota/limits/windows.ts';
import { heldBytesOf } from '../held-bytes.ts';

const secretBytes = 32;
const urlLengthMax = 2048;

/** The secret in the form in which receivers' libraries take it to verify messages. */
export function secretText(secret: Uint8Array): string {
  return `whsec_${Buffer.from(secret).toString('base64')}`;
}

export function newSecret(): Buffer {
  return randomBytes(secretBytes);
}

/**
 * Throws `Refusal` InvalidInput unless the URL is reached by TLS, or leads to this machine and the
 * policy lets it.
 */
export function checkHookUrl(text: string, { allowsPrivate }: AddressPolicy): void {
  const url = text.length <= urlLengthMax && URL.canParse(text) ? new URL(text) : undefined;
  const host = url?.hostname.replace(/^\[(.*)\]$/, '$1') ?? '';
  const isLoopback = url?.protocol === 'http:' && isLoopbackAddress(host);
  const isSecure = url?.protocol === 'https:' || isLoopback;
  const isWhole = url && isSecure && !url.username && !url.password && !url.hash;
  if (isWhole && (!isLoopback || allowsPrivate(url))) return;
  const message = isWhole
    ? "body.url is on the gateway's own machine, where it asks tenants' webhooks only if " +
      `the operator has named them (--private-webhooks ${url.hostname}:${url.port || 80}).`
    : 'body.url must be an https URL, without a user or a fragment.';
  throw new Refusal('InvalidInput', { message, fields: { field: 'body.url' } });
}

export interface Message {
  id: string;
  body: string;
}

/**
 * The message of an alarm; `shares`: what is held of stored bytes. `instance` is in its id: alarms
 * of other gateways, or of this one before its database was rebuilt, may have the same number.
 */
export function messageOf(
  alarm: Alarm,
  instance: string,
  shares: readonly HeldShare[] = [],
): Message {
  const { id, account, tenant, principal, meter, window, percent, limit, used, beginMs } = alarm;
  const endMs = window === 'total' ? Infinity : windowEndMs(window, beginMs);
  const held = heldBytesOf(shares, account);
  const body = {
    type: 'budget.alarm',
    timestamp: isoTime(alarm.timeMs),
    data: {
      ...{ account, tenant, principal: principal || null, meter, window, percent },
      ...{ limit: amountText(meter, limit), used: amountText(meter, used) },
      ...(meter === 'storedBytes' && held !== null && { heldBytes: String(held) }),
      resetAt: Number.isFinite(endMs) ? isoTime(endMs) : null,
      record: id,
    },
  };
  return { id: `msg_${instance}_${id}`, body: JSON.stringify(body) };
}

/** A message with which an owner tries whether the webhook works. */
export function testMessage(timeMs: number, instance: string): Message {
  const body = { type: 'budget.test', timestamp: isoTime(timeMs), data: {} };
  const id = `msg_${instance}_test_${randomBytes(8).toString('hex')}`;
  return { id, body: JSON.stringify(body) };
}

/** The webhook is there, and did not take the message. */
export class AnswerRefused extends Error {
  readonly status: number;

  constructor(status: number) {
    super(`it answered ${status}`);
    this.status = status;
  }
}

/**
 * Sends a message once. Resolves when the answer's status is 2xx. Rejects with an Error whose
 * message tells the webhook's owner what is wrong.
 */
export async function sendMessage(
  hook: { url: string; secret: Uint8Array },
  { id, body }: Message,
  given: { policy: AddressPolicy; nowMs: number; signal: AbortSignal },
): Promise<void> {
  const timestamp = String(Math.floor(given.nowMs / 1000));
  const signed = createHmac('sha256', hook.secret).update(`${id}.${timestamp}.${body}`);
  const headers = {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    'user-agent': 'bursar',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signed.digest('base64')}`,
  };
  const { policy, signal } = given;
  const request = {
    url: new URL(hook.url),
    policy,
    method: 'POST',
    headers,
    body,
    signal,
  } as const;
  await askGuarded(request, async ({ statusCode = 0 }) => {
    if (statusCode < 200 || statusCode > 299) throw new AnswerRefused(statusCode);
  });
}
