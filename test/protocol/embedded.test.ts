import { protocolSuite } from './suite.ts';
import { startEmbeddedTarget } from './target.ts';

protocolSuite('S3 on the embedded store', startEmbeddedTarget);
