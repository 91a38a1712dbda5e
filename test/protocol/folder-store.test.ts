// The same promises with the bytes in a folder of another disk: nothing that a client sees depends
// on the store. BURSAR_FULL=1 also asks for what no store has a part in.
import { protocolSuite } from './suite.ts';
import { startFolderTarget } from './target.ts';

const isOfStore = process.env.BURSAR_FULL !== '1';
protocolSuite('S3 on a folder store', startFolderTarget, { isOfStore });
