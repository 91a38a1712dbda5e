// What the native API answers, by operation. Made by `npm run api-types`: not to be edited.
export interface Answers {
  /** `POST /_/v1/tenants` */
  CreateTenant: {
    name: string;
    membersCreateBuckets: boolean;
    defaultStore: string | null;
    recordReads: 'prompt' | 'strict' | 'aggregate';
    createdAt: string;
  };
  /** `GET /_/v1/tenants` */
  ListTenants: { tenants: Answers['CreateTenant'][]; next: string | null };
  /** `GET /_/v1/tenants/{t}` */
  GetTenant: Answers['CreateTenant'];
  /** `PATCH /_/v1/tenants/{t}` */
  UpdateTenant: Answers['CreateTenant'];
  /** `POST /_/v1/tenants/{t}/principals` */
  CreatePrincipal: {
    tenant: string;
    name: string;
    kind: 'person' | 'robot';
    role: 'operator' | 'admin' | 'auditor' | 'member';
    groups: string[];
    active: boolean;
    createdAt: string;
  };
  /** `GET /_/v1/tenants/{t}/principals` */
  ListPrincipals: { principals: Answers['CreatePrincipal'][]; next: string | null };
  /** `GET /_/v1/tenants/{t}/principals/{p}` */
  GetPrincipal: Answers['CreatePrincipal'];
  /** `PATCH /_/v1/tenants/{t}/principals/{p}` */
  UpdatePrincipal: Answers['CreatePrincipal'];
  /** `POST /_/v1/tenants/{t}/groups` */
  CreateGroup: { tenant: string; name: string; createdAt: string; members: string[] };
  /** `GET /_/v1/tenants/{t}/groups` */
  ListGroups: {
    groups: { tenant: string; name: string; createdAt: string }[];
    next: string | null;
  };
  /** `GET /_/v1/tenants/{t}/groups/{g}` */
  GetGroup: Answers['CreateGroup'];
  /** `POST /_/v1/tenants/{t}/principals/{p}/access-keys` */
  CreateAccessKey: {
    accessKeyId: string;
    thumbprint: string | null;
    active: boolean;
    createdAt: string;
    secretAccessKey: string;
  };
  /** `GET /_/v1/tenants/{t}/principals/{p}/access-keys` */
  ListAccessKeys: { accessKeys: Answers['GetAccessKey'][]; next: string | null };
  /** `GET /_/v1/tenants/{t}/principals/{p}/access-keys/{id}` */
  GetAccessKey: {
    accessKeyId: string;
    thumbprint: string | null;
    active: boolean;
    createdAt: string;
  };
  /** `PATCH /_/v1/tenants/{t}/principals/{p}/access-keys/{id}` */
  UpdateAccessKey: Answers['GetAccessKey'];
  /** `POST /_/v1/tenants/{t}/principals/{p}/public-keys` */
  CreatePublicKey: {
    thumbprint: string;
    jwk: { kty: string; crv: string; x: string; y?: string };
    purpose: 'token' | 'sigv4a';
    accessKeyId: string | null;
    active: boolean;
    createdAt: string;
  };
  /** `GET /_/v1/tenants/{t}/principals/{p}/public-keys` */
  ListPublicKeys: { publicKeys: Answers['CreatePublicKey'][]; next: string | null };
  /** `GET /_/v1/tenants/{t}/principals/{p}/public-keys/{id}` */
  GetPublicKey: Answers['CreatePublicKey'];
  /** `PATCH /_/v1/tenants/{t}/principals/{p}/public-keys/{id}` */
  UpdatePublicKey: Answers['CreatePublicKey'];
  /** `POST /_/v1/tokens` */
  CreateToken: { token: string; jti: string; expiresAt: string };
  /** `GET /_/v1/tokens` */
  ListTokens: { tokens: Answers['GetToken'][]; next: string | null };
  /** `GET /_/v1/tokens/{jti}` */
  GetToken: {
    jti: string;
    parent: string | null;
    issued: boolean;
    principal: string;
    accessKeyId: string | null;
    scope: string | null;
    boundTo: string | null;
    label: string | null;
    conditions: Record<string, unknown> | null;
    limits: Record<string, unknown> | null;
    state: 'valid' | 'expired' | 'revoked' | 'inactive';
    createdAt: string;
    notBefore: string;
    expiresAt: string;
    lastUsedAt: string | null;
    uses: number;
    used: {
      spend: string;
      storedBytes: string;
      storedObjects: string;
      ingressBytes: string;
      egressBytes: string;
      requests: string;
    };
    caps: {
      meter:
        | 'spend'
        | 'storedBytes'
        | 'storedObjects'
        | 'ingressBytes'
        | 'egressBytes'
        | 'requests';
      window: 'minute' | 'hour' | 'day' | 'month' | 'total';
      limit: string;
      used: string;
      lost: string;
      reserved: string;
      left: string;
      exceeded: boolean;
      resetAt: string | null;
    }[];
  };
  /** `POST /_/v1/shares` */
  CreateShare: {
    id: string;
    principal: string;
    bucket: string;
    key: string;
    createdAt: string;
    expiresAt: string;
    downloads: number;
    downloadsMax: number | null;
    lastUsedAt: string | null;
    state: 'valid' | 'used up' | 'expired' | 'revoked';
    url: string;
  };
  /** `GET /_/v1/shares` */
  ListShares: {
    shares: {
      id: string;
      principal: string;
      bucket: string;
      key: string;
      createdAt: string;
      expiresAt: string;
      downloads: number;
      downloadsMax: number | null;
      lastUsedAt: string | null;
      state: 'valid' | 'used up' | 'expired' | 'revoked';
    }[];
    next: string | null;
  };
  /** `PUT /_/v1/tenants/{t}/grants/{grant}` */
  PutGrant: {
    tenant: string;
    name: string;
    effect: 'allow' | 'deny';
    subjects: string[];
    actions: string[];
    bucket?: string;
    prefix?: string;
    key?: string;
    conditions?: Record<string, unknown>;
    createdAt: string;
  };
  /** `GET /_/v1/tenants/{t}/grants/{grant}` */
  GetGrant: Answers['PutGrant'];
  /** `GET /_/v1/tenants/{t}/grants` */
  ListGrants: { grants: Answers['PutGrant'][]; next: string | null };
  /** `PUT /_/v1/tenants/{t}/mounts/{mount}` */
  PutMount: {
    tenant: string;
    name: string;
    bucketTenant: string;
    bucket: string;
    createdAt: string;
  };
  /** `GET /_/v1/tenants/{t}/mounts/{mount}` */
  GetMount: Answers['PutMount'];
  /** `GET /_/v1/tenants/{t}/mounts` */
  ListMounts: { mounts: Answers['PutMount'][]; next: string | null };
  /** `GET /_/v1/tenants/{t}/buckets/{bucket}` */
  GetBucket: {
    tenant: string;
    name: string;
    owner: string;
    store: string;
    recordReads: 'prompt' | 'strict' | 'aggregate' | null;
    createdAt: string;
  };
  /** `PATCH /_/v1/tenants/{t}/buckets/{bucket}` */
  UpdateBucket: Answers['GetBucket'];
  /** `POST /_/v1/explain` */
  Explain: {
    allowed: boolean;
    by: string;
    reason: string;
    considered: { name: string; effect: string; verdict: string; condition?: string }[];
  };
  /** `GET /_/v1/records` */
  SearchRecords: { records: Record<string, unknown>[]; next: string | null };
  /** `GET /_/v1/tenants/{t}/bundle` */
  BeginBundle: Record<string, unknown>;
  /** `GET /_/v1/tenants/{t}/bundle/{index}` */
  ReadBundle: { next: number; lines: Record<string, unknown>[] };
  /** `POST /_/v1/tenants/{t}/erasures` */
  EraseRecords: { erased: number[] };
  /** `GET /_/v1/log` */
  GetLog: {
    origin: string | null;
    refusal: string | null;
    witnesses: {
      name: string;
      url: string;
      cosignedSize: number | null;
      cosignedAt: string | null;
      problem: string | null;
    }[];
    size: number;
    root: string | null;
    keys: {
      id: string;
      verifier: string;
      state: 'active' | 'overlap' | 'retired' | 'revoked';
      createdAt: string;
      fromSize: number;
      retiredAt: string | null;
      revokedAt: string | null;
    }[];
  };
  /** `GET /_/v1/log/keys` */
  ListLogKeys: {
    keys: {
      id: string;
      verifier: string;
      state: 'active' | 'overlap' | 'retired' | 'revoked';
      createdAt: string;
      fromSize: number;
      retiredAt: string | null;
      revokedAt: string | null;
    }[];
  };
  /** `POST /_/v1/log/keys/rotations` */
  RotateLogKey: { id: string; verifier: string; retiresAt: string };
  /** `GET /_/v1/usage` */
  ListUsage: {
    usage: {
      account: string;
      spend: string;
      requests: number;
      ingressBytes: number;
      egressBytes: number;
      storedBytes: number;
      storedObjects: number;
      caps: {
        meter:
          | 'spend'
          | 'storedBytes'
          | 'storedObjects'
          | 'ingressBytes'
          | 'egressBytes'
          | 'requests';
        window: 'minute' | 'hour' | 'day' | 'month' | 'total';
        limit: string;
        used: string;
        lost: string;
        reserved: string;
        left: string;
        exceeded: boolean;
        resetAt: string | null;
        percent: number;
        forecasts: { basis: string; perDay: string; reachedAt: string | null }[];
      }[];
    }[];
    next: string | null;
  };
  /** `GET /_/v1/usage/{account}` */
  GetUsage: {
    account: string;
    spend: string;
    requests: number;
    ingressBytes: number;
    egressBytes: number;
    storedBytes: number;
    storedObjects: number;
    caps: {
      meter:
        | 'spend'
        | 'storedBytes'
        | 'storedObjects'
        | 'ingressBytes'
        | 'egressBytes'
        | 'requests';
      window: 'minute' | 'hour' | 'day' | 'month' | 'total';
      limit: string;
      used: string;
      lost: string;
      reserved: string;
      left: string;
      exceeded: boolean;
      resetAt: string | null;
      percent: number;
      forecasts: { basis: string; perDay: string; reachedAt: string | null }[];
    }[];
    accrued: string;
  };
  /** `GET /_/v1/usage/{account}/by/{part}` */
  BreakDownUsage: {
    by: 'day' | 'action' | 'class';
    rows: {
      name: string;
      spend: string;
      requests: number;
      ingressBytes: number;
      egressBytes: number;
      storedBytes: number;
      storedObjects: number;
    }[];
    next: string | null;
    alteredRecords: number;
    recordsBefore: number;
  };
  /** `PUT /_/v1/limits/{account}` */
  PutLimit: {
    account: string;
    limits: {
      spend?: { minute?: string; hour?: string; day?: string; month?: string; total?: string };
      storedBytes?: { total?: number };
      storedObjects?: { total?: number };
      ingressBytes?: {
        minute?: number;
        hour?: number;
        day?: number;
        month?: number;
        total?: number;
      };
      egressBytes?: {
        minute?: number;
        hour?: number;
        day?: number;
        month?: number;
        total?: number;
      };
      requests?: { minute?: number; hour?: number; day?: number; month?: number; total?: number };
      rate?: { requests?: number; bytes?: number };
    } | null;
    caps: {
      meter:
        | 'spend'
        | 'storedBytes'
        | 'storedObjects'
        | 'ingressBytes'
        | 'egressBytes'
        | 'requests';
      window: 'minute' | 'hour' | 'day' | 'month' | 'total';
      limit: string;
      used: string;
      lost: string;
      reserved: string;
      left: string;
      exceeded: boolean;
      resetAt: string | null;
    }[];
  };
  /** `PATCH /_/v1/limits/{account}` */
  PatchLimit: Answers['PutLimit'];
  /** `GET /_/v1/limits/{account}` */
  GetLimit: Answers['PutLimit'];
  /** `GET /_/v1/limits` */
  ListLimits: { limits: Answers['PutLimit'][]; next: string | null };
  /** `POST /_/v1/limits/{account}/reconcile` */
  ReconcileLimit: Answers['PutLimit'];
  /** `POST /_/v1/verifications` */
  VerifyData: {
    cursor: string | null;
    versions: number;
    bytes: number;
    findings: {
      tenant: string;
      bucket: string;
      key: string;
      seq: number | null;
      uploadId: string | null;
      partNumber: number | null;
      kind: string;
      message: string;
    }[];
    estimate: { versions: number; bytes: number } | null;
  };
  /** `POST /_/v1/deep-verification` */
  BeginDeepVerification: {
    isRunning: boolean;
    records: number;
    found: number;
    differences: { where: string; what: string }[];
    summary: Record<string, unknown> | null;
    failure: string | null;
  };
  /** `GET /_/v1/deep-verification` */
  GetDeepVerification: Answers['BeginDeepVerification'];
  /** `DELETE /_/v1/deep-verification` */
  StopDeepVerification: Answers['BeginDeepVerification'];
  /** `GET /_/v1/whoami` */
  WhoAmI: {
    tenant: string;
    principal: string;
    kind: 'person' | 'robot';
    role: 'operator' | 'admin' | 'auditor' | 'member';
    groups: string[];
    evidence: string;
    accessKeyId: string | null;
    keyThumbprint: string | null;
    delegation: {
      ids: string[];
      scope: string | null;
      hasPolicies: boolean;
      expiresAt: string;
    } | null;
  };
  /** `GET /_/v1/keys` */
  ListKeys: { keys: Answers['RotateKeys'][] };
  /** `POST /_/v1/keys/rotations` */
  RotateKeys: { epoch: number; createdAt: string; isCurrent: boolean; wrappedBy: string | null };
  /** `GET /_/v1/clock` */
  GetClock: { time: string; systemTime: string; stepMs: number };
  /** `POST /_/v1/clock/confirmations` */
  ConfirmClock: Answers['GetClock'];
  /** `GET /_/v1/health` */
  GetHealth: { ready?: boolean; reads?: boolean; writes?: boolean; problems?: string[] };
  /** `PUT /_/v1/tenants/{t}/issuers/{i}` */
  PutIssuer: {
    tenant: string;
    name: string;
    url: string;
    audience: string;
    mapping: {
      pathPrefix: string;
      principals: Record<string, string>;
      groups: Record<string, string>;
      defaultPrincipal: string | null;
    };
    keys: { count: number; fetchedAt: string | null; problem: string | null };
    createdAt: string;
  };
  /** `GET /_/v1/tenants/{t}/issuers/{i}` */
  GetIssuer: Answers['PutIssuer'];
  /** `GET /_/v1/tenants/{t}/issuers` */
  ListIssuers: { issuers: Answers['PutIssuer'][] };
  /** `GET /_/v1/stores` */
  ListStores: {
    stores: {
      number: number;
      name: string;
      location: string;
      isConfigured: boolean;
      isDefault: boolean;
      ready: boolean;
      canRead: boolean;
      reason: string | null;
      health: Record<string, unknown>;
      detail: Record<string, unknown>;
    }[];
  };
  /** `PUT /_/v1/tenants/{t}/alarm-hook` */
  PutTenantAlarmHook: {
    tenant: string | null;
    url: string;
    createdAt: string;
    waiting: number;
    problem: string | null;
    toldAt: string | null;
    secret: string;
  };
  /** `GET /_/v1/tenants/{t}/alarm-hook` */
  GetTenantAlarmHook: {
    tenant: string | null;
    url: string;
    createdAt: string;
    waiting: number;
    problem: string | null;
    toldAt: string | null;
  };
  /** `POST /_/v1/tenants/{t}/alarm-hook/test` */
  TestTenantAlarmHook: { problem: string | null };
  /** `PUT /_/v1/alarm-hook` */
  PutGatewayAlarmHook: Answers['PutTenantAlarmHook'];
  /** `GET /_/v1/alarm-hook` */
  GetGatewayAlarmHook: Answers['GetTenantAlarmHook'];
  /** `POST /_/v1/alarm-hook/test` */
  TestGatewayAlarmHook: Answers['TestTenantAlarmHook'];
  /** `GET /_/v1/store-costs` */
  ListStoreCosts: {
    costs: {
      account: string;
      spend: string;
      charged: string | null;
      requests: number;
      ingressBytes: number;
      egressBytes: number;
    }[];
  };
}
