import type { ReceivedRequest } from '../request/received-request.ts'

/** Where a request comes from as Cloudflare knows it, e.g. `DE`. */
export function countryOf(request: ReceivedRequest): string | undefined {
  const { cf } = request as { readonly cf?: { readonly country?: unknown } | null }
  const country = cf?.country
  return typeof country === 'string' && /^[A-Z\d]{2}$/.test(country) ? country : undefined
}
