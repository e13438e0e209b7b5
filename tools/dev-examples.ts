import type { Policy } from '../src/policy/policy.ts'

/** More requests than these would be a load test, not a demonstration. */
const MAX_REQUESTS = 1_000

/** A shell command and what it shows. */
export interface Example {
  readonly shows: string
  readonly command: string
}

/** Commands by which one caller reaches the smallest limit of the policies, passes it and is admitted again. */
export function examples(url: string, policies: readonly Pick<Policy, 'match' | 'tiers'>[]): Example[] {
  const everywhere = policies.filter(({ match }) => match === undefined)
  const applied = everywhere.length > 0 ? everywhere : policies
  const limit = Math.min(MAX_REQUESTS, ...applied.flatMap(({ tiers }) => tiers.map((tier) => tier.limit)))

  const curl = `curl -s -H 'Authorization: Bearer a'`
  // In seconds, to the millisecond; 0 if the answer is no refusal.
  const wait = `${curl} ${url}/ | awk -F'"retry_after_ms":' '{ printf "%.3f", $2 / 1000 }'`
  return [
    { shows: 'admit', command: `${curl} -i ${url}/` },
    { shows: 'limit', command: `${curl} -o /dev/null -w '%{http_code}\\n' '${url}/?[1-${limit + 2}]' | uniq -c` },
    { shows: 'recovery', command: `sleep $(${wait}); ${curl} -i ${url}/` },
  ]
}
