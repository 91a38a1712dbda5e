// One message to a target: a webhook, signed as alarms are, or a queue of Amazon SQS, which the
// gateway asks with its own credentials. Specifications: Standard Webhooks 1.0.0; SendMessage of
// the Amazon SQS API reference.
import type { SQSClient } from '@aws-sdk/client-sqs';
import { type NotificationTarget, targetContext } from '../../audit/changes/targets.ts';
import type { AddressPolicy } from '../../authz/oidc/address-policy.ts';
import { failLate } from '../../authz/oidc/guarded-request.ts';
import { nowMs } from '../../core/clock.ts';
import type { Sealer } from '../../core/sealing.ts';
import { AnswerRefused, type Message, sendMessage } from '../alarms/webhook.ts';

const attemptMs = 10_000;
/** Of a message that no other try would make another: it is malformed, or too large. */
const refusedForGood = new Set([400, 413, 415, 422]);
const refusedByQueue = new Set(['InvalidMessageContents', 'InvalidParameterValue']);

export interface SenderOptions {
  sealer: Sealer;
  /** To which addresses webhooks may lead. */
  policy: AddressPolicy;
}

export class Sender {
  readonly #options: SenderOptions;
  /** By region. */
  readonly #clients = new Map<string, Promise<SQSClient>>();

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** Resolves when the target has taken it. Rejects with an Error that says why it has not. */
  async send(target: NotificationTarget, message: Message, stopping: AbortSignal): Promise<void> {
    if (target.kind === 'sqs') return this.#sendToQueue(target, message, stopping);
    const { sealer, policy } = this.#options;
    const { tenant, name, url, sealedSecret } = target;
    const secret = sealer.open(sealedSecret as Uint8Array, targetContext(tenant, name));
    const send = async (signal: AbortSignal) => {
      try {
        await sendMessage({ url, secret }, message, { policy, nowMs: nowMs(), signal });
      } catch (error) {
        // That is told to who chose the webhook, so there is no point in telling it late.
        if (isRefusedForGood(error)) return error;
        throw error;
      }
    };
    const refusal = await failLate(attemptMs, send, stopping);
    if (refusal) throw refusal;
  }

  async #sendToQueue(
    target: NotificationTarget,
    { id, body }: Message,
    stopping: AbortSignal,
  ): Promise<void> {
    const { SendMessageCommand } = await import('@aws-sdk/client-sqs');
    const client = await this.#clientOf(target.region as string);
    const isFifo = target.url.endsWith('.fifo');
    const command = new SendMessageCommand({
      QueueUrl: target.url,
      MessageBody: body,
      // One group: what is told in order is received in order.
      ...(isFifo && { MessageGroupId: 'bursar', MessageDeduplicationId: id }),
    });
    const abortSignal = AbortSignal.any([stopping, AbortSignal.timeout(attemptMs)]);
    await client.send(command, { abortSignal });
  }

  #clientOf(region: string): Promise<SQSClient> {
    const known = this.#clients.get(region);
    if (known) return known;
    const made = import('@aws-sdk/client-sqs').then(({ SQSClient }) => {
      // The notifier tries again by itself, later and later.
      return new SQSClient({ region, maxAttempts: 1 });
    });
    this.#clients.set(region, made);
    return made;
  }

  async close(): Promise<void> {
    for (const client of this.#clients.values()) (await client).destroy();
  }
}

/** Would the target never take this message, whenever it is sent? */
export function isRefusedForGood(error: unknown): boolean {
  if (error instanceof AnswerRefused) return refusedForGood.has(error.status);
  const name = error instanceof Error ? error.name : '';
  return refusedByQueue.has(name) || refusedByQueue.has(name.replace(/Exception$/, ''));
}
