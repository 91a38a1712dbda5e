// Root keys wrapped by AWS KMS, or by what speaks its API: the key file then holds ciphertexts that
// only a call to the service opens, and who copies the data folder has nothing. Invariant: a
// wrapped key opens only as the key of its epoch, which KMS authenticates with it ("Encryption
// context" of the AWS KMS Developer Guide). The client is loaded only where a key of the service is
// configured.
import type { KMSClient } from '@aws-sdk/client-kms';
import { atEnd } from './closing.ts';
import type { KeyWrapping, WrappedKey } from './root-keys.ts';

export interface KmsOptions {
  /** Key id, alias or ARN of a symmetric key, for new root keys. Old ones name their own. */
  keyId: string;
  /** Undefined: as the AWS SDK's own settings say. */
  region: string | undefined;
  /** Undefined: that of AWS. */
  endpoint: string | undefined;
  /**
   * The time for an answer, and for each pause in it, in milliseconds. A call is tried up to three
   * times.
   */
  answerMsMax?: number;
}

const defaultAnswerMsMax = 10_000;

/** Wraps by a key of the service. Its calls reject with the SDK's errors. */
export function wrapByKms(options: KmsOptions): KeyWrapping {
  return {
    wrap: async (key, epoch) => {
      const { EncryptCommand } = await import('@aws-sdk/client-kms');
      const client = await openClient(options);
      using _client = atEnd(() => client.destroy());
      const { CiphertextBlob, KeyId } = await client.send(
        new EncryptCommand({
          KeyId: options.keyId,
          Plaintext: key,
          EncryptionContext: contextOf(epoch),
        }),
      );
      if (!CiphertextBlob || !KeyId) throw new Error('KMS answered without a ciphertext');
      const region = await client.config.region();
      return { keyId: KeyId, region, wrapped: Buffer.from(CiphertextBlob) };
    },
    unwrap: (key, epoch) => unwrap(options, key, epoch),
  };
}

async function unwrap(options: KmsOptions, key: WrappedKey, epoch: number): Promise<Buffer> {
  const { DecryptCommand } = await import('@aws-sdk/client-kms');
  const client = await openClient({ ...options, region: key.region });
  using _client = atEnd(() => client.destroy());
  const { Plaintext } = await client.send(
    new DecryptCommand({
      // Named, so that a ciphertext under any other key of the account is refused.
      KeyId: key.keyId,
      CiphertextBlob: key.wrapped,
      EncryptionContext: contextOf(epoch),
    }),
  );
  if (!Plaintext) throw new Error('KMS answered without a plaintext');
  return Buffer.from(Plaintext);
}

async function openClient(options: Omit<KmsOptions, 'keyId'>): Promise<KMSClient> {
  const { region, endpoint, answerMsMax = defaultAnswerMsMax } = options;
  const { KMSClient } = await import('@aws-sdk/client-kms');
  return new KMSClient({
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
    requestHandler: {
      connectionTimeout: 5_000,
      requestTimeout: answerMsMax,
      socketTimeout: answerMsMax,
      // Otherwise the SDK only warns, and waits for ever.
      throwOnRequestTimeout: true,
    },
  });
}

function contextOf(epoch: number): Record<string, string> {
  return { purpose: 'bursar-root-key', epoch: String(epoch) };
}
