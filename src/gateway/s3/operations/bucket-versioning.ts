// Whether a bucket keeps versions. One that never had versioning has no status.
import { recordedChange } from '../../../audit/recorded-change.ts';
import { Refusal } from '../../../core/errors.ts';
import { emptyReply, xmlReply } from '../../http/reply.ts';
import { onlyChildren, parseXml } from '../../http/xml.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';

export const getBucketVersioning: Operation<'bucket'> = {
  name: 'GetBucketVersioning',
  action: 's3:GetBucketVersioning',
  resource: 'bucket',
  price: 'get',
  async run({ bucket: { versioning } }) {
    const Status = versioning === 'Unversioned' ? undefined : versioning;
    return xmlReply('VersioningConfiguration', { Status });
  },
};

/**
 * Deleting with MFA needs devices that nothing here knows: asking for it is not implemented, and
 * neither is the header with a device's code.
 */
export const putBucketVersioning: Operation<'bucket'> = {
  name: 'PutBucketVersioning',
  action: 's3:PutBucketVersioning',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax: 64 * 1024,
  async run(context) {
    const versioning = parseVersioning(await receiveDocument(context));
    const { id: bucketId, objectLock } = context.bucket;
    if (objectLock && versioning !== 'Enabled') {
      const message =
        'An Object Lock configuration is present on this bucket, so the versioning state cannot ' +
        'be changed.';
      throw new Refusal('InvalidBucketState', { message });
    }
    await context.commit(
      { kind: 'setVersioning', bucketId, versioning },
      { change: recordedChange({ versioning }) },
    );
    return emptyReply(200);
  },
};

/** What the document asks for. Throws `Refusal`. */
export function parseVersioning(body: Buffer): 'Enabled' | 'Suspended' {
  const configuration = parseXml(body, 'VersioningConfiguration');
  const [statusNode, mfaNode] = onlyChildren(configuration, ['Status', 'MfaDelete']);
  const mfaDelete = mfaNode?.text;
  if (mfaDelete === 'Enabled') {
    throw new Refusal('NotImplemented', { fields: { Element: 'MfaDelete' } });
  }
  if (mfaDelete !== undefined && mfaDelete !== 'Disabled') throw new Refusal('MalformedXML');
  const status = statusNode?.text;
  if (status === undefined) throw new Refusal('IllegalVersioningConfigurationException');
  if (status !== 'Enabled' && status !== 'Suspended') throw new Refusal('MalformedXML');
  return status;
}
