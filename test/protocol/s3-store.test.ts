// The same promises with the bytes in S3: nothing that a client sees depends on the store.
// BURSAR_FULL=1 also asks for what no store has a part in.
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { protocolSuite } from './suite.ts';
import { startS3Target } from './target.ts';

describeWithTool(versitygw, 'with versitygw behind the gateway', (path) => {
  const isOfStore = process.env.BURSAR_FULL !== '1';
  protocolSuite('S3 on the S3 store', () => startS3Target(path), { isOfStore });
});
