// The routes of the native API, in the order of its description.

import { gatewayAlarmRoutes, ownAlarmRoutes, tenantAlarmRoutes } from './alarm-routes.ts';
import { auditRoutes } from './audit-routes.ts';
import { bucketRoutes } from './bucket-routes.ts';
import { changeRoutes } from './change-routes.ts';
import { classRoutes } from './class-routes.ts';
import { copyRoutes } from './copy-routes.ts';
import { explainRoutes } from './explain-routes.ts';
import { grantRoutes } from './grant-routes.ts';
import { holdingRoutes } from './holding-routes.ts';
import { inventoryRoutes } from './inventory-routes.ts';
import { issuerRoutes } from './issuer-routes.ts';
import { accessKeyRoutes, publicKeyRoutes } from './key-routes.ts';
import { limitRoutes } from './limit-routes.ts';
import { lockRoutes } from './lock-routes.ts';
import { logKeyRoutes, logRoutes } from './log-routes.ts';
import { healthRoutes, metricsRoutes } from './metrics-routes.ts';
import { aliasRoutes, mountRoutes, ownMountRoutes } from './mount-routes.ts';
import { priceRoutes } from './price-routes.ts';
import { groupRoutes, principalRoutes } from './principal-routes.ts';
import { receiptRoutes, recordRoutes } from './record-routes.ts';
import { requestRoutes } from './request-routes.ts';
import type { NativeRoute } from './route.ts';
import { shareRoutes } from './share-routes.ts';
import { snapshotRoutes } from './snapshot-routes.ts';
import {
  clockRoutes,
  drillRoutes,
  rootKeyRoutes,
  storeCostRoutes,
  storeRoutes,
} from './store-routes.ts';
import { targetRoutes } from './target-routes.ts';
import { tenantRoutes } from './tenant-routes.ts';
import { tokenRoutes } from './token-routes.ts';
import { undeleteRoutes } from './undelete-routes.ts';
import { usageRoutes } from './usage-routes.ts';
import { useRoutes } from './use-routes.ts';
import { deepRoutes, verifyRoutes } from './verify-routes.ts';
import { whoAmIRoutes } from './who-am-i-routes.ts';
import { recipeRoutes, workRoutes } from './work-routes.ts';

const tables = [
  tenantRoutes,
  principalRoutes,
  holdingRoutes,
  groupRoutes,
  accessKeyRoutes,
  publicKeyRoutes,
  tokenRoutes,
  shareRoutes,
  grantRoutes,
  mountRoutes,
  ownMountRoutes,
  aliasRoutes,
  bucketRoutes,
  snapshotRoutes,
  undeleteRoutes,
  lockRoutes,
  inventoryRoutes,
  useRoutes,
  recipeRoutes,
  workRoutes,
  copyRoutes,
  explainRoutes,
  changeRoutes,
  recordRoutes,
  requestRoutes,
  auditRoutes,
  receiptRoutes,
  logRoutes,
  logKeyRoutes,
  usageRoutes,
  limitRoutes,
  verifyRoutes,
  deepRoutes,
  whoAmIRoutes,
  rootKeyRoutes,
  clockRoutes,
  healthRoutes,
  issuerRoutes,
  classRoutes,
  storeRoutes,
  tenantAlarmRoutes,
  ownAlarmRoutes,
  gatewayAlarmRoutes,
  targetRoutes,
  storeCostRoutes,
  drillRoutes,
  priceRoutes,
  metricsRoutes,
] as const;

export const routes: readonly NativeRoute[] = tables.flat();

type Intersection<U> = (U extends unknown ? (each: U) => void : never) extends (
  all: infer I,
) => void
  ? I
  : never;

/** What each operation answers, as the schemas say that are checked and described. */
export type Answers = Intersection<NonNullable<(typeof tables)[number]['answers']>>;
