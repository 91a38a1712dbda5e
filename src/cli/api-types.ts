// What the native API answers to commands, by operation. Made by `npm run api-types`: not to be
// edited.
export interface Answers {
  /** `GET /_/v1/tenants/{t}` */
  GetTenant: {
    name: string;
    membersCreateBuckets: boolean;
    defaultStore: string | null;
    recordReads: 'prompt' | 'strict' | 'aggregate';
    createdAt: string;
  };
  /** `GET /_/v1/tenants/{t}/principals/{p}` */
  GetPrincipal: {
    tenant: string;
    name: string;
    kind: 'person' | 'robot';
    role: 'operator' | 'admin' | 'auditor' | 'member';
    groups: string[];
    active: boolean;
    createdAt: string;
  };
  /** `GET /_/v1/tenants/{t}/groups` */
  ListGroups: {
    groups: { tenant: string; name: string; createdAt: string }[];
    next: string | null;
  };
  /** `GET /_/v1/tenants/{t}/groups/{g}` */
  GetGroup: { tenant: string; name: string; createdAt: string; members: string[] };
  /** `POST /_/v1/tenants/{t}/principals/{p}/access-keys` */
  CreateAccessKey: {
    accessKeyId: string;
    thumbprint: string | null;
    active: boolean;
    createdAt: string;
    secretAccessKey: string;
  };
  /** `GET /_/v1/tenants/{t}/principals/{p}/access-keys/{id}` */
  GetAccessKey: {
    accessKeyId: string;
    thumbprint: string | null;
    active: boolean;
    createdAt: string;
  };
  /** `GET /_/v1/tenants/{t}/principals/{p}/public-keys/{id}` */
  GetPublicKey: {
    thumbprint: string;
    jwk: { kty: string; crv: string; x: string; y?: string };
    purpose: 'token' | 'sigv4a';
    accessKeyId: string | null;
    active: boolean;
    createdAt: string;
  };
  /** `POST /_/v1/tokens` */
  CreateToken: { token: string; jti: string; expiresAt: string };
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
  /** `GET /_/v1/tenants/{t}/grants/{grant}` */
  GetGrant: {
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
  /** `GET /_/v1/tenants/{t}/mounts/{mount}` */
  GetMount: {
    tenant: string;
    name: string;
    bucketTenant: string;
    bucket: string;
    createdAt: string;
  };
  /** `GET /_/v1/tenants/{t}/buckets/{bucket}` */
  GetBucket: {
    tenant: string;
    name: string;
    owner: string;
    store: string;
    recordReads: 'prompt' | 'strict' | 'aggregate' | null;
    createdAt: string;
  };
  /** `POST /_/v1/explain` */
  Explain: {
    allowed: boolean;
    by: string;
    reason: string;
    considered: { name: string; effect: string; verdict: string; condition?: string }[];
  };
  /** `GET /_/v1/tenants/{t}/bundle/{index}` */
  ReadBundle: { next: number; lines: Record<string, unknown>[] };
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
  ListLogKeys: { keys: Answers['GetLog']['keys'][number][] };
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
    caps: Answers['ListUsage']['usage'][number]['caps'][number][];
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
  /** `GET /_/v1/limits/{account}` */
  GetLimit: {
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
    caps: Answers['GetToken']['caps'][number][];
  };
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
  /** `POST /_/v1/keys/rotations` */
  RotateKeys: { epoch: number; createdAt: string; isCurrent: boolean; wrappedBy: string | null };
  /** `GET /_/v1/clock` */
  GetClock: { time: string; systemTime: string; stepMs: number };
  /** `GET /_/v1/tenants/{t}/issuers/{i}` */
  GetIssuer: {
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
