// The routes of the native API, in the order of its description.
import { accessKeyRoutes } from './access-key-routes.ts';
import { alarmRoutes } from './alarm-routes.ts';
import { auditRoutes } from './audit-routes.ts';
import { bucketRoutes } from './bucket-routes.ts';
import { clockRoutes } from './clock-routes.ts';
import { deepRoutes } from './deep-routes.ts';
import { explainRoutes } from './explain-routes.ts';
import { grantRoutes } from './grant-routes.ts';
import { groupRoutes } from './group-routes.ts';
import { healthRoutes } from './health-routes.ts';
import { issuerRoutes } from './issuer-routes.ts';
import { limitRoutes } from './limit-routes.ts';
import { logKeyRoutes } from './log-key-routes.ts';
import { logRoutes } from './log-routes.ts';
import { metricsRoutes } from './metrics-routes.ts';
import { mountRoutes } from './mount-routes.ts';
import { principalRoutes } from './principal-routes.ts';
import { publicKeyRoutes } from './public-key-routes.ts';
import { receiptRoutes } from './receipt-routes.ts';
import { recordRoutes } from './record-routes.ts';
import { rootKeyRoutes } from './root-key-routes.ts';
import type { NativeRoute } from './route.ts';
import { shareRoutes } from './share-routes.ts';
import { storeCostRoutes, storeRoutes } from './store-routes.ts';
import { tenantRoutes } from './tenant-routes.ts';
import { tokenRoutes } from './token-routes.ts';
import { usageRoutes } from './usage-routes.ts';
import { verifyRoutes } from './verify-routes.ts';
import { whoAmIRoutes } from './who-am-i-routes.ts';

export const routes: readonly NativeRoute[] = [
  ...tenantRoutes,
  ...principalRoutes,
  ...groupRoutes,
  ...accessKeyRoutes,
  ...publicKeyRoutes,
  ...tokenRoutes,
  ...shareRoutes,
  ...grantRoutes,
  ...mountRoutes,
  ...bucketRoutes,
  ...explainRoutes,
  ...recordRoutes,
  ...auditRoutes,
  ...receiptRoutes,
  ...logRoutes,
  ...logKeyRoutes,
  ...usageRoutes,
  ...limitRoutes,
  ...verifyRoutes,
  ...deepRoutes,
  ...whoAmIRoutes,
  ...rootKeyRoutes,
  ...clockRoutes,
  ...healthRoutes,
  ...issuerRoutes,
  ...storeRoutes,
  ...alarmRoutes,
  ...storeCostRoutes,
  ...metricsRoutes,
];
