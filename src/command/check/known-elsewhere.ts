/** Secrets that a configuration needs, and that may be known to Cloudflare alone. */
type Variables = Readonly<Record<string, unknown>>

/** Whether policies ask for claims, and nothing here says by which keys tokens are verified. */
export function lacksKeys({ POLICIES: policies, JWKS_URL: url, JWT_SECRET: secret }: Variables): boolean {
  return url === undefined && secret === undefined && /"claim:|\+\s*claim:/.test(JSON.stringify(policies ?? ''))
}

/** The variables with a stand-in for the keys, if only those are missing. */
export function withKnownKeys(variables: Variables): Variables {
  return lacksKeys(variables) ? { ...variables, JWT_SECRET: 'known-to-cloudflare-and-not-to-us' } : variables
}
