/** The environment variables that Sluice reads, besides the service binding `UPSTREAM`. */
export const VARIABLES = [
  'UPSTREAM_URL',
  'UPSTREAM_TIMEOUT_MS',
  'UPSTASH_REDIS_REST_URL',
  'UPSTASH_REDIS_REST_TOKEN',
  'STORE',
  'RATE_LIMITS',
  'POLICIES',
  'ANONYMOUS',
  'IPV6_PREFIX',
  'EXEMPT',
  'LITERAL_IN_PATHS',
  'MODE',
  'SHEDDING',
  'RATELIMIT_HEADERS',
  'STORE_TIMEOUT_MS',
  'ON_STORE_ERROR',
  'LOCAL_SHARE',
  'LEASES',
  'IDENTITY_SECRET',
  'JWKS_URL',
  'JWT_SECRET',
  'JWT_ISSUER',
  'JWT_AUDIENCE',
  'KEY_PREFIX',
  'ADMIN_TOKEN',
  'ADMIN_HOST',
] as const

/** Variables whose values no message may show: secrets, and those where a secret is easily put by mistake. */
export const SECRETS: ReadonlySet<string> = new Set([
  'UPSTASH_REDIS_REST_URL',
  'UPSTASH_REDIS_REST_TOKEN',
  'IDENTITY_SECRET',
  'ADMIN_TOKEN',
  'JWT_SECRET',
])
